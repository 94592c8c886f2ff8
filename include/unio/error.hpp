// unio/error.hpp: what can go wrong, and what to compare it with.
//
//   condition   portable conditions: compare any std::error_code with these
//   error       the few codes of unio's own, for what the system has no errno for
//   failure     a std::error_code that knows which operation met it, and on what
//
// The codes of the operating system are kept as they come (std::system_category). A program compares
// conditions, not codes: `if (r.error() == unio::condition::timed_out)`. It prints `r.error().message()`, a
// whole sentence: "connect 127.0.0.1:80: Connection refused".
//
// Thread safety  the functions from any thread

#pragma once

#include <unio/config.hpp>

#include <cstdint>
#include <system_error>

namespace unio::inline v0_1 {

/// The conditions that a program tests for. Any std::error_code compares with them by `==`.
enum class condition {
  end_of_stream = 1, ///< the peer has closed its writing side and all its bytes were read
  canceled,          ///< the operation was cancelled before it moved anything
  timed_out,         ///< its deadline passed before it moved anything
  would_block,       ///< a deadline of zero, and nothing could be done at once
  truncated,         ///< the data ended in the middle of what was asked for
  owner_died,        ///< the last owner of a lock died while holding it
};

/// Codes for what the operating system has no errno for.
enum class error {
  end_of_stream = 1,     ///< see condition::end_of_stream
  truncated,             ///< see condition::truncated
  owner_died,            ///< see condition::owner_died
  inherited_by_fork,     ///< the multiplexer belongs to the parent process; a child makes its own
  multiplexer_destroyed, ///< the multiplexer ended before the operation did
  embedded_nul,          ///< a path or an address contains a NUL byte
  invalid_address,       ///< the text is not an address; parse_endpoint says what is wrong
  unknown_driver,        ///< UNIO_DRIVER names no driver; the choices are uring and epoll
  not_a_lock_file,       ///< the path leads to no lock file
  newer_lock_file,       ///< made by a version of unio that knows more
  damaged_lock_file,     ///< it says what it is, and contradicts itself
  different_lock_file,   ///< made for another algorithm, or with other parameters
  too_many_entities,     ///< more than the algorithm can lock at once
  too_many_users,        ///< more than the lock file has room for
  several_names,    ///< the lock file has more than one name (hard links), so others could have made it one
  writable_by_all,  ///< its mode lets every user write it, or the directory of lock files
  no_handles,       ///< there is none to wait for, so that the wait would not end
  too_many_handles, ///< more than one call can wait for
  bad_ring_entries, ///< UNIO_RING_ENTRIES is no number from 1 to 32768
};

/// The categories of condition and of error. Lifetime: static. Cost: none.
UNIO_API std::error_category const& condition_category() noexcept;
UNIO_API std::error_category const& error_category() noexcept;

/// A condition as std::error_condition, an error as std::error_code. Cost: none.
std::error_condition make_error_condition(condition c) noexcept;
std::error_code make_error_code(error e) noexcept;

namespace detail {
/// Which operation failed on what, in the room that a result has anyway (src/core/failure.cpp).
enum class origin : std::uint32_t { unknown };
} // namespace detail

/// An error, the operation that met it, and the object of that. A std::error_code wherever one is wanted:
/// copied into one, it forgets where it comes from. Returned from a function that returns a result, it does
/// not.
///
/// Thread safety  distinct objects: safe; shared: for reading
/// Lifetime       a value. Addresses and paths are kept for the last 256 failures of the process; one that
///                failed before those names its operation alone
/// Cost           24 bytes, and no allocation but for its texts. Failing on an address or a path copies that,
///                unless the operation would block or was cancelled
class UNIO_API failure : public std::error_code {
 public:
  failure() = default;                                            ///< no error
  failure(std::error_code why, detail::origin from = {}) noexcept // NOLINT: implicit
      : std::error_code(why), origin_(from) {}
  template <class E>
    requires std::is_error_code_enum<E>::value
  failure(E why) noexcept : std::error_code(make_error_code(why)) {} // NOLINT: implicit

  /// The error alone; its message() is that of its category.
  [[nodiscard]] std::error_code const& code() const noexcept { return *this; }
  /// The operation as its functions are called: "connect". Empty if it is not known.
  [[nodiscard]] char const* operation() const noexcept;
  /// What it was to be done on: "127.0.0.1:80", "log/today", "descriptor 7"; with how a file is open, if that
  /// was what was wrong: "/log/today (open for appending only)". A long path lacks its beginning ("...").
  /// Empty if it is not known, or not any more. Fit for a log: what could forge a line or command a terminal
  /// (control characters, bytes that are not UTF-8), and a backslash, is written as \xNN. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::string object() const;
  /// All in one sentence: "connect 127.0.0.1:80: Connection refused". Throws std::bad_alloc.
  [[nodiscard]] std::string message() const;

  [[nodiscard]] detail::origin origin() const noexcept { return origin_; } ///< for results

 private:
  detail::origin origin_ = {};
};

} // namespace unio

#include <unio/detail/error.hpp>
