// Blocking calls that have to wait drive a multiplexer: the one that their handle was given, or else the
// calling thread's own where that has anything to run.
//
// In most tests what the call waits for is brought by a receiver of that multiplexer, on the same thread.

#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <unio/process_handle.hpp>

namespace {

using namespace test;

constexpr auto at_most = 10s; // nothing takes so long unless it hangs

/// Has `f` run on a thread whose own multiplexer is on `driver`.
void with_own(std::string const& driver, std::function<void(io_multiplexer&)> const& f) {
  test::environment_variable const chosen("UNIO_DRIVER", driver.c_str());
  std::thread([&] { f(unio::this_thread::multiplexer()); }).join();
}

struct place {
  std::string driver;
  bool is_set; ///< the multiplexer is that of the handles, and not the thread's own
};
void PrintTo(place const& p, std::ostream* out) { *out << p.driver << (p.is_set ? ", set" : ", own"); }

class blocking : public ::testing::TestWithParam<place> {
 protected:
  void SetUp() override {
    if (auto const made = test::make_multiplexer(GetParam().driver.c_str()); !made.has_value())
      GTEST_SKIP() << GetParam().driver << ": " << made.error().message();
  }
  /// `f(m, of_handles)`, on a thread that runs `m`.
  static void play(std::function<void(io_multiplexer&, io_multiplexer*)> const& f) {
    if (!GetParam().is_set) return with_own(GetParam().driver, [&](io_multiplexer& m) { f(m, nullptr); });
    auto const m = test::make_multiplexer(GetParam().driver.c_str()).value();
    std::thread([&] { f(*m, m.get()); }).join();
  }
};

INSTANTIATE_TEST_SUITE_P(on, blocking,
                         ::testing::Values(place{"uring", false}, place{"epoll", false}, place{"uring", true},
                                           place{"epoll", true}),
                         [](auto const& of) {
                           return of.param.driver + (of.param.is_set ? "_set" : "_own");
                         });

class own : public test::on_each_driver {};
UNIO_ON_BOTH_DRIVERS(own);

/// Calls `f` after a moment, as the receiver of a timer on `m`.
class soon {
 public:
  soon(io_multiplexer& m, std::function<void()> f)
      : timer_(5ms, &m), op_(unio::connect(unio::async_wait(timer_), calls{std::move(f)})) {
    op_.start();
  }

 private:
  unio::timer_handle timer_;
  decltype(unio::connect(unio::async_wait(std::declval<unio::timer_handle&>()), calls{})) op_;
};

TEST_P(blocking, read_is_ended_by_what_a_receiver_does_meanwhile) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    char memory[8];
    for (int i = 0; i != 3; ++i) { // also when it has learnt that it has to wait
      soon const write(m, [&] { put(p.writer, "x"); });
      EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 1U);
    }
  });
}

TEST_P(blocking, call_lets_others_reach_their_deadlines_and_read) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    auto other = test::pipe_on(&m);
    auto silent = test::pipe_on(&m);
    char memory[8], memory2[8], memory3[8];
    watched in_vain{unio::async_read(silent.reader, unio::mutable_buffer(memory3), 5ms)};
    in_vain.start();
    auto second = unio::connect(unio::async_read(other.reader, unio::mutable_buffer(memory2)),
                                calls{[&] { put(p.writer, "xy"); }});
    second.start();
    soon const write(m, [&] { put(other.writer, "x"); });
    soon const later(m, [] {});
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 2U);
    while (!in_vain.finished()) ASSERT_TRUE(m.run().has_value());
    EXPECT_EQ(in_vain.error, condition::timed_out);
  });
}

