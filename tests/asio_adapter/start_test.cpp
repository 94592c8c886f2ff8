// unio/asio.hpp, async_start(): each completion token, and each rule that Asio's handlers may rely on.

#include "asio_flavour.hpp"

#include <deque>
#include <future>

namespace {

using namespace asio_tests;

struct asio_start : ::testing::Test {
  unio::asio_context context;
  unio::socket_pair pair = unio::socket_handle::pair().value();
  std::array<char, 16> room{};
  unio::async_read reads() { return {pair.first, unio::mutable_buffer(room)}; }
  void send(std::string_view text) { ASSERT_TRUE(pair.second.write(unio::const_buffer(text)).has_value()); }
};

TEST_F(asio_start, calls_a_handler_with_the_bytes_that_were_read) {
  outcome o;
  send("hello");
  unio::async_start(context, reads(), o.handler());
  EXPECT_EQ(context.run(), 1u);
  EXPECT_TRUE(o.called);
  EXPECT_FALSE(o.ec);
  EXPECT_EQ(o.bytes, 5u);
  EXPECT_EQ(std::string_view(room.data(), 5), "hello");
}

TEST_F(asio_start, never_calls_a_handler_inside_of_itself) {
  outcome o;
  send("x");
  unio::async_start(context, reads(), o.handler());
  EXPECT_FALSE(o.called);
  context.run();
  EXPECT_TRUE(o.called);
}

TEST_F(asio_start, never_calls_a_handler_inside_of_another) {
  bool inside = false;
  outcome o;
  asio::post(context, [&] {
    inside = true;
    send("x");
    unio::async_start(context, reads(), [&](asio_error_code, std::size_t) {
      EXPECT_FALSE(inside);
      o.called = true;
    });
    inside = false;
  });
  context.run();
  EXPECT_TRUE(o.called);
}

TEST_F(asio_start, waits_for_what_is_not_ready) {
  outcome o;
  unio::async_start(context, reads(), o.handler());
  EXPECT_EQ(context.poll(), 0u);
  EXPECT_FALSE(o.called);
  send("late");
  EXPECT_EQ(context.run(), 1u);
  EXPECT_EQ(o.bytes, 4u);
}

TEST_F(asio_start, says_eof_where_a_stream_has_ended) {
  outcome o;
  ASSERT_TRUE(pair.second.close().has_value());
  unio::async_start(context, reads(), o.handler());
  context.run();
  EXPECT_EQ(o.ec, asio::error::eof);
  EXPECT_EQ(o.bytes, 0u);
}

TEST_F(asio_start, says_no_eof_where_no_byte_was_asked_for) {
  outcome o;
  unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffers()), o.handler());
  context.run();
  EXPECT_TRUE(o.called);
  EXPECT_FALSE(o.ec);
}

TEST_F(asio_start, says_timed_out_where_a_deadline_has_passed) {
  outcome o;
  unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(room), 5ms), o.handler());
  context.run();
  EXPECT_EQ(o.ec, asio::error::timed_out);
}

TEST_F(asio_start, passes_the_systems_errors_on) {
  outcome o;
  auto ends = unio::socket_handle::pair().value();
  ASSERT_TRUE(ends.second.close().has_value());
  unio::async_start(context, unio::async_write(ends.first, unio::const_buffer("x")), o.handler());
  context.run();
  EXPECT_EQ(o.ec, asio::error::broken_pipe);
}

TEST_F(asio_start, takes_use_awaitable) {
  std::size_t bytes = 0;
  send("abc");
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    bytes = co_await unio::async_start(context, reads(), asio::use_awaitable);
  });
  context.run();
  EXPECT_EQ(bytes, 3u);
}

TEST_F(asio_start, needs_no_executor_inside_of_run) {
  std::size_t bytes = 0;
  send("abc");
  asio::co_spawn(
      context,
      [&]() -> asio::awaitable<void> { bytes = co_await unio::async_start(reads(), asio::use_awaitable); },
      asio::detached);
  context.run();
  EXPECT_EQ(bytes, 3u);
}

