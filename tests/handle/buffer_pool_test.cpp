// buffer_pool, lent_buffer, and operations that wait for a buffer. That async_receive does the same on every
// driver and in every style stands in tests/op/operations_test.cpp.

#include "handle/pool_state.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"

#include <sstream>

namespace {

using namespace test;

// ---- the pool alone ---------------------------------------------------------------------------------------

TEST(buffer_pool, lends_as_many_as_it_has_and_gets_them_back) {
  buffer_pool pool(3, 100);
  EXPECT_EQ(pool.count(), 3u);
  EXPECT_EQ(pool.size(), 100u);
  std::array<lent_buffer, 3> all;
  for (lent_buffer& b : all) {
    b = pool.try_take();
    ASSERT_TRUE(b);
    EXPECT_EQ(b.size(), 0u);
    EXPECT_EQ(b.capacity(), 100u);
    b.resize(100);
    std::memset(b.data(), static_cast<int>(&b - all.data()), b.size()); // they do not overlap
  }
  EXPECT_EQ(pool.lent(), 3u);
  EXPECT_FALSE(pool.try_take());
  for (lent_buffer const& b : all)
    for (std::byte const x : b) ASSERT_EQ(static_cast<int>(x), static_cast<int>(&b - all.data()));
  lent_buffer moved = std::move(all[1]);
  EXPECT_FALSE(all[1]); // NOLINT: what it is after a move is part of the contract
  EXPECT_EQ(pool.lent(), 3u);
  moved = {};
  EXPECT_EQ(pool.lent(), 2u);
  all[0].reset();
  all[0].reset();
  EXPECT_EQ(pool.lent(), 1u);
  EXPECT_EQ(pool.waits(), 0u);
}

TEST(buffer_pool, may_end_before_its_buffers) {
  std::optional<buffer_pool> pool(std::in_place, 2, 64);
  lent_buffer one = pool->try_take(), two = pool->try_take();
  one.resize(64);
  pool.reset();
  std::memset(one.data(), 7, one.size()); // ASan looks
  std::thread([b = std::move(one)]() mutable { b.reset(); }).join();
  two.resize(1);
}

#if UNIO_HAS_EXCEPTIONS
TEST(buffer_pool, that_is_too_large_says_so) {
  try {
    buffer_pool const pool(buffer_pool::max_count, buffer_pool::max_size); // 2^54 bytes: no address space
    ADD_FAILURE() << "there was room for it";
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), std::errc::not_enough_memory);
  }
}
#endif

TEST(buffer_pool, death_of_a_wrong_size) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(buffer_pool(0, 1), "1 to 2\\^24");
  EXPECT_DEATH(buffer_pool(1, 0), "1 to 2\\^30");
  buffer_pool pool(1, 8);
  lent_buffer b = pool.try_take();
  EXPECT_DEATH(b.resize(9), "no room");
}

TEST(buffer_pool, is_used_by_several_threads) {
  buffer_pool pool(4, 64);
  std::vector<std::thread> threads;
  std::array<lent_buffer, 3> left;
  for (std::size_t me = 0; me != left.size(); ++me)
    threads.emplace_back([&, me] {
      for (int i = 0; i != 20'000; ++i) {
        lent_buffer b = pool.try_take();
        if (!b) continue;
        b.resize(64);
        std::memset(b.data(), static_cast<int>(me), b.size());
        for (std::byte const x : b) ASSERT_EQ(static_cast<std::size_t>(x), me);
        left[me] = std::move(b);
      }
    });
  for (std::thread& t : threads) t.join();
  for (lent_buffer& b : left) b.reset();
  EXPECT_EQ(pool.lent(), 0u);
}

// ---- operations -------------------------------------------------------------------------------------------

struct told {
  std::vector<std::string> texts;
  std::vector<lent_buffer> kept;
  std::error_code error;
  bool keeps = false;
  int dones = 0;
};

struct notes {
  told* to;
  void set_value(unio::io_result<lent_buffer>&& r) noexcept {
    if (!r.has_value()) {
      to->error = r.error();
      return;
    }
    to->texts.push_back(text_of(*r));
    if (to->keeps) to->kept.push_back(std::move(*r));
  }
  void set_done() noexcept { ++to->dones; }
};

