// unio/result.hpp: a value, or why there is none.
//
//   result<T>   std::expected<T, std::error_code> whose value() throws std::system_error

#pragma once

#include <unio/error.hpp>

#include <expected>
#include <utility>

namespace unio {

/// A value of type `T`, or the std::error_code that says why there is none.
///
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

  /// The value. Throws std::system_error(error()) if there is none; without exceptions ends the program.
  constexpr decltype(auto) value() & { return check(), **static_cast<base*>(this); }
  constexpr decltype(auto) value() const& { return check(), **static_cast<base const*>(this); }
  constexpr T&& value() && { return check(), std::move(**static_cast<base*>(this)); }

  /// The error, or an empty code when there is a value.
  [[nodiscard]] std::error_code error() const noexcept;

 private:
  constexpr void check() const;
};

/// Nothing, or the std::error_code that says why not: the same functions.
template <> class result<void>;

} // namespace unio

#include <unio/detail/result.hpp>