TEST_F(asio_start, throws_from_use_awaitable) {
  asio_error_code seen;
  ASSERT_TRUE(pair.second.close().has_value());
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    try {
      co_await unio::async_start(context, reads(), asio::use_awaitable);
    } catch (unio::detail::asio_system_error const& e) {
      seen = e.code();
    }
  });
  context.run();
  EXPECT_EQ(seen, asio::error::eof);
}

TEST_F(asio_start, takes_redirect_error) {
  asio_error_code seen;
  ASSERT_TRUE(pair.second.close().has_value());
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    co_await unio::async_start(context, reads(), asio::redirect_error(asio::use_awaitable, seen));
  });
  context.run();
  EXPECT_EQ(seen, asio::error::eof);
}

TEST_F(asio_start, takes_use_future) {
  send("abc");
  std::future<std::size_t> got = unio::async_start(context, reads(), asio::use_future);
  context.run();
  EXPECT_EQ(got.get(), 3u);
}

TEST_F(asio_start, takes_deferred_and_starts_it_when_it_is_called) {
  outcome o;
  auto operation = unio::async_start(context, reads(), tokens::deferred);
  EXPECT_EQ(context.poll(), 0u);
  context.restart();
  send("abc");
  std::move(operation)(o.handler());
  context.run();
  EXPECT_EQ(o.bytes, 3u);
}

TEST_F(asio_start, takes_detached) {
  send("abc");
  unio::async_start(context, reads(), asio::detached);
  EXPECT_EQ(context.run(), 1u);
  EXPECT_EQ(room[0], 'a');
}

TEST_F(asio_start, yields_the_value_of_an_operation_that_has_one) {
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto client = unio::socket_handle::create(unio::address_family::ipv4).value();
  unio::socket_handle accepted;
  outcome connected;
  unio::async_start(context, unio::async_accept(listener), [&](asio_error_code ec, unio::socket_handle s) {
    EXPECT_FALSE(ec);
    accepted = std::move(s);
  });
  unio::async_start(context, unio::async_connect(client, listener.local_endpoint().value()),
                    connected.handler());
  EXPECT_EQ(context.run(), 2u);
  EXPECT_TRUE(accepted.is_open());
  EXPECT_FALSE(connected.ec);
}

TEST_F(asio_start, calls_a_handler_on_its_associated_executor) {
  asio::thread_pool pool(1);
  std::thread::id where, pools;
  asio::post(pool, [&] { pools = std::this_thread::get_id(); });
  send("x");
  unio::async_start(context, reads(), asio::bind_executor(pool, [&](asio_error_code, std::size_t) {
                      where = std::this_thread::get_id();
                    }));
  context.run();
  pool.join();
  EXPECT_EQ(where, pools);
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(asio_start, calls_handlers_of_a_strand_there) {
  auto strand = asio::make_strand(context);
  int n = 0;
  send("ab");
  for (int i = 0; i != 2; ++i)
    unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(room.data(), 1)),
                      asio::bind_executor(strand, [&](asio_error_code, std::size_t) {
                        EXPECT_TRUE(strand.running_in_this_thread());
                        ++n;
                      }));
  context.run();
  EXPECT_EQ(n, 2);
}

TEST_F(asio_start, counts_work_on_the_associated_executor) {
  asio::io_context other;
  bool called = false;
  unio::async_start(context, reads(),
                    asio::bind_executor(other, [&](asio_error_code, std::size_t) { called = true; }));
  EXPECT_EQ(other.poll(), 0u);
  EXPECT_FALSE(other.stopped()); // there is work
  send("x");
  context.run();
  EXPECT_FALSE(called);
  EXPECT_EQ(other.run(), 1u);
  EXPECT_TRUE(called);
}

