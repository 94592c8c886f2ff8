// unio/task.hpp, awaited_as: coroutines of another library, which resume none but their own.

#include "support/other_thread.hpp"
#include "support/test.hpp"

#include <coroutine>
#include <exception>

// Another library: its coroutines begin at once, and are awaited by each other alone. Beside that there is a
// function to be called when one has ended.
namespace other {

template <class T> class job {
  struct outcome {
    std::mutex mutex;
    bool has_ended = false;
    std::function<void()> call;
    std::unique_ptr<T> value;
    std::exception_ptr failure;
  };

 public:
  struct promise_type {
    std::shared_ptr<outcome> out = std::make_shared<outcome>();

    job get_return_object() { return job(out, std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    struct ends {
      static bool await_ready() noexcept { return false; }
      static void await_suspend(std::coroutine_handle<promise_type> h) noexcept {
        std::shared_ptr<outcome> const o = h.promise().out; // the frame may be gone once it has ended
        std::function<void()> call;
        {
          std::scoped_lock const lock(o->mutex);
          o->has_ended = true;
          call = std::move(o->call);
        }
        if (call) call();
      }
      static void await_resume() noexcept {}
    };
    ends final_suspend() noexcept { return {}; }
    void return_value(T v) { out->value = std::make_unique<T>(std::move(v)); }
    void unhandled_exception() { out->failure = std::current_exception(); }
  };
  job(job&& from) noexcept : out_(std::move(from.out_)), handle_(std::exchange(from.handle_, nullptr)) {}
  job& operator=(job&&) = delete;
  ~job() {
    if (handle_) handle_.destroy();
  }

  // False: it has ended already.
  bool when_ended(std::function<void()> call) {
    std::scoped_lock const lock(out_->mutex);
    if (!out_->has_ended) out_->call = std::move(call);
    return !out_->has_ended;
  }
  T get() {
    // Moved: where another thread releases an exception ThreadSanitizer sees no order.
    if (out_->failure) std::rethrow_exception(std::move(out_->failure));
    return std::move(*out_->value);
  }

  static bool await_ready() { return false; }
  template <class Promise>
    requires requires(Promise& p) { p.out->has_ended; } // one of its own
  bool await_suspend(std::coroutine_handle<Promise> h) {
    return when_ended([h] { h.resume(); });
  }
  T await_resume() { return get(); }

 private:
  job(std::shared_ptr<outcome> o, std::coroutine_handle<promise_type> h) : out_(std::move(o)), handle_(h) {}
  std::shared_ptr<outcome> out_;
  std::coroutine_handle<promise_type> handle_;
};

} // namespace other

// Awaited by unio's coroutines as well, by that function.
template <class T> struct unio::awaited_as<other::job<T>> {
  struct awaiter {
    other::job<T> job;
    static bool await_ready() { return false; }
    bool await_suspend(std::coroutine_handle<> h) {
      return job.when_ended([h] { h.resume(); });
    }
    T await_resume() { return job.get(); }
  };
  static awaiter adapt(other::job<T>&& j) { return {std::move(j)}; }
};

namespace other {

// What stands for something: awaited as a task of unio's, which is given the environment.
struct pause {
  std::chrono::nanoseconds span;
  int value;
};
// One whose value is where the caller has it, and which may not be moved.
struct shared {
  explicit shared(int v) : value(v) {}
  shared(shared const&) = delete;
  shared& operator=(shared const&) = delete;
  int value;
};
// It could be awaited as it is, and yields something else then.
struct both {
  static bool await_ready() { return true; }
  static void await_suspend(std::coroutine_handle<>) {}
  static int await_resume() { return 1; }
};

} // namespace other

template <> struct unio::awaited_as<other::pause> {
  static unio::task<unio::result<int>> adapt(other::pause p) {
    auto const slept = co_await unio::co_sleep(p.span);
    if (!slept.has_value()) co_return slept.error();
    co_return p.value;
  }
};
template <> struct unio::awaited_as<other::shared> {
  struct awaiter {
    other::shared& of;
    static bool await_ready() { return true; }
    static void await_suspend(std::coroutine_handle<>) {}
    int& await_resume() { return of.value; }
  };
  static awaiter adapt(other::shared& s) { return {s}; }
};
template <> struct unio::awaited_as<other::both> {
  static unio::task<std::string> adapt(other::both) { co_return "adapted"; }
};

namespace {

using namespace test;

// Resumes on a thread of its own.
struct elsewhere {
  std::thread& thread;
  static bool await_ready() { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    thread = std::thread([h] { h.resume(); });
  }
  static void await_resume() {}
};
other::job<int> returns(int i) { co_return i; }
other::job<std::string> later(std::thread& t, std::string text) {
  co_await elsewhere{t};
  co_return text + "!";
}
other::job<int> at_second_hand(std::thread& t) {
  co_return static_cast<int>((co_await later(t, "12")).size());
}
#ifdef __cpp_exceptions
other::job<int> fails(std::thread& t) {
  co_await elsewhere{t};
  throw std::runtime_error("failed elsewhere");
  co_return 0;
}
#endif

struct awaited_as : ::testing::Test {
  awaited_as() = default;
  awaited_as(awaited_as const&) = delete;
  awaited_as& operator=(awaited_as const&) = delete;
  ~awaited_as() override {
    if (thread.joinable()) thread.join();
  }
  std::thread thread;
};

TEST_F(awaited_as, yields_what_a_coroutine_of_another_type_has_returned) {
  run([](std::thread& t) -> task<> {
    EXPECT_EQ(co_await returns(3), 3);
    EXPECT_EQ(co_await at_second_hand(t), 3);
  }(thread));
}

TEST_F(awaited_as, resumes_on_the_executor_of_the_coroutine) {
  run([](std::thread& t) -> task<> {
    auto const here = std::this_thread::get_id();
    other::job<std::string> begun = later(t, "done");
    EXPECT_EQ(co_await std::move(begun), "done!");
    EXPECT_EQ(std::this_thread::get_id(), here);
  }(thread));
}

#ifdef __cpp_exceptions
TEST_F(awaited_as, lets_exceptions_through) {
  run([](std::thread& t) -> task<> {
    std::string text;
    try {
      (void)co_await fails(t);
    } catch (std::runtime_error const& e) {
      text = e.what();
    }
    EXPECT_EQ(text, "failed elsewhere");
  }(thread));
}
#endif

TEST_F(awaited_as, passes_stops_on_by_what_is_awaited_in_its_place) {
  run([]() -> task<> {
    EXPECT_EQ((co_await other::pause{1ns, 4}).value(), 4);
    unio::result<int> const late = co_await unio::timeout(1ms, other::pause{1h, 4});
    EXPECT_EQ(late.error(), condition::timed_out);
  }());
}

TEST_F(awaited_as, is_used_by_all_that_starts_something) {
  EXPECT_EQ(run(returns(1)), 1);
  run([](std::thread& t) -> task<> {
    auto [text, number] = co_await unio::when_all(later(t, "a"), returns(2));
    EXPECT_EQ(text, "a!");
    EXPECT_EQ(number, 2);
    EXPECT_EQ((co_await unio::timeout(1h, returns(5))).value(), 5);
    int sum = 0;
    unio::task_group group(co_await unio::this_coro::environment);
    group.start(returns(6), [&](unio::task_outcome<int> const& o) { sum += o.value(); });
    co_await group.co_join();
    EXPECT_EQ(sum, 6);
  }(thread));
}

TEST_F(awaited_as, is_used_by_generators) {
  auto numbers = []() -> unio::async_generator<int> {
    co_yield co_await returns(1);
    co_yield co_await returns(2);
  };
  run([](unio::async_generator<int> g) -> task<> {
    int sum = 0;
    while (int* const i = co_await g.co_next()) sum += *i;
    EXPECT_EQ(sum, 3);
  }(numbers()));
}

TEST_F(awaited_as, may_refer_to_what_is_awaited) {
  run([]() -> task<> {
    other::shared s(7);
    int& value = co_await s;
    EXPECT_EQ(&value, &s.value);
  }());
}

TEST_F(awaited_as, takes_precedence_over_what_the_type_has_itself) {
  run([]() -> task<> { EXPECT_EQ(co_await other::both(), "adapted"); }());
  EXPECT_EQ(run(other::both()), "adapted");
}

TEST_F(awaited_as, is_kept_by_a_coroutine_until_that_is_destroyed) {
  struct held {
    explicit held(std::shared_ptr<int> a) : alive(std::move(a)) {} // g++ 12 destroys an aggregate twice
    std::shared_ptr<int> alive;
    static bool await_ready() { return false; }
    static void await_suspend(std::coroutine_handle<>) {} // for ever
    static int await_resume() { return 0; }
  };
  auto const alive = std::make_shared<int>(1);
  auto waits = [](std::shared_ptr<int> a) -> other::job<int> { co_return co_await held(std::move(a)); };
  {
    auto const m = unio::io_multiplexer::best_available().value();
    unio::multiplexer_executor const executor(*m);
    unio::environment const with{.executor = executor, .multiplexer = m.get()};
    unio::task_group group(with);
    group.start([](other::job<int> j) -> task<> { (void)co_await std::move(j); }(waits(alive)));
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(alive.use_count(), 1);
}

} // namespace
