// file_lock.hpp: locks on files and ranges, their guards, and each line of the header's table of guarantees
// that this machine can show. Every style on every driver: tests/op/operations_test.cpp.

#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <sys/file.h>

namespace {

using namespace test;
using unio::file_handle;

constexpr auto shared = lock_kind::shared;
constexpr auto exclusive = lock_kind::exclusive;
constexpr extent_type largest = (extent_type{1} << 63) - 1;

// A file in a directory of its own, which every handle opens anew.
class locked_file {
 public:
  locked_file() { directory_.write("file", "text"); }
  [[nodiscard]] file_handle open(mode m = mode::write) const {
    return file_handle::file(directory_.handle(), "file", m).value();
  }

 private:
  test::temporary_directory directory_;
};

// True if a handle that is opened now could lock this.
bool is_free(locked_file const& f, extent_type offset, extent_type bytes) {
  file_handle h = f.open();
  auto const r = h.try_lock_range(offset, bytes, exclusive);
  if (!r.has_value()) {
    EXPECT_EQ(r.error(), condition::would_block);
  }
  return r.has_value();
}

bool is_free(locked_file const& f) { return is_free(f, 0, largest + 1); }

// Runs `body` on a file in each filesystem that is at hand: the one for temporary files, tmpfs, and where
// this was built.
template <class Body> void on_each_filesystem(Body body) {
  std::vector<std::string> places = {std::filesystem::temp_directory_path().string(), "/dev/shm"};
  places.push_back(std::filesystem::read_symlink("/proc/self/exe").parent_path().string());
  for (std::string const& place : places) {
    if (::access(place.c_str(), W_OK) != 0) continue;
    SCOPED_TRACE(place);
    test::environment_variable const here("TMPDIR", place.c_str());
    locked_file const f;
    body(f);
  }
}

// A child that runs `body`, which gets a function that signals the parent and waits for its answer.
struct child_process : test::process {
  template <class Body>
  explicit child_process(Body body)
      : process([&](channel& with) {
          body([&] { with.say('x'), with.hear(); });
          return 0;
        }) {}
  [[nodiscard]] bool told() const { return hear() == 'x'; }
};

// ---- happy -----------------------------------------------------------------------------------------------

TEST(file_lock, keeps_another_handle_out_until_it_is_unlocked) {
  on_each_filesystem([](locked_file const& f) {
    file_handle ours = f.open();
    file_lock lock = ours.lock_file(exclusive).value();
    EXPECT_TRUE(lock.is_held());
    EXPECT_EQ(lock.kind(), exclusive);
    EXPECT_FALSE(is_free(f));
    EXPECT_TRUE(lock.unlock().has_value());
    EXPECT_FALSE(lock.is_held());
    EXPECT_TRUE(is_free(f));
    EXPECT_TRUE(lock.unlock().has_value()) << "unlocking what is not held";
  });
}

TEST(file_lock, ends_with_its_guard) {
  locked_file const f;
  file_handle ours = f.open();
  {
    file_lock const lock = ours.lock_range(10, 5, exclusive).value();
    EXPECT_EQ(lock.offset(), 10U);
    EXPECT_EQ(lock.bytes(), 5U);
    EXPECT_FALSE(is_free(f, 14, 1));
    EXPECT_TRUE(is_free(f, 15, 1));
    EXPECT_TRUE(is_free(f, 0, 10));
  }
  EXPECT_TRUE(is_free(f));
}

TEST(file_lock, is_shared_by_readers_and_keeps_writers_out) {
  on_each_filesystem([](locked_file const& f) {
    file_handle first = f.open(mode::read), second = f.open(mode::read), writer = f.open();
    file_lock const one = first.lock_range(0, 10, shared).value();
    file_lock two = second.lock_file(shared).value();
    EXPECT_EQ(writer.try_lock_range(5, 1, exclusive).error(), condition::would_block);
    two = {};
    EXPECT_EQ(writer.try_lock_range(5, 1, exclusive).error(), condition::would_block);
    EXPECT_TRUE(writer.try_lock_range(10, 1, exclusive).has_value());
  });
}

TEST(file_lock, on_the_whole_file_reaches_beyond_its_end) {
  locked_file const f;
  file_handle ours = f.open();
  file_lock const lock = ours.lock_file(exclusive).value();
  EXPECT_EQ(lock.offset(), 0U);
  EXPECT_EQ(lock.bytes(), largest + 1);
  EXPECT_FALSE(is_free(f, 1'000'000, 1));
  EXPECT_FALSE(is_free(f, largest, 1));
}

TEST(file_lock, unlocks_exactly_its_own_range_among_neighbours) {
  on_each_filesystem([](locked_file const& f) {
    file_handle ours = f.open();
    file_lock const first = ours.lock_range(0, 10, exclusive).value();
    auto middle = std::make_optional(ours.lock_range(10, 10, exclusive).value());
    file_lock const last =
        ours.lock_range(20, 10, exclusive).value(); // the kernel has one lock of 30 bytes now
    EXPECT_FALSE(is_free(f, 10, 10));
    middle.reset();
    EXPECT_TRUE(is_free(f, 10, 10));
    EXPECT_FALSE(is_free(f, 9, 1));
    EXPECT_FALSE(is_free(f, 20, 1));
  });
}

TEST(file_lock, moves_with_its_guard) {
  locked_file const f;
  file_handle ours = f.open();
  file_lock a = ours.lock_range(0, 1, exclusive).value();
  file_lock b(std::move(a));
  EXPECT_FALSE(a.is_held());
  EXPECT_TRUE(b.is_held());
  file_lock c = ours.lock_range(5, 1, exclusive).value();
  b = std::move(c); // which unlocks the first
  EXPECT_TRUE(is_free(f, 0, 1));
  EXPECT_FALSE(is_free(f, 5, 1));
  file_lock& same = b;
  b = std::move(same);
  EXPECT_TRUE(b.is_held());
  std::vector<file_lock> many;
  for (extent_type i = 10; i != 40; ++i) many.push_back(ours.lock_range(i, 1, exclusive).value());
  EXPECT_FALSE(is_free(f, 25, 1));
  EXPECT_EQ(ours.try_lock_range(25, 1, exclusive).error().value(), EDEADLK);
  many.erase(many.begin() + 15);
  EXPECT_TRUE(is_free(f, 25, 1));
  EXPECT_FALSE(is_free(f, 39, 1));
  many.clear();
  EXPECT_TRUE(is_free(f, 10, 30));
}

TEST(file_lock, released_is_held_until_the_handle_is_closed) {
  locked_file const f;
  file_handle ours = f.open();
  ours.lock_range(0, 1, exclusive).value().release();
  EXPECT_FALSE(is_free(f));
  ASSERT_TRUE(ours.close());
  EXPECT_TRUE(is_free(f));
}

TEST(file_lock, released_becomes_another_kind_without_a_moment_in_between) {
  locked_file const f;
  file_handle ours = f.open(), theirs = f.open();
  file_lock lock = ours.lock_range(0, 1, exclusive).value();
  lock.release();
  lock = ours.try_lock_range(0, 1, shared).value();
  EXPECT_TRUE(theirs.try_lock_range(0, 1, shared).has_value());
  EXPECT_EQ(theirs.try_lock_range(0, 1, exclusive).error(), condition::would_block);
  ASSERT_TRUE(lock.unlock());
  EXPECT_TRUE(is_free(f));
}

// ---- boundary --------------------------------------------------------------------------------------------

TEST(file_lock, takes_every_range_that_ends_at_the_largest_offset_or_before) {
  locked_file const f;
  file_handle ours = f.open();
  EXPECT_TRUE(ours.lock_range(largest, 1, exclusive).has_value());
  EXPECT_TRUE(ours.lock_range(0, largest + 1, exclusive).has_value());
  EXPECT_TRUE(ours.lock_range(1, largest, exclusive).has_value());
  EXPECT_TRUE(ours.lock_range(largest - 1, 1, exclusive).has_value());
  file_lock const lock = ours.lock_range(largest - 1, 1, exclusive).value();
  EXPECT_TRUE(is_free(f, largest, 1));
  EXPECT_TRUE(is_free(f, 0, largest - 1));
}

TEST(file_lock, refuses_ranges_that_there_are_not) {
  locked_file const f;
  file_handle ours = f.open();
  auto const refused = [&](extent_type offset, extent_type bytes) {
    auto const m = unio::io_multiplexer::best_available(1).value();
    int const blocking = ours.lock_range(offset, bytes, exclusive).error().value();
    ours.set_multiplexer(m.get());
    EXPECT_EQ(ours.lock_range(offset, bytes, exclusive).error().value(), blocking);
    ours.set_multiplexer(nullptr);
    return blocking;
  };
  EXPECT_EQ(refused(0, 0), EINVAL);
  EXPECT_EQ(refused(largest, 0), EINVAL);
  EXPECT_EQ(refused(largest, 2), EOVERFLOW);
  EXPECT_EQ(refused(largest + 1, 1), EOVERFLOW);
  EXPECT_EQ(refused(1, largest + 1), EOVERFLOW);
  EXPECT_EQ(refused(0, ~extent_type{0}), EOVERFLOW);
  EXPECT_EQ(refused(~extent_type{0}, ~extent_type{0}), EOVERFLOW);
  EXPECT_TRUE(is_free(f));
}

// ---- errors ----------------------------------------------------------------------------------------------

TEST(file_lock, needs_a_handle_that_was_opened_for_it) {
  on_each_filesystem([](locked_file const& f) {
    file_handle reads = f.open(mode::read), appends = f.open(mode::append), names = f.open(mode::none),
                closed;
    EXPECT_TRUE(reads.lock_file(shared).has_value());
    EXPECT_EQ(reads.lock_file(exclusive).error().value(), EBADF);
    EXPECT_TRUE(appends.lock_file(exclusive).has_value());
    EXPECT_EQ(appends.lock_file(shared).error().value(), EBADF);
    EXPECT_EQ(names.lock_file(shared).error().value(), EBADF);
    EXPECT_EQ(closed.lock_file(shared).error().value(), EBADF);
  });
}

TEST(file_lock, refuses_what_overlaps_a_lock_of_the_same_handle) {
  locked_file const f;
  file_handle ours = f.open();
  file_lock lock = ours.lock_range(10, 10, shared).value();
  EXPECT_EQ(ours.lock_range(19, 5, shared).error().value(), EDEADLK);
  EXPECT_EQ(ours.lock_range(5, 6, exclusive).error().value(), EDEADLK);
  EXPECT_EQ(ours.lock_file(shared, 1ms).error().value(), EDEADLK);
  EXPECT_EQ(ours.try_lock_range(12, 1, shared).error().value(), EDEADLK);
  EXPECT_TRUE(ours.lock_range(20, 5, exclusive).has_value());
  EXPECT_TRUE(ours.lock_range(0, 10, exclusive).has_value());
  file_handle theirs = f.open(mode::read);
  EXPECT_TRUE(theirs.try_lock_range(10, 10, shared).has_value()) << "another handle may";
  EXPECT_FALSE(is_free(f, 10, 10)) << "what was refused took the lock with it";
  ASSERT_TRUE(lock.unlock());
  EXPECT_TRUE(ours.lock_file(exclusive).has_value());
}

TEST(file_lock, refuses_a_range_that_another_thread_waits_for_through_the_same_handle) {
  locked_file const f;
  file_handle ours = f.open(), theirs = f.open();
  file_lock held = theirs.lock_file(exclusive).value();
  std::thread waiting([&] {
    std::error_code e;
    do e = ours.lock_file(exclusive).error(); // refused while the other thread tries, for the same reason
    while (e.value() == EDEADLK);
    EXPECT_FALSE(e) << e.message();
  });
  // Until that thread is asleep, what is tried finds the file locked.
  std::error_code e;
  auto const end = std::chrono::steady_clock::now() + long_time;
  do e = ours.try_lock_range(3, 1, exclusive).error();
  while (e == condition::would_block && std::chrono::steady_clock::now() < end);
  EXPECT_EQ(e.value(), EDEADLK);
  EXPECT_TRUE(held.unlock().has_value());
  waiting.join();
  EXPECT_TRUE(is_free(f));
}

TEST(file_lock, passes_on_what_the_system_says) {
  locked_file const f;
  file_handle ours = f.open();
  test::failing_calls calls;
  for (int const error : {ENOLCK, EIO, ESTALE, EINVAL}) {
    calls.fail<&table::fcntl>(error);
    EXPECT_EQ(ours.lock_file(exclusive).error().value(), error);
    calls.fail<&table::fcntl>(error);
    EXPECT_EQ(ours.lock_file(exclusive, 10s).error().value(), error)
        << "an error is not somebody who holds it";
  }
  calls.fail<&table::fcntl>(EACCES);
  EXPECT_EQ(ours.lock_file(exclusive).error().value(), EACCES);
  EXPECT_TRUE(ours.lock_file(exclusive).has_value());
}

TEST(file_lock, goes_on_after_a_signal_and_waits_for_what_is_said_to_be_held) {
  locked_file const f;
  file_handle ours = f.open();
  test::failing_calls calls;
  calls.fail<&table::fcntl>(EINTR, {.times = 3});
  EXPECT_TRUE(ours.lock_file(exclusive).has_value());
  calls.fail<&table::fcntl>(EACCES, {.times = 2});
  EXPECT_TRUE(ours.lock_file(exclusive, long_time).has_value());
  calls.fail<&table::fcntl>(EACCES);
  EXPECT_EQ(ours.try_lock_file(exclusive).error(), condition::would_block);
}

TEST(file_lock, still_holds_what_it_could_not_unlock) {
  locked_file const f;
  file_handle ours = f.open();
  file_lock lock = ours.lock_range(0, 5, exclusive).value();
  {
    test::failing_calls calls;
    calls.fail<&table::fcntl>(ENOLCK);
    EXPECT_EQ(lock.unlock().error().value(), ENOLCK);
  }
  EXPECT_TRUE(lock.is_held());
  EXPECT_FALSE(is_free(f));
  EXPECT_TRUE(lock.unlock().has_value());
  EXPECT_TRUE(is_free(f));
}

// ---- cost ------------------------------------------------------------------------------------------------

TEST(file_lock, costs_one_call_to_lock_and_one_to_unlock_and_sleeps_in_one) {
  locked_file const f;
  file_handle ours = f.open(), theirs = f.open();
  test::failing_calls calls;
  EXPECT_TRUE(ours.lock_file(exclusive).has_value());
  EXPECT_EQ(calls.count<&table::fcntl>(), 2);
  file_lock held = theirs.lock_file(exclusive).value();
  calls.fail<&table::fcntl>(0); // counts from here
  std::thread waiting([&] { EXPECT_TRUE(ours.lock_file(exclusive).has_value()); });
  std::this_thread::sleep_for(30ms);
  held = {};
  waiting.join();
  EXPECT_EQ(calls.count<&table::fcntl>(), 3); // theirs to unlock, ours to lock and to unlock
}

TEST(file_lock, asks_more_and_more_seldom_while_a_deadline_runs) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  locked_file const f;
  file_handle ours = f.open(), theirs = f.open();
  file_lock const held = theirs.lock_file(exclusive).value();
  for (unio::io_multiplexer* const on : {static_cast<unio::io_multiplexer*>(nullptr), m.get()}) {
    ours.set_multiplexer(on);
    test::failing_calls calls;
    EXPECT_EQ(ours.lock_file(exclusive, 95ms).error(), condition::timed_out);
    // At 0, 1, 3, 7, 15, 23, … 95 ms; a ring looks once more before it waits for the first time.
    EXPECT_LE(calls.count<&table::fcntl>(), 18);
    EXPECT_GE(calls.count<&table::fcntl>(), 2);
  }
}

