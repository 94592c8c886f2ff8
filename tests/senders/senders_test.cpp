// execution.hpp with the standard's algorithms: what is executed where, waiting on one thread, tasks and
// awaiting.
//
// Against the standard library's senders, or stdexec's (UNIO_STDEXEC_DIR, scripts/check-stdexec); where there
// are none, against tests/support/execution.

#include "support/test.hpp"

#include <version>

#if !defined(__cpp_lib_senders) && !defined(UNIO_TESTS_STDEXEC)
#define UNIO_EXECUTION_HEADER "support/execution/execution.hpp"
#define UNIO_EXECUTION_NAMESPACE test::execution
#define UNIO_TESTS_STAND_IN 1
#else
#define UNIO_TESTS_STAND_IN 0
#endif
#include "support/other_thread.hpp"

#include <unio/execution.hpp>

#include <tuple>

namespace {

namespace ex = unio::detail::ex;
#if defined(__cpp_lib_senders) && !defined(UNIO_TESTS_STDEXEC)
using std::this_thread::sync_wait;
#else
using ex::sync_wait;
#endif

using namespace test;
using read_result = unio::io_result<unio::mutable_buffers>;
using write_result = unio::io_result<unio::const_buffers>;

TEST(senders, are_tested_with_the_standards_vocabulary) {
  if (UNIO_TESTS_STAND_IN != 0)
    GTEST_SKIP() << "neither the standard library nor stdexec (scripts/check-stdexec) has senders here: the "
                    "tests below ran against tests/support/execution";
}

static_assert(ex::sender<unio::async_read> && ex::sender<unio::async_no_op>);
static_assert(ex::sender<unio::atomic_async_read> && ex::sender<task<int>> && ex::sender<task<>>);
static_assert(!ex::sender<unio::async_accept_many> && !ex::sender<unio::async_receive_many>,
              "they yield many values");
static_assert(!ex::sender<unio::io_awaitable<unio::async_read>>, "nothing would run it");
static_assert(ex::scheduler<decltype(unio::as_scheduler(unio::inline_executor()))>);
static_assert(sizeof(task<int>) == sizeof(void*), "being a sender takes no room");

struct pipe {
  pipe() {
    auto [r, w] = unio::pipe_handle::anonymous().value();
    reader = std::move(r);
    writer = std::move(w);
  }
  unio::pipe_handle reader, writer;
  std::array<char, 8> room{};
  /// With a deadline, so that a failing test ends.
  unio::async_read read(unio::deadline d = 20s) { return {reader, unio::mutable_buffer(room), d}; }
  unio::async_write write(std::string_view s) { return {writer, unio::const_buffer(s), 20s}; }
};

auto size_of = [](read_result r) { return r ? r.bytes_transferred() : std::size_t{0}; };
auto thread_of = [](auto const&...) { return std::this_thread::get_id(); };

// ---- the standard's sync_wait -----------------------------------------------------------------------------

TEST(senders, the_standards_sync_wait_runs_an_operation_on_this_thread) {
  pipe p;
  p.writer.write(std::string_view("hello")).value();
  auto const got = sync_wait(p.read() | ex::then(size_of));
  EXPECT_EQ(std::get<0>(got.value()), 5u);
}

TEST(senders, the_standards_sync_wait_runs_deadlines_too) {
  pipe p;
  auto const got = sync_wait(p.read(20ms));
  EXPECT_EQ(std::get<0>(got.value()).error(), condition::timed_out);
}

TEST(senders, the_standards_sync_wait_sleeps_until_another_thread_writes) {
  pipe p;
  std::thread writer([&] {
    std::this_thread::sleep_for(20ms);
    p.writer.write(std::string_view("abc")).value();
  });
  auto const got = sync_wait(p.read() | ex::then(size_of));
  writer.join();
  EXPECT_EQ(std::get<0>(got.value()), 3u);
}

TEST(senders, when_all_reads_and_writes_on_one_thread) {
  pipe p;
  auto const got = sync_wait(ex::when_all(p.read(), p.write("hello")));
  EXPECT_EQ(std::get<0>(got.value()).bytes_transferred(), 5u);
  EXPECT_EQ(std::get<1>(got.value()).bytes_transferred(), 5u);
}

TEST(senders, let_value_starts_an_operation_with_the_result_of_another) {
  pipe to, from;
  to.writer.write(std::string_view("hello")).value();
  auto echo = to.read() | ex::let_value([&](read_result& r) {
                return from.write(std::string_view(to.room.data(), r.bytes_transferred()));
              });
  EXPECT_EQ(std::get<0>(sync_wait(std::move(echo)).value()).bytes_transferred(), 5u);
  EXPECT_EQ(from.reader.read(unio::mutable_buffer(from.room)).bytes_transferred(), 5u);
}

TEST(senders, an_error_of_one_member_stops_the_operation_beside_it) {
  pipe p;
  auto const fails = []() -> task<> {
    (co_await unio::co_no_op()).value();
    throw std::runtime_error("no");
  };
  EXPECT_THROW((void)sync_wait(ex::when_all(p.read(unio::deadline()), fails())), std::runtime_error);
}

task<> fails_later() {
  unio::timer_handle a_moment(10ms);
  (co_await a_moment.co_wait()).value();
  throw std::runtime_error("no");
}

TEST(senders, an_error_on_another_thread_stops_the_operation_that_this_one_runs) {
  test::other_thread w;
  for (int i = 0; i != 20; ++i) {
    pipe p;
    auto const fails = [](int at) -> task<> {
      if (at % 2 != 0) co_await fails_later();
      throw std::runtime_error("no");
    };
    EXPECT_THROW(
        (void)sync_wait(ex::when_all(p.read(unio::deadline()), unio::as_sender(w.executor(), fails(i)))),
        std::runtime_error);
  }
}

TEST(senders, an_operation_that_completes_while_it_is_stopped_completes_once) {
  test::other_thread w;
  pipe p;
  int read = 0, stopped = 0;
  for (int i = 0; i != 50; ++i) {
    auto const writes_and_fails = [](unio::pipe_handle& h) -> task<> {
      (co_await h.co_write(unio::const_buffer("x", 1))).value();
      throw std::runtime_error("no");
    };
    auto reads = p.read(unio::deadline()) | ex::then([&](read_result r) { read += r.has_value() ? 1 : 0; });
    EXPECT_THROW((void)sync_wait(ex::when_all(std::move(reads),
                                              unio::as_sender(w.executor(), writes_and_fails(p.writer)))),
                 std::runtime_error);
    if (p.reader.try_read(unio::mutable_buffer(p.room)).has_value()) ++stopped;
  }
  EXPECT_EQ(read + stopped, 50) << "a stop loses no byte";
}

TEST(senders, the_standards_sync_wait_of_what_another_thread_runs_completes_there) {
  test::other_thread w;
  pipe p;
  p.reader.set_multiplexer(&w.multiplexer());
  p.writer.write(std::string_view("x")).value();
  auto const got = sync_wait(p.read() | ex::then(thread_of));
  EXPECT_EQ(std::get<0>(got.value()), w.id());
  p.reader.set_multiplexer(nullptr);
}

// Completes in a turn of the scheduler of whoever waits, for which another thread asks.
struct asks_for_a_turn {
  using sender_concept = ex::sender_t;
  template <class Env> auto get_completion_signatures(Env&&) const {
    return ex::completion_signatures<ex::set_value_t()>();
  }
  template <class Self, class... Env> static consteval auto get_completion_signatures() {
    return ex::completion_signatures<ex::set_value_t()>();
  }
  template <class R> struct operation {
    using operation_state_concept = ex::operation_state_t;
    struct turn {
      using receiver_concept = ex::receiver_t;
      operation* self;
      void set_value() && noexcept { ex::set_value(std::move(self->receiver)); }
      template <class E> void set_error(E&&) && noexcept { std::abort(); }
      void set_stopped() && noexcept { std::abort(); }
    };
    using scheduled =
        decltype(ex::schedule(ex::get_delegation_scheduler(std::declval<ex::env_of_t<R> const&>())));
    struct connected {
      ex::connect_result_t<scheduled, turn> operation_;
      explicit connected(operation* self)
          : operation_(ex::connect(ex::schedule(ex::get_delegation_scheduler(ex::get_env(self->receiver))),
                                   turn{self})) {}
    };
    R receiver;
    std::optional<connected> asked;
    std::thread thread;
    explicit operation(R r) : receiver(std::move(r)) {}
    operation(operation&&) = delete;
    ~operation() { thread.join(); }
    void start() & noexcept {
      asked.emplace(this);
      thread = std::thread([this] {
        std::this_thread::sleep_for(20ms);
        ex::start(asked->operation_);
      });
    }
  };
  template <class R> operation<R> connect(R r) && { return operation<R>(std::move(r)); }
};

TEST(senders, work_of_the_scheduler_that_waits_has_its_turn_while_operations_wait) {
  pipe p;
  bool had_turn = false;
  auto other = asks_for_a_turn() | ex::then([&] {
                 had_turn = true;
                 p.writer.write(std::string_view("x")).value();
               });
  auto const got = sync_wait(ex::when_all(p.read(), std::move(other)));
  EXPECT_TRUE(had_turn);
  EXPECT_EQ(std::get<0>(got.value()).bytes_transferred(), 1u);
}

// ---- schedulers -------------------------------------------------------------------------------------------

TEST(senders, an_operation_takes_the_multiplexer_of_its_receivers_scheduler) {
  test::other_thread w;
  pipe p;
  std::thread writer([&] {
    std::this_thread::sleep_for(20ms);
    p.writer.write(std::string_view("x")).value();
  });
  auto const got = sync_wait(ex::starts_on(unio::as_scheduler(w.executor()), p.read()) | ex::then(thread_of));
  writer.join();
  EXPECT_EQ(std::get<0>(got.value()), w.id());
}

TEST(senders, an_operation_that_starts_after_another_on_a_scheduler_stays_there) {
  test::other_thread w;
  pipe to, from;
  to.writer.write(std::string_view("hello")).value();
  auto echo =
      to.read() | ex::let_value([&](read_result&) {
        return from.write("back") | ex::then([](write_result const&) { return std::this_thread::get_id(); });
      });
  auto const got = sync_wait(ex::starts_on(unio::as_scheduler(w.executor()), std::move(echo)));
  EXPECT_EQ(std::get<0>(got.value()), w.id());
}

TEST(senders, an_operation_runs_on_a_thread_pool_that_is_its_scheduler) {
  unio::thread_pool pool(2);
  pipe p;
  std::thread writer([&] {
    std::this_thread::sleep_for(20ms);
    p.writer.write(std::string_view("x")).value();
  });
  auto const here = std::this_thread::get_id();
  auto const got =
      sync_wait(ex::starts_on(unio::as_scheduler(pool.executor()), p.read()) | ex::then(thread_of));
  writer.join();
  EXPECT_NE(std::get<0>(got.value()), here);
  p.writer.write(std::string_view("x")).value();
  EXPECT_NE(
      unio::sync_wait(ex::starts_on(unio::as_scheduler(pool.executor()), p.read()) | ex::then(thread_of)),
      here);
}

TEST(senders, an_operation_that_starts_on_a_foreign_scheduler_is_run_by_the_thread_that_waits) {
  ex::run_loop loop;
  std::thread foreign([&] { loop.run(); });
  pipe p;
  auto where = ex::starts_on(loop.get_scheduler(), p.read()) | ex::then(thread_of);
  auto write = ex::starts_on(loop.get_scheduler(), p.write("x") | ex::then(thread_of));
  auto const got = sync_wait(ex::when_all(std::move(where), std::move(write)));
  EXPECT_EQ(std::get<0>(got.value()), std::this_thread::get_id());
  EXPECT_EQ(std::get<1>(got.value()), std::this_thread::get_id());
  loop.finish();
  foreign.join();
}

TEST(senders, the_standards_sync_wait_runs_the_multiplexer_of_a_scheduler_that_nothing_runs) {
  auto const mine = unio::as_scheduler(unio::this_thread::multiplexer().executor());
  pipe p;
  auto const got =
      sync_wait(ex::when_all(ex::starts_on(mine, p.read()), ex::starts_on(mine, p.write("abc"))));
  EXPECT_EQ(std::get<0>(got.value()).bytes_transferred(), 3u);
}

// ---- tasks ------------------------------------------------------------------------------------------------

task<std::thread::id> reads(unio::pipe_handle& h) {
  std::array<char, 8> room{};
  unio::mutable_buffer const into(room);
  (co_await h.co_read(into, 20s)).value();
  co_return std::this_thread::get_id();
}

TEST(senders, a_task_is_a_sender_and_runs_where_its_receivers_scheduler_is) {
  test::other_thread w;
  pipe p;
  p.writer.write(std::string_view("x")).value();
  auto const got = sync_wait(ex::starts_on(unio::as_scheduler(w.executor()), reads(p.reader)));
  EXPECT_EQ(std::get<0>(got.value()), w.id());
}

TEST(senders, a_task_is_a_sender_that_the_standards_sync_wait_runs_on_this_thread) {
  pipe p;
  auto const got = sync_wait(ex::when_all(reads(p.reader), p.write("x")));
  EXPECT_EQ(std::get<0>(got.value()), std::this_thread::get_id());
}

TEST(senders, a_task_on_an_executor_is_a_sender) {
  test::other_thread w;
  pipe here, there;
  here.writer.write(std::string_view("x")).value();
  there.writer.write(std::string_view("x")).value();
  unio::multiplexer_executor const mine = unio::this_thread::multiplexer().executor();
  EXPECT_EQ(std::get<0>(sync_wait(unio::as_sender(mine, reads(here.reader))).value()),
            std::this_thread::get_id());
  EXPECT_EQ(std::get<0>(sync_wait(unio::as_sender(w.executor(), reads(there.reader))).value()), w.id());
}

// An operation that is destroyed where it completes, as what is detached is; and what it was in overwritten.
struct detached {
  struct env {
    unio::stop_token token;
    [[nodiscard]] unio::detail::standard_stop_token query(ex::get_stop_token_t) const noexcept {
      return {token};
    }
  };
  struct receiver {
    using receiver_concept = ex::receiver_t;
    detached* self;
    void set_value() && noexcept { self->end("value"); }
    void set_error(std::exception_ptr const&) && noexcept { self->end("error"); }
    void set_stopped() && noexcept { self->end("stopped"); }
    [[nodiscard]] env get_env() const noexcept { return {self->stop.get_token()}; }
  };
  using sender = decltype(unio::as_sender(unio::inline_executor(), std::declval<task<>>()));
  using operation = decltype(ex::connect(std::declval<sender>(), std::declval<receiver>()));

