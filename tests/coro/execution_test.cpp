// execution.hpp: operations, tasks and executors as senders of the standard's vocabulary, and senders awaited
// by tasks.
//
// Against tests/support/execution, which is the part of the standard's vocabulary that the tests need:
// tests/senders/senders_test.cpp is compiled against the standard library's, or stdexec's.

#define UNIO_EXECUTION_HEADER "support/execution/execution.hpp"
#define UNIO_EXECUTION_NAMESPACE test::execution
#include "support/execution/execution.hpp"

#include "support/other_thread.hpp"
#include "support/test.hpp"

#include <unio/execution.hpp>

#include <stop_token>

namespace {

using namespace test;

namespace ex = test::execution;

TEST(execution, is_there) { EXPECT_EQ(UNIO_HAS_EXECUTION, 1); }

static_assert(ex::enable_sender<unio::async_accept> && ex::enable_sender<unio::async_no_op>);
static_assert(!ex::enable_sender<unio::async_accept_many>, "it yields many values");
static_assert(!ex::enable_sender<unio::io_awaitable<unio::async_read>>);
static_assert(sizeof(unio::async_no_op) == sizeof(unio::io_operation), "being a sender takes no room");
static_assert(ex::sender_in<unio::async_read> && ex::sender_in<unio::async_wait>);
static_assert(ex::scheduler<decltype(unio::as_scheduler(unio::inline_executor()))>);

auto turn_mine = [] { (void)unio::this_thread::multiplexer().try_run(); };
auto wait_only = [] { std::this_thread::yield(); };

// ---- operations ------------------------------------------------------------------------------------------

using read_result = io_result<mutable_buffers>;

TEST(execution, an_operation_completes_with_its_result_when_it_has_finished) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  writer.write(std::string_view("hello")).value();
  std::array<char, 8> room{};
  auto const got =
      ex::wait_for<read_result>(unio::async_read(reader, unio::mutable_buffer(room)), {}, turn_mine);
  ASSERT_TRUE(got.value.has_value());
  EXPECT_EQ(std::get<0>(*got.value).bytes_transferred(), 5u);
}

TEST(execution, an_operation_is_composed_with_the_standards_algorithms) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 8> room{};
  std::thread::id where;
  auto length = unio::async_read(reader, unio::mutable_buffer(room)) | ex::then([&](read_result r) {
                  where = std::this_thread::get_id();
                  return r.bytes_transferred();
                });
  bool written = false;
  auto const got = ex::wait_for<std::size_t>(std::move(length), {}, [&] {
    turn_mine();
    if (!std::exchange(written, true)) writer.write(std::string_view("abc")).value();
  });
  EXPECT_EQ(std::get<0>(got.value.value()), 3u);
  EXPECT_EQ(where, std::this_thread::get_id());
}

TEST(execution, an_operations_error_is_in_its_result) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  (void)reader.close();
  using written = io_result<unio::const_buffers>;
  auto const got =
      ex::wait_for<written>(unio::async_write(writer, unio::const_buffer("x", 1)), {}, turn_mine);
  EXPECT_EQ(std::get<0>(got.value.value()).error(), std::errc::broken_pipe);
}

TEST(execution, an_operation_is_stopped_before_and_after_it_has_started) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 8> room{};
  std::stop_source before;
  before.request_stop();
  writer.write(std::string_view("x")).value();
  EXPECT_TRUE(ex::wait_for<read_result>(unio::async_read(reader, unio::mutable_buffer(room)),
                                        before.get_token(), turn_mine)
                  .stopped);
  EXPECT_EQ(reader.read(unio::mutable_buffer(room)).bytes_transferred(), 1u) << "the byte is still there";
  std::stop_source after;
  int turns = 0;
  auto const got =
      ex::wait_for<read_result>(unio::async_read(reader, unio::mutable_buffer(room)), after.get_token(), [&] {
        turn_mine();
        if (++turns == 3) after.request_stop();
      });
  EXPECT_TRUE(got.stopped);
}

TEST(execution, an_operation_that_nobody_stopped_but_was_canceled_says_so_in_its_result) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 8> room{};
  int turns = 0;
  auto const got =
      ex::wait_for<read_result>(unio::async_read(reader, unio::mutable_buffer(room)), {}, [&, &r = reader] {
        turn_mine();
        if (++turns == 3) (void)r.close();
      });
  EXPECT_EQ(std::get<0>(got.value.value()).error(), condition::canceled);
}

TEST(execution, an_operation_whose_multiplexer_another_thread_runs_loses_no_byte_to_a_stop) {
  test::other_thread w;
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  int read = 0, stopped = 0;
  for (int i = 0; i != 100; ++i) {
    reader.set_multiplexer(&w.multiplexer());
    std::stop_source source;
    char room = 0;
    std::thread stopper([&] { source.request_stop(); });
    writer.write(std::string_view("x")).value();
    auto const got = ex::wait_for<read_result>(unio::async_read(reader, unio::mutable_buffer(&room, 1)),
                                               source.get_token(), wait_only);
    stopper.join();
    if (got.stopped) {
      ++stopped;
      reader.set_multiplexer(nullptr);
      EXPECT_EQ(reader.read(unio::mutable_buffer(&room, 1)).bytes_transferred(), 1u);
    } else {
      ++read;
      EXPECT_EQ(std::get<0>(got.value.value()).bytes_transferred(), 1u);
    }
  }
  EXPECT_EQ(read + stopped, 100);
}