// ---- deadlines and cancellation ---------------------------------------------------------------------------

// Plays on each driver, with a file that is locked by another handle, and looks that nothing is left behind.
template <class Body> void on_each_driver(Body body) {
  for (std::string const& driver : test::available_drivers()) {
    SCOPED_TRACE(driver);
    auto const m = test::make_multiplexer(driver.c_str()).value();
    locked_file const f;
    file_handle ours = f.open(), theirs = f.open();
    ours.set_multiplexer(m.get());
    file_lock held = theirs.lock_range(0, 10, exclusive).value();
    body(*m, ours, held);
    held = {};
    while (m->try_run().value_or(0) > 0) continue;
    EXPECT_EQ(m->counters().started, m->counters().finished);
    EXPECT_TRUE(is_free(f)) << "a lock was left behind";
  }
}

TEST(file_lock, leaves_nothing_behind_when_its_deadline_passes) {
  on_each_driver([](unio::io_multiplexer&, file_handle& ours, file_lock&) {
    EXPECT_EQ(ours.lock_range(5, 1, exclusive, 3ms).error(), condition::timed_out);
    EXPECT_EQ(ours.try_lock_range_for(5, 1, shared, 2ms).error(), condition::timed_out);
    EXPECT_EQ(ours.try_lock_file_until(exclusive, std::chrono::steady_clock::now() + 1ms).error(),
              condition::timed_out);
    EXPECT_EQ(ours.lock_file(exclusive, unio::deadline::zero()).error(), condition::would_block);
    EXPECT_TRUE(ours.try_lock_range(10, 1, exclusive).has_value());
  });
}

