// unio/detail/strand.hpp: what the copies of a strand share.

#pragma once

#include <unio/executor.hpp>
#include <unio/frames.hpp>

#include <atomic>
#include <coroutine>
#include <utility>

namespace unio::inline v0_1::detail {

/// The queue of a strand, and who runs it (src/coro/strand.cpp).
class strand_state : private work {
 public:
  strand_state(strand_state const&) = delete;
  strand_state& operator=(strand_state const&) = delete;

  [[nodiscard]] std::coroutine_handle<> dispatch(resumption& r) noexcept {
    if (runs_here()) return r.handle();
    push(r);
    return std::noop_coroutine();
  }
  UNIO_API void push(work& w) noexcept;
  UNIO_API bool remove(work& w) noexcept;
  /// Whether the calling thread is running it.
  [[nodiscard]] UNIO_API bool runs_here() const noexcept;
  /// Whether it is running one.
  [[nodiscard]] static bool any_runs_here() noexcept;
  [[nodiscard]] executor_ref runs_on() const noexcept { return inner_; }
  void share() noexcept { owners_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (owners_.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy_(*this);
  }

 protected:
  explicit UNIO_API strand_state(void (*destroy)(strand_state&) noexcept) noexcept;
  ~strand_state() = default;
  void set_inner(executor_ref e) noexcept { inner_ = e; }

 private:
  class turn;
  static void drain(work& w, bool run) noexcept;
  void drop() noexcept;
  void post_turn() noexcept;
  bool end_if_empty() noexcept;
  work* pop() noexcept;
  work* behind(work& w) noexcept;

  work placeholder_;
  std::atomic<work*> last_{nullptr}; // null: idle
  work* first_ = nullptr;            // the runner's
  executor_ref inner_;
  void (*destroy_)(strand_state&) noexcept;
  std::atomic<std::uint32_t> owners_{1};
};

template <class Executor> struct strand_block final : strand_state, pooled_frames {
  explicit strand_block(Executor e) noexcept : strand_state(&destroy), inner(std::move(e)) {
    set_inner(inner);
  }
  static void destroy(strand_state& s) noexcept { delete &static_cast<strand_block&>(s); }
  Executor inner;
};

} // namespace unio::detail