TEST_F(asio_start, counts_work_of_operations_on_another_multiplexer) {
  auto m = unio::io_multiplexer::best_available(2).value();
  pair.first.set_multiplexer(m.get());
  outcome o;
  unio::async_start(context, reads(), o.handler());
  std::jthread runner([&] {
    std::this_thread::sleep_for(5ms);
    send("abc");
    while (m->run().value() != 0) continue;
  });
  EXPECT_EQ(context.run(), 1u);
  EXPECT_EQ(o.bytes, 3u);
  runner.join();
  pair.first.set_multiplexer(nullptr);
}

TEST_F(asio_start, completes_on_a_context_of_asios_own) {
  asio::io_context other;
  std::size_t bytes = 0;
  auto m = unio::io_multiplexer::best_available(2).value();
  pair.first.set_multiplexer(m.get());
  unio::async_start(other, reads(), [&](asio_error_code, std::size_t n) { bytes = n; });
  std::jthread runner([&] {
    send("abc");
    while (m->run().value() != 0) continue;
  });
  EXPECT_EQ(other.run(), 1u);
  EXPECT_EQ(bytes, 3u);
  runner.join();
  pair.first.set_multiplexer(nullptr);
}

TEST_F(asio_start, completes_on_the_executor_of_an_awaiting_coroutine) {
  asio::thread_pool pool(1);
  std::thread::id before, after;
  send("abc");
  auto done = asio::co_spawn(
      pool,
      [&]() -> asio::awaitable<void> {
        before = std::this_thread::get_id();
        co_await unio::async_start(context, reads(), asio::use_awaitable);
        after = std::this_thread::get_id();
      },
      asio::use_future);
  auto const work = asio::make_work_guard(context);
  while (done.wait_for(0s) != std::future_status::ready) context.run_for(1ms);
  EXPECT_EQ(before, after);
  EXPECT_NE(before, std::this_thread::get_id());
}

TEST_F(asio_start, takes_memory_from_the_associated_allocator_and_gives_it_back_before_the_call) {
  counted_memory memory;
  bool called = false;
  send("x");
  unio::async_start(context, reads(),
                    asio::bind_allocator(counting_allocator<char>(memory), [&](asio_error_code, std::size_t) {
                      EXPECT_EQ(memory.blocks, 0);
                      called = true;
                    }));
  EXPECT_EQ(memory.blocks, 1);
  context.run();
  EXPECT_TRUE(called);
  EXPECT_EQ(memory.blocks, 0);
}

TEST_F(asio_start, gives_memory_back_before_the_call_on_another_executor) {
  counted_memory memory;
  asio::io_context other;
  bool called = false;
  send("x");
  unio::async_start(context, reads(),
                    asio::bind_executor(other, asio::bind_allocator(counting_allocator<char>(memory),
                                                                    [&](asio_error_code, std::size_t) {
                                                                      EXPECT_EQ(memory.blocks, 0);
                                                                      called = true;
                                                                    })));
  context.run();
  other.run();
  EXPECT_TRUE(called);
  EXPECT_EQ(memory.blocks, 0);
}

TEST_F(asio_start, is_cancelled_by_the_associated_slot) {
  outcome o;
  asio::cancellation_signal signal;
  unio::async_start(context, reads(), asio::bind_cancellation_slot(signal.slot(), o.handler()));
  EXPECT_EQ(context.poll(), 0u);
  signal.emit(asio::cancellation_type::terminal);
  EXPECT_FALSE(o.called);
  context.run();
  EXPECT_EQ(o.ec, asio::error::operation_aborted);
}

TEST_F(asio_start, clears_the_slot_before_the_call) {
  asio::cancellation_signal signal;
  bool called = false;
  send("x");
  unio::async_start(context, reads(),
                    asio::bind_cancellation_slot(signal.slot(), [&](asio_error_code ec, std::size_t) {
                      EXPECT_FALSE(ec);
                      EXPECT_FALSE(signal.slot().has_handler());
                      called = true;
                    }));
  EXPECT_TRUE(signal.slot().has_handler());
  context.run();
  EXPECT_TRUE(called);
}

