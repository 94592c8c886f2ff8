// A multiplexer that several threads run: an engine for each of them.
//
// Operations stay on the engine of the thread that started them, so that caches stay warm and a ring has one
// submitter. What is shared is posted work, and the count of what is pending, so that run() knows when there
// is nothing left to wait for.
//
// Posted work. Each thread has a slot: an inbox, into which anybody pushes with one compare-and-exchange, and
// behind it a queue under a lock that is held for a few instructions. One more slot belongs to nobody: it
// takes what threads post that run nothing here.
//
//   post, by a thread of the multiplexer ──► its own slot ──┐                   ┌─ runs it, one by one
//                                                           ├──► a slot's queue ┤
//   post, by another thread ──► everybody's slot ── a share ┘                   └─ half, to an idle thread
//
// Everything that waits can be taken by whoever is idle, and taken back; only what runs is out of the queues,
// and for a moment what moves from one to another.
//
// Sleeping: see wake_gate.hpp.
//
// With one thread (a pool of one) the engine's own queue serves: posting from its thread is then a plain
// store.

#include "driver/shared.hpp"

#include "driver/choose.hpp"
#include "driver/engine.hpp"
#include "driver/wake_gate.hpp"
#include "driver/work_slot.hpp"
#include "sys/calls.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace unio::driver {
namespace {

class shared_multiplexer;

/// A thread's place.
class slot final : public shared_state, public work_slot {
 public:
  shared_multiplexer* all = nullptr;

  int run_shared(int max_items) noexcept override;
  bool has_shared() noexcept override;
  bool before_sleep() noexcept override;
  void after_sleep() noexcept override;
  void count(int change) noexcept override;
  int pending() noexcept override;

  // The engine, while there is one. The lock keeps it from being destroyed while another thread wakes it.
  short_lock engine_lock;
  std::atomic<engine*> runs{nullptr};
  /// For another thread than its own. Acquire; pairs with the release in mine(): who sees the engine sees it
  /// as it was made.
  [[nodiscard]] engine* others_engine() const noexcept { return runs.load(std::memory_order_acquire); }
  wake_gate<>::sleeper sleeper;

 private:
  unsigned turns_ = 0; // its own thread's
};

// Those that live, by a number that is never used again: a thread that ends must not touch one that has gone.
// Threads end after static objects are destroyed.
static_assert(std::is_trivially_destructible_v<std::mutex>);
constinit std::mutex living_mutex;
constinit shared_multiplexer* living = nullptr;
constinit std::uint64_t last_number = 0;

// What the thread has asked for last: its slot in a multiplexer, or that it has none there.
struct last_found {
  std::uint64_t number;
  slot* mine;
};
constinit thread_local last_found last{};

class shared_multiplexer final : public pool_multiplexer {
 public:
  static result<std::unique_ptr<shared_multiplexer>> make(int threads, bool is_pool) noexcept {
    // Says now rather than later what would go wrong with each thread's own.
    result<std::unique_ptr<backend>> const like = best_backend();
    if (!like.has_value()) return like.error();
    std::unique_ptr<slot[]> slots(new (std::nothrow) slot[static_cast<std::size_t>(threads)]);
    std::unique_ptr<shared_multiplexer> made;
    if (slots != nullptr)
      made.reset(new (std::nothrow) shared_multiplexer(threads, is_pool, std::move(slots), **like));
    if (made == nullptr) return std::make_error_code(std::errc::not_enough_memory);
    return made;
  }

  ~shared_multiplexer() override {
    {
      std::lock_guard const lock(living_mutex);
      shared_multiplexer** link = &living;
      while (*link != this) link = &(*link)->next_living_;
      *link = next_living_;
    }
    while (retiring_.load(std::memory_order_acquire) != 0 || posting_.load(std::memory_order_acquire) != 0)
      sys::sched_yield();
    for (slot& s : slots()) delete s.runs.exchange(nullptr, std::memory_order_acq_rel);
    drop_posted();
  }

