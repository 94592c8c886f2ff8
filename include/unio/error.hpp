// unio/error.hpp: what can go wrong, and what to compare it with.
//
//   condition   portable conditions: compare any std::error_code with these
//   error       the few codes of unio's own, for what the system has no errno for
//
// The codes of the operating system are kept as they come (std::system_category). A program compares
// conditions, not codes: `if (r.error() == unio::condition::timed_out)`.

#pragma once

#include <unio/config.hpp>

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
  too_many_threads,      ///< more threads use a multiplexer than it was made for
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
  several_names,   ///< the lock file has more than one name (hard links), so others could have made it one
  writable_by_all, ///< its mode lets every user write it, or the directory of lock files
};

/// The categories of condition and of error. Lifetime: static. Cost: none.
UNIO_API std::error_category const& condition_category() noexcept;
UNIO_API std::error_category const& error_category() noexcept;

/// A condition as std::error_condition, an error as std::error_code. Cost: none.
std::error_condition make_error_condition(condition c) noexcept;
std::error_code make_error_code(error e) noexcept;

} // namespace unio

#include <unio/detail/error.hpp>