class receiving : public ::testing::TestWithParam<char const*> {
 protected:
  void SetUp() override {
    auto made = test::make_multiplexer(GetParam());
    if (!made.has_value()) GTEST_SKIP() << made.error().message();
    m = std::move(*made);
  }
  unio::anonymous_pipe pipe() {
    auto p = unio::pipe_handle::anonymous().value();
    p.reader.set_multiplexer(m.get());
    return p;
  }
  template <class Ended> void run_until(Ended ended) {
    for (int i = 0; i != 1000 && !ended(); ++i) ASSERT_TRUE(m->try_run_for(20ms).has_value());
    ASSERT_TRUE(ended());
  }
  std::unique_ptr<unio::io_multiplexer> m;
};
INSTANTIATE_TEST_SUITE_P(on, receiving, ::testing::Values("epoll", "uring"),
                         [](auto const& of) { return of.param; });

TEST_P(receiving, idle_connections_hold_no_buffer) {
  constexpr std::size_t connections = 100;
  buffer_pool pool(2, 64);
  std::vector<unio::anonymous_pipe> pipes;
  std::vector<told> all(connections);
  using connected = decltype(unio::connect(unio::async_receive(pipes[0].reader, pool), notes{nullptr}));
  std::vector<std::unique_ptr<connected>> operations;
  pipes.reserve(connections);
  for (std::size_t i = 0; i != connections; ++i) {
    pipes.push_back(pipe());
    operations.push_back(
        std::make_unique<connected>(unio::async_receive(pipes[i].reader, pool), notes{&all[i]}));
    operations.back()->start();
  }
  for (int i = 0; i != 5; ++i) ASSERT_TRUE(m->try_run_for(0ms).has_value());
  EXPECT_EQ(pool.lent(), 0u);
  for (std::size_t i = 0; i != connections; ++i) put(pipes[i].writer, std::to_string(i));
  run_until([&] {
    for (told const& t : all)
      if (t.dones == 0) return false;
    return true;
  });
  for (std::size_t i = 0; i != connections; ++i)
    EXPECT_EQ(all[i].texts, std::vector<std::string>{std::to_string(i)});
  EXPECT_EQ(pool.lent(), 0u);
}

TEST_P(receiving, those_that_wait_for_a_buffer_get_it_in_the_order_of_arrival) {
  constexpr std::size_t waiting = 5;
  buffer_pool pool(1, 64);
  lent_buffer held = pool.try_take();
  std::vector<std::string> order;
  struct in_order {
    std::vector<std::string>* to;
    void set_value(unio::io_result<lent_buffer>&& r) noexcept { to->push_back(text_of(*r)); }
    static void set_done() noexcept {}
  };
  std::vector<unio::anonymous_pipe> pipes;
  pipes.reserve(waiting);
  using connected = decltype(unio::connect(unio::async_receive(pipes[0].reader, pool), in_order{nullptr}));
  std::vector<std::unique_ptr<connected>> operations;
  for (std::size_t i = 0; i != waiting; ++i) {
    pipes.push_back(pipe());
    put(pipes[i].writer, std::to_string(i));
    operations.push_back(
        std::make_unique<connected>(unio::async_receive(pipes[i].reader, pool), in_order{&order}));
    operations.back()->start();
    for (int turn = 0; turn != 100 && pool.waits() != i + 1; ++turn)
      ASSERT_TRUE(m->try_run_for(1ms).has_value());
  }
  EXPECT_EQ(pool.waits(), waiting);
  EXPECT_EQ(m->counters().resource_waits, waiting);
  EXPECT_FALSE(pool.try_take());
  std::ostringstream pending;
  unio::dump_pending(pending);
  EXPECT_NE(pending.str().find("queued for a buffer"), std::string::npos) << pending.str();
  std::thread([&] { held.reset(); }).join();
  EXPECT_FALSE(pool.try_take()) << "it was granted to the first";
  run_until([&] { return order.size() == waiting; });
  EXPECT_EQ(order, (std::vector<std::string>{"0", "1", "2", "3", "4"}));
  EXPECT_EQ(pool.lent(), 0u);
}

TEST_P(receiving, a_buffer_that_is_on_its_way_to_what_is_cancelled_is_not_lost) {
  for (bool const posted : {false, true}) {
    buffer_pool pool(1, 64);
    lent_buffer held = pool.try_take();
    auto p = pipe(), other = pipe();
    put(p.writer, "first");
    put(other.writer, "second");
    told one, two;
    auto first = unio::connect(unio::async_receive(p.reader, pool), notes{&one});
    auto second = unio::connect(unio::async_receive(other.reader, pool), notes{&two});
    first.start();
    run_until([&] { return pool.waits() == 1; });
    second.start();
    run_until([&] { return pool.waits() == 2; });
    if (posted) std::thread([&] { held.reset(); }).join();
    first.cancel();
    run_until([&] { return one.dones == 1; });
    EXPECT_EQ(one.error, condition::canceled);
    held.reset();
    run_until([&] { return two.dones == 1; });
    EXPECT_EQ(two.texts, std::vector<std::string>{"second"});
    EXPECT_EQ(pool.lent(), 0u);
    // The bytes of the first are still there.
    EXPECT_EQ(text_of(p.reader.receive(pool).value()), "first");
  }
}