TEST(file_lock, leaves_nothing_behind_when_it_is_cancelled_around_the_moment_of_locking) {
  for (std::string const& driver : test::available_drivers()) {
    SCOPED_TRACE(driver);
    auto const m = test::make_multiplexer(driver.c_str()).value();
    locked_file const f;
    file_handle ours = f.open(), theirs = f.open();
    ours.set_multiplexer(m.get());
    for (int round = 0; round != 12; ++round) {
      file_lock held = theirs.lock_range(5, 10, exclusive).value();
      std::vector<unio::io_result<file_lock>> results;
      auto op = unio::connect(unio::async_lock_range(ours, 0, 10, exclusive), test::keep{&results});
      op.start();
      for (int i = 0; i < round / 4; ++i) (void)m->try_run_for(1ms);
      held = {};
      for (int i = 0; i < round % 4; ++i) (void)m->try_run_for(1ms);
      op.cancel();
      while (!op.finished()) ASSERT_TRUE(m->run().has_value());
      ASSERT_EQ(results.size(), 1U);
      if (results[0].error()) {
        EXPECT_EQ(results[0].error(), condition::canceled);
      }
      EXPECT_EQ(is_free(f, 0, 1), !results[0].has_value());
      results.clear();
      EXPECT_TRUE(is_free(f)) << "a lock was left behind";
    }
  }
}