  explicit detached(task<> t) {
    auto* const made = new (room.data())
        operation(ex::connect(unio::as_sender(unio::inline_executor(), std::move(t)), receiver{this}));
    ex::start(*made);
  }
  void end(char const* how) noexcept {
    std::launder(reinterpret_cast<operation*>(room.data()))->~operation();
    room.fill(std::byte{0xaa});
    ended = how;
  }
  unio::stop_source stop;
  std::string ended;
  alignas(operation) std::array<std::byte, sizeof(operation)> room;
};

TEST(senders, a_task_that_ends_inside_its_stop_may_be_destroyed_there) {
  unio::async_mutex mutex;
  auto const held = mutex.try_lock();
  detached locks([](unio::async_mutex& m) -> task<> { (co_await m.co_lock()).value(); }(mutex));
  EXPECT_EQ(locks.ended, "");
  locks.stop.request_stop();
  EXPECT_EQ(locks.ended, "stopped");
}

TEST(senders, a_task_that_waits_for_another_thread_is_run_without_spinning) {
  test::other_thread w;
  auto const away = [](test::other_thread& there) -> task<bool> {
    auto there_and_back = ex::schedule(unio::as_scheduler(there.executor())) |
                          ex::then([] { std::this_thread::sleep_for(50ms); });
    co_await std::move(there_and_back);
    co_return true;
  };
  std::uint64_t const before = unio::this_thread::multiplexer().counters().turns;
  EXPECT_TRUE(std::get<0>(sync_wait(away(w)).value()));
  EXPECT_LT(unio::this_thread::multiplexer().counters().turns - before, 1000u);
}

TEST(senders, a_task_that_returns_a_reference_sends_it) {
  int value = 7;
  auto const body = [](int& v) -> task<int&> { co_return v; };
  EXPECT_EQ(std::get<0>(sync_wait(body(value) | ex::then([](int& v) { return v; })).value()), 7);
}

// ---- awaiting ---------------------------------------------------------------------------------------------

TEST(senders, a_task_awaits_a_sender_as_it_is) {
  auto const body = []() -> task<int> {
    int const five = co_await ex::just(5);
    auto two = ex::just(1) | ex::then([](int i) { return i + 1; });
    int const more = co_await std::move(two);
    co_await ex::just();
    co_return five + more;
  };
  EXPECT_EQ(unio::run(body()), 7);
}

TEST(senders, an_operation_in_an_awaited_sender_takes_the_coroutines_multiplexer) {
  test::other_thread w;
  pipe p;
  auto const body = [](pipe& in) -> task<std::thread::id> {
    auto both = ex::when_all(in.read(), in.write("x"));
    co_await (std::move(both) | ex::then([](auto&&...) {}));
    co_return std::this_thread::get_id();
  };
  EXPECT_EQ(unio::sync_wait(w.executor(), body(p)), w.id());
}

TEST(senders, a_task_that_is_a_sender_may_be_composed_and_awaited) {
  pipe p;
  auto const body = [](pipe& in) -> task<bool> {
    auto both = ex::when_all(reads(in.reader), in.write("x")) |
                ex::then([](std::thread::id id, write_result const&) { return id; });
    std::thread::id const where = co_await std::move(both);
    co_return where == std::this_thread::get_id();
  };
  EXPECT_TRUE(unio::run(body(p)));
}

// A value that cannot be copied or moved once it is there.
struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(throws_when_copied const& other) : armed(other.armed) {
    if (armed) throw std::runtime_error("copied");
  }
  bool armed = false;
};
template <bool Fails> struct sends_what_throws {
  using sender_concept = ex::sender_t;
  using signatures =
      ex::completion_signatures<ex::set_value_t(throws_when_copied), ex::set_error_t(throws_when_copied)>;
  template <class Env> auto get_completion_signatures(Env&&) const { return signatures(); }
  template <class Self, class... Env> static consteval auto get_completion_signatures() {
    return signatures();
  }
  template <class Receiver> struct state {
    using operation_state_concept = ex::operation_state_t;
    void start() & noexcept {
      throws_when_copied v;
      v.armed = true;
      if constexpr (Fails) {
        ex::set_error(std::move(receiver), std::move(v));
      } else {
        ex::set_value(std::move(receiver), std::move(v));
      }
    }
    Receiver receiver;
  };
  template <class Receiver> state<Receiver> connect(Receiver r) const { return {std::move(r)}; }
};

