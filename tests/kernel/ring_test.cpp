// What can go wrong with a ring, and what must then not: cases 12, 13, 27, 28, 29, 44; promises P1, P5, P12,
// P15.

#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sys/stat.h>

namespace {

using namespace test;

class kernel_ring : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_ring);

// Some of everything, on one multiplexer, driven to its end whatever run() says.
struct workload {
  explicit workload(unio::io_multiplexer& on) : m(on) {
    auto [l, port] = listener(&m);
    accepting = std::move(l);
    for (int i = 0; i != 8; ++i) reads.emplace_back(m);
    accept.emplace(unio::async_accept(accepting));
    wait.emplace(unio::async_wait(timer));
    nothing.emplace(unio::async_no_op(&m));
    late.emplace(m, 3ms);
    (void)m.try_run();
    client = raw_connection(port);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      if (i % 2 == 0) reads[i].peer.write("abc");
      if (i % 2 != 0) reads[i].cancel();
    }
  }
  void expect_all_end() {
    ASSERT_TRUE(drive(m, [&] {
      return accept->ended() && wait->ended() && nothing->ended() && late->ended() && all_ended(reads);
    }));
    EXPECT_EQ(accept->accepted.size(), 1u);
    EXPECT_FALSE(wait->error);
    EXPECT_FALSE(nothing->error);
    EXPECT_EQ(late->error, unio::condition::timed_out);
    for (std::size_t i = 0; i < reads.size(); ++i) {
      EXPECT_TRUE(reads[i].ended_once());
      EXPECT_EQ(reads[i].values, 1);
      if (i % 2 == 0) {
        EXPECT_EQ(std::string(reads[i].memory.data(), reads[i].bytes), "abc");
      } else {
        EXPECT_EQ(reads[i].error, unio::condition::canceled);
      }
    }
  }

  unio::io_multiplexer& m;
  unio::listening_socket_handle accepting;
  unio::timer_handle timer{2ms, &m};
  raw client;
  std::optional<started<unio::async_accept>> accept;
  std::optional<started<unio::async_wait>> wait;
  std::optional<started<unio::async_no_op>> nothing;
  std::optional<pending_read> late;
  std::deque<pending_read> reads;
};

// Has the call by which a driver asks the kernel fail. Returns how often it did.
template <class F> int with_turn_failing(int error, which_calls which, F f) {
  failing_calls calls;
  calls.fail<&table::io_uring_enter>(error, which);
  calls.fail<&table::epoll_wait>(error, which);
  f();
  return calls.failures<&table::io_uring_enter>() + calls.failures<&table::epoll_wait>();
}

std::vector<int> passing_errors() {
  return isolated::is_ring() ? std::vector{EAGAIN, EBUSY, EINTR, ENOMEM} : std::vector{EINTR};
}

// Cases 12 and 29; tokio#8185, #8255, compio#11: an error does not say whether the kernel took the entries.
ISOLATED_TEST(kernel_ring, goes_on_after_any_turn_that_failed) {
  for (int const error : passing_errors()) {
    int failed = 0;
    for (int at = 1; at <= 4; ++at) {
      SCOPED_TRACE("errno " + std::to_string(error) + " at turn " + std::to_string(at));
      auto const m = made_multiplexer();
      failed += with_turn_failing(error, {.at = at}, [&] {
        workload w(*m);
        w.expect_all_end();
      });
      expect_nothing_in_flight(*m);
    }
    EXPECT_GE(failed, 2) << "the canary: turns did fail (a slow run may need fewer than four of them)";
  }
}

ISOLATED_TEST(kernel_ring, goes_on_after_many_turns_that_failed_and_with_one_entry) {
  for (int const error : passing_errors()) {
    SCOPED_TRACE(error);
    auto const m = made_multiplexer(1);
    int const failed =
        with_turn_failing(error, {.at = 1, .times = 7}, [&] { // where much else runs there may be few turns
          workload w(*m);
          w.expect_all_end();
        });
    EXPECT_GE(failed, 1) << "the canary";
    expect_nothing_in_flight(*m);
  }
}

// Cases 10 and 12 together: the end must not leave anything with the kernel because one turn failed.
ISOLATED_TEST(kernel_ring, is_destroyed_in_full_although_turns_fail) {
  for (int const error : passing_errors()) {
    for (int at = 1; at <= 3; ++at) {
      SCOPED_TRACE("errno " + std::to_string(error) + " at turn " + std::to_string(at));
      auto m = made_multiplexer();
      pending_read read(*m);
      submit_all(*m);
      failing_calls calls;
      calls.fail<&table::io_uring_enter>(error, {.at = at});
      calls.fail<&table::epoll_wait>(error, {.at = at});
      read.socket.set_multiplexer(nullptr);
      m.reset();
      EXPECT_TRUE(read.ended_once());
      EXPECT_EQ(read.error, unio::condition::canceled);
    }
  }
}