TEST(file_lock, obtained_by_an_operation_that_is_destroyed_is_given_back) {
  on_each_driver([](unio::io_multiplexer& m, file_handle& ours, file_lock& held) {
    std::vector<unio::io_result<file_lock>> results;
    held = {};
    // Inside a posted item it is locked at once, but its receiver would be called only afterwards.
    auto starts_and_leaves = test::call([&] {
      auto op = unio::connect(unio::async_lock_range(ours, 0, 10, exclusive), test::keep{&results});
      op.start();
    });
    m.post(starts_and_leaves);
    ASSERT_TRUE(m.run().has_value());
    EXPECT_TRUE(results.empty());
    EXPECT_TRUE(ours.try_lock_range(0, 10, exclusive).has_value());
  });
}

TEST(file_lock, whose_result_nobody_asks_for_is_given_back) {
  locked_file const f;
  file_handle ours = f.open();
  {
    unio::async_lock_range op(ours, 0, 1, exclusive);
    op.run_blocking();
    EXPECT_FALSE(is_free(f));
  }
  EXPECT_TRUE(is_free(f));
  unio::async_lock_range op(ours, 0, 1, exclusive);
  op.run_blocking();
  op.reset();
  op.run_blocking();
  file_lock const lock = op.result().value();
  EXPECT_TRUE(lock.is_held());
  EXPECT_FALSE(op.result().value().is_held()) << "it is given once";
}