// A receiver with so many bytes of its own, which must stay as they are.
template <std::size_t Bytes> struct large_receiver {
  using receiver_concept = ex::receiver_t;
  struct env {
    ex::inplace_stop_token token;
    [[nodiscard]] auto query(ex::get_stop_token_t) const noexcept { return token; }
  };
  std::array<unsigned char, Bytes> content;
  ex::inplace_stop_token token;
  int* intact_ends;
  template <class... V> void set_value(V&&...) && noexcept { ADD_FAILURE() << "it was to be stopped"; }
  template <class E> void set_error(E&&) && noexcept { ADD_FAILURE() << "never"; }
  void set_stopped() && noexcept {
    *intact_ends += std::all_of(content.begin(), content.end(), [](unsigned char c) { return c == 0x5a; });
  }
  [[nodiscard]] env get_env() const noexcept { return {token}; }
};

template <std::size_t Bytes> void stop_from_another_thread() {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  char room = 0;
  int intact_ends = 0;
  std::stop_source source;
  large_receiver<Bytes> receiver{.content = {}, .token = source.get_token(), .intact_ends = &intact_ends};
  receiver.content.fill(0x5a);
  auto operation = ex::connect(unio::async_read(reader, unio::mutable_buffer(&room, 1)), std::move(receiver));
  ex::start(operation);
  turn_mine();
  std::thread stopper([&] { source.request_stop(); });
  auto const end = std::chrono::steady_clock::now() + 20s;
  while (intact_ends == 0 && std::chrono::steady_clock::now() < end)
    (void)unio::this_thread::multiplexer().try_run_for(5ms);
  stopper.join();
  EXPECT_EQ(intact_ends, 1) << Bytes;
}

TEST(execution, an_operation_is_stopped_by_another_thread_however_large_its_receiver_is) {
  stop_from_another_thread<64>();
  stop_from_another_thread<1864>();
  stop_from_another_thread<1976>();
  stop_from_another_thread<4096>();
}

// ---- executors -------------------------------------------------------------------------------------------

TEST(execution, an_executor_is_a_scheduler) {
  test::other_thread w;
  auto const scheduler = unio::as_scheduler(w.executor());
  EXPECT_EQ(scheduler, unio::as_scheduler(w.executor()));
  auto sender = ex::schedule(scheduler);
  EXPECT_EQ(ex::get_completion_scheduler<ex::set_value_t>(ex::get_env(sender)), scheduler);
  auto const got = ex::wait_for<std::thread::id>(
      std::move(sender) | ex::then([] { return std::this_thread::get_id(); }), {}, wait_only);
  EXPECT_EQ(std::get<0>(got.value.value()), w.id());
}

TEST(execution, a_scheduler_whose_executor_ends_completes_with_stopped) {
  auto m = io_multiplexer::best_available(1).value();
  auto sender = ex::schedule(unio::as_scheduler(m->executor()));
  EXPECT_TRUE(ex::wait_for<>(std::move(sender), {}, [&] { m.reset(); }).stopped);
}

// ---- tasks -----------------------------------------------------------------------------------------------

TEST(execution, a_task_is_a_sender_of_what_it_returns_or_throws) {
  test::other_thread w;
  auto const body = [](bool fails) -> task<std::thread::id> {
    (co_await unio::co_no_op()).value();
    if (fails) throw std::runtime_error("no");
    co_return std::this_thread::get_id();
  };
  auto const got = ex::wait_for<std::thread::id>(unio::as_sender(w.executor(), body(false)), {}, wait_only);
  EXPECT_EQ(std::get<0>(got.value.value()), w.id());
  auto const failed = ex::wait_for<std::thread::id>(unio::as_sender(w.executor(), body(true)), {}, wait_only);
  EXPECT_THROW(std::rethrow_exception(failed.error), std::runtime_error);
}

TEST(execution, a_task_is_stopped_by_its_receivers_token) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  unio::multiplexer_executor const mine = unio::this_thread::multiplexer().executor();
  auto const body = [](unio::io_handle& h) -> task<> {
    char room = 0;
    io_result<mutable_buffers> const r = co_await h.co_read(unio::mutable_buffer(&room, 1));
    (void)r.value();
  };
  std::stop_source source;
  int turns = 0;
  auto const got = ex::wait_for<>(unio::as_sender(mine, body(reader)), source.get_token(), [&] {
    turn_mine();
    if (++turns == 3) source.request_stop();
  });
  EXPECT_TRUE(got.stopped);
  EXPECT_EQ(got.error, nullptr);
}

