// Programs of coroutines that a seed draws: tasks that wait for each other, for all or the first of several,
// in groups, on strands, for locks and channels, with time limits; that throw, are stopped, or are destroyed
// at any moment. Whatever they do, nothing runs that is destroyed, and all that was taken is given back.

#include "support.hpp"
#include "support/other_thread.hpp"
#include "support/test.hpp"

#include <unio/async_task.hpp>

#include <atomic>

namespace {

using namespace test;

struct thrown_away {};

/// What the tasks of a program share.
struct shared_things {
  explicit shared_things(simulation& s) : draw(s.seed() * 2 + 1), of(s.multiplexer().executor()) {
    for (auto& [in, out] : pipes) {
      auto ends = s.pipe();
      in = std::move(ends.reader);
      out = std::move(ends.writer);
    }
  }
  std::chrono::nanoseconds span() { return std::chrono::microseconds(draw.below(40)); }
  bool one_in(std::uint64_t n) { return draw.below(n) == 0; }

  dice draw;
  std::atomic<int> alive = 0;
  int begun = 0;
  std::array<unio::async_mutex, 2> mutexes;
  unio::semaphore permits{2};
  unio::auto_reset_event once;
  unio::event open;
  std::array<unio::channel<int>, 2> channels{unio::channel<int>(0), unio::channel<int>(1)};
  strand<unio::multiplexer_executor> of;
  std::array<std::pair<pipe_handle, pipe_handle>, 2> pipes;
};

struct permits_taken {
  shared_things& t;
  std::uint32_t n;
  ~permits_taken() { t.permits.release(n); }
};

// One thing that may wait.
task<> waits(shared_things& t) {
  counted const here(t.alive);
  ++t.begun;
  auto& [in, out] = t.pipes[t.draw.below(t.pipes.size())];
  auto& channel = t.channels[t.draw.below(t.channels.size())];
  std::array<char, 3000> room{};
  switch (t.draw.below(14)) {
    case 0:
      (void)co_await co_sleep(t.one_in(8) ? std::chrono::nanoseconds(1h) : t.span());
      break;
    case 1:
      co_await unio::co_yield_now();
      break;
    case 2: {
      auto const held = co_await t.mutexes[t.draw.below(t.mutexes.size())].co_lock();
      (void)co_await co_sleep(t.span());
      break;
    }
    case 3: {
      auto const n = static_cast<std::uint32_t>(1 + t.draw.below(2));
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
      (void)co_await in.co_read(mutable_buffer(room.data(), 8),
                                t.one_in(2) ? deadline(t.span()) : deadline());
      break;
    case 11:
      (void)co_await out.co_write(const_buffer(room.data(), 8));
      break;
    case 12:
      (void)co_await unio::co_write(out, const_buffer(room));
      break;
    default:
      throw thrown_away();
  }
}

// `stays`: nothing goes to a strand, because what is destroyed there lets others run (docs/limits.md).
task<int> does(shared_things& t, int depth, bool stays);

// An exception of a task that no other waits for would end the program.
task<> does_calmly(shared_things& t, int depth, bool stays) {
  try {
    (void)co_await does(t, depth, stays);
  } catch (thrown_away const&) {
    co_return;
  } catch (std::system_error const&) { // a time limit
    co_return;
  }
}

unio::async_generator<int> makes(shared_things& t, int depth, bool stays) {
  counted const here(t.alive);
  for (std::uint64_t n = t.draw.below(4); n != 0; --n) co_yield co_await does(t, depth, stays);
}

task<> goes_in_a_group(shared_things& t, int depth) {
  task_group group(co_await this_coro::environment);
  for (std::uint64_t n = t.draw.below(5); n != 0; --n) {
    if (t.one_in(2)) {
      group.start(does_calmly(t, depth, true));
    } else {
      group.start(does(t, depth, true), [&t](task_outcome<int> const&) { t.open.set(); });
    }
  }
  if (t.one_in(3)) (void)co_await co_sleep(t.span());
  if (t.one_in(3)) group.request_stop();
  if (t.one_in(2)) co_return; // and the group goes with what runs in it
  if (t.one_in(3)) {
    (void)co_await timeout(t.span(), group.co_join());
  } else {
    co_await group.co_join();
  }
}

// A step of a task: what it waits for is made of other tasks.
task<> takes_a_step(shared_things& t, int depth, bool stays) {
  auto const another = [&] { return does(t, depth, stays); };
  switch (t.draw.below(12)) {
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
      if (!stays) (void)co_await run_on(t.of, does(t, depth, true));
      break;
    case 7: {
      std::vector<task<int>> several;
      for (std::uint64_t n = 1 + t.draw.below(3); n != 0; --n) several.push_back(another());
      t.one_in(2) ? (void)co_await when_all(several) : (void)co_await when_any(several);
      break;
    }
    case 8: {
      auto items = makes(t, depth, stays);
      for (std::uint64_t n = t.draw.below(4); n != 0 && co_await items.co_next(); --n) continue;
      break;
    }
    case 9: {
      auto const held = co_await t.mutexes[t.draw.below(t.mutexes.size())].co_lock();
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

task<int> does(shared_things& t, int depth, bool stays) {
  counted const here(t.alive);
  if (depth == 0 || t.begun > 400) {
    co_await waits(t);
    co_return 1;
  }
  for (std::uint64_t n = 1 + t.draw.below(3); n != 0; --n) {
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

task<result<void>> is_the_program(shared_things& t) {
  (void)co_await timeout(50us + 10 * t.span(), does_calmly(t, 4, false));
  co_return {};
}

SEEDED_TEST(simulated_programs, of_coroutines_give_everything_back_however_they_end, 1000) {
  shared_things t(s);
  {
    auto program = unio::connect(unio::async_task(is_the_program(t)), ignore{});
    program.start(&s.multiplexer());
    bool const destroys = t.one_in(3), cancels = t.one_in(3);
    std::uint64_t turns = t.draw.below(60);
    EXPECT_TRUE(run_until(s, [&] {
      if (program.finished()) return true;
      if (turns-- != 0) return false;
      if (cancels) program.cancel();
      return destroys;
    }));
  }
  EXPECT_EQ(t.alive, 0);
  for (auto& m : t.mutexes) EXPECT_TRUE(m.try_lock());
  EXPECT_TRUE(t.permits.try_acquire(2));
  EXPECT_FALSE(t.permits.try_acquire());
}

} // namespace
