// unio/detail/error.hpp: errors as operations carry them.

#pragma once

#include <unio/error.hpp>

namespace unio::inline v0_1 {

inline std::error_condition make_error_condition(condition c) noexcept {
  return {static_cast<int>(c), condition_category()};
}
inline std::error_code make_error_code(error e) noexcept { return {static_cast<int>(e), error_category()}; }

} // namespace unio

template <> struct std::is_error_condition_enum<unio::condition> : std::true_type {};
template <> struct std::is_error_code_enum<unio::error> : std::true_type {};

namespace unio::inline v0_1::detail {

/// Operations carry their outcome as one int: >= 0, or a negative native code: -errno, or -(own_error_base +
/// error).
inline constexpr int own_error_base = 4096; // above every errno (the kernel's MAX_ERRNO is 4095)

constexpr int native(error e) noexcept { return -(own_error_base + static_cast<int>(e)); }

/// The std::error_code for a negative native code.
inline std::error_code to_error_code(int native_code) noexcept {
  int const code = -native_code;
  if (code > own_error_base) return make_error_code(static_cast<error>(code - own_error_base));
  return {code, std::system_category()};
}

/// The inverse, for the codes of system calls, allocations and unio's own functions.
inline int to_native(std::error_code const& e) noexcept {
  return e.category() == error_category() ? native(static_cast<error>(e.value())) : -e.value();
}

// Where a failure comes from, in 32 bits:
//
//   number of the operation's name (8) | 1 | number of its object (23)
//                                      | 0 | descriptor + 1 (23); 0 without one
inline constexpr unsigned name_shift = 24;
inline constexpr std::uint32_t is_object = 1U << 23;
inline constexpr std::uint32_t number_mask = is_object - 1;
constexpr std::uint32_t of_descriptor(int fd) noexcept {
  auto const n = static_cast<std::uint32_t>(fd); // a negative one is larger than any
  return n < number_mask ? n + 1 : 0;
}

/// Where a read that would block comes from. Its name has a number of its own, which is not looked for: such
/// reads are no rarity.
inline constexpr std::uint32_t read_number = 1;
constexpr origin would_block_reading(int fd) noexcept {
  return static_cast<origin>(read_number << name_shift | of_descriptor(fd));
}

/// The object of an operation, as it is kept for the texts of its failure: a text, or bytes and the function
/// that makes a text of them. So no operation pays for texts that no program asks for.
struct failed_object {
  static constexpr std::size_t capacity = 120;
  using to_text = std::string(std::byte const* bytes);

  /// A text, of which only the end is kept if it is too long for `most` bytes.
  UNIO_API void append(char const* text, std::size_t size, std::size_t most = capacity) noexcept;
  UNIO_API void append(char const* text) noexcept;

  alignas(8) std::byte bytes[capacity]{};
  std::uint32_t size = 0;
  to_text* text = nullptr; ///< makes what is fit for a log; null: `bytes` are the text, which is escaped
};

/// The failure of `operation`, a literal, on the descriptor `fd`, if that is not negative, with a negative
/// native code.
[[gnu::cold]] UNIO_API failure failed(std::int64_t native_code, char const* operation, int fd = -1) noexcept;
/// The same on something that has a text.
[[gnu::cold]] UNIO_API failure failed(std::int64_t native_code, char const* operation,
                                      failed_object const& object) noexcept;
[[gnu::cold]] UNIO_API failure failed_on(std::int64_t native_code, char const* operation, char const* text,
                                         std::size_t size) noexcept;

/// Throws std::system_error with the failure's message() as its what(); without exceptions prints that and
/// aborts.
[[noreturn]] UNIO_API void no_value(failure const& why);

} // namespace unio::detail