ISOLATED_TEST(kernel_ring, closes_a_handle_in_full_although_turns_fail) {
  for (int const error : passing_errors()) {
    SCOPED_TRACE(error);
    auto const m = made_multiplexer();
    {
      pending_read read(*m);
      submit_all(*m);
      failing_calls calls;
      calls.fail<&table::io_uring_enter>(error, {.at = 1, .times = 3});
      calls.fail<&table::epoll_wait>(error, {.at = 1, .times = 3});
      EXPECT_TRUE(read.socket.close().has_value());
      EXPECT_TRUE(read.ended_once());
      EXPECT_EQ(read.error, unio::condition::canceled);
      EXPECT_TRUE(read.peer.sees_end());
    }
    expect_nothing_in_flight(*m);
  }
}

// Case 27; asio boostorg#464.
ISOLATED_TEST(kernel_ring, may_be_as_small_as_it_wants) {
  for (int const entries : {1, 2, 4}) {
    SCOPED_TRACE(entries);
    auto const m = made_multiplexer(entries);
    if (is_ring()) {
      EXPECT_EQ(m->capabilities().ring_entries, static_cast<unsigned>(entries));
    }
    {
      for (int round = 0; round < 5; ++round) {
        workload w(*m);
        w.expect_all_end();
      }
      // Pairs that write and read at once, more than fit.
      std::deque<pending_read> reads;
      for (int i = 0; i != 200; ++i) reads.emplace_back(*m);
      for (pending_read const& r : reads) r.peer.write("ping");
      ASSERT_TRUE(drive(*m, [&] { return all_ended(reads); }));
      for (pending_read const& r : reads) EXPECT_EQ(r.bytes, 4u);
    }
    expect_nothing_in_flight(*m);
  }
}

// A passing shortage is no end: the caller of run() need not know of it.
ISOLATED_TEST(kernel_ring, tells_its_caller_of_no_shortage_that_passes) {
  for (int const error : passing_errors()) {
    SCOPED_TRACE(error);
    auto const m = made_multiplexer();
    {
      pending_read read(*m);
      submit_all(*m);
      read.peer.write("abc");
      int const failed = with_turn_failing(error, {.at = 1, .times = 3}, [&] {
        for (int i = 0; i < 100 && !read.ended(); ++i) EXPECT_TRUE(m->try_run_for(20ms).has_value());
      });
      EXPECT_GE(failed, 1) << "the canary";
      EXPECT_EQ(read.bytes, 3u);
    }
    expect_nothing_in_flight(*m);
  }
}

// What had it poll ended with an overflow, and for a while the queue of one entry has no room for the next.
ISOLATED_TEST(kernel_ring, never_sleeps_without_its_doorbell) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  static std::atomic<int> refusals_left;
  static std::atomic<bool> is_short;
  refusals_left = 12;
  is_short = false;
  failing_calls calls;
  calls.answer<&table::io_uring_enter>(
      [](int fd, unsigned n, unsigned min, unsigned flags, void const* argument, std::size_t size) noexcept {
        if (!is_short || n == 0) return unio::sys::kernel.io_uring_enter(fd, n, min, flags, argument, size);
        if (--refusals_left == 0) is_short = false;
        constexpr unsigned with_argument = 1u << 3; // IORING_ENTER_EXT_ARG
        unio::sys::kernel.io_uring_enter(fd, 0, 0, flags & ~with_argument, nullptr, 0); // what has completed
        return std::int64_t{-EAGAIN};
      });
  std::atomic<bool> filled = false, ended = false, posted = false;
  std::atomic<unio::io_multiplexer*> m = nullptr;
  connection many = local_connection(nullptr), one = local_connection(nullptr);
  std::thread runner([&] {
    auto const made = made_multiplexer(1);
    {
      many.socket.set_multiplexer(made.get());
      one.socket.set_multiplexer(made.get());
      // The first that ends starts another: its entry is what finds the kernel short.
      struct starts_one {
        tally* to;
        std::optional<unio::io_operation_connection<unio::async_read, tell>>* other;
        void set_value(unio::io_result<unio::mutable_buffers>) noexcept {}
        void set_done() noexcept {
          ++to->ends;
          if (other->has_value() && !(*other)->started()) (*other)->start();
        }
      };
      char room[13];
      std::deque<tally> told(13);
      std::optional<unio::io_operation_connection<unio::async_read, tell>> other;
      other.emplace(unio::async_read(one.socket, unio::mutable_buffer(&room[12], 1)), tell{&told[12]});
      std::deque<unio::io_operation_connection<unio::async_read, starts_one>> reads;
      for (std::size_t i = 0; i < 12; ++i) {
        reads.emplace_back(unio::async_read(many.socket, unio::mutable_buffer(&room[i], 1)),
                           starts_one{&told[i], &other});
        reads.back().start();
        (void)made->try_run();
      }
      for (int i = 0; i < 20; ++i) (void)made->try_run();
      m = made.get();
      filled = true;
      auto all = [&] { return std::count_if(told.begin(), told.end(), [](auto& t) { return t.ended(); }); };
      while (all() < 12) (void)made->run();
      ended = true;
      while (!posted) (void)made->run();
      other->cancel();
      while (all() < 13) (void)made->run();
      many.socket.set_multiplexer(nullptr);
      one.socket.set_multiplexer(nullptr);
    }
    m = nullptr;
  });
  auto within_seconds = [](std::atomic<bool> const& b) {
    for (int i = 0; i < 2000 && !b; ++i) std::this_thread::sleep_for(5ms);
    return b.load();
  };
  ASSERT_TRUE(within_seconds(filled));
  std::this_thread::sleep_for(20ms);
  is_short = true;
  many.peer.write("0123456789ab");
  EXPECT_TRUE(m.load()->post([] {}).has_value());
  bool const all_ended = within_seconds(ended);
  std::this_thread::sleep_for(100ms); // it goes to sleep
  EXPECT_TRUE(m.load()->post([&] { posted = true; }).has_value());
  bool const heard = within_seconds(posted);
  EXPECT_TRUE(heard) << "nobody heard the doorbell";
  if (!heard || !all_ended) std::_Exit(1); // the runner sleeps for ever
  runner.join();
  EXPECT_LE(refusals_left, 0) << "the canary";
}

