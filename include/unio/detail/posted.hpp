// unio/detail/posted.hpp: a function in a queue of work.

#pragma once

#include <unio/executor.hpp>
#include <unio/frames.hpp>

#include <new>

namespace unio::detail {

/// A function as work, in a block of the frame pool.
template <class F> struct posted final : work {
  template <class G> static work& make(G&& g) {
    void* const memory = frame_pool::allocate(sizeof(posted));
    return *::new (memory) posted(static_cast<G&&>(g));
  }

 private:
  template <class G> explicit posted(G&& g) : work(&invoke), f(static_cast<G&&>(g)) {}
  static void invoke(work& w, bool run) noexcept {
    auto& self = static_cast<posted&>(w);
    F f(static_cast<F&&>(self.f));
    self.~posted(); // so that what `f` posts can reuse the block
    frame_pool::deallocate(&self, sizeof(posted));
    if (run) f();
  }
  F f;
};

} // namespace unio::detail