// ---- awaiting --------------------------------------------------------------------------------------------

TEST(execution, a_task_awaits_senders) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  writer.write(std::string_view("hello")).value();
  test::other_thread w;
  auto const body = [](unio::io_handle& h, test::other_thread& there, std::thread::id here) -> task<> {
    int const one = co_await unio::as_awaitable(ex::just(1));
    EXPECT_EQ(one, 1);
    std::tuple<int, char> const two = co_await unio::as_awaitable(ex::just(2, 'b'));
    EXPECT_EQ(std::get<1>(two), 'b');
    co_await unio::as_awaitable(ex::just());
    std::array<char, 8> room{};
    auto length = unio::async_read(h, unio::mutable_buffer(room)) |
                  ex::then([](read_result r) { return r.bytes_transferred(); });
    std::size_t const n = co_await unio::as_awaitable(std::move(length));
    EXPECT_EQ(n, 5u);
    auto elsewhere = ex::schedule(unio::as_scheduler(there.executor())) |
                     ex::then([] { return std::this_thread::get_id(); });
    std::thread::id const where = co_await unio::as_awaitable(std::move(elsewhere));
    EXPECT_EQ(where, there.id());
    EXPECT_EQ(std::this_thread::get_id(), here) << "it comes back";
  };
  unio::run(body(reader, w, std::this_thread::get_id()));
}

task<> fails_by_exception() {
  (co_await unio::co_no_op()).value();
  throw std::runtime_error("no");
}

TEST(execution, a_task_sees_a_senders_error_as_an_exception_and_its_stop_as_canceled) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  unio::multiplexer_executor const mine = unio::this_thread::multiplexer().executor();
  auto const throws = [](unio::multiplexer_executor e) -> task<> {
    auto sender = unio::as_sender(e, fails_by_exception());
    co_await unio::as_awaitable(std::move(sender));
  };
  EXPECT_THROW(unio::run(throws(mine)), std::runtime_error);
  auto const reads = [](unio::io_handle& h) -> task<std::error_code> {
    char room = 0;
    try {
      (void)co_await unio::as_awaitable(unio::async_read(h, unio::mutable_buffer(&room, 1)));
    } catch (std::system_error const& e) {
      co_return e.code();
    }
    co_return std::error_code();
  };
  unio::stop_source source;
  (void)unio::this_thread::multiplexer().post([&] { source.request_stop(); });
  EXPECT_EQ(unio::run(reads(reader), {.stop = source.get_token()}), condition::canceled);
}

// Completes with stopped inside of the request for it.
struct stops_inline {
  using sender_concept = ex::sender_t;
  template <class Env> auto get_completion_signatures(Env&&) const {
    return ex::completion_signatures<ex::set_value_t(), ex::set_stopped_t()>();
  }
  template <class R> struct operation {
    using operation_state_concept = ex::operation_state_t;
    struct on_stop {
      operation* self;
      void operator()() const noexcept { ex::set_stopped(std::move(self->receiver)); }
    };
    R receiver;
    std::optional<ex::stop_callback_for_t<ex::stop_token_of_t<ex::env_of_t<R>>, on_stop>> callback;
    explicit operation(R r) : receiver(std::move(r)) {}
    operation(operation&&) = delete;
    void start() & noexcept { callback.emplace(ex::get_stop_token(ex::get_env(receiver)), on_stop{this}); }
  };
  template <class R> operation<R> connect(R r) && { return operation<R>(std::move(r)); }
};

TEST(execution, a_sender_that_completes_inside_of_the_stop_does_not_end_who_asked) {
  bool inside = false;
  auto const body = [](bool& asking) -> task<bool> {
    bool stopped = false;
    try {
      co_await unio::as_awaitable(stops_inline());
    } catch (std::system_error const& e) {
      stopped = e.code() == condition::canceled;
    }
    EXPECT_FALSE(asking);
    co_return stopped;
  };
  unio::stop_source source;
  (void)unio::this_thread::multiplexer().post([&] {
    inside = true;
    source.request_stop();
    inside = false;
  });
  EXPECT_TRUE(unio::run(body(inside), {.stop = source.get_token()}));
}

TEST(execution, a_coroutine_destroyed_while_it_awaits_a_sender_stops_it_first) {
  auto m = io_multiplexer::best_available(1).value();
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  reader.set_multiplexer(m.get());
  unio::multiplexer_executor const executor = m->executor();
  unio::environment const e{.executor = executor, .multiplexer = m.get()};
  auto const body = [](unio::io_handle& h) -> task<> {
    char room = 0;
    (void)co_await unio::as_awaitable(unio::async_read(h, unio::mutable_buffer(&room, 1)));
  };
  {
    task<> const t = body(reader);
    t.child().promise().set_environment(e);
    t.child().resume();
    (void)m->try_run();
  }
  unio::counters const c = m->counters();
  EXPECT_EQ(c.started, c.finished);
  reader.set_multiplexer(nullptr);
}

} // namespace