TEST_P(blocking, verbs_that_wait_for_others_all_drive) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    char memory[64];
    { // write
      auto p = test::pipe_on(set);
      std::string const much(1 << 17, 'x');
      while (p.writer.try_write(unio::const_buffer(much.data(), much.size())).has_value()) continue;
      soon const drain(m, [&] { (void)test::take(p.reader, 1 << 16); });
      EXPECT_TRUE(p.writer.write(unio::const_buffer(much.data(), 1), at_most).has_value()) << "write";
    }
    { // poll
      auto p = test::pipe_on(set);
      soon const write(m, [&] { put(p.writer, "x"); });
      EXPECT_TRUE(p.reader.poll(unio::readiness::readable, at_most).has_value()) << "poll";
    }
    { // accept
      auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
      listener.set_multiplexer(set);
      unio::socket_handle to = unio::socket_handle::create(unio::address_family::ipv4).value();
      soon const connect(m, [&] { EXPECT_TRUE(to.connect(listener.local_endpoint().value(), at_most)); });
      EXPECT_TRUE(listener.accept(at_most).has_value()) << "accept";
    }
    { // splice
      auto from = test::pipe_on(set);
      auto to = test::pipe_on(set);
      soon const write(m, [&] { put(from.writer, "x"); });
      EXPECT_EQ(unio::splice(from.reader, to.writer, {.bytes = 8}, at_most).value_or(0), 1U) << "splice";
    }
    { // a chain
      auto p = test::pipe_on(set);
      auto q = test::pipe_on(set);
      soon const write(m, [&] { put(p.writer, "x"); });
      auto const r = unio::link(at_most, unio::async_read(p.reader, unio::mutable_buffer(memory, 1)),
                                unio::async_write(q.writer, unio::const_buffer("y", 1)));
      EXPECT_TRUE(r.has_value()) << "link";
    }
    { // receive, where all buffers are lent
      auto p = test::pipe_on(set);
      put(p.writer, "x");
      unio::buffer_pool pool(1, 64);
      unio::lent_buffer taken = pool.try_take();
      soon const give_back(m, [&] { taken = {}; });
      EXPECT_EQ(p.reader.receive(pool, at_most).value().size(), 1U) << "receive";
    }
    { // a datagram
      auto pair = unio::datagram_handle::pair().value();
      pair.first.set_multiplexer(set);
      unio::datagram_info info;
      soon const send(m, [&] { put(pair.second, "x"); });
      auto const r = pair.first.receive_from(unio::mutable_buffer(memory), info, at_most);
      EXPECT_TRUE(r.has_value()) << "receive_from";
    }
    { // an event
      auto e = unio::event_handle::create().value();
      e.set_multiplexer(set);
      soon const signal(m, [&] { EXPECT_TRUE(e.signal()); });
      EXPECT_TRUE(e.wait(at_most).has_value()) << "event";
    }
    { // a moment
      bool told = false;
      unio::timer_handle t(30ms, set);
      soon const tell(m, [&] { told = true; });
      EXPECT_TRUE(t.wait(at_most).has_value()) << "timer";
      EXPECT_TRUE(told) << "timer";
    }
    { // a word
      std::atomic<std::uint32_t> word = 0;
      unio::futex f(word, unio::futex_scope::this_process, set);
      soon const change(m, [&] {
        word = 1;
        f.wake_all();
      });
      EXPECT_EQ(f.wait(0, at_most).value_or(0), 1U) << "futex";
    }
    { // a lock on a file
      test::temporary_directory const d;
      using mode = unio::handle::mode;
      using creation = unio::handle::creation;
      auto one = unio::file_handle::file(d.handle(), "f", mode::write, creation::if_needed).value();
      auto two = unio::file_handle::file(d.handle(), "f", mode::write, creation::open_existing).value();
      two.set_multiplexer(set);
      auto held = one.lock_range(0, 1, unio::lock_kind::exclusive).value();
      soon const unlock(m, [&] { EXPECT_TRUE(held.unlock()); });
      EXPECT_TRUE(two.lock_range(0, 1, unio::lock_kind::exclusive).has_value()) << "lock";
    }
    { // the end of a process
      unio::launch_options options;
      options.input = unio::child_stream::pipe();
      auto cat = unio::process_handle::launch("cat", {}, options).value();
      cat.process.set_multiplexer(set);
      soon const end(m, [&] { EXPECT_TRUE(cat.input.close()); });
      EXPECT_TRUE(cat.process.wait(at_most).has_value()) << "process";
    }
  });
}