TEST_F(asio_start, may_be_cancelled_after_its_end) {
  outcome o;
  asio::cancellation_signal signal;
  send("x");
  unio::async_start(context, reads(), asio::bind_cancellation_slot(signal.slot(), o.handler()));
  signal.emit(asio::cancellation_type::total); // it has ended; its handler waits
  context.run();
  EXPECT_FALSE(o.ec);
  EXPECT_EQ(o.bytes, 1u);
  signal.emit(asio::cancellation_type::total);
}

TEST_F(asio_start, keeps_the_bytes_that_a_cancel_raced) {
  for (int i = 0; i != 50; ++i) {
    outcome o;
    asio::cancellation_signal signal;
    unio::async_start(context, reads(), asio::bind_cancellation_slot(signal.slot(), o.handler()));
    context.poll();
    send("x");
    signal.emit(asio::cancellation_type::all);
    context.restart();
    context.run();
    context.restart();
    ASSERT_TRUE(o.called);
    if (o.ec) {
      EXPECT_EQ(o.ec, asio::error::operation_aborted);
      EXPECT_EQ(pair.first.read(unio::mutable_buffer(room)).value().bytes(), 1u);
    } else {
      EXPECT_EQ(o.bytes, 1u);
    }
  }
}

TEST_F(asio_start, is_cancelled_from_the_executor_of_its_handler) {
  asio::thread_pool pool(1);
  asio::cancellation_signal signal;
  asio_error_code seen;
  unio::async_start(
      context, reads(),
      asio::bind_cancellation_slot(
          signal.slot(), asio::bind_executor(pool, [&](asio_error_code ec, std::size_t) { seen = ec; })));
  asio::post(pool, [&] { signal.emit(asio::cancellation_type::terminal); });
  context.run();
  pool.join();
  EXPECT_EQ(seen, asio::error::operation_aborted);
}

TEST_F(asio_start, works_with_awaitable_operators) {
  using namespace asio::experimental::awaitable_operators;
  std::size_t which = 9;
  start_coroutine(context, [&]() -> asio::awaitable<void> {
    unio::asio_timer timer(context, 5ms);
    auto r = co_await (unio::async_start(context, reads(), asio::use_awaitable) ||
                       timer.async_wait(asio::use_awaitable));
    which = r.index();
  });
  context.run();
  EXPECT_EQ(which, 1u);
}

struct moved_with_exceptions {
  explicit moved_with_exceptions(int& n, bool& throws) : called(&n), may_throw(&throws) {}
  moved_with_exceptions(moved_with_exceptions&& other) noexcept(false)
      : called(other.called), may_throw(other.may_throw) {
    if (*may_throw) throw std::runtime_error("moved");
  }
  void operator()(asio_error_code, std::size_t) { ++*called; }
  int* called;
  bool* may_throw;
};

TEST_F(asio_start, takes_handlers_whose_move_may_throw) {
  int n = 0;
  bool throws = false;
  send("x");
  unio::async_start(context, reads(), moved_with_exceptions(n, throws));
  context.run();
  EXPECT_EQ(n, 1);
}

TEST_F(asio_start, throws_what_a_move_throws_out_of_run_and_loses_nothing) {
  int n = 0;
  bool throws = false;
  send("x");
  unio::async_start(context, reads(), moved_with_exceptions(n, throws));
  throws = true;
  EXPECT_THROW(context.run(), std::runtime_error);
  throws = false;
  EXPECT_EQ(n, 0);
  outcome o;
  asio::post(context, [&] { o.called = true; });
  context.restart();
  context.run();
  EXPECT_TRUE(o.called);
}

TEST_F(asio_start, throws_what_a_handler_throws_out_of_run) {
  send("x");
  unio::async_start(context, reads(), [](asio_error_code, std::size_t) { throw std::runtime_error("mine"); });
  EXPECT_THROW(context.run(), std::runtime_error);
}

