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

/// Throws std::system_error; without exceptions prints the error and aborts.
[[noreturn]] UNIO_API void no_value(std::error_code why);

} // namespace unio::detail