  using io_multiplexer::post;
  void post(work& w) noexcept override {
    if (threads_ == 1)
      if (engine* const e = slots_[0].runs.load(std::memory_order_acquire); e != nullptr) return e->post(w);
    slot* const mine = find_mine();
    if (mine != nullptr && stays_) { // which does not end before this thread has left it
      mine->push(w);
      return call_one();
    }
    posting_.fetch_add(1, std::memory_order_relaxed);
    (mine != nullptr ? *mine : everybodys_)
        .push(w); // from here on `w` may run, and what it lets go on may end this
    call_one();
    posting_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in the destructor
  }

  bool withdraw(work& w) noexcept override {
    if (threads_ == 1)
      if (engine* const e = slots_[0].runs.load(std::memory_order_acquire); e != nullptr && e->withdraw(w))
        return true;
    if (everybodys_.remove(w)) return true;
    for (slot& s : slots())
      if (s.remove(w)) return true;
    return false;
  }

  [[nodiscard]] runner run_by() const noexcept override {
    if (find_mine() != nullptr) return runner::this_thread;
    for (slot const& s : slots())
      if (s.runs.load(std::memory_order_relaxed) == nullptr) return runner::none_yet;
    return runner::another_thread;
  }

  // One that sleeps, or else whichever there is. An engine that is just being woken, or ends, is passed over:
  // its lock may be held by the thread that a signal handler interrupts.
  void wake() noexcept override {
    for (bool const sleeping : {true, false})
      for (slot& s : slots()) {
        if (!s.engine_lock.try_lock()) continue;
        std::lock_guard const lock(s.engine_lock, std::adopt_lock);
        engine* const e = s.others_engine();
        if (e != nullptr && (!sleeping || e->is_asleep())) return e->wake();
      }
  }