TEST_F(asio_start, calls_those_that_were_ready_after_an_exception) {
  int called = 0;
  std::vector<unio::socket_pair> pairs;
  std::array<char, 8> each{};
  for (int i = 0; i != 8; ++i) pairs.push_back(unio::socket_handle::pair().value());
  for (std::size_t i = 0; i != 8; ++i)
    unio::async_start(context, unio::async_read(pairs[i].first, unio::mutable_buffer(&each[i], 1)),
                      [&](asio_error_code, std::size_t) {
                        if (++called % 2 == 1) throw std::runtime_error("odd");
                      });
  context.poll();
  for (auto& p : pairs) ASSERT_TRUE(p.second.write(unio::const_buffer("x")).has_value());
  int thrown = 0;
  for (int i = 0; i != 20 && called != 8; ++i) try {
      context.run();
      context.restart();
    } catch (std::runtime_error const&) {
      ++thrown;
    }
  EXPECT_EQ(called, 8);
  EXPECT_EQ(thrown, 4);
}

TEST_F(asio_start, may_be_called_from_another_thread_than_runs_the_context) {
  unio::asio_context shared(2);
  outcome o;
  auto work = std::make_optional(asio::make_work_guard(shared));
  std::jthread runner([&] { shared.run(); });
  send("abc");
  std::promise<void> done;
  unio::async_start(shared, reads(), [&](asio_error_code ec, std::size_t n) {
    o.ec = ec;
    o.bytes = n;
    done.set_value();
  });
  done.get_future().wait();
  work.reset();
  runner.join();
  EXPECT_EQ(o.bytes, 3u);
}

TEST_F(asio_start, frees_what_a_handler_holds) {
  int living = 0;
  send("x");
  unio::async_start(context, reads(), [held = alive(living)](asio_error_code, std::size_t) { (void)held; });
  EXPECT_EQ(living, 1);
  context.run();
  EXPECT_EQ(living, 0);
}

TEST_F(asio_start, completes_a_hundred_thousand_operations_in_constant_stack) {
  struct loop {
    unio::asio_context& context;
    unio::io_handle& from;
    int& left;
    void operator()(asio_error_code, std::size_t) const {
      if (--left != 0) unio::async_start(context, unio::async_read(from, unio::mutable_buffers()), *this);
    }
  };
  int left = 100'000;
  loop{context, pair.first, left}(asio_error_code(), 0);
  context.run();
  EXPECT_EQ(left, 0);
}

// Handlers of Asio's own context, on the thread that runs the multiplexer too.
TEST_F(asio_start, goes_to_a_ring_together_where_another_loop_says_that_more_follows) {
  asio::io_context io;
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  constexpr unsigned n = 16;
  std::deque<unio::socket_pair> pairs;
  for (unsigned i = 0; i < n; ++i) {
    pairs.push_back(unio::socket_handle::pair().value());
    pairs.back().first.set_multiplexer(&m);
  }
  (void)m.try_run();
  unsigned written = 0;
  for (unio::socket_pair& p : pairs)
    start_coroutine(io, [&]() -> asio::awaitable<void> {
      std::size_t const bytes = co_await unio::async_start(
          io.get_executor(), unio::async_write(p.first, unio::const_buffer("abc", 3)), asio::use_awaitable);
      written += bytes == 3 ? 1 : 0;
    });
  unio::counters const before = m.counters();
  {
    unio::held_starts const together(m);
    io.poll();
  }
  unio::counters const held = m.counters();
  bool const is_ring = std::string_view(m.capabilities().driver) == "io_uring";
  EXPECT_EQ(held.turns - before.turns, is_ring ? 1 : 0);
  EXPECT_EQ(held.inline_hits - before.inline_hits, is_ring ? 0 : n);
  while (written != n) {
    (void)m.try_run();
    io.restart();
    io.poll();
  }
}

} // namespace
