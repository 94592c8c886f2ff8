// A multiplexer that several threads run: an engine for each of them, behind the face of one multiplexer.
//
// Operations stay on the engine of the thread that started them, so that caches stay warm and a ring has one
// submitter (runners.hpp: when a thread has one). Those of a thread that does not run it are unclaimed
// (unclaimed.hpp): a thread that runs it takes them, or the next that does. What is shared is these, posted
// work, and the count of what is pending, so that run() knows when there is nothing left to wait for
// (crew.hpp).

#include "driver/shared.hpp"

#include "driver/choose.hpp"
#include "driver/ended.hpp"
#include "driver/remains.hpp"
#include "driver/shared/runners.hpp"
#include "sys/calls.hpp"
#include "sys/give_way.hpp"

#include <atomic>
#include <new>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

class shared_multiplexer final : public pool_multiplexer, public leaves_remains, runners {
 public:
  static result<std::unique_ptr<shared_multiplexer>> make(int threads, bool is_pool) noexcept {
    // Says now rather than later what would go wrong with each thread's own.
    result<std::unique_ptr<backend>> const like = best_backend(true);
    if (!like.has_value()) return like.error();
    std::unique_ptr<shared_multiplexer> made(new (std::nothrow) shared_multiplexer(threads, is_pool, **like));
    if (made == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    return made;
  }

  ~shared_multiplexer() override {
    end_membership();
    sys::await_other([this] {
      return (posting_.load(std::memory_order_acquire) == 0 && !unclaimed_.is_used()) || inherited_by_fork();
    });
    ending_.store(true, std::memory_order_relaxed);
    for (slot& s : slots()) {
      s.runs.store(nullptr, std::memory_order_relaxed);
      if (s.kept != nullptr) s.kept->close();
    }
    if (inherited_by_fork()) return; // another thread of the parent may have held the locks
    drop_what_waits();
  }

  using io_multiplexer::post;
  using io_multiplexer::spawn;
  void post(work& w) noexcept override {
    slot* const mine = find_mine();
    bring(w, mine != nullptr ? *mine : everybodys(), mine != nullptr, &slot::push);
  }
  void fork(work& w) noexcept override {
    slot* const mine = find_mine();
    mine != nullptr ? bring(w, *mine, true, &slot::fork) : post(w);
  }
  // A thread that has nothing in flight is the least busy one, or walks a tree of tasks.
  void spawn(work& w) noexcept override {
    slot* const mine = find_mine();
    if (mine != nullptr && (threads() == 1 || mine->own_engine()->in_flight() == 0)) return fork(w);
    bring(w, new_ones(), mine != nullptr, &slot::push, &crew::call_for_new);
  }

  bool withdraw(work& w) noexcept override {
    if (inherited_by_fork()) return true; // it will not run
    return crew::withdraw(w);
  }

  [[nodiscard]] runner run_by() const noexcept override {
    if (find_mine() != nullptr) return runner::this_thread;
    return present() != 0 ? runner::another_thread : runner::none_yet;
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
    if (engine* const e = my_engine(); e != nullptr) {
      adopt(op, *e);
      engine::inside const here(*e);
      return e->start(op);
    }
    if (inherited_by_fork()) return end_at_once(op, detail::native(error::inherited_by_fork));
    if (ending_.load(std::memory_order_relaxed))
      return end_at_once(op, detail::native(error::multiplexer_destroyed));
    posting_.fetch_add(1, std::memory_order_relaxed);
    start_unclaimed(op);                              // from here on it may run, and the multiplexer end
    posting_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in the destructor
  }
  io_multiplexer& of_this_thread() noexcept override {
    engine* const e = my_engine();
    return e != nullptr ? static_cast<io_multiplexer&>(*e) : *this;
  }
  void join_in() noexcept override { (void)mine(); }
  // What a thread starts that does not run this goes to one that does.
  bool hold_starts() noexcept override {
    engine* const e = my_engine();
    return e != nullptr && e->hold_starts();
  }
  void release_starts() noexcept override {
    if (engine* const e = my_engine(); e != nullptr) e->release_starts();
  }

  // What follows concerns what is unclaimed: the rest is its engine's.

  io_status poll(io_operation& op) noexcept override {
    if (!claim(op)) return op.completed() ? io_status::completed : io_status::pending;
    return op.poll();
  }
  void cancel(io_operation& op) noexcept override {
    if (!inherited_by_fork()) unclaimed_.ask_to_end(op);
  }
  // A thread that cannot run this must not wait for one that may never come.
  void finish(io_operation& op) noexcept override {
    for (unsigned times = 0; !op.finished() && !inherited_by_fork(); sys::give_way(times++)) {
      (void)claim(op);
      if (op.multiplexer() != this) return op.multiplexer()->finish(op);
      if (my_engine() == nullptr && unclaimed_.take(op)) return end_one(op, why_none());
    }
  }
  void abandon(io_operation& op) noexcept override {
    for (unsigned times = 0; !op.finished() && !inherited_by_fork(); sys::give_way(times++)) {
      if (unclaimed_.take(op)) return end_one(op, 0);
      if (op.multiplexer() != this) return op.multiplexer()->abandon(op);
    }
  }
  void forget(int fd) noexcept override {
    if (inherited_by_fork()) return;
    forget_unclaimed(fd);
    if (engine* const e = my_engine(); e != nullptr) e->forget(fd);
  }

  // ---- threads that come and go

  result<void> enter() noexcept override {
    if (mine() == nullptr) return none().error();
    find_mine()->is_pools = true;
    return {};
  }

  void leave() noexcept override { quit(); }

  void forget_unclaimed(int fd) noexcept override {
    for (operation_queue ops = unclaimed_.take_on(fd); !ops.empty(); ops = unclaimed_.take_on(fd))
      end_unclaimed(ops);
  }

  [[nodiscard]] unclaimed_operations& unclaimed_here() noexcept override { return unclaimed_; }

  // ---- the end of a pool

  [[nodiscard]] bool is_over() const noexcept override { return crew::is_over(); }
  void end() noexcept override { crew::end(); }
  // A thread that has made a blocking call here may have something in flight, as the pool's own may.
  void end_when_quiet() noexcept override {
    crew::close_when_quiet();
    if (find_mine() != nullptr)
      while (!crew::is_over() && run().has_value()) {
      }
    crew::wait_for_the_end();
  }
  void drop_what_waits() noexcept override {
    for (operation_queue left = unclaimed_.take_all(); !left.empty(); left = unclaimed_.take_all())
      end_unclaimed(left);
    crew::drop_posted(*this);
  }

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
  shared_multiplexer(int threads, bool is_pool, backend const& like) noexcept
      : runners(*this, threads, is_pool), why_no_ring_(like.why_no_ring()) {
    like.describe(offered_);
    offered_.threads = static_cast<unsigned>(threads);
  }

  // `is_runner`: the calling thread runs this.
  void bring(work& w, slot& to, bool is_runner, void (work_slot::*push)(work&) noexcept,
             void (crew::*call)() noexcept = &crew::call_one) noexcept {
    if (is_runner && stays()) { // which does not end before this thread has left it
      (to.*push)(w);
      return (this->*call)();
    }
    posting_.fetch_add(1, std::memory_order_relaxed);
    (to.*push)(w); // from here on `w` may run, and the multiplexer end
    (this->*call)();
    posting_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in the destructor
  }

  // Taken from the unclaimed ones.
  void end_one(io_operation& op, int why) noexcept {
    operation_queue only(queue_name::none);
    only.push(op);
    end_unclaimed(only, why);
  }

  /// Makes an operation that is unclaimed the calling thread's. False: it is not unclaimed.
  bool claim(io_operation& op) noexcept {
    if (inherited_by_fork() || op.multiplexer() != this) return false;
    engine* const e = mine();
    if (e == nullptr) return false;
    engine::inside const here(*e);
    e->begin_to_run(); // first: a thread that closes its descriptor asks only engines that some thread runs
    if (!unclaimed_.take(op, *e)) return false;
    e->take_over(op);
    return true;
  }

  unio::capabilities offered_; // what a thread can expect before it has begun
  int why_no_ring_;
  std::atomic<bool> ending_{false};
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