unio::task<> awaits(file_handle& ours, std::vector<std::string>& what) {
  {
    file_lock const first = (co_await ours.co_lock_range(20, 5, exclusive)).value();
    what.emplace_back("locked");
    auto const second = co_await ours.co_lock_range(0, 1, exclusive, 2ms);
    what.push_back(second.error() == condition::timed_out ? "timed out" : second.error().code().message());
    auto const third = co_await ours.try_co_lock_file(shared);
    what.push_back(third.error().value() == EDEADLK ? "refused" : third.error().code().message());
  }
  auto const last = co_await ours.try_co_lock_file(shared);
  what.push_back(last.error() == condition::would_block ? "would block" : last.error().code().message());
}

TEST(file_lock, is_awaited) {
  on_each_driver([](unio::io_multiplexer& m, file_handle& ours, file_lock&) {
    std::vector<std::string> what;
    bool ended = false;
    unio::async_run(m, awaits(ours, what), [&](auto&&...) { ended = true; });
    while (!ended) ASSERT_TRUE(m.run().has_value());
    EXPECT_EQ(what, (std::vector<std::string>{"locked", "timed out", "refused", "would block"}));
  });
}

unio::task<> awaits_in_vain(file_handle& ours, std::error_code& why) {
  why = (co_await ours.co_lock_file(exclusive)).error();
}

