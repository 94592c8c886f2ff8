// Programs of coroutines that are drawn: tasks that wait for each other, for all or the first of several, in
// groups, on strands, for locks and channels, with time limits; that throw, are stopped, or, where one thread
// runs them, are destroyed at any moment.

#pragma once

#include "support/other_thread.hpp"
#include "support/test.hpp"
#include "testing/random.hpp"

#include <unio/thread_pool.hpp>

#include <array>
#include <atomic>

namespace test::any_coroutines {

struct thrown_away {};

/// What the tasks of a program share. `has_threads`: several run them. Then nothing is destroyed that waits,
/// each end of a pipe is one task's at a time, and tasks go to `other`, too.
struct shared_things {
  shared_things(executor_ref where, std::uint64_t s, int most_begun, bool several = false,
                executor_ref elsewhere = {})
      : has_threads(several), other(elsewhere), most(most_begun), seed(s), of(where) {
    for (pipe& p : pipes) {
      auto ends = pipe_handle::anonymous().value();
      p.in = std::move(ends.reader);
      p.out = std::move(ends.writer);
      p.in.set_multiplexer(where.multiplexer());
      p.out.set_multiplexer(where.multiplexer());
    }
  }
  std::uint64_t below(std::uint64_t bound) {
    return unio::testing::random_source(seed * 7919 + ++drawn).next() % bound;
  }
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  std::chrono::nanoseconds span() { return std::chrono::microseconds(below(40)); }
  template <class Things> auto& one_of(Things& things) { return things[below(things.size())]; }
  [[nodiscard]] bool all_is_back() {
    return alive == 0 && mutexes[0].try_lock() && mutexes[1].try_lock() && permits.try_acquire(2) &&
           !permits.try_acquire();
  }

  bool const has_threads;
  executor_ref const other;
  int const most;
  std::uint64_t const seed;
  std::atomic<std::uint64_t> drawn = 0;
  std::atomic<int> alive = 0, begun = 0;
  std::array<async_mutex, 2> mutexes;
  semaphore permits{2};
  auto_reset_event once;
  event open;
  std::array<channel<int>, 2> channels{channel<int>(0), channel<int>(1)};
  strand<executor_ref> of;
  struct pipe {
    pipe_handle in, out;
    std::atomic<bool> is_read = false, is_written = false;
  };
  std::array<pipe, 2> pipes;
};

/// An end of a pipe, while this lives; false if another task of another thread may have it.
class mine {
 public:
  mine(shared_things const& t, std::atomic<bool>& taken)
      : taken_(t.has_threads ? &taken : nullptr), is_mine_(taken_ == nullptr || !taken_->exchange(true)) {}
  mine(mine const&) = delete;
  ~mine() {
    if (taken_ != nullptr && is_mine_) *taken_ = false;
  }
  explicit operator bool() const { return is_mine_; }

