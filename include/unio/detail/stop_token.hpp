// unio/detail/stop_token.hpp: short functions of tokens and callbacks.

#pragma once

#include <unio/stop_token.hpp>

#include <utility>

namespace unio::inline v0_1 {

inline bool stop_token::stop_requested() const noexcept {
  return source_ != nullptr && source_->stop_requested();
}

template <std::invocable F>
template <class G>
  requires std::constructible_from<F, G>
inline stop_callback<F>::stop_callback(stop_token token,
                                       G&& f) noexcept(std::is_nothrow_constructible_v<F, G>)
    : stop_node(&call), token_(token), f_(std::forward<G>(f)) {
  if (token_.stop_possible() && !attach(token_)) f_();
}
template <std::invocable F> inline stop_callback<F>::~stop_callback() {
  if (token_.stop_possible()) detach(token_);
}

} // namespace unio