TEST(file_lock, is_given_up_when_its_coroutine_is_stopped) {
  on_each_driver([](unio::io_multiplexer& m, file_handle& ours, file_lock&) {
    std::error_code why;
    bool ended = false;
    unio::stop_source stop;
    unio::async_run(m, awaits_in_vain(ours, why), [&](auto&&...) { ended = true; },
                    {.stop = stop.get_token()});
    for (int i = 0; i != 10; ++i) (void)m.try_run_for(1ms);
    EXPECT_FALSE(ended);
    stop.request_stop();
    while (!ended) ASSERT_TRUE(m.run().has_value());
    EXPECT_EQ(why, condition::canceled);
  });
}

TEST(file_lock, is_granted_to_who_awaits_it_once_it_is_free) {
  on_each_driver([](unio::io_multiplexer& m, file_handle& ours, file_lock& held) {
    std::error_code why = std::make_error_code(std::errc::io_error);
    bool ended = false;
    unio::async_run(m, awaits_in_vain(ours, why), [&](auto&&...) { ended = true; });
    for (int i = 0; i != 10; ++i) (void)m.try_run_for(1ms);
    EXPECT_FALSE(ended);
    held = {};
    while (!ended) ASSERT_TRUE(m.run().has_value());
    EXPECT_FALSE(why) << why.message();
  });
}

// ---- threads of one process -------------------------------------------------------------------------------

TEST(file_lock, excludes_threads_that_opened_the_file_separately) {
  on_each_filesystem([](locked_file const& f) {
    std::atomic<int> counter = 0; // read and written, not incremented: only the lock keeps it right
    std::atomic<int> inside = 0;
    constexpr int rounds = 200;
    test::threads threads(4, [&](int t) {
      file_handle h = f.open();
      for (int i = 0; i != rounds; ++i) {
        // Some sleep in the kernel, some come back.
        auto const lock =
            t % 2 == 0 ? h.lock_range(7, 3, exclusive) : h.lock_range(8, 1, exclusive, long_time);
        ASSERT_TRUE(lock.has_value()) << lock.error().code().message();
        EXPECT_EQ(++inside, 1);
        int const before = counter;
        if (i % 16 == 0) std::this_thread::yield();
        counter = before + 1;
        --inside;
      }
    });
    threads.join();
    EXPECT_EQ(counter, 4 * rounds);
  });
}

TEST(file_lock, of_distinct_ranges_is_taken_by_many_threads_through_one_handle) {
  locked_file const f;
  file_handle h = f.open();
  test::threads threads(4, [&](extent_type t) {
    for (int i = 0; i != 500; ++i) EXPECT_TRUE(h.lock_range(t * 10, 10, exclusive).has_value());
  });
  threads.join();
  EXPECT_TRUE(is_free(f));
}

// ---- what becomes of its handle ---------------------------------------------------------------------------

TEST(file_lock, is_not_lost_when_another_descriptor_of_the_file_is_closed) {
  on_each_filesystem([](locked_file const& f) {
    file_handle ours = f.open();
    file_lock const lock = ours.lock_file(exclusive).value();
    {
      file_handle const other = f.open();
    }
    EXPECT_FALSE(is_free(f)); // which opens and closes another as well
    EXPECT_FALSE(is_free(f));
  });
}

TEST(file_lock, goes_with_its_handle_and_leaves_the_next_one_of_that_number_alone) {
  locked_file const f;
  file_handle ours = f.open();
  int const number = ours.native_handle();
  file_lock lock = ours.lock_range(0, 10, exclusive).value();
  ASSERT_TRUE(ours.close());
  EXPECT_TRUE(is_free(f));
  file_handle next = f.open();
  ASSERT_EQ(next.native_handle(), number);
  file_lock const theirs = next.lock_range(0, 10, exclusive).value(); // not refused for the old guard's sake
  EXPECT_TRUE(lock.unlock().has_value());
  EXPECT_FALSE(is_free(f));
}