TEST_P(receiving, handles_and_multiplexers_end_while_operations_wait_for_a_buffer) {
  buffer_pool pool(1, 64);
  lent_buffer held = pool.try_take();
  auto p = pipe(), other = pipe();
  put(p.writer, "x");
  put(other.writer, "x");
  told one, two;
  auto first = unio::connect(unio::async_receive(p.reader, pool), notes{&one});
  auto second = unio::connect(unio::async_receive_many(other.reader, pool), notes{&two});
  first.start();
  second.start();
  run_until([&] { return pool.waits() == 2; });
  std::thread([&] { held.reset(); }).join(); // granted, and not taken
  ASSERT_TRUE(p.reader.close().has_value());
  EXPECT_EQ(one.dones, 1);
  other.reader.set_multiplexer(nullptr);
  m.reset();
  EXPECT_EQ(two.dones, 1);
  EXPECT_EQ(pool.lent(), 0u);
}

TEST_P(receiving, many_ends_with_the_stream) {
  buffer_pool pool(2, 4);
  auto p = pipe();
  told all;
  auto op = unio::connect(unio::async_receive_many(p.reader, pool), notes{&all});
  op.start();
  put(p.writer, "abcdefghij");
  run_until([&] { return all.texts.size() == 3; });
  ASSERT_TRUE(p.writer.close().has_value());
  run_until([&] { return all.dones == 1; });
  EXPECT_EQ(all.texts, (std::vector<std::string>{"abcd", "efgh", "ij", ""}));
  EXPECT_FALSE(all.error);
  EXPECT_EQ(pool.lent(), 0u);
}

TEST_P(receiving, many_pauses_while_its_receiver_keeps_all_buffers) {
  buffer_pool pool(2, 4);
  auto p = pipe();
  told all;
  all.keeps = true;
  auto op = unio::connect(unio::async_receive_many(p.reader, pool), notes{&all});
  op.start();
  put(p.writer, "abcdefghijklm");
  run_until([&] { return pool.waits() == 1; });
  EXPECT_EQ(all.texts, (std::vector<std::string>{"abcd", "efgh"}));
  all.keeps = false;
  all.kept.erase(all.kept.begin());
  run_until([&] { return all.texts.size() == 4; });
  EXPECT_EQ(all.texts, (std::vector<std::string>{"abcd", "efgh", "ijkl", "m"}));
  op.cancel();
  run_until([&] { return all.dones == 1; });
  EXPECT_EQ(all.error, condition::canceled);
}

TEST_P(receiving, of_one_byte_at_a_time_loses_nothing) {
  buffer_pool pool(1, 1);
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m.get());
  put(pair.second, "hello");
  auto body = [](unio::socket_handle& s, buffer_pool& from) -> unio::task<std::string> {
    std::string got;
    for (;;) {
      auto r = co_await s.co_receive(from, 10s);
      if (!r.has_value() || !*r) co_return got;
      got += text_of(*r);
    }
  };
  ASSERT_TRUE(pair.second.shutdown(unio::socket_handle::side::send).has_value());
  EXPECT_EQ(unio::run(*m, body(pair.first, pool)), "hello");
}

TEST_P(receiving, many_tasks_share_few_buffers) {
  constexpr int tasks = 50;
  buffer_pool pool(3, 16);
  std::vector<unio::socket_pair> pairs;
  for (int i = 0; i != tasks; ++i) {
    pairs.push_back(unio::socket_handle::pair().value());
    pairs.back().first.set_multiplexer(m.get());
    pairs.back().second.set_multiplexer(m.get());
  }
  std::size_t bytes = 0;
  auto reads = [](unio::socket_handle& s, buffer_pool& from, std::size_t& n) -> unio::task<> {
    for (;;) {
      auto r = co_await s.co_receive(from, 20s);
      if (!r.has_value()) ADD_FAILURE() << r.error().message();
      if (!r.has_value() || !*r) co_return;
      lent_buffer const keep = std::move(*r);
      n += keep.size();
      unio::timer_handle timer(100us);
      (void)co_await timer.co_wait(); // holds it meanwhile
    }
  };
  auto writes = [](unio::socket_handle& s) -> unio::task<> {
    std::array<char, 100> text{};
    (void)co_await s.co_write(unio::const_buffer(text));
    (void)s.shutdown(unio::socket_handle::side::send);
  };
  for (unio::socket_pair& p : pairs) {
    unio::async_run(*m, reads(p.first, pool, bytes));
    unio::async_run(*m, writes(p.second));
  }
  while (m->run().value() != 0) continue;
  EXPECT_EQ(bytes, 100u * tasks);
  EXPECT_EQ(pool.lent(), 0u);
  EXPECT_GT(pool.waits(), 0u);
}

