// unio/asio.hpp: a context that ends with something pending. Under ASan also: nothing leaks, nothing is used
// later.

#include "asio_flavour.hpp"
#include "support/child.hpp"

#include <unio/unio.hpp>

#include <gtest/gtest-spi.h>

#include <atomic>
#include <cstring>

namespace {

using namespace asio_tests;

/// A handler that must not be called; counts its copies that live.
auto never(int& living) {
  return [held = alive(living)](auto const&...) { FAIL() << "called after its context"; };
}

unio::task<> sleeps_long() { (void)co_await unio::co_sleep(1h); }

TEST(asio_lifetime, drops_posted_functions) {
  int living = 0;
  {
    unio::asio_context context;
    for (int i = 0; i != 100; ++i) asio::post(context, never(living));
    EXPECT_EQ(living, 100);
  }
  EXPECT_EQ(living, 0);
  (void)unio::this_thread::multiplexer().try_run();
}

TEST(asio_lifetime, drops_operations_that_wait) {
  int living = 0;
  char c;
  auto pair = unio::socket_handle::pair().value();
  {
    unio::asio_context context;
    pair.first.set_multiplexer(&context.multiplexer());
    unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(&c, 1)), never(living));
    context.poll();
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
  (void)unio::this_thread::multiplexer().try_run();
}

TEST(asio_lifetime, drops_operations_that_have_ended) {
  int living = 0;
  char c;
  auto pair = unio::socket_handle::pair().value();
  ASSERT_TRUE(pair.second.write(unio::const_buffer("x")).has_value());
  {
    unio::asio_context context;
    unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(&c, 1)), never(living));
  }
  EXPECT_EQ(living, 0);
  (void)unio::this_thread::multiplexer().try_run();
}

TEST(asio_lifetime, closes_connections_that_were_accepted_for_handlers_that_are_dropped) {
  int living = 0;
  unio::endpoint const any = unio::endpoint::ipv4_loopback(0);
  for (bool const is_posted : {false, true}) {
    std::optional<unio::asio_context> context(std::in_place);
    std::optional<asio::io_context> other(std::in_place); // which calls nothing
    std::optional<unio::asio_acceptor> acceptor(std::in_place, *context, any);
    auto peer = unio::socket_handle::create(any.family()).value();
    ASSERT_TRUE(peer.connect(acceptor->local_endpoint()).has_value());
    if (is_posted) {
      acceptor->async_accept(asio::bind_executor(*other, never(living)));
      context->run();
    } else {
      acceptor->async_accept(never(living));
    }
    other.reset();
    acceptor.reset();
    context.reset();
    char c;
    auto const got = peer.read(unio::mutable_buffer(&c, 1), 10s);
    ASSERT_TRUE(got.has_value()) << got.error().message();
    EXPECT_TRUE(got->empty());
  }
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, drops_what_objects_have_left) {
  int living = 0;
  char c;
  {
    unio::asio_context context;
    ends e(context);
    unio::asio_timer timer(context, 1h);
    unio::asio_acceptor acceptor(context, unio::endpoint::ipv4_loopback(0));
    e.a.async_read_some(asio::buffer(&c, 1), never(living));
    timer.async_wait(never(living));
    acceptor.async_accept(
        [held = alive(living)](asio_error_code, unio::asio_stream<unio::socket_handle>) { FAIL(); });
    context.poll();
    EXPECT_EQ(living, 3);
  }
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, drops_tasks) {
  int living = 0;
  {
    unio::asio_context context;
    unio::async_start(context, sleeps_long(), never(living));
    unio::async_start(context, sleeps_long(), never(living));
    context.poll();
    unio::async_start(context, []() -> unio::task<> { co_return; }(), never(living)); // has not begun
    EXPECT_EQ(living, 3);
  }
  EXPECT_EQ(living, 0);
}