TEST(file_lock, of_a_clone_is_the_same_owners) {
  locked_file const f;
  file_handle ours = f.open();
  file_lock const lock = ours.lock_range(0, 1, exclusive).value();
  file_handle clone = ours.clone().value();
  ASSERT_TRUE(ours.close());
  EXPECT_FALSE(is_free(f)) << "the clone keeps it";
  ASSERT_TRUE(clone.close());
  EXPECT_TRUE(is_free(f));
}

TEST(file_lock, of_a_mapped_file_is_that_of_the_file) {
  test::temporary_directory const directory;
  directory.write("file", "text");
  auto mapped = unio::mapped_file_handle::mapped_file(directory.handle(), "file", mode::write).value();
  file_handle other = file_handle::file(directory.handle(), "file", mode::write).value();
  file_lock const lock = mapped.lock_range(0, 1, exclusive).value();
  EXPECT_EQ(other.try_lock_file(exclusive).error(), condition::would_block);
}

// ---- processes --------------------------------------------------------------------------------------------

TEST(file_lock, excludes_processes) {
  on_each_filesystem([](locked_file const& f) {
    constexpr int rounds = 200;
    auto const count = [&f] {
      file_handle h = f.open();
      for (int i = 0; i != rounds; ++i) {
        auto const lock = h.lock_file(exclusive);
        std::uint64_t n = 0;
        if (!lock || !h.read({unio::mutable_buffer(&n, sizeof n), 8})) return false;
        ++n;
        if (!h.write({unio::const_buffer(&n, sizeof n), 8})) return false;
      }
      return true;
    };
    {
      file_handle h = f.open();
      ASSERT_TRUE(h.truncate(16).has_value());
      ASSERT_TRUE(h.zero(0, 16).has_value());
    }
    auto const body = [&](auto const&) {
      if (!count()) ::_exit(1);
    };
    child_process first(body), second(body);
    EXPECT_TRUE(count());
    EXPECT_EQ(first.wait(), 0);
    EXPECT_EQ(second.wait(), 0);
    std::uint64_t n = 0;
    file_handle h = f.open();
    ASSERT_TRUE(h.read({unio::mutable_buffer(&n, sizeof n), 8}).has_value());
    EXPECT_EQ(n, 3U * rounds);
  });
}

TEST(file_lock, of_a_killed_process_is_given_back_to_who_waits) {
  on_each_filesystem([](locked_file const& f) {
    for (bool const sleeps : {true, false}) {
      child_process holder([&](auto const& tell) {
        file_handle h = f.open();
        auto const lock = h.lock_file(exclusive);
        if (lock) tell();
      });
      ASSERT_TRUE(holder.told());
      file_handle ours = f.open();
      EXPECT_EQ(ours.try_lock_file(exclusive).error(), condition::would_block);
      std::thread waiting([&] {
        auto const lock = sleeps ? ours.lock_file(exclusive) : ours.lock_file(exclusive, long_time);
        EXPECT_TRUE(lock.has_value()) << lock.error().code().message();
      });
      std::this_thread::sleep_for(5ms);
      holder.kill();
      waiting.join();
    }
  });
}

TEST(file_lock, of_a_stopped_process_is_not_taken_from_it) {
  locked_file const f;
  child_process holder([&](auto const& tell) {
    file_handle h = f.open();
    auto const lock = h.lock_file(exclusive);
    if (lock) ::raise(SIGSTOP);
    tell();
  });
  file_handle ours = f.open();
  auto const end = std::chrono::steady_clock::now() + long_time;
  while (ours.try_lock_file(exclusive).has_value()) ASSERT_LT(std::chrono::steady_clock::now(), end);
  EXPECT_EQ(ours.lock_file(exclusive, 20ms).error(), condition::timed_out);
  holder.kill();
  EXPECT_TRUE(ours.lock_file(exclusive, long_time).has_value());
}

TEST(file_lock, is_kept_by_a_forked_child_until_both_have_closed_it) {
  on_each_filesystem([](locked_file const& f) {
    file_handle ours = f.open();
    file_lock lock = ours.lock_file(exclusive).value();
    child_process child([](auto const& tell) { tell(); });
    ASSERT_TRUE(child.told());
    lock.release();
    ASSERT_TRUE(ours.close());
    EXPECT_FALSE(is_free(f));
    child.kill();
    EXPECT_TRUE(is_free(f));
  });
}

