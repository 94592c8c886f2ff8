// unio/detail/link_forms.hpp: the functions that describe a chain, and its result taken apart.

#pragma once

#include <unio/link.hpp>

#include <cstddef>
#include <tuple>
#include <type_traits>
#include <utility>

namespace unio {

template <class... Results> inline std::size_t link_result<Results...>::bytes_transferred() const noexcept {
  return std::apply([](auto const&... each) { return (std::size_t{0} + ... + each.bytes_transferred()); },
                    each_);
}

template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
inline async_link<Senders...> link(Senders... members) noexcept {
  return async_link<Senders...>(deadline(), std::move(members)...);
}
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
inline async_link<Senders...> link(deadline d, Senders... members) noexcept {
  return async_link<Senders...>(d, std::move(members)...);
}
template <detail::linkable... Senders>
  requires(sizeof...(Senders) != 0)
inline async_link<Senders...> try_link(Senders... members) noexcept {
  return async_link<Senders...>(deadline::zero(), std::move(members)...);
}

template <class... Arguments>
  requires requires(Arguments&&... a) { link(static_cast<Arguments&&>(a)...); }
inline auto co_link(Arguments&&... members) noexcept {
  return io_awaitable(link(static_cast<Arguments&&>(members)...));
}
template <detail::linkable... Senders> inline auto try_co_link(Senders... members) noexcept {
  return io_awaitable(try_link(std::move(members)...));
}
template <class... Arguments>
  requires requires(Arguments&&... a) { link(static_cast<Arguments&&>(a)...); }
inline auto sync_link(Arguments&&... members) noexcept {
  return detail::blocking(link(static_cast<Arguments&&>(members)...));
}
template <detail::linkable... Senders> inline auto try_sync_link(Senders... members) noexcept {
  return detail::blocking(try_link(std::move(members)...));
}

} // namespace unio

template <class... Results>
struct std::tuple_size<unio::link_result<Results...>>
    : std::integral_constant<std::size_t, sizeof...(Results)> {};
template <std::size_t I, class... Results> struct std::tuple_element<I, unio::link_result<Results...>> {
  using type = std::tuple_element_t<I, std::tuple<Results...>>;
};
