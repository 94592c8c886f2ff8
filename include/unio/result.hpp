// unio/result.hpp: a value, or why there is none.
//
//   result<T>   std::expected<T, std::error_code> whose value() throws std::system_error

#pragma once

#include <unio/error.hpp>

#include <expected>
#include <utility>

namespace unio::inline v0_1 {

/// A value of type `T` (or nothing, if that is void), or the std::error_code that says why there is none.
///
/// Ignored        compilers warn; g++ 12 to 16 for what a call returns, but not for what co_await yields
/// Thread safety  distinct objects: safe; shared: no
/// Moved-from     holds a moved-from value, or the same error
/// Size           as std::expected<T, std::error_code>
template <class T = void> class [[nodiscard]] result : public std::expected<T, std::error_code> {
  using base = std::expected<T, std::error_code>;

 public:
  using base::base;
  result() = default;
  result(std::error_code why) noexcept : base(std::unexpect, why) {} // NOLINT: for `return why;`
  template <class E>
    requires std::is_error_code_enum<E>::value
  result(E why) noexcept : base(std::unexpect, make_error_code(why)) {} // NOLINT

  /// The value, or nothing. Throws std::system_error(error()) if there is none; without exceptions ends the
  /// program.
  constexpr decltype(auto) value() & { return check(), *static_cast<base&>(*this); }
  constexpr decltype(auto) value() const& { return check(), *static_cast<base const&>(*this); }
  constexpr decltype(auto) value() && { return check(), *static_cast<base&&>(*this); }

  /// The error, or an empty code when there is a value.
  [[nodiscard]] std::error_code error() const noexcept {
    return this->has_value() ? std::error_code() : base::error();
  }

 private:
  constexpr void check() const {
    if (!this->has_value()) [[unlikely]]
      detail::no_value(base::error());
  }
};

} // namespace unio
