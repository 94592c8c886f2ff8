// unio/detail/link_forms.hpp: the result of a chain taken apart.

#pragma once

#include <unio/link.hpp>

namespace unio::inline v0_1 {

template <class... Results> inline std::size_t link_result<Results...>::bytes_transferred() const noexcept {
  return std::apply([](auto const&... each) { return (std::size_t{0} + ... + each.bytes_transferred()); },
                    each_);
}

} // namespace unio

template <class... Results>
struct std::tuple_size<unio::link_result<Results...>>
    : std::integral_constant<std::size_t, sizeof...(Results)> {};
template <std::size_t I, class... Results> struct std::tuple_element<I, unio::link_result<Results...>> {
  using type = std::tuple_element_t<I, std::tuple<Results...>>;
};
