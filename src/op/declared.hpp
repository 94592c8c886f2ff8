// src/op/declared.hpp: the private parts of operations that are declared by UNIO_OPERATION.

#pragma once

#include <unio/detail/declared.hpp>

#include <type_traits>
#include <utility>

namespace unio::inline v0_1::detail {

struct declared_access {
  /// The state that detail::with adds.
  template <class Operation> static auto& state(Operation& op) noexcept { return op.own_; }
  /// The value that the operation fills in.
  template <class Operation> static auto& value(Operation& op) noexcept { return op.result_value_; }

  template <class... Arguments> struct types {
    template <class T> static constexpr bool has = (false || ... || std::is_same_v<T, Arguments>);
  };

  /// f of the arguments, and of the value that the function fills in, if there is one.
  template <class Operation> static auto give(Operation& op, auto f) noexcept {
    if constexpr (requires { op.result_value_; })
      return op.given_to([&](auto&&... arguments) { return f(arguments..., op.result_value_); });
    else
      return op.given_to(f);
  }

  /// The types of all but the first, as they are kept.
  template <class Operation>
  using rest_of = decltype(std::declval<Operation&>().given_to(
      [](auto const&, auto const&... rest) { return types<std::remove_cvref_t<decltype(rest)>...>(); }));

  template <class Operation> static constexpr bool opens = requires { Operation::opens; };
  /// An operation that is declared otherwise: its call takes the operation.
  template <class Operation>
  static constexpr bool is_declared = requires(Operation& op) { op.given_to([](auto&&...) { return 0; }); };
};

} // namespace unio::detail

namespace unio::inline v0_1::op {

/// An operation as what it is.
template <class Operation> Operation& as(io_operation& op) noexcept { return static_cast<Operation&>(op); }
template <class Operation> Operation const& as(io_operation const& op) noexcept {
  return static_cast<Operation const&>(op);
}

/// Its state, and its value.
template <class Operation> auto& state(io_operation& op) noexcept {
  return detail::declared_access::state(as<Operation>(op));
}
template <class Operation> auto const& state(io_operation const& op) noexcept {
  return detail::declared_access::state(as<Operation>(op));
}
template <class Operation> auto& value(io_operation& op) noexcept {
  return detail::declared_access::value(as<Operation>(op));
}

} // namespace unio::op