// What an await of it throws.
template <class Sender> task<std::string> thrown_by(Sender sender) {
  try {
    (void)co_await std::move(sender);
  } catch (std::runtime_error const& e) {
    co_return e.what();
  }
  co_return "a value";
}

TEST(senders, a_value_whose_copy_throws_is_an_exception_of_the_coroutine_that_awaits_it) {
  EXPECT_EQ(unio::run(thrown_by(sends_what_throws<false>())), "copied");
  EXPECT_EQ(unio::run(thrown_by(sends_what_throws<true>())), "copied") << "of an error likewise";
}

TEST(senders, a_task_whose_value_cannot_be_moved_sends_the_exception) {
  struct armed_later : throws_when_copied {
    armed_later() = default;
    armed_later(armed_later const& other) : throws_when_copied(other) { armed = true; }
  };
  auto const arms = []() -> task<armed_later> { co_return armed_later(); };
  auto const executor = unio::this_thread::multiplexer().executor();
  EXPECT_EQ(unio::run(thrown_by(unio::as_sender(executor, arms()))), "copied");
}

// ---- unio::sync_wait --------------------------------------------------------------------------------------

TEST(senders, sync_wait_runs_this_threads_multiplexer_until_a_sender_has_completed) {
  pipe p;
  EXPECT_EQ(unio::sync_wait(ex::when_all(p.read(), p.write("hello")) |
                            ex::then([](read_result r, write_result const&) { return size_of(r); })),
            5u);
  EXPECT_EQ(unio::sync_wait(p.read(20ms)).error(), condition::timed_out);
  std::tuple<int, char> const both = unio::sync_wait(ex::just(1, 'a'));
  EXPECT_EQ(std::get<1>(both), 'a');
  unio::sync_wait(ex::just());
}