template <class Context> void expect_that_a_child_destroys_it_with_tasks() {
  std::optional<Context> context(std::in_place);
  unio::async_start(*context, sleeps_long(), [](std::exception_ptr const&) {});
  (void)unio::this_thread::multiplexer().try_run();
  test::expect_in_child([&] {
    ::alarm(20); // it may hang
    context.reset();
    return 0;
  });
}
TEST(asio_lifetime, a_child_of_fork_destroys_a_context_with_tasks) {
  expect_that_a_child_destroys_it_with_tasks<unio::asio_context>();
}
TEST(asio_lifetime, a_child_of_fork_destroys_a_context_of_asios_own_with_tasks) {
  expect_that_a_child_destroys_it_with_tasks<asio::io_context>();
}

TEST(asio_lifetime, a_task_of_a_thread_that_ends_before_it_begins_ends_too) {
  asio::io_context context;
  std::error_code seen;
  std::jthread([&] {
    unio::async_start(context, sleeps_long(), [&](std::exception_ptr e) {
      try {
        if (e != nullptr) std::rethrow_exception(e);
      } catch (std::system_error const& x) {
        seen = x.code();
      }
    });
    unio::async_start(
        context, []() -> unio::task<unio::result<int>> { co_return 1; }(),
        [&](std::exception_ptr e, unio::result<int> r) {
          EXPECT_EQ(e, nullptr);
          EXPECT_EQ(r.error(), unio::error::multiplexer_destroyed);
        });
  }).join();
  EXPECT_EQ(context.run(), 2u);
  EXPECT_EQ(seen, unio::error::multiplexer_destroyed);
}

TEST(asio_lifetime, drops_a_task_of_a_thread_that_ended_before_it_began) {
  int living = 0;
  {
    asio::io_context context;
    std::jthread([&] { unio::async_start(context, sleeps_long(), never(living)); }).join();
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, drops_coroutines_that_wait) {
  int living = 0;
  {
    unio::asio_context context;
    auto pair = unio::socket_handle::pair().value();
    auto s = std::make_shared<unio::asio_stream<unio::socket_handle>>(context, std::move(pair.first));
    start_coroutine(context, [s, held = alive(living)]() -> asio::awaitable<void> {
      char c;
      co_await s->async_read_some(asio::buffer(&c, 1), asio::use_awaitable);
      ADD_FAILURE();
    });
    s.reset();
    context.poll();
    EXPECT_GE(living, 1);
  }
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, drops_operations_of_a_context_of_asios_own) {
  int living = 0;
  char c;
  auto pair = unio::socket_handle::pair().value();
  {
    asio::io_context context;
    unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(&c, 1)), never(living));
    EXPECT_EQ(living, 1);
  }
  EXPECT_EQ(living, 0);
}

/// What is given back is overwritten and not lent again, so that a later use is seen.
class overwritten : public std::pmr::memory_resource {
  void* do_allocate(std::size_t n, std::size_t alignment) override { return all_.allocate(n, alignment); }
  void do_deallocate(void* p, std::size_t n, std::size_t) override { std::memset(p, 0xdd, n); }
  [[nodiscard]] bool do_is_equal(memory_resource const& other) const noexcept override {
    return this == &other;
  }
  std::pmr::monotonic_buffer_resource all_;
};

/// A handler in that memory, with a slot.
auto never_with_slot(int& living, asio::cancellation_slot slot, overwritten& memory) {
  return asio::bind_cancellation_slot(
      slot, asio::bind_allocator(std::pmr::polymorphic_allocator<char>(&memory), never(living)));
}

TEST(asio_lifetime, a_slot_knows_nothing_of_what_an_executor_has_dropped) {
  int living = 0;
  overwritten memory;
  asio::cancellation_signal signal;
  char c;
  auto pair = unio::socket_handle::pair().value();
  ASSERT_TRUE(pair.second.write(unio::const_buffer("x")).has_value());
  for (bool const is_task : {false, true}) {
    unio::asio_context context;
    std::optional<asio::io_context> other(std::in_place); // which calls nothing
    auto const handler = [&] {
      return asio::bind_executor(*other, never_with_slot(living, signal.slot(), memory));
    };
    if (is_task) {
      unio::async_start(context, []() -> unio::task<> { co_return; }(), handler());
    } else {
      unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(&c, 1)), handler());
    }
    context.run();
    EXPECT_EQ(living, 1);
    other.reset();
    EXPECT_EQ(living, 0);
    signal.emit(asio::cancellation_type::terminal);
  }
}