 private:
  std::atomic<bool>* taken_;
  bool is_mine_;
};

struct permits_taken {
  shared_things& t;
  std::uint32_t n;
  ~permits_taken() { t.permits.release(n); }
};

// One thing that may wait.
inline task<> waits(shared_things& t) {
  counted const here(t.alive);
  ++t.begun;
  auto& [in, out, is_read, is_written] = t.one_of(t.pipes);
  auto& channel = t.one_of(t.channels);
  std::array<char, 3000> room{};
  switch (t.below(15)) {
    case 0:
      (void)co_await co_sleep(t.one_in(8) ? std::chrono::nanoseconds(1h) : t.span());
      break;
    case 1:
      co_await unio::co_yield_now();
      break;
    case 2: {
      auto const held = co_await t.one_of(t.mutexes).co_lock();
      (void)co_await co_sleep(t.span());
      break;
    }
    case 3: {
      auto const n = static_cast<std::uint32_t>(1 + t.below(2));
      if (!(co_await t.permits.co_acquire(n)).has_value()) break;
      permits_taken const taken{t, n};
      (void)co_await co_sleep(t.span());
      break;
    }
    case 4:
      (void)co_await t.once.co_wait();
      break;
    case 5:
      t.once.set();
      break;
    case 6:
      (void)co_await t.open.co_wait();
      break;
    case 7:
      t.open.set();
      if (t.one_in(2)) t.open.reset();
      break;
    case 8:
      (void)co_await channel.co_send(1);
      break;
    case 9:
      (void)co_await channel.co_receive();
      break;
    case 10:
      if (mine const end(t, is_read); end)
        (void)co_await in.co_read(mutable_buffer(room.data(), 8),
                                  t.one_in(2) ? deadline(t.span()) : deadline());
      break;
    case 11:
      if (mine const end(t, is_written); end) (void)co_await out.co_write(const_buffer(room.data(), 8));
      break;
    case 12:
      if (mine const end(t, is_written); end) (void)co_await unio::co_write(out, const_buffer(room));
      break;
    case 13:
      co_await unio::co_fork();
      break;
    default:
      throw thrown_away();
  }
}

// `stays`: nothing goes to a strand, because what is destroyed there lets others run (docs/limits.md).
inline task<int> does(shared_things& t, int depth, bool stays);

// An exception of a task that no other waits for would end the program.
inline task<> does_calmly(shared_things& t, int depth, bool stays) {
  try {
    (void)co_await does(t, depth, stays);
  } catch (thrown_away const&) {
    co_return;
  } catch (std::system_error const&) { // a time limit
    co_return;
  }
}

inline async_generator<int> makes(shared_things& t, int depth, bool stays) {
  counted const here(t.alive);
  for (std::uint64_t n = t.below(4); n != 0; --n) co_yield co_await does(t, depth, stays);
}

inline task<> goes_in_a_group(shared_things& t, int depth) {
  task_group group(co_await this_coro::environment);
  for (std::uint64_t n = t.below(5); n != 0; --n) {
    if (t.one_in(2)) {
      group.start(does_calmly(t, depth, !t.has_threads));
    } else {
      group.start(does(t, depth, !t.has_threads), [&t](task_outcome<int> const&) { t.open.set(); });
    }
  }
  if (t.one_in(3)) (void)co_await co_sleep(t.span());
  if (t.one_in(3)) group.request_stop();
  if (!t.has_threads && t.one_in(2)) co_return; // and the group goes with what runs in it
  if (t.one_in(3)) {
    (void)co_await timeout(t.span(), group.co_join()); // which waits for them, too
  } else {
    co_await group.co_join();
  }
}

// A step of a task: what it waits for is made of other tasks.
inline task<> takes_a_step(shared_things& t, int depth, bool stays) {
  auto const another = [&] { return does(t, depth, stays); };
  switch (t.below(12)) {
    case 0:
      (void)co_await when_all(another(), another());
      break;
    case 1:
      (void)co_await when_any(another(), another(), waits(t));
      break;
    case 2:
      (void)co_await race(another(), another());
      break;
    case 3:
      (void)co_await timeout(t.span(), another());
      break;
    case 4:
    case 5:
      co_await goes_in_a_group(t, depth);
      break;
    case 6:
      if (t.other && t.one_in(2)) {
        (void)co_await run_on(t.other, another());
      } else if (!stays) {
        (void)co_await run_on(t.of, does(t, depth, true));
      }
      break;
    case 7: {
      std::vector<task<int>> several;
      for (std::uint64_t n = 1 + t.below(3); n != 0; --n) several.push_back(another());
      t.one_in(2) ? (void)co_await when_all(several) : (void)co_await when_any(several);
      break;
    }
    case 8: {
      auto items = makes(t, depth, stays);
      for (std::uint64_t n = t.below(4); n != 0 && co_await items.co_next(); --n) continue;
      break;
    }
    case 9: {
      auto const held = co_await t.one_of(t.mutexes).co_lock();
      (void)co_await timeout(t.span(), another());
      break;
    }
    case 10: {
      task<int> const never_started = another();
      break;
    }
    default:
      co_await waits(t);
      break;
  }
}

inline task<int> does(shared_things& t, int depth, bool stays) {
  counted const here(t.alive);
  if (depth == 0 || t.begun > t.most) {
    co_await waits(t);
    co_return 1;
  }
  for (std::uint64_t n = 1 + t.below(3); n != 0; --n) {
    bool fails = false;
    try {
      co_await takes_a_step(t, depth - 1, stays);
    } catch (thrown_away const&) {
      fails = t.one_in(3);
    } catch (std::system_error const&) {
      fails = t.one_in(3);
    }
    if (fails) throw thrown_away();
  }
  co_return 0;
}

// ---- on threads -------------------------------------------------------------------------------------------

/// One to three programs, on threads that run `m`, and, unless they stay there, on one of another pool: a
/// multiplexer does not know what waits for another one, and may not end before it.
class programs {
 public:
  programs(io_multiplexer& m, std::uint64_t seed, bool stay = false)
      : where_(m),
        elsewhere_(pool_.executor()),
        things(where_, seed, 40, true, stay ? executor_ref() : executor_ref(elsewhere_)),
        count_(1 + static_cast<int>(seed % 3)) {
    for (int i = 0; i != count_; ++i)
      async_run(where_, is_one(things), [this](task_outcome<void> const& r) { end(r); },
                {.stop = stop_.get_token()});
  }
  void stop() { stop_.request_stop(); }
  void stop_or_not() {
    if (things.one_in(2)) return;
    std::this_thread::sleep_for(things.span());
    stop();
  }
  [[nodiscard]] bool have_ended() const { return ended_ == count_; }
  /// Once nothing runs them any more.
  [[nodiscard]] bool gave_all_back() {
    pool_.join();
    return !is_wrong_ && things.all_is_back();
  }