TEST(senders, sync_wait_of_a_sender_is_stopped_by_its_token) {
  pipe p;
  unio::stop_source source;
  std::thread stopper([&] {
    std::this_thread::sleep_for(20ms);
    source.request_stop();
  });
  try {
    (void)unio::sync_wait(p.read(unio::deadline()), {.stop = source.get_token()});
    ADD_FAILURE() << "it was stopped";
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), condition::canceled);
  }
  stopper.join();
}

// A sender that fails with an error of unio's.
struct fails_with {
  using sender_concept = ex::sender_t;
  using signatures = ex::completion_signatures<ex::set_value_t(), ex::set_error_t(unio::failure)>;
  template <class Env> auto get_completion_signatures(Env&&) const { return signatures(); }
  template <class Self, class... Env> static consteval auto get_completion_signatures() {
    return signatures();
  }
  template <class Receiver> struct state {
    using operation_state_concept = ex::operation_state_t;
    void start() & noexcept { ex::set_error(std::move(receiver), std::move(why)); }
    Receiver receiver;
    unio::failure why;
  };
  template <class Receiver> state<Receiver> connect(Receiver r) const { return {std::move(r), why}; }
  unio::failure why;
};

TEST(senders, sync_wait_throws_the_text_of_an_error_of_unios) {
  unio::failure const gone = unio::file_handle::file({}, "/no/such/file").error();
  try {
    unio::sync_wait(fails_with{gone});
    ADD_FAILURE() << "it has failed";
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), gone);
    EXPECT_EQ(e.what(), gone.message());
  }
}

