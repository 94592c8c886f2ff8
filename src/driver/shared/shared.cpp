// A multiplexer that several threads run: an engine for each of them, behind the face of one multiplexer.
//
// Operations stay on the engine of the thread that started them, so that caches stay warm and a ring has one
// submitter. What is shared is posted work, and the count of what is pending, so that run() knows when there
// is nothing left to wait for (crew.hpp).
//
// With one thread (a pool of one) the engine's own queue serves: posting from its thread is then a plain
// store.

#include "driver/shared.hpp"

#include "driver/choose.hpp"
#include "driver/remains.hpp"
#include "driver/shared/crew.hpp"
#include "driver/shared/members.hpp"
#include "sys/calls.hpp"

#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

class shared_multiplexer final : public pool_multiplexer, public leaves_remains, members, crew {
 public:
  static result<std::unique_ptr<shared_multiplexer>> make(int threads, bool is_pool) noexcept {
    // Says now rather than later what would go wrong with each thread's own.
    result<std::unique_ptr<backend>> const like = best_backend(true);
    if (!like.has_value()) return like.error();
    std::unique_ptr<slot[]> slots(new (std::nothrow) slot[static_cast<std::size_t>(threads)]);
    std::unique_ptr<shared_multiplexer> made;
    if (slots != nullptr)
      made.reset(new (std::nothrow) shared_multiplexer(threads, is_pool, std::move(slots), **like));
    if (made == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    return made;
  }

  ~shared_multiplexer() override {
    end_membership();
    while (posting_.load(std::memory_order_acquire) != 0 && !inherited_by_fork()) sys::sched_yield();
    for (slot& s : slots()) delete s.runs.exchange(nullptr, std::memory_order_acq_rel);
    if (!inherited_by_fork()) crew::drop_posted(); // of which another thread may have held the locks
  }

  using io_multiplexer::post;
  void post(work& w) noexcept override {
    if (threads() == 1)
      if (engine* const e = slots()[0].runs.load(std::memory_order_acquire); e != nullptr) return e->post(w);
    slot* const mine = find_mine();
    if (mine != nullptr && stays()) { // which does not end before this thread has left it
      mine->push(w);
      return call_one();
    }
    posting_.fetch_add(1, std::memory_order_relaxed);
    (mine != nullptr ? *mine : everybodys()).push(w); // from here on `w` may run, and the multiplexer end
    call_one();
    posting_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in the destructor
  }

  bool withdraw(work& w) noexcept override {
    if (threads() == 1)
      if (engine* const e = slots()[0].runs.load(std::memory_order_acquire); e != nullptr && e->withdraw(w))
        return true;
    return crew::withdraw(w);
  }

  [[nodiscard]] runner run_by() const noexcept override {
    if (find_mine() != nullptr) return runner::this_thread;
    for (slot const& s : slots())
      if (s.runs.load(std::memory_order_relaxed) == nullptr) return runner::none_yet;
    return runner::another_thread;
  }

  void wake() noexcept override { crew::wake(); }

  unio::capabilities capabilities() const override {
    // Another thread's engine may be setting itself up at this moment: only the calling thread's own is
    // asked.
    engine const* const e = my_engine();
    unio::capabilities c = e != nullptr ? e->capabilities() : offered_;
    if (e == nullptr) c.why = why_this_driver(why_no_ring_);
    c.threads = static_cast<unsigned>(threads());
    return c;
  }

  // Another thread's engine may be counting at this moment: only the calling thread's own is read.
  unio::counters counters() const noexcept override {
    engine const* const e = my_engine();
    return e != nullptr ? e->counters() : unio::counters{};
  }

  void start(io_operation& op) noexcept override {
    engine* const e = mine();
    if (e == nullptr) {
      op.set_outcome(why_none_.load(std::memory_order_relaxed));
      return op.is_quiet() ? op.mark_finished() : op.deliver(io_operation::value | io_operation::done);
    }
    adopt(op, *e);
    e->start(op);
  }
  io_multiplexer& of_this_thread() noexcept override {
    engine* const e = mine();
    return e != nullptr ? static_cast<io_multiplexer&>(*e) : *this;
  }
  // Once started an operation is its engine's. What stays here could not be started, and has ended.
  io_status poll(io_operation& op) noexcept override {
    return op.multiplexer() != this ? op.poll() : io_status::completed;
  }
  void cancel(io_operation& op) noexcept override {
    if (op.multiplexer() != this) op.cancel();
  }
  void finish(io_operation& op) noexcept override {
    if (op.multiplexer() != this) return op.multiplexer()->finish(op);
    while (!op.finished()) sys::sched_yield(); // it could not be started: another thread is notifying of that
  }
  void forget(int fd) noexcept override {
    if (engine* const e = my_engine(); e != nullptr) e->forget(fd);
  }

  // ---- threads that come and go

  result<void> enter() noexcept override {
    if (mine() == nullptr) return none().error();
    return {};
  }

  void leave() noexcept override {
    slot* const s = find_mine();
    if (s == nullptr) return;
    s->own_engine()->close();
    members::leave();
  }

  /// A thread ends: so does its engine, and what waits in its slot is for the others.
  void retire(slot& s) noexcept override {
    engine* const e = s.own_engine();
    if (e == nullptr) return;
    e->close();
    s.engine_lock.lock();
    s.runs.store(nullptr, std::memory_order_release);
    unlock(s);
    delete e;
    while (s.give(everybodys(), 1, 1024)) {
    }
    call_one();
  }

  // ---- the end of a pool

  [[nodiscard]] bool is_over() const noexcept override { return crew::is_over(); }
  void end() noexcept override { crew::end(); }
  void end_when_quiet() noexcept override { crew::end_when_quiet(); }
  void drop_posted() noexcept override { crew::drop_posted(); }

 protected:
  result<int> do_complete_io(int max_items, std::int64_t until) noexcept override {
    engine* const e = mine();
    return e != nullptr ? e->do_complete_io(max_items, until) : none();
  }
  result<int> do_timeout_io(int max_items, std::int64_t until) noexcept override {
    engine* const e = mine();
    return e != nullptr ? e->do_timeout_io(max_items, until) : none();
  }
  result<int> do_invoke_posted(int max_items, std::int64_t until) noexcept override {
    engine* const e = mine();
    return e != nullptr ? e->do_invoke_posted(max_items, until) : none();
  }
  result<int> do_run(int max_items, std::int64_t until) noexcept override {
    engine* const e = mine();
    return e != nullptr ? e->do_run(max_items, until) : none();
  }

 private:
  shared_multiplexer(int threads, bool is_pool, std::unique_ptr<slot[]> slots, backend const& like) noexcept
      : crew(threads, is_pool, std::move(slots)), why_no_ring_(like.why_no_ring()) {
    like.describe(offered_);
    offered_.threads = static_cast<unsigned>(threads);
  }

  engine* my_engine() const noexcept {
    slot const* const s = find_mine();
    return s != nullptr ? s->own_engine() : nullptr;
  }

  engine* mine() noexcept {
    if (engine* const e = my_engine(); e != nullptr) [[likely]]
      return e;
    std::lock_guard const lock(making_);
    slot* free = nullptr;
    for (slot& s : slots())
      if (free == nullptr && s.runs.load(std::memory_order_relaxed) == nullptr) free = &s;
    if (free == nullptr) {
      why_none_ = detail::native(error::too_many_threads);
      return nullptr;
    }
    result<std::unique_ptr<backend>> b = best_backend();
    if (!b.has_value()) {
      why_none_ = detail::to_native(b.error());
      return nullptr;
    }
    std::unique_ptr<engine> e(new (std::nothrow) engine(std::move(*b), free));
    if (e == nullptr || !join(*free)) {
      why_none_ = -ENOMEM;
      return nullptr;
    }
    free->runs.store(e.get(), std::memory_order_release);
    return e.release();
  }

  result<int> none() const noexcept {
    return detail::to_error_code(why_none_.load(std::memory_order_relaxed));
  }

  unio::capabilities offered_; // what a thread can expect before it has begun
  int why_no_ring_;
  std::mutex making_;
  std::atomic<int> why_none_ = 0;
  alignas(64) std::atomic<int> posting_{0}; // threads inside post(), that do not run this
};

} // namespace

result<std::unique_ptr<pool_multiplexer>> make_pool_multiplexer(int threads) noexcept {
  result<std::unique_ptr<shared_multiplexer>> made = shared_multiplexer::make(threads, true);
  if (!made.has_value()) return made.error();
  return std::unique_ptr<pool_multiplexer>(std::move(*made));
}

result<std::unique_ptr<io_multiplexer>> make_shared_multiplexer(int threads) noexcept {
  result<std::unique_ptr<shared_multiplexer>> made = shared_multiplexer::make(threads, false);
  if (!made.has_value()) return made.error();
  return std::unique_ptr<io_multiplexer>(std::move(*made));
}

} // namespace unio::driver