 private:
  static task<> is_one(shared_things& t) {
    (void)co_await timeout(50us + 10 * t.span(), does_calmly(t, 3, false));
  }
  void end(task_outcome<void> const& r) {
    if (!r.has_value() || ++ended_ > count_) is_wrong_ = true;
  }

  thread_pool pool_{1};
  multiplexer_executor where_, elsewhere_;
  stop_source stop_;
  std::atomic<int> ended_{0};
  std::atomic<bool> is_wrong_{false};

 public:
  shared_things things;

 private:
  int const count_;
};

// Each returns whether all was given back, and nothing ended twice or with an exception.

inline bool run_on_a_pool(std::uint64_t seed) {
  thread_pool pool(2);
  programs p(pool.multiplexer(), seed);
  p.stop_or_not();
  while (!p.have_ended()) std::this_thread::yield(); // the pool does not know what runs elsewhere
  pool.join();
  return p.gave_all_back();
}

inline bool run_until_the_pool_ends(std::uint64_t seed) {
  std::optional<thread_pool> pool(2);
  programs p(pool->multiplexer(), seed, true);
  std::this_thread::sleep_for(p.things.span());
  pool->stop();
  std::thread stops([&] { p.stop(); });
  stops.join();
  pool.reset();
  return p.gave_all_back();
}

inline bool run_until_the_multiplexer_ends(std::uint64_t seed) {
  auto m = io_multiplexer::best_available(1).value();
  programs p(*m, seed, true);
  for (auto n = p.things.below(60); n != 0; --n) (void)m->try_run();
  p.stop();
  m.reset();
  return p.gave_all_back();
}

inline bool run_on_threads_that_come_and_go(std::uint64_t seed) {
  auto const m = io_multiplexer::best_available(3).value();
  programs p(*m, seed);
  std::vector<std::thread> threads;
  for (int i = 0; i != 3; ++i)
    threads.emplace_back([&] {
      for (auto n = p.things.below(8); n != 0; --n)
        (void)(p.things.one_in(2) ? m->try_run() : m->try_run_for(p.things.span()));
    });
  p.stop_or_not();
  while (!p.have_ended()) (void)m->try_run_for(10us);
  while (m->run().value() != 0) continue;
  for (std::thread& t : threads) t.join();
  return p.gave_all_back();
}

} // namespace test::any_coroutines