// One byte, with room for a descriptor.
struct message {
  message() {
    header.msg_iov = &bytes;
    header.msg_iovlen = 1;
    header.msg_control = control.data();
    header.msg_controllen = control.size();
  }
  message(message const&) = delete;
  message& operator=(message const&) = delete;

  char byte = 'x';
  iovec bytes{.iov_base = &byte, .iov_len = 1};
  alignas(cmsghdr) std::array<char, CMSG_SPACE(sizeof(int))> control{};
  msghdr header = {};
};

TEST(file_lock, is_kept_by_who_was_sent_the_descriptor) {
  locked_file const f;
  int ends[2];
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
  child_process receiver([&](auto const& tell) {
    message m;
    if (::recvmsg(ends[1], &m.header, MSG_CMSG_CLOEXEC) != 1 || CMSG_FIRSTHDR(&m.header) == nullptr)
      ::_exit(8);
    tell();
  });
  {
    file_handle ours = f.open();
    file_lock lock = ours.lock_file(exclusive).value();
    message m;
    cmsghdr* const h = CMSG_FIRSTHDR(&m.header);
    *h = {.cmsg_len = CMSG_LEN(sizeof(int)), .cmsg_level = SOL_SOCKET, .cmsg_type = SCM_RIGHTS};
    int const sent = ours.native_handle();
    std::memcpy(CMSG_DATA(h), &sent, sizeof sent);
    ASSERT_EQ(::sendmsg(ends[0], &m.header, 0), 1);
    ASSERT_TRUE(receiver.told());
    lock.release();
  }
  EXPECT_FALSE(is_free(f));
  receiver.kill();
  EXPECT_TRUE(is_free(f));
  ::close(ends[0]);
  ::close(ends[1]);
}

TEST(file_lock, is_not_unlocked_by_what_a_child_destroys) {
  locked_file const f;
  file_handle ours = f.open();
  auto lock = std::make_optional(ours.lock_file(exclusive).value());
  child_process child([&](auto const& tell) {
    lock.reset();
    // What the child locks itself is its own, also through the handle that it inherited.
    ours.lock_range(0, 1, exclusive).value().release();
    tell();
  });
  ASSERT_TRUE(child.told());
  EXPECT_FALSE(is_free(f));
  child.say('x');
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(is_free(f));
  lock.reset();
  EXPECT_TRUE(is_free(f));
}

TEST(file_lock, is_unlocked_by_a_child_that_says_so_for_both) {
  locked_file const f;
  file_handle ours = f.open();
  file_lock lock = ours.lock_file(exclusive).value();
  child_process child([&](auto const& tell) {
    if (lock.unlock()) tell();
  });
  ASSERT_TRUE(child.told());
  EXPECT_TRUE(is_free(f));
  EXPECT_TRUE(lock.unlock().has_value());
}

// A thread takes and gives back locks all the time, so that a fork may come while it changes the list.
TEST(file_lock, can_be_taken_in_a_child_whatever_other_threads_did_when_it_was_forked) {
  locked_file const f;
  std::atomic<bool> enough = false;
  std::thread busy([&] {
    file_handle h = f.open();
    while (!enough) EXPECT_TRUE(h.lock_range(100, 1, exclusive).has_value());
  });
  for (int i = 0; i != 50; ++i) {
    child_process child([&](auto const&) {
      file_handle h = f.open();
      if (!h.lock_range(0, 1, exclusive)) ::_exit(1);
    });
    EXPECT_EQ(child.wait(), 0);
  }
  enough = true;
  busy.join();
}

TEST(file_lock, conflicts_with_the_posix_locks_of_a_process_and_not_with_flock) {
  locked_file const f;
  child_process holder([&](auto const& tell) {
    file_handle const h = f.open();
    struct flock l{};
    l.l_type = F_WRLCK;
    l.l_len = 1;
    if (::fcntl(h.native_handle(), F_SETLK, &l) == 0) tell();
  });
  ASSERT_TRUE(holder.told());
  EXPECT_FALSE(is_free(f, 0, 1));
  EXPECT_TRUE(is_free(f, 1, 1));
  file_handle const flocked = f.open();
  ASSERT_EQ(::flock(flocked.native_handle(), LOCK_EX), 0);
  EXPECT_TRUE(is_free(f, 1, 1));
}

} // namespace
