// A multiplexer that several threads run: an engine for each of them.
//
// Operations stay on the engine of the thread that started them, so that caches stay warm and a ring has one submitter.
// What is shared is posted work, which whoever is idle takes, and the count of what is pending, so that run() knows when
// there is nothing left to wait for.

#include "driver/shared.hpp"

#include "driver/choose.hpp"
#include "driver/engine.hpp"
#include "driver/queues.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <vector>

namespace unio::driver {
namespace {

class shared_multiplexer;

// Those that live, by a number that is never used again: a thread that ends must not touch one that has gone.
struct live {
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, shared_multiplexer*>> all;
  std::uint64_t last_number = 0;
};

live& living() noexcept {
  static live* const l = new live; // threads end after static objects are destroyed
  return *l;
}

class shared_multiplexer final : public io_multiplexer, public shared_state {
 public:
  shared_multiplexer(int threads, backend const& like) : engines_(static_cast<std::size_t>(threads)) {
    like.describe(offered_);
    offered_.threads = static_cast<unsigned>(threads);
    std::lock_guard const lock(living().mutex);
    number_ = ++living().last_number;
    living().all.emplace_back(number_, this);
  }

  ~shared_multiplexer() override {
    {
      std::lock_guard const lock(living().mutex);
      std::erase_if(living().all, [this](auto const& l) { return l.second == this; });
    }
    engines_.clear();
    while (work* const w = queue_.pop()) (*w)(false);
  }

  using io_multiplexer::post;
  void post(work& w) noexcept override {
    std::lock_guard const lock(mutex_); // to the end: what `w` lets go on may end this multiplexer
    queue_.push(w);
    posted_.fetch_add(1, std::memory_order_seq_cst); // pairs with has_shared() in engine::before_sleep
    for (std::unique_ptr<engine> const& e : engines_)
      if (e != nullptr && e->poke()) return;
  }

  bool withdraw(work& w) noexcept override {
    std::lock_guard const lock(mutex_);
    if (!queue_.remove(w)) return false;
    posted_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  [[nodiscard]] runner run_by() const noexcept override {
    return find_mine() != nullptr ? runner::this_thread : runner::none_yet;
  }

  void wake() noexcept override {
    std::lock_guard const lock(mutex_);
    for (std::unique_ptr<engine> const& e : engines_)
      if (e != nullptr) return e->wake();
  }

  unio::capabilities capabilities() const override {
    // Another thread's engine may be setting itself up at this moment: only the calling thread's own is asked.
    engine const* const e = find_mine();
    if (e == nullptr) return offered_;
    unio::capabilities c = e->capabilities();
    c.threads = static_cast<unsigned>(engines_.size());
    return c;
  }

  // Another thread's engine may be counting at this moment: only the calling thread's own is read.
  unio::counters counters() const noexcept override {
    engine const* const e = find_mine();
    return e != nullptr ? e->counters() : unio::counters{};
  }

  void start(io_operation& op) noexcept override {
    engine* const e = mine();
    if (e == nullptr) {
      op.set_outcome(why_none_);
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
    if (engine* const e = find_mine(); e != nullptr) e->forget(fd);
  }

  /// A thread ends: so does its engine.
  void retire(engine* e) noexcept {
    std::unique_ptr<engine> dying;
    {
      std::lock_guard const lock(mutex_);
      for (std::unique_ptr<engine>& slot : engines_)
        if (slot.get() == e) dying = std::move(slot);
    }
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
  // What a thread remembers: its engine in each multiplexer that it uses. Its end retires them.
  struct entry {
    std::uint64_t number;
    engine* mine;
  };
  struct entries {
    std::vector<entry> all;
    ~entries() {
      for (entry const& e : all) {
        // The lock keeps the multiplexer alive meanwhile.
        std::lock_guard const lock(living().mutex);
        for (auto const& [number, m] : living().all)
          if (number == e.number) m->retire(e.mine);
      }
    }
  };
  static entries& this_threads() noexcept {
    static thread_local entries e;
    return e;
  }

  engine* find_mine() const noexcept {
    for (entry const& e : this_threads().all)
      if (e.number == number_) return e.mine;
    return nullptr;
  }

  engine* mine() noexcept {
    if (engine* const e = find_mine(); e != nullptr) [[likely]]
      return e;
    std::lock_guard const lock(mutex_);
    auto const slot = std::find(engines_.begin(), engines_.end(), nullptr);
    if (slot == engines_.end()) {
      why_none_ = detail::native(error::too_many_threads);
      return nullptr;
    }
    result<std::unique_ptr<backend>> b = best_backend();
    if (!b.has_value()) {
      bool const own = b.error().category() != std::system_category();
      why_none_ = own ? detail::native(static_cast<error>(b.error().value())) : -b.error().value();
      return nullptr;
    }
    *slot = std::make_unique<engine>(std::move(*b), this);
    this_threads().all.push_back({number_, slot->get()});
    return slot->get();
  }

  result<int> none() const noexcept { return detail::to_error_code(why_none_); }

  int run_shared(int max_items) noexcept override {
    int n = 0;
    // No more than there were: what they post is for the next turn.
    for (int left = std::min(max_items, posted_.load(std::memory_order_relaxed)); left > 0; --left) {
      work* w;
      {
        std::lock_guard const lock(mutex_);
        w = queue_.pop();
        if (w == nullptr) break;
        posted_.fetch_sub(1, std::memory_order_relaxed);
      }
      (*w)();
      ++n;
    }
    return n;
  }
  bool has_shared() noexcept override { return posted_.load(std::memory_order_seq_cst) != 0; }
  void count(int change) noexcept override {
    if (pending_.fetch_add(change, std::memory_order_acq_rel) + change != 0) return;
    std::lock_guard const lock(mutex_);
    for (std::unique_ptr<engine> const& e : engines_) // the last has ended: whoever sleeps is done
      if (e != nullptr) e->poke();
  }
  int pending() noexcept override { return pending_.load(std::memory_order_acquire); }

  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<engine>> engines_;
  work_queue queue_;
  std::atomic<int> posted_{0};
  std::atomic<int> pending_{0};
  int why_none_ = 0;
  std::uint64_t number_ = 0;
  unio::capabilities offered_; // what a thread can expect before it has begun
};

} // namespace

result<std::unique_ptr<io_multiplexer>> make_shared_multiplexer(int threads) noexcept {
  // Says now rather than later what would go wrong with each thread's own.
  result<std::unique_ptr<backend>> const b = best_backend();
  if (!b.has_value()) return b.error();
  return std::unique_ptr<io_multiplexer>(new shared_multiplexer(threads, **b));
}

} // namespace unio::driver
