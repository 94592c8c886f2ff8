// src/core/dropping.hpp: a thread that tells what an ended executor has queued that it will not run.

#pragma once

#include <unio/executor.hpp>

namespace unio::inline v0_1 {

/// On that thread's stack. What is told so may destroy coroutines, which wait for works that are queued yet:
/// they go on with one() until they need not wait.
class dropping {
 public:
  /// `(of->*Next)()` takes a work out of its queue; null if there is none. `m`: the multiplexer that has
  /// ended; null for what runs on one.
  template <auto Next, class Of> static void all(Of& of, io_multiplexer const* m = nullptr) noexcept {
    dropping const here(&of, [](void* o) noexcept { return (static_cast<Of*>(o)->*Next)(); }, m);
    while (one_of(here)) continue;
  }
  /// One of all that this thread is about. False: there is none.
  static bool one() noexcept {
    for (dropping const* d = innermost_; d != nullptr; d = d->outer_)
      if (one_of(*d)) return true;
    return false;
  }
  /// Whether it is about those of `m`; of any, if that is null.
  [[nodiscard]] static bool is_about(io_multiplexer const* m) noexcept {
    dropping const* d = innermost_;
    while (d != nullptr && m != nullptr && d->multiplexer_ != m) d = d->outer_;
    return d != nullptr;
  }

 private:
  using next = work* (*)(void*) noexcept;
  dropping(void* of, next n, io_multiplexer const* m) noexcept
      : of_(of), next_(n), multiplexer_(m), outer_(innermost_) {
    innermost_ = this;
  }
  dropping(dropping const&) = delete;
  ~dropping() { innermost_ = outer_; }
  static bool one_of(dropping const& d) noexcept {
    work* const w = d.next_(d.of_);
    if (w != nullptr) (*w)(false);
    return w != nullptr;
  }

  static constinit thread_local dropping const* innermost_;
  void* of_;
  next next_;
  io_multiplexer const* multiplexer_;
  dropping const* outer_;
};
inline constinit thread_local dropping const* dropping::innermost_ = nullptr;

} // namespace unio