TEST_P(blocking, barrier_and_reads_past_the_cache_come_to_the_same_while_others_are_pending) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    test::temporary_directory const d;
    auto f =
        unio::file_handle::file(d.handle(), "f", unio::handle::mode::write, unio::handle::creation::if_needed)
            .value();
    f.set_multiplexer(set);
    unio::timer_handle never(unio::deadline::none(), &m);
    started other{unio::async_wait(never)};
    char memory[8];
    EXPECT_TRUE(f.write({unio::const_buffer("abc", 3), 0}).has_value());
    EXPECT_TRUE(f.barrier().has_value());
    EXPECT_TRUE(f.barrier(unio::barrier_kind::wait_data_only).has_value());
    EXPECT_EQ(f.read({unio::mutable_buffer(memory), 0}).value().bytes(), 3U);
    EXPECT_EQ(f.read({unio::mutable_buffer(memory), 3}).value().bytes(), 0U);
    EXPECT_EQ(f.try_barrier(unio::barrier_kind::wait_all).error(), condition::would_block);
    // The kernel cannot say whether a read of this one would wait.
    auto proc = unio::file_handle::file({}, "/proc/self/status").value();
    proc.set_multiplexer(set);
    EXPECT_EQ(proc.read({unio::mutable_buffer(memory), 0}).value().bytes(), sizeof memory);
    EXPECT_FALSE(other.finished());
  });
}

TEST_P(blocking, call_runs_posted_work) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    char memory[8];
    ASSERT_TRUE(m.post([&] { put(p.writer, "x"); }));
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 1U);
  });
}

TEST_P(blocking, call_keeps_its_own_deadline_while_others_are_pending) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    char memory[8];
    unio::timer_handle never(unio::deadline::none(), &m);
    started other{unio::async_wait(never)};
    EXPECT_EQ(p.reader.try_read(unio::mutable_buffer(memory)).error(), condition::would_block);
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), 5ms).error(), condition::timed_out);
    put(p.writer, "x");
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), 5ms).value().bytes(), 1U);
    EXPECT_FALSE(other.finished());
  });
}

// The span that is left must not wrap around to for ever.
TEST_P(blocking, call_with_a_deadline_before_its_clock_began_does_not_wait) {
  auto const long_ago = std::chrono::steady_clock::time_point::min();
  play([&](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    char memory[8];
    for (bool const has_others : {false, true}) {
      unio::timer_handle never(unio::deadline::none(), &m);
      std::optional<started<unio::async_wait>> other;
      if (has_others) other.emplace(unio::async_wait(never));
      for (int i = 0; i != 2; ++i) // also when it has learnt that it has to wait
        EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), long_ago).error(), condition::timed_out);
    }
    put(p.writer, "x");
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), long_ago).value().bytes(), 1U);
  });
}

TEST_P(blocking, call_inside_a_receiver_drives_as_well) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    auto q = test::pipe_on(set);
    char memory[8], memory2[8];
    std::size_t inner = 0;
    std::unique_ptr<soon> last;
    soon const first(m, [&] {
      last = std::make_unique<soon>(m, [&] { put(q.writer, "xyz"); });
      inner = q.reader.read(unio::mutable_buffer(memory2), at_most).value().bytes();
      put(p.writer, "x");
    });
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 1U);
    EXPECT_EQ(inner, 3U);
  });
}

TEST_P(blocking, call_is_canceled_by_a_receiver_that_closes_its_handle) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    char memory[8];
    soon const close(m, [&] { EXPECT_TRUE(p.reader.close()); });
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).error(), condition::canceled);
  });
}

TEST_P(blocking, call_credits_what_it_delivered_to_others_to_the_next_turn) {
  play([](io_multiplexer& m, io_multiplexer* set) {
    auto p = test::pipe_on(set);
    char memory[8];
    soon const write(m, [&] { put(p.writer, "x"); });
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 1U);
    EXPECT_EQ(m.complete_io().value_or(-2), 1); // without the call's own
    EXPECT_EQ(m.complete_io().value_or(-2), 0);
  });
}

// ---- the thread's own -------------------------------------------------------------------------------------

TEST(blocking_without_a_multiplexer, makes_none) {
  std::thread([] {
    auto p = test::pipe_on(nullptr);
    std::thread peer([&] {
      std::this_thread::sleep_for(1ms);
      put(p.writer, "x");
    });
    char memory[8];
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 1U);
    peer.join();
    EXPECT_EQ(unio::this_thread::multiplexer_if_any(), nullptr);
  }).join();
}

TEST_P(own, has_no_turn_where_nothing_is_pending) {
  with_own(GetParam(), [](io_multiplexer& m) {
    ASSERT_TRUE(m.run().has_value());
    std::uint64_t const turns = m.counters().turns;
    auto p = test::pipe_on(nullptr);
    char memory[8];
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), 1ms).error(), condition::timed_out);
    EXPECT_EQ(m.counters().turns, turns);
  });
}

