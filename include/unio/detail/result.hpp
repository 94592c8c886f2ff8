// unio/detail/result.hpp: a result without a value.

#pragma once

#include <unio/result.hpp>

namespace unio {

template <class T> inline std::error_code result<T>::error() const noexcept {
  return this->has_value() ? std::error_code() : base::error();
}
template <class T> constexpr void result<T>::check() const {
  if (!this->has_value()) [[unlikely]]
    detail::no_value(base::error());
}

template <> class [[nodiscard]] result<void> : public std::expected<void, std::error_code> {
  using base = std::expected<void, std::error_code>;

 public:
  using base::base;
  result() = default;
  result(std::error_code why) noexcept : base(std::unexpect, why) {} // NOLINT: for `return why;`
  template <class E>
    requires std::is_error_code_enum<E>::value
  result(E why) noexcept : base(std::unexpect, make_error_code(why)) {} // NOLINT

  void value() const {
    if (!has_value()) [[unlikely]]
      detail::no_value(base::error());
  }
  [[nodiscard]] std::error_code error() const noexcept {
    return has_value() ? std::error_code() : base::error();
  }
};

} // namespace unio