TEST(asio_lifetime, a_slot_knows_nothing_of_what_its_context_has_dropped) {
  int living = 0;
  overwritten memory;
  asio::cancellation_signal signal;
  {
    unio::asio_context context;
    unio::asio_timer timer(context, 1h);
    timer.async_wait(never_with_slot(living, signal.slot(), memory));
    context.poll();
  }
  EXPECT_EQ(living, 0);
  signal.emit(asio::cancellation_type::terminal);
}

TEST(asio_lifetime, a_signal_may_end_before_what_it_cancels) {
  int living = 0;
  overwritten memory;
  auto* const signal = std::pmr::polymorphic_allocator<>(&memory).new_object<asio::cancellation_signal>();
  {
    unio::asio_context context;
    unio::asio_timer timer(context, 1h);
    timer.async_wait(never_with_slot(living, signal->slot(), memory));
    context.poll();
    std::pmr::polymorphic_allocator<>(&memory).delete_object(signal);
  }
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, drops_operations_on_another_multiplexer) {
  int living = 0;
  char c;
  auto m = unio::io_multiplexer::best_available(2).value();
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m.get());
  std::atomic<bool> ends = false;
  std::jthread runner([&] {
    while (!ends) (void)m->try_run_for(1ms);
  });
  for (int i = 0; i != 20; ++i) {
    unio::asio_context context;
    unio::async_start(context, unio::async_read(pair.first, unio::mutable_buffer(&c, 1)), never(living));
    if (i % 2 == 1) std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(living, 0);
  ends = true;
  runner.join();
  pair.first.set_multiplexer(nullptr);
}

TEST(asio_lifetime, drops_what_an_exception_has_left) {
  int living = 0;
  {
    unio::asio_context context;
    asio::post(context, [] { throw std::runtime_error("x"); });
    for (int i = 0; i != 10; ++i) asio::post(context, never(living));
    EXPECT_THROW(context.run(), std::runtime_error);
  }
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, gives_all_memory_back) {
  counted_memory memory;
  char c;
  int living = 0;
  {
    unio::asio_context context;
    ends e(context);
    e.a.async_read_some(asio::buffer(&c, 1),
                        asio::bind_allocator(counting_allocator<char>(memory), never(living)));
    asio::post(context, asio::bind_allocator(counting_allocator<char>(memory), never(living)));
    EXPECT_EQ(memory.blocks, 2);
  }
  EXPECT_EQ(memory.blocks, 0);
  EXPECT_EQ(living, 0);
}

TEST(asio_lifetime, destroys_a_context_that_is_shared) {
  int living = 0;
  for (int i = 0; i != 10; ++i) {
    unio::asio_context context(3);
    ends e(context);
    char c;
    std::vector<std::jthread> threads;
    auto const work = asio::make_work_guard(context);
    for (int t = 0; t != 3; ++t) threads.emplace_back([&] { context.run(); });
    e.a.async_read_some(asio::buffer(&c, 1), never(living));
    unio::async_start(context, sleeps_long(), never(living));
    for (int p = 0; p != 10; ++p) asio::post(context, [] {});
    context.stop();
    threads.clear();
    asio::post(context, never(living));
    unio::async_start(context, sleeps_long(), never(living));
  }
  EXPECT_EQ(living, 0);
}

/// The harness sees a handler that is called after its context.
TEST(asio_lifetime, canary_of_handlers_that_must_not_be_called) {
  int living = 0;
  ::testing::TestPartResultArray found;
  {
    ::testing::ScopedFakeTestPartResultReporter const reporter(
        ::testing::ScopedFakeTestPartResultReporter::INTERCEPT_ONLY_CURRENT_THREAD, &found);
    unio::asio_context context;
    asio::post(context, never(living));
    context.run();
  }
  EXPECT_EQ(found.size(), 1);
  EXPECT_EQ(living, 0);
  counted_memory memory;
  auto* const p = counting_allocator<char>(memory).allocate(1);
  EXPECT_EQ(memory.blocks, 1);
  counting_allocator<char>(memory).deallocate(p, 1);
}

} // namespace