TEST_P(own, has_no_turn_where_the_call_need_not_wait) {
  with_own(GetParam(), [](io_multiplexer& m) {
    auto p = test::pipe_on(nullptr);
    auto other = test::pipe_on(&m);
    char memory[8], memory2[8];
    watched ready{unio::async_read(other.reader, unio::mutable_buffer(memory2))};
    ready.start();
    (void)m.try_run();
    put(other.writer, "x");
    put(p.writer, "xy");
    failing_calls const counts;
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 2U);
    EXPECT_EQ(failing_calls::count_all(), 1);
    EXPECT_FALSE(ready.ended());
    while (!ready.ended()) ASSERT_TRUE(m.run().has_value());
  });
}

TEST_P(own, does_what_other_threads_have_started_there) {
  with_own(GetParam(), [](io_multiplexer& m) {
    auto p = test::pipe_on(nullptr);
    auto other = test::pipe_on(&m);
    char memory[8], memory2[8];
    (void)m.try_run(); // from now on this thread is the one that runs it
    auto op = unio::connect(unio::atomic_async_read(other.reader, unio::mutable_buffer(memory2)),
                            calls{[&] { put(p.writer, "x"); }});
    put(other.writer, "y");
    std::thread([&] { op.start(); }).join();
    EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes(), 1U);
    while (!op.finished()) ASSERT_TRUE(m.run().has_value());
  });
}

/// A read that waits on a thread whose own multiplexer cannot ask the kernel, so many times.
void read_while_failing(std::string const& driver, int times, bool fails_before) {
  with_own(driver, [&](io_multiplexer& m) {
    auto p = test::pipe_on(nullptr);
    auto other = test::pipe_on(&m);
    char memory[8], memory2[8];
    started pending{unio::async_read(other.reader, unio::mutable_buffer(memory2))};
    (void)m.try_run();
    {
      failing_calls fails;
      fails.fail<&table::io_uring_enter>(EBADF, {.times = times});
      fails.fail<&table::epoll_wait>(EBADF, {.times = times});
      if (fails_before) {
        put(other.writer, "x"); // so that a ring has something to enter for
        EXPECT_FALSE(m.run().has_value());
      }
      std::thread peer([&] {
        std::this_thread::sleep_for(20ms);
        put(p.writer, "x");
      });
      EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), at_most).error(), std::error_code());
      peer.join();
      EXPECT_EQ(p.reader.read(unio::mutable_buffer(memory), 5ms).error(), condition::timed_out);
    }
    put(other.writer, "x");
    while (!pending.finished()) ASSERT_TRUE(m.run().has_value());
  });
}

TEST_P(own, is_left_alone_by_a_call_while_it_fails) {
  read_while_failing(GetParam(), test::which_calls::all, true);
}

TEST_P(own, that_fails_during_a_call_does_not_spoil_it) { read_while_failing(GetParam(), 3, false); }

TEST_P(own, is_left_alone_by_the_child_of_a_fork) {
  with_own(GetParam(), [](io_multiplexer& m) {
    auto p = test::pipe_on(nullptr);
    auto other = test::pipe_on(&m);
    char memory[8], memory2[8];
    started pending{unio::async_read(other.reader, unio::mutable_buffer(memory2))};
    (void)m.try_run();
    put(other.writer, "x"); // which the child must not take
    test::expect_in_child([&] {
      CHILD_EXPECTS(p.reader.read(unio::mutable_buffer(memory), 1ms).error() == condition::timed_out);
      return CHILD_MEETS(!pending.finished());
    });
    while (!pending.finished()) ASSERT_TRUE(m.run().has_value());
    EXPECT_EQ(pending.bytes, 1U);
  });
}

TEST_P(own, that_ends_with_its_thread_runs_no_call_of_its_last_receivers) {
  auto p = test::pipe_on(nullptr);
  auto other = test::pipe_on(nullptr);
  char memory[8], memory2[8];
  std::error_code found;
  std::size_t bytes = 0;
  auto op = unio::connect(unio::async_read(other.reader, unio::mutable_buffer(memory2)), calls{[&] {
                            found = p.reader.read(unio::mutable_buffer(memory), 1ms).error();
                            put(p.writer, "x");
                            bytes = p.reader.read(unio::mutable_buffer(memory), at_most).value().bytes();
                          }});
  with_own(GetParam(), [&](io_multiplexer& m) {
    op.start();
    (void)m.try_run();
  });
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(found, condition::timed_out);
  EXPECT_EQ(bytes, 1U);
}

} // namespace
