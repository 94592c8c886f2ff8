// unio/detail/flag_set.hpp: enumerations whose values are bits of a set.
//
// Here because several headers have such enumerations, and each would define the same operators.

#pragma once

#include <type_traits>

namespace unio::inline v0_1 {
namespace detail {

/// True for an enumeration whose values may be combined.
template <class E> inline constexpr bool is_flag_set = false;

template <class E> constexpr auto bits(E e) noexcept { return static_cast<std::underlying_type_t<E>>(e); }

} // namespace detail

template <class E>
  requires detail::is_flag_set<E>
constexpr E operator|(E a, E b) noexcept {
  return static_cast<E>(detail::bits(a) | detail::bits(b));
}
template <class E>
  requires detail::is_flag_set<E>
constexpr E operator&(E a, E b) noexcept {
  return static_cast<E>(detail::bits(a) & detail::bits(b));
}
template <class E>
  requires detail::is_flag_set<E>
constexpr E& operator|=(E& a, E b) noexcept {
  return a = a | b;
}
/// Whether `set` has all of `wanted`.
template <class E>
  requires detail::is_flag_set<E>
constexpr bool has(E set, E wanted) noexcept {
  return (set & wanted) == wanted;
}

} // namespace unio
