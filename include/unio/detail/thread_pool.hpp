// unio/detail/thread_pool.hpp: posting functions to a pool.

#pragma once

#include <unio/frames.hpp>
#include <unio/thread_pool.hpp>

namespace unio::inline v0_1::detail {

/// A function as work, in a block of the frame pool.
template <class F> struct posted final : work, pooled_frames {
  template <class G> explicit posted(G&& g) : work(&invoke), f(static_cast<G&&>(g)) {}

 private:
  static void invoke(work& w, bool run) noexcept {
    auto& self = static_cast<posted&>(w);
    F f(static_cast<F&&>(self.f));
    delete &self; // so that what `f` posts can reuse the block
    if (run) f();
  }
  F f;
};

} // namespace unio::detail

namespace unio::inline v0_1 {

inline bool thread_pool::running_in_this_thread() const noexcept {
  return multiplexer_->run_by() == io_multiplexer::runner::this_thread;
}
template <class F>
  requires(std::invocable<std::decay_t<F>&> && !std::derived_from<std::decay_t<F>, work>)
inline void thread_pool::post(F&& f) {
  post(*new detail::posted<std::decay_t<F>>(static_cast<F&&>(f)));
}

} // namespace unio
