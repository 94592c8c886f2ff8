// executor.hpp: what is an executor and what is not; any executor in two words; a coroutine resumes on its
// executor, whatever it waits for and however that ends; executors of a program's own.

#include "coro/waiting.hpp"
#include "support/test.hpp"

#include <coroutine>

namespace {

using namespace test;

// ---- what is one ------------------------------------------------------------------------------------------

struct complete {
  std::coroutine_handle<> dispatch(resumption& r) const { return r.handle(); }
  void post(work& w) const { w(); }
  bool operator==(complete const&) const = default;
};
struct takes_a_handle { // as the paper has it: a resumption is one as well
  std::coroutine_handle<> dispatch(std::coroutine_handle<> h) const { return h; }
  void post(work& w) const { w(); }
  bool operator==(takes_a_handle const&) const = default;
};
struct without_dispatch {
  void post(work&) const {}
  bool operator==(without_dispatch const&) const = default;
};
struct without_post {
  std::coroutine_handle<> dispatch(resumption& r) const { return r.handle(); }
  bool operator==(without_post const&) const = default;
};
struct without_equality {
  std::coroutine_handle<> dispatch(resumption& r) const { return r.handle(); }
  void post(work&) const {}
};
struct not_copyable : complete {
  not_copyable() = default;
  not_copyable(not_copyable&&) = default;
  bool operator==(not_copyable const&) const = default;
};
struct not_const {
  std::coroutine_handle<> dispatch(resumption& r) { return r.handle(); }
  void post(work&) {}
  bool operator==(not_const const&) const = default;
};
struct dispatch_yields_nothing {
  void dispatch(resumption&) const {}
  void post(work&) const {}
  bool operator==(dispatch_yields_nothing const&) const = default;
};

static_assert(unio::is_executor<complete> && unio::is_executor<takes_a_handle>);
static_assert(unio::is_executor<inline_executor> && unio::is_executor<multiplexer_executor> &&
              unio::is_executor<thread_pool::executor_type> && unio::is_executor<executor_ref> &&
              unio::is_executor<unio::strand<complete>>);
static_assert(!unio::is_executor<int> && !unio::is_executor<without_dispatch> &&
              !unio::is_executor<without_post> && !unio::is_executor<without_equality> &&
              !unio::is_executor<not_copyable> && !unio::is_executor<not_const> &&
              !unio::is_executor<dispatch_yields_nothing>);
static_assert(sizeof(executor_ref) == 2 * sizeof(void*));
static_assert(std::is_trivially_copyable_v<executor_ref>);

TEST(executor_ref, is_none_by_default) {
  EXPECT_FALSE(executor_ref());
  EXPECT_TRUE(executor_ref(inline_executor()));
}

TEST(executor_ref, is_equal_where_the_executors_are_and_of_one_type) {
  auto const a = make_multiplexer(), b = make_multiplexer();
  auto const ea = a->executor(), copy = a->executor(), eb = b->executor();
  inline_executor const i, j;
  EXPECT_EQ(executor_ref(ea), executor_ref(ea));
  EXPECT_EQ(executor_ref(ea), executor_ref(copy));
  EXPECT_NE(executor_ref(ea), executor_ref(eb));
  EXPECT_NE(executor_ref(ea), executor_ref(i));
  EXPECT_EQ(executor_ref(i), executor_ref(j));
  EXPECT_NE(executor_ref(), executor_ref(i));
  EXPECT_EQ(executor_ref(), executor_ref());
  unio::strand const s{ea}, t = s, u{ea};
  EXPECT_EQ(executor_ref(s), executor_ref(t));
  EXPECT_NE(executor_ref(s), executor_ref(u));
  EXPECT_NE(executor_ref(s), executor_ref(ea));
}

TEST(executor_ref, passes_on_what_it_is_asked) {
  auto const m = make_multiplexer();
  auto const e = m->executor();
  executor_ref const ref(e);
  EXPECT_EQ(ref.multiplexer(), m.get());
  complete const c;
  EXPECT_EQ(executor_ref(c).multiplexer(), nullptr);
  struct item : work {
    item() : work([](work& w, bool run) noexcept { static_cast<item&>(w).ran += run; }) {}
    int ran = 0;
  } w;
  ref.post(w);
  EXPECT_TRUE(ref.withdraw(w));
  ref.post(w);
  (void)m->run();
  EXPECT_EQ(w.ran, 1);
  ref.spawn(w);
  EXPECT_TRUE(ref.withdraw(w));
  ref.spawn(w);
  (void)m->run();
  EXPECT_EQ(w.ran, 2);
  executor_ref(c).spawn(w); // of one that cannot: posts
  EXPECT_EQ(w.ran, 3);
}

// ---- a coroutine resumes on its executor ------------------------------------------------------------------

/// An executor of a program's own: says what runs on it, over another.
template <class Inner> class marking {
 public:
  struct state {
    int dispatched = 0, posted = 0;
  };
  marking(Inner inner, state& s) : inner_(std::move(inner)), state_(&s) {}
  std::coroutine_handle<> dispatch(resumption& r) const {
    ++state_->dispatched;
    return inner_.dispatch(r);
  }
  void post(work& w) const {
    ++state_->posted;
    inner_.post(w);
  }
  bool withdraw(work& w) const { return inner_.withdraw(w); }
  io_multiplexer* multiplexer() const { return inner_.multiplexer(); }
  bool operator==(marking const&) const = default;

 private:
  Inner inner_;
  state* state_;
};

/// Whether this is where the coroutine belongs.
struct place {
  thread_pool* pool;
  unio::strand<thread_pool::executor_type>* strand;
  void check(char const* after) const {
    EXPECT_TRUE(pool->running_in_this_thread()) << after;
    EXPECT_TRUE(strand->running_in_this_thread()) << after;
  }
};

task<> fails() {
  (co_await unio::co_no_op()).value();
  throw 42;
}

task<> everything(place here, thread_pool& elsewhere, unio::socket_handle& readable,
                  unio::socket_handle& silent) {
  here.check("its start");
  (co_await unio::co_no_op()).value(); // completes inline
  here.check("an inline completion");
  char room[1];
  (void)co_await readable.co_read(unio::mutable_buffer(room)); // another thread writes
  here.check("a completion");
  auto const late = co_await silent.co_read(unio::mutable_buffer(room), std::chrono::milliseconds(1));
  EXPECT_EQ(late.error(), unio::condition::timed_out);
  here.check("a deadline");
  try {
    co_await fails();
    ADD_FAILURE();
  } catch (int) {
    here.check("an exception");
  }
  task<> away = fails();
  try {
    co_await unio::run_on(elsewhere.executor(), std::move(away));
    ADD_FAILURE();
  } catch (int) {
    here.check("an exception from elsewhere");
  }
  auto there = [](thread_pool& p) -> task<std::thread::id> {
    EXPECT_TRUE(p.running_in_this_thread());
    unio::timer_handle t(std::chrono::microseconds(100));
    (void)co_await t.co_wait();
    EXPECT_TRUE(p.running_in_this_thread());
    co_return std::this_thread::get_id();
  };
  task<std::thread::id> trip = there(elsewhere);
  std::thread::id const other = co_await unio::run_on(elsewhere.executor(), std::move(trip));
  here.check("run_on");
  EXPECT_NE(other, std::this_thread::get_id());
  auto const stopped = co_await silent.co_read(unio::mutable_buffer(room));
  EXPECT_EQ(stopped.error(), unio::condition::canceled);
  here.check("a stop");
}

TEST(executor, a_coroutine_resumes_on_its_own_whatever_it_awaited) {
  auto pair = unio::socket_handle::pair().value();
  auto silent = unio::socket_handle::pair().value();
  thread_pool pool(3), elsewhere(2);
  unio::strand s{pool.executor()};
  unio::stop_source stop;
  std::atomic<int> ended = 0;
  unio::async_run(s, everything({&pool, &s}, elsewhere, pair.first, silent.first),
                  [&](unio::task_outcome<void> r) {
                    EXPECT_TRUE(r.has_value());
                    EXPECT_TRUE(s.running_in_this_thread());
                    ended.store(1, std::memory_order_release);
                  },
                  {.stop = stop.get_token()});
  pair.second.write(std::string_view("x")).value();
  // The last wait is for ever.
  for (int i = 0; i != 200 && ended == 0; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  stop.request_stop();
  pool.join();
  EXPECT_EQ(ended, 1);
}

TEST(executor, of_a_program_is_asked_where_a_coroutine_goes_on) {
  auto const m = make_multiplexer();
  marking<multiplexer_executor>::state counts;
  marking<multiplexer_executor> const e(m->executor(), counts);
  auto ends = unio::socket_handle::pair().value();
  auto reads = [](unio::socket_handle& from) -> task<int> {
    char room[1];
    auto const got = co_await from.co_read(unio::mutable_buffer(room));
    co_return static_cast<int>(got.bytes_transferred());
  };
  int bytes = 0;
  unio::async_run(e, reads(ends.first), [&](unio::task_outcome<int> r) { bytes = r.value(); });
  (void)m->run();
  EXPECT_EQ(counts.posted, 1);     // its start
  EXPECT_EQ(counts.dispatched, 0); // it waits
  ends.second.write(std::string_view("x")).value();
  while (bytes == 0) (void)m->run();
  EXPECT_EQ(counts.dispatched, 1);
}

TEST(executor, of_a_program_composes_with_strands) {
  thread_pool pool(3);
  marking<unio::strand<thread_pool::executor_type>>::state outside;
  unio::strand s{pool.executor()};
  marking<unio::strand<thread_pool::executor_type>> const marked(s, outside);
  unio::strand<marking<unio::strand<thread_pool::executor_type>>> const around(marked);
  int n = 0;
  auto counts = [](int& value) -> task<> {
    ++value;
    co_return;
  };
  for (int i = 0; i != 100; ++i) unio::async_run(around, counts(n));
  pool.join();
  EXPECT_EQ(n, 100);
  EXPECT_GT(outside.posted, 0);
}

TEST(inline_executor, goes_on_at_once) {
  int n = 0;
  auto counts = [](int& value) -> task<> {
    ++value;
    co_return;
  };
  unio::async_run(inline_executor(), counts(n));
  EXPECT_EQ(n, 1);
}

} // namespace
