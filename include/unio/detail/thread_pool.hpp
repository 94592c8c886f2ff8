// unio/detail/thread_pool.hpp: posting functions to a pool.

#pragma once

#include <unio/detail/posted.hpp>
#include <unio/thread_pool.hpp>

#include <concepts>
#include <type_traits>

namespace unio {

inline bool thread_pool::running_in_this_thread() const noexcept {
  return multiplexer_->run_by() == io_multiplexer::runner::this_thread;
}
template <class F>
  requires(std::invocable<std::decay_t<F>&> && !std::derived_from<std::decay_t<F>, work>)
inline void thread_pool::post(F&& f) {
  post(detail::posted<std::decay_t<F>>::make(static_cast<F&&>(f)));
}

} // namespace unio