  unio::capabilities capabilities() const override {
    // Another thread's engine may be setting itself up at this moment: only the calling thread's own is
    // asked.
    engine const* const e = my_engine();
    unio::capabilities c = e != nullptr ? e->capabilities() : offered_;
    if (e == nullptr) c.why = why_this_driver(why_no_ring_);
    c.threads = static_cast<unsigned>(threads_);
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
  // Once started an operation is its engine's; these are for completeness.
  io_status poll(io_operation& op) noexcept override { return op.poll(); }
  void cancel(io_operation& op) noexcept override { op.cancel(); }
  void finish(io_operation& op) noexcept override {
    if (op.multiplexer() != this) op.multiplexer()->finish(op);
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
    s->runs.load(std::memory_order_relaxed)->close();
    this_threads().remove(number_);
  }

  /// A thread ends: so does its engine, and what waits in its slot is for the others.
  void retire(slot& s) noexcept {
    engine* const e = s.runs.load(std::memory_order_relaxed);
    if (e == nullptr) return;
    e->close();
    {
      std::lock_guard const lock(s.engine_lock);
      s.runs.store(nullptr, std::memory_order_release);
    }
    delete e;
    while (s.give(everybodys_, 1, 1024)) {
    }
    call_one();
  }

  // ---- the end of a pool

  [[nodiscard]] bool is_over() const noexcept override {
    return phase_.load(std::memory_order_acquire) == phase::over; // pairs with the release in end()
  }
  void end() noexcept override {
    if (phase_.exchange(phase::over, std::memory_order_acq_rel) == phase::over) return;
    phase_.notify_all();
    wake_all();
  }
  void end_when_quiet() noexcept override {
    phase expected = phase::open;
    phase_.compare_exchange_strong(expected, phase::closing, std::memory_order_seq_cst);
    wake_all(); // so that those who sleep already look whether it is quiet
    while (!is_over()) phase_.wait(phase::closing, std::memory_order_acquire);
  }
  void drop_posted() noexcept override {
    // One at a time: what is dropped may post, and may take back what waits here.
    auto const next = [this]() noexcept -> work* {
      if (work* const w = everybodys_.pop(); w != nullptr) return w;
      for (slot& s : slots())
        if (work* const w = s.pop(); w != nullptr) return w;
      return nullptr;
    };
    while (work* const w = next()) (*w)(false);
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
  friend class slot;

  shared_multiplexer(int threads, bool is_pool, std::unique_ptr<slot[]> slots, backend const& like) noexcept
      : threads_(threads), stays_(is_pool), slots_(std::move(slots)), why_no_ring_(like.why_no_ring()) {
    for (slot& s : this->slots()) s.all = this;
    like.describe(offered_);
    offered_.threads = static_cast<unsigned>(threads);
    std::lock_guard const lock(living_mutex);
    number_ = ++last_number;
    next_living_ = std::exchange(living, this);
  }

  struct span_of_slots {
    slot* first;
    slot* behind;
    slot* begin() const noexcept { return first; }
    slot* end() const noexcept { return behind; }
  };
  span_of_slots slots() const noexcept { return {slots_.get(), slots_.get() + threads_}; }

  // What a thread remembers: its slot in each multiplexer that it uses. Its end retires them.
  struct entry {
    last_found found;
    entry* next;
  };
  struct entries {
    entry* first = nullptr;

    void add(entry& e) noexcept {
      e.next = first;
      first = &e;
      last = e.found;
    }
    void remove(std::uint64_t number) noexcept {
      for (entry** link = &first; *link != nullptr; link = &(*link)->next) {
        if ((*link)->found.number != number) continue;
        delete std::exchange(*link, (*link)->next);
        break;
      }
      last = {};
    }
    ~entries() {
      while (first != nullptr) { // what ends may use others
        last_found const ends = first->found;
        shared_multiplexer* m = nullptr;
        {
          std::lock_guard const lock(living_mutex);
          for (m = living; m != nullptr && m->number_ != ends.number;) m = m->next_living_;
          // Its destructor waits until this has returned.
          if (m != nullptr) m->retiring_.fetch_add(1, std::memory_order_relaxed);
        }
        if (m != nullptr) {
          m->retire(*ends.mine);
          m->retiring_.fetch_sub(1, std::memory_order_release);
        }
        remove(ends.number);
      }
    }
  };
  static entries& this_threads() noexcept {
    static thread_local entries e;
    return e;
  }

  [[gnu::noinline]] slot* look_for_mine() const noexcept {
    last = {number_, nullptr};
    for (entry const* e = this_threads().first; e != nullptr; e = e->next)
      if (e->found.number == number_) last = e->found;
    return last.mine;
  }
  slot* find_mine() const noexcept {
    if (last.number == number_) [[likely]]
      return last.mine;
    return look_for_mine();
  }
  engine* my_engine() const noexcept {
    slot const* const s = find_mine();
    return s != nullptr ? s->runs.load(std::memory_order_relaxed) : nullptr;
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
    auto* const place = new (std::nothrow) entry{{number_, free}, nullptr};
    engine* const e = place != nullptr ? new (std::nothrow) engine(std::move(*b), free) : nullptr;
    if (e == nullptr) {
      delete place;
      why_none_ = -ENOMEM;
      return nullptr;
    }
    this_threads().add(*place);
    free->runs.store(e, std::memory_order_release);
    return e;
  }

  result<int> none() const noexcept {
    return detail::to_error_code(why_none_.load(std::memory_order_relaxed));
  }

  // ---- who sleeps

  [[nodiscard]] bool has_work() const noexcept {
    if (everybodys_.has_work()) return true;
    for (slot const& s : slots())
      if (s.has_work()) return true;
    return false;
  }

  /// Whether there is something that `mine` will not run in its next turn.
  [[nodiscard]] bool has_work_beside(slot const& mine) const noexcept {
    if (everybodys_.has_work()) return true;
    for (slot const& s : slots())
      if (&s != &mine && s.has_work()) return true;
    return false;
  }

  // Something was posted.
  void call_one() noexcept {
    gate_.call_one(
        slots(), [](slot& s) -> wake_gate<>::sleeper& { return s.sleeper; },
        [](slot& s) {
          std::lock_guard const lock(s.engine_lock);
          if (engine* const e = s.others_engine(); e != nullptr) e->poke();
        },
        [this] { return has_work(); });
  }

  // On the thread of `s`, which has nothing to do: a share of what is everybody's, or else half of what
  // another thread has.
  bool fetch(slot& s) noexcept {
    if (everybodys_.has_work() && everybodys_.give(s, threads_, 64)) return true;
    return steal(s);
  }
  bool steal(slot& s) noexcept {
    for (slot *const first = slots_.get(), *const end = first + threads_, *p = &s + 1; p != &s; ++p) {
      if (p == end) p = first;
      if (p == &s) break;
      if (p->has_work() && p->give(s, 2, 64)) return true;
    }
    return false;
  }

  // Whether nothing is posted, running or in flight: all threads are on their way to sleep, and nobody wakes
  // them. The last of them to count itself sees that of all others.
  [[nodiscard]] bool is_quiet() const noexcept {
    if (gate_.sleepers() != static_cast<std::uint32_t>(threads_) ||
        pending_.load(std::memory_order_acquire) != 0)
      return false;
    for (slot const& s : slots()) {
      engine const* const e = s.others_engine(); // stays: this is a pool
      if (e == nullptr || !e->is_asleep()) return false;
    }
    return true;
  }

  void wake_all() noexcept {
    for (slot& s : slots()) {
      std::lock_guard const lock(s.engine_lock);
      if (engine* const e = s.others_engine(); e != nullptr) e->wake();
    }
  }

  enum class phase : int { open, closing, over };

  int const threads_;
  bool const stays_; // for a pool's threads: run() never says that nothing is pending
  std::unique_ptr<slot[]> slots_;
  std::uint64_t number_ = 0;
  shared_multiplexer* next_living_ = nullptr;
  unio::capabilities offered_; // what a thread can expect before it has begun
  int why_no_ring_;
  std::mutex making_;
  std::atomic<int> why_none_ = 0;
  std::atomic<int> retiring_{0}; // threads that end, inside retire()
  std::atomic<phase> phase_{phase::open};
  slot everybodys_;
  alignas(64) std::atomic<int> posting_{0}; // threads inside post(), that do not run this
  alignas(64) wake_gate<> gate_;
  alignas(64) std::atomic<int> pending_{0};
};

int slot::run_shared(int max_items) noexcept {
  if (max_items <= 0 || all->is_over()) return 0;
  // What is everybody's must not wait for ever behind what this thread posts to itself.
  if (all->everybodys_.has_work()) all->everybodys_.give(*this, all->threads_, 64);
  // Nor what waits behind a work that takes long, though all others are always busy with what they post
  // themselves.
  if (all->threads_ != 1 && ++turns_ % 64 == 0) all->steal(*this);
  if (!has_work() && (all->threads_ == 1 || !all->fetch(*this))) return 0;
  int left = 0;
  work* w = pop(&left);
  if (left > 1) all->call_one();
  int n = 0;
  // No more than there were: what they post is for the next turn.
  engine& here = *runs.load(std::memory_order_relaxed); // this thread's
  bool const only_one = left == 1;
  for (left = std::min(left, max_items); w != nullptr; w = pop()) {
    here.begin_work(only_one);
    (*w)();
    if (++n >= left || all->is_over()) break;
  }
  return n;
}

bool slot::has_shared() noexcept { return !all->is_over() && all->has_work(); }

bool slot::before_sleep() noexcept {
  if (all->is_over()) return false; // only waits for what it has cancelled
  all->gate_.lie_down(sleeper);
  if (all->has_work()) return true;
  if (all->phase_.load(std::memory_order_seq_cst) == shared_multiplexer::phase::closing && all->is_quiet()) {
    all->end();
    return true;
  }
  return false;
}

void slot::after_sleep() noexcept {
  if (!all->gate_.rise(sleeper)) return;
  all->fetch(*this);
  all->gate_.answered();
  if (has_more_than_one() || all->has_work_beside(*this)) all->call_one();
}

void slot::count(int change) noexcept {
  if (all->pending_.fetch_add(change, std::memory_order_acq_rel) + change != 0 || all->stays_) return;
  for (slot& s : all->slots()) { // the last has ended: whoever sleeps is done
    std::lock_guard const lock(s.engine_lock);
    if (engine* const e = s.others_engine(); e != nullptr) e->poke();
  }
}

int slot::pending() noexcept {
  return all->pending_.load(std::memory_order_acquire) + (all->stays_ && !all->is_over() ? 1 : 0);
}

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