// More cancellations than entries, and a value of one of those that wait for room.
ISOLATED_TEST(kernel_ring, delivers_a_value_that_comes_while_its_cancellation_waits_for_room) {
  auto const m = made_multiplexer(1);
  {
    auto [accepting, port] = listener(m.get());
    started accept{unio::async_accept_many(accepting)};
    submit_all(*m);
    std::deque<pending_read> reads;
    for (int i = 0; i != 6; ++i) {
      reads.emplace_back(*m);
      submit_all(*m);
    }
    raw const client = raw_connection(port);
    for (auto& read : reads) read.cancel();
    accept.cancel();
    for (int i = 0; i < 500 && !accept.ended(); ++i) (void)m->try_run_for(10ms);
    if (!accept.ended()) std::_Exit(1); // its end would wait for ever
    ASSERT_TRUE(drive(*m, [&] { return all_ended(reads); }));
    EXPECT_TRUE(accept.ended_once());
    EXPECT_EQ(accept.error, unio::condition::canceled);
  }
  expect_nothing_in_flight(*m);
}

// Case 28; io-uring#302, liburing#705: a completion queue that overflows loses nothing.
ISOLATED_TEST(kernel_ring, loses_nothing_when_the_completion_queue_overflows) {
  auto const m = made_multiplexer(1); // two completions fit
  {
    std::deque<pending_read> reads;
    for (int i = 0; i != 300; ++i) reads.emplace_back(*m);
    auto [accepting, port] = listener(m.get());
    started accept{unio::async_accept_many(accepting)};
    for (int i = 0; i < 320; ++i) (void)m->try_run(); // one goes to the kernel in each turn
    for (int round = 0; round < 3; ++round) {
      std::vector<raw> clients;
      if (round == 0)
        for (pending_read const& r : reads) r.peer.write("ping");
      for (int i = 0; i < 64; ++i) clients.push_back(raw_connection(port));
      std::size_t const wanted = 64;
      ASSERT_TRUE(drive(*m, [&] { return accept.accepted.size() == wanted && all_ended(reads); }));
      accept.accepted.clear();
      // The doorbell still rings, although what watched it may have ended with the overflow.
      std::atomic<bool> posted = false;
      std::thread poster([&] {
        std::this_thread::sleep_for(5ms);
        EXPECT_TRUE(m->post([&] { posted = true; }).has_value());
      });
      auto const before = std::chrono::steady_clock::now();
      while (!posted && std::chrono::steady_clock::now() - before < 20s) (void)m->try_run_for(20s);
      poster.join();
      EXPECT_TRUE(posted);
      EXPECT_LT(std::chrono::steady_clock::now() - before, 15s) << "nobody heard the doorbell";
    }
    for (pending_read const& r : reads) {
      EXPECT_TRUE(r.ended_once());
      EXPECT_EQ(r.bytes, 4u);
    }
    if (is_ring()) {
      EXPECT_GT(m->counters().overflows, 0u) << "the canary: it did overflow";
    }
    EXPECT_FALSE(accept.ended());
    accept.cancel();
    ASSERT_TRUE(drive(*m, [&] { return accept.ended(); }));
  }
  expect_nothing_in_flight(*m);
}