TEST_P(receiving, after_its_pool_has_ended_is_an_error) {
  auto ends = unio::socket_handle::pair().value();
  auto other = unio::socket_handle::pair().value();
  ends.first.set_multiplexer(m.get());
  other.first.set_multiplexer(m.get());
  auto pool = std::make_unique<buffer_pool>(2, 64);
  test::watched early{unio::async_receive(ends.first, *pool)};
  test::watched late{unio::async_receive(other.first, *pool)};
  early.start();
  for (int i = 0; i != 3; ++i) (void)m->try_run(); // it waits for bytes, of a ring the kernel does
  EXPECT_FALSE(early.finished());
  pool.reset();
  put(ends.second, "abc");
  while (!early.finished()) (void)m->run();
  test::expect_ended_once(early);
  if (!early.error) { // the kernel had a buffer for it
    EXPECT_EQ(early.bytes, 3u);
  } else {
    EXPECT_EQ(early.error, std::errc::bad_address);
  }
  put(other.second, "abc");
  late.start();
  while (!late.finished()) (void)m->run();
  test::expect_ended_once(late);
  EXPECT_EQ(late.error, std::errc::bad_address);
  buffer_pool another(2, 64); // what has ended is not in its way
  EXPECT_EQ(text_of(other.first.receive(another).value()), "abc");
}

// An operation that was about to wait when another thread ended the pool: no buffer will ever come home.
TEST(buffer_pool, that_has_ended_has_no_queue) {
  auto* const state = unio::detail::pool_state::make(1, 64, unio::pool_memory::ordinary);
  ASSERT_NE(state, nullptr);
  std::byte* const lent = state->take();
  state->close();
  unio::async_receive w;
  EXPECT_FALSE(state->enqueue(w, false));
  state->give_back(lent);
}

TEST(receive, refuses_regular_files) {
  test::temporary_directory const directory;
  auto file = unio::file_handle::file(directory.handle(), "file", unio::handle::mode::write,
                                      unio::handle::creation::if_needed)
                  .value();
  buffer_pool pool(1, 16);
  EXPECT_EQ(file.receive(pool).error(), std::errc::invalid_argument);
  EXPECT_EQ(pool.lent(), 0u);
}

// Each waits in its turn, though it blocks.
TEST(receive, blocking_calls_wait_for_a_buffer_in_their_turn) {
  buffer_pool pool(1, 16);
  auto p = unio::pipe_handle::anonymous().value();
  auto other = unio::pipe_handle::anonymous().value();
  put(p.writer, "one");
  put(other.writer, "two");
  lent_buffer held = pool.try_take();
  EXPECT_EQ(p.reader.try_receive(pool).error(), condition::would_block);
  EXPECT_EQ(p.reader.try_receive_for(pool, 5ms).error(), condition::timed_out);
  std::string first, second;
  std::thread a([&] { first = text_of(p.reader.receive(pool, 20s).value()); });
  while (pool.waits() != 2) std::this_thread::sleep_for(1ms);
  std::thread b([&] { second = text_of(other.reader.receive(pool, 20s).value()); });
  while (pool.waits() != 3) std::this_thread::sleep_for(1ms);
  held.reset();
  a.join();
  b.join();
  EXPECT_EQ(first, "one");
  EXPECT_EQ(second, "two");
  EXPECT_EQ(pool.lent(), 0u);
}

TEST(receive, death_of_a_pool_that_an_operation_waits_for) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        auto const m = test::make_multiplexer("epoll").value();
        auto p = unio::pipe_handle::anonymous().value();
        p.reader.set_multiplexer(m.get());
        put(p.writer, "x");
        told t;
        std::optional<buffer_pool> pool(std::in_place, 1, 8);
        lent_buffer const held = pool->try_take();
        auto op = unio::connect(unio::async_receive(p.reader, *pool), notes{&t});
        op.start();
        (void)m->try_run_for(0ms);
        pool.reset();
      },
      "waits for one of its buffers");
}

} // namespace