// ---- the other forms --------------------------------------------------------------------------------------

TEST(senders, the_atomic_form_of_an_operation_is_a_sender) {
  pipe p;
  p.writer.write(std::string_view("hello")).value();
  unio::atomic_async_read atomic(p.reader, unio::mutable_buffer(p.room));
  EXPECT_EQ(std::get<0>(sync_wait(std::move(atomic) | ex::then(size_of)).value()), 5u);
}

// ---- what nothing runs ------------------------------------------------------------------------------------

#if UNIO_TESTS_STAND_IN

struct on_a_foreign_scheduler {
  using receiver_concept = ex::receiver_t;
  struct env {
    ex::run_loop* loop;
    [[nodiscard]] auto query(ex::get_scheduler_t) const noexcept { return loop->get_scheduler(); }
  };
  ex::run_loop* loop;
  bool* done;
  template <class... V> void set_value(V&&...) && noexcept { *done = true; }
  template <class E> void set_error(E&&) && noexcept { *done = true; }
  void set_stopped() && noexcept { *done = true; }
  [[nodiscard]] env get_env() const noexcept { return {loop}; }
};

void start_on_a_thread_of_its_own(bool runs_its_multiplexer) {
  std::thread([=] {
    pipe p;
    ex::run_loop loop;
    bool done = false;
    if (runs_its_multiplexer) (void)unio::this_thread::multiplexer().try_run();
    auto operation = ex::connect(p.read(5ms), on_a_foreign_scheduler{&loop, &done});
    ex::start(operation);
    while (!done) (void)unio::this_thread::multiplexer().run();
  }).join();
}

TEST(senders, an_operation_that_nothing_would_run_is_an_error_in_debug_builds) {
  start_on_a_thread_of_its_own(true);
  if (!UNIO_IS_DEBUG) GTEST_SKIP() << "this is no debug build (NDEBUG)";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(start_on_a_thread_of_its_own(false), "which nothing runs");
}

#endif

} // namespace