ISOLATED_TEST(kernel_ring, takes_a_flood_of_operations_that_complete_at_once) {
  for (int const entries : {1, 0}) {
    auto const m = made_multiplexer(entries);
    {
      std::deque<started<unio::async_no_op>> all;
      for (int i = 0; i != 5000; ++i) all.emplace_back(unio::async_no_op(m.get()));
      ASSERT_TRUE(drive(*m, [&] { return all_ended(all); }));
      for (tally const& one : all) EXPECT_TRUE(one.ended_once());
    }
    expect_nothing_in_flight(*m);
  }
}

// A thread has places for sixteen registered rings: one that is given up gives its place back, and the ring
// with it.
ISOLATED_TEST(kernel_ring, is_given_back_when_its_multiplexer_ends) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  bool const first = [] {
    auto const m = made_multiplexer();
    (void)m->try_run();
    return m->capabilities().registered_ring;
  }();
  if (!first) GTEST_SKIP() << "this kernel registers no rings";
  for (int i = 0; i < 40; ++i) {
    auto const m = made_multiplexer();
    (void)m->try_run();
    EXPECT_TRUE(m->capabilities().registered_ring) << i;
  }
}

// Its end in another thread than the one that ran it takes nothing from that one.
ISOLATED_TEST(kernel_ring, may_end_in_another_thread_than_the_one_that_ran_it) {
  auto const here = made_multiplexer();
  EXPECT_TRUE(here->try_run().has_value());
  std::unique_ptr<unio::io_multiplexer> from_there;
  std::thread([&] {
    from_there = made_multiplexer();
    EXPECT_TRUE(from_there->try_run().has_value());
  }).join();
  from_there.reset();
  workload w(*here);
  w.expect_all_end();
  EXPECT_STREQ(here->capabilities().driver, is_ring() ? "io_uring" : "epoll");
}

std::atomic<unsigned> setup_flags{0};
std::atomic<unsigned> personalities{0};

// P15, case 44; CVE-2024-22017: no kernel thread submits, nothing is done with credentials kept from before.
ISOLATED_TEST(kernel_ring, is_set_up_without_kernel_polling_and_registers_no_credentials) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  failing_calls calls;
  calls.answer<&table::io_uring_setup>([](unsigned n, io_uring_params* p) noexcept {
    setup_flags |= p->flags;
    EXPECT_EQ(p->sq_thread_idle, 0u);
    return unio::sys::kernel.io_uring_setup(n, p);
  });
  calls.answer<&table::io_uring_register>([](int fd, unsigned opcode, void* argument, unsigned n) noexcept {
    if (opcode == IORING_REGISTER_PERSONALITY) ++personalities;
    return unio::sys::kernel.io_uring_register(fd, opcode, argument, n);
  });
  auto const m = made_multiplexer();
  {
    workload w(*m);
    w.expect_all_end();
  }
  EXPECT_NE(setup_flags, 0u) << "the canary: the calls were seen";
  EXPECT_EQ(setup_flags & (IORING_SETUP_SQPOLL | IORING_SETUP_SQ_AFF | IORING_SETUP_IOPOLL), 0u);
  EXPECT_EQ(personalities, 0u);
}

// The same, seen from outside: a thread that gives up privileges submits without them.
ISOLATED_TEST(kernel_ring, works_with_the_credentials_of_the_moment) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become somebody else";
  temporary_directory const directory;
  ASSERT_EQ(::chmod(directory.path().c_str(), 0777), 0);
  auto const m = made_multiplexer();
  unio::path_handle anchor = unio::path_handle::path(directory.path()).value();
  anchor.set_multiplexer(m.get());
  auto create = [&](char const* name) {
    started open{
        unio::async_open(anchor, name, unio::handle::mode::write, unio::handle::creation::only_if_not_exist)};
    EXPECT_TRUE(drive(*m, [&] { return open.ended(); }));
    EXPECT_FALSE(open.error) << open.error.message();
    struct stat s{};
    EXPECT_EQ(::stat((directory / name).c_str(), &s), 0);
    return s.st_uid;
  };
  EXPECT_EQ(create("as_root"), 0u);
  ASSERT_EQ(::seteuid(65534), 0);
  EXPECT_EQ(create("as_nobody"), 65534u);
  ASSERT_EQ(::seteuid(0), 0);
  EXPECT_EQ(create("as_root_again"), 0u);
}

} // namespace
