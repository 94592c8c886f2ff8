// generator.hpp and async_generator.hpp: what they yield and when, ends, exceptions, where their coroutines
// run, stops, destruction at every point, and a million items in constant stack.

#include "support/other_thread.hpp"
#include "support/stack_extent.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <ranges>

namespace {

using namespace test;

// ---- generator -------------------------------------------------------------------------------------------

generator<int> below(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
generator<int> naturals() {
  for (int i = 0;; ++i) co_yield i;
}

static_assert(std::ranges::input_range<generator<int>>);
static_assert(std::ranges::input_range<generator<std::string const&>>);
static_assert(std::ranges::input_range<generator<std::unique_ptr<int>>>);
static_assert(!std::ranges::forward_range<generator<int>>);
static_assert(std::same_as<std::ranges::range_reference_t<generator<int&>>, int&>);
static_assert(std::same_as<std::ranges::range_value_t<generator<int const&>>, int>);
static_assert(!std::copyable<generator<int>> && sizeof(generator<int>) == sizeof(void*));

TEST(generator, yields_its_items_in_order) {
  std::vector<int> seen;
  for (int const i : below(5)) seen.push_back(i);
  EXPECT_EQ(seen, (std::vector{0, 1, 2, 3, 4}));
}

TEST(generator, computes_an_item_when_it_is_asked_for_it) {
  int computed = 0;
  auto const items = [](int& n) -> generator<int> {
    for (;;) co_yield ++n;
  };
  generator<int> g = items(computed);
  EXPECT_EQ(computed, 0);
  auto i = g.begin();
  EXPECT_EQ(computed, 1);
  EXPECT_EQ(*i, 1);
  ++i;
  i++;
  EXPECT_EQ(computed, 3);
  EXPECT_EQ(*i, 3);
  EXPECT_FALSE(i == g.end());
}

TEST(generator, of_nothing_is_an_empty_range) {
  for (int const i : below(0)) FAIL() << i;
}

TEST(generator, is_a_range_to_the_standards_views) {
  std::vector<int> seen;
  for (int const i : naturals() | std::views::filter([](int n) { return n % 2 == 1; }) | std::views::take(3))
    seen.push_back(i);
  EXPECT_EQ(seen, (std::vector{1, 3, 5}));
}

TEST(generator, of_references_yields_the_coroutines_own) {
  std::array<int, 3> numbers{1, 2, 3};
  auto const items = [](std::array<int, 3>& a) -> generator<int&> {
    for (int& i : a) co_yield i;
  };
  for (int& i : items(numbers)) i *= 10;
  EXPECT_EQ(numbers, (std::array{10, 20, 30}));
}

TEST(generator, copies_an_lvalue_that_it_yields_as_a_value) {
  std::string last;
  auto const items = [](std::string& at_the_end) -> generator<std::string> {
    std::string text = "a text that is longer than a short string may be";
    co_yield text;
    co_yield std::string("temporary, and also longer than a short string");
    at_the_end = text;
  };
  std::vector<std::string> seen;
  for (auto&& s : items(last)) seen.push_back(std::move(s));
  EXPECT_EQ(seen.size(), 2u);
  EXPECT_EQ(seen[1], "temporary, and also longer than a short string");
  EXPECT_EQ(last, "a text that is longer than a short string may be") << "the consumer moved from a copy";
}

TEST(generator, yields_what_can_only_be_moved) {
  auto const items = []() -> generator<std::unique_ptr<int>> {
    co_yield std::make_unique<int>(1);
    auto p = std::make_unique<int>(2);
    co_yield std::move(p);
    EXPECT_EQ(p, nullptr) << "the consumer took it";
  };
  int sum = 0;
  for (std::unique_ptr<int> p : items()) sum += *p;
  EXPECT_EQ(sum, 3);
}

TEST(generator, lets_an_exception_leave_the_iteration_and_has_ended_then) {
  auto const items = []() -> generator<int> {
    co_yield 1;
    throw std::runtime_error("no more");
  };
  generator<int> g = items();
  auto i = g.begin();
  EXPECT_EQ(*i, 1);
  EXPECT_THROW(++i, std::runtime_error);
  EXPECT_TRUE(i == g.end());

  auto const none = []() -> generator<int> {
    throw std::runtime_error("not even one");
    co_yield 1;
  };
  generator<int> h = none();
  EXPECT_THROW((void)h.begin(), std::runtime_error);
}

TEST(generator, destroyed_in_between_destroys_what_its_coroutine_holds) {
  std::atomic<int> destroyed = 0;
  auto const items = [](test::counts_destruction w) -> generator<int> {
    for (int i = 0;; ++i) co_yield i + (w.count == nullptr ? 1 : 0);
  };
  {
    generator<int> const never_begun = items(test::counts_destruction(destroyed));
    generator<int> g = items(test::counts_destruction(destroyed));
    for (int const i : g)
      if (i == 3) break;
    EXPECT_EQ(destroyed, 0);
    generator<int> moved = std::move(g);
    EXPECT_EQ(destroyed, 0);
    moved = generator<int>();
    EXPECT_EQ(destroyed, 1);
  }
  EXPECT_EQ(destroyed, 2);
}

TEST(generator, of_a_million_items_uses_constant_stack) {
  test::stack_extent stack;
  long long sum = 0;
  auto const items = [](test::stack_extent& s) -> generator<int> {
    for (int i = 0; i < 1'000'000; ++i) {
      if (i % 1024 == 0) s.look();
      co_yield i;
    }
  };
  for (int const i : items(stack)) sum += i;
  EXPECT_EQ(sum, 499'999'500'000);
  EXPECT_LT(stack.bytes(), 65536u);
}

TEST(generator_death_test, that_is_iterated_over_twice_ends_the_program) {
  generator<int> g = below(2);
  for (int const i : g) (void)i;
  EXPECT_DEATH((void)g.begin(), "can be iterated over once");
  EXPECT_DEATH((void)generator<int>().begin(), "an empty generator");
}

// A frame whose owner a compiler sees from the beginning to the end may lie in the owner's.
template <class F> [[gnu::noinline]] generator<int> made_out_of_sight(F const& f) { return f(); }

TEST(generator, takes_its_frame_from_the_allocator_of_its_first_parameter) {
  struct counting : unio::frame_allocator {
    void* allocate(std::size_t n) override {
      ++given;
      return ::operator new(n);
    }
    void deallocate(void* p, std::size_t) noexcept override {
      --given;
      ::operator delete(p);
    }
    int given = 0;
  } memory;
  unio::environment const e{.frames = &memory};
  auto const items = [](unio::environment const&, int n) -> generator<int> { co_yield n; };
  // A lambda's own object is the first parameter of its coroutine; the second is looked at as well.
  {
    generator<int> g = made_out_of_sight([&] { return items(e, 7); });
    EXPECT_EQ(memory.given, 1);
    EXPECT_EQ(*g.begin(), 7);
  }
  EXPECT_EQ(memory.given, 0);
}

// ---- async_generator -------------------------------------------------------------------------------------

async_generator<int> ready_below(int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}
async_generator<int> waiting_below(int n) {
  for (int i = 0; i < n; ++i) {
    (co_await unio::co_no_op()).value();
    co_yield i;
  }
}

TEST(async_generator, yields_its_items_in_order_and_then_null) {
  auto const body = []() -> task<std::vector<int>> {
    std::vector<int> seen;
    async_generator<int> ready = ready_below(3);
    while (int const* i = co_await ready.co_next()) seen.push_back(*i);
    async_generator<int> waiting = waiting_below(3);
    while (int const* i = co_await waiting.co_next()) seen.push_back(*i);
    int const* const after = co_await waiting.co_next();
    EXPECT_EQ(after, nullptr);
    co_return seen;
  };
  EXPECT_EQ(unio::run(body()), (std::vector{0, 1, 2, 0, 1, 2}));
}

TEST(async_generator, of_nothing_yields_null) {
  auto const body = []() -> task<> {
    async_generator<int> g = ready_below(0);
    int const* const first = co_await g.co_next();
    EXPECT_EQ(first, nullptr);
    int const* const again = co_await g.co_next();
    EXPECT_EQ(again, nullptr);
  };
  unio::run(body());
}

// The items of a generator that reads: lines, however the bytes come.
async_generator<std::string> lines_of(unio::io_handle& h) {
  std::string line;
  std::array<char, 3> room;
  for (;;) {
    unio::io_result<unio::mutable_buffers> const got = co_await h.co_read(unio::mutable_buffer(room));
    std::size_t const n = got.value().bytes();
    if (n == 0) break;
    for (char const c : std::string_view(room.data(), n)) {
      if (c != '\n') {
        line += c;
      } else {
        co_yield std::exchange(line, {});
      }
    }
  }
  if (!line.empty()) co_yield line;
}

TEST(async_generator, reads_and_yields_lines) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  (void)writer.write(std::string_view("one\ntwo\n\na line that is longer than that")).value();
  (void)writer.close();
  auto const body = [](unio::io_handle& h) -> task<std::vector<std::string>> {
    std::vector<std::string> all;
    async_generator<std::string> lines = lines_of(h);
    while (std::string* line = co_await lines.co_next()) all.push_back(std::move(*line));
    co_return all;
  };
  EXPECT_EQ(unio::run(body(reader)),
            (std::vector<std::string>{"one", "two", "", "a line that is longer than that"}));
}

TEST(async_generator, copies_an_lvalue_of_values_and_refers_to_one_of_references) {
  auto const by_value = [](std::string& s) -> async_generator<std::string> { co_yield s; };
  auto const by_reference = [](std::string& s) -> async_generator<std::string const&> { co_yield s; };
  std::string text = "a text that is longer than a short string may be";
  auto const body = [&]() -> task<> {
    async_generator<std::string> values = by_value(text);
    std::string* const copy = co_await values.co_next();
    EXPECT_NE(copy, &text);
    EXPECT_EQ(*copy, text);
    async_generator<std::string const&> references = by_reference(text);
    std::string const* const same = co_await references.co_next();
    EXPECT_EQ(same, &text);
  };
  unio::run(body());
}

async_generator<int> squares(int n) {
  auto const square = [](int i) -> task<int> {
    (co_await unio::co_no_op()).value();
    co_return i* i;
  };
  for (int i = 1; i <= n; ++i) {
    int const s = co_await square(i);
    co_yield s;
  }
}

async_generator<int> sums(async_generator<int> of) {
  int sum = 0;
  while (int const* i = co_await of.co_next()) {
    sum += *i;
    co_yield sum;
  }
}

TEST(async_generator, awaits_tasks_and_other_generators) {
  auto const body = []() -> task<std::vector<int>> {
    std::vector<int> seen;
    async_generator<int> g = sums(squares(4));
    while (int const* i = co_await g.co_next()) seen.push_back(*i);
    co_return seen;
  };
  EXPECT_EQ(unio::run(body()), (std::vector{1, 5, 14, 30}));
}

TEST(async_generator, lets_an_exception_leave_next_and_has_ended_then) {
  auto const items = []() -> async_generator<int> {
    co_yield 1;
    (co_await unio::co_no_op()).value();
    throw std::runtime_error("no more");
  };
  auto const body = [&]() -> task<> {
    async_generator<int> g = items();
    int const* const one = co_await g.co_next();
    EXPECT_NE(one, nullptr);
    bool thrown = false;
    try {
      (void)co_await g.co_next();
    } catch (std::runtime_error const&) {
      thrown = true;
    }
    EXPECT_TRUE(thrown);
    int const* const after = co_await g.co_next();
    EXPECT_EQ(after, nullptr);
  };
  unio::run(body());
}

struct seen_by_producer {
  std::vector<std::thread::id> threads;
  std::vector<bool> same_executor;
};

async_generator<int> reporting(seen_by_producer& seen, unio::executor_ref expected_first) {
  for (int i = 0;; ++i) {
    (co_await unio::co_no_op()).value();
    unio::executor_ref const mine = co_await unio::this_coro::executor;
    seen.threads.push_back(std::this_thread::get_id());
    seen.same_executor.push_back(mine == expected_first);
    co_yield i;
  }
}

TEST(async_generator, runs_where_the_coroutine_runs_that_asks) {
  test::other_thread w;
  seen_by_producer seen;
  unio::multiplexer_executor const here = unio::this_thread::multiplexer().executor();
  auto const elsewhere = [](async_generator<int>& g, std::thread::id expected) -> task<int> {
    int const* const item = co_await g.co_next();
    EXPECT_EQ(std::this_thread::get_id(), expected);
    co_return *item;
  };
  auto const body = [&]() -> task<> {
    async_generator<int> g = reporting(seen, here);
    int const* const first = co_await g.co_next();
    EXPECT_EQ(*first, 0);
    int const second = co_await unio::run_on(w.executor(), elsewhere(g, w.id()));
    EXPECT_EQ(second, 1);
    int const* const third = co_await g.co_next();
    EXPECT_EQ(*third, 2);
  };
  unio::run(body());
  std::thread::id const me = std::this_thread::get_id();
  EXPECT_EQ(seen.threads, (std::vector{me, w.id(), me}));
  EXPECT_EQ(seen.same_executor, (std::vector{true, false, true}));
}

TEST(async_generator, sees_the_stop_token_of_who_asks) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  unio::stop_source source;
  std::error_code why;
  auto const items = [](unio::io_handle& h, std::error_code& e) -> async_generator<int> {
    unio::stop_token const stop = co_await unio::this_coro::stop_token;
    EXPECT_TRUE(stop.stop_possible());
    char room[1];
    unio::io_result<unio::mutable_buffers> const got = co_await h.co_read(unio::mutable_buffer(room));
    e = got.error();
    co_yield 42; // it may continue
  };
  auto const body = [&]() -> task<int> {
    async_generator<int> g = items(reader, why);
    int const* const item = co_await g.co_next();
    co_return item != nullptr ? *item : 0;
  };
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  auto stop = [&] { source.request_stop(); };
  (void)m.post(stop);
  EXPECT_EQ(unio::run(body(), {.stop = source.get_token()}), 42);
  EXPECT_EQ(why, condition::canceled);
}

TEST(async_generator, holds_a_task_group_from_item_to_item) {
  unio::event done;
  int ended = 0;
  auto const items = [](unio::event& until, int& n) -> async_generator<int> {
    unio::task_group group(co_await unio::this_coro::environment);
    group.start(
        [](unio::event& e, int& count) -> task<> { count += (co_await e.co_wait()).has_value(); }(until, n));
    for (int i = 0; i != 3; ++i) co_yield i;
    until.set();
    co_await group.co_join();
  };
  auto const body = [&]() -> task<int> {
    async_generator<int> g = items(done, ended);
    int sum = 0;
    for (;;) { // each timeout has a stop source of its own, which ends with it
      unio::result<int*> const item = co_await unio::timeout(1h, g.co_next());
      if (!item.has_value() || *item == nullptr) break;
      sum += 1 + **item;
    }
    co_return sum;
  };
  EXPECT_EQ(unio::run(body()), 6);
  EXPECT_EQ(ended, 1);
}

TEST(async_generator, is_destroyed_with_the_task_group_that_it_holds) {
  int stopped = 0;
  auto const items = [](int& n) -> async_generator<int> {
    unio::task_group group(co_await unio::this_coro::environment);
    group.start([](int& count) -> task<> {
      count += (co_await unio::co_sleep(1h)).error() == condition::canceled;
    }(n));
    co_yield 1;
  };
  auto const body = [&]() -> task<> {
    async_generator<int> g = items(stopped);
    unio::result<int*> const item = co_await unio::timeout(1h, g.co_next());
    EXPECT_TRUE(item.has_value());
  };
  unio::run(body());
  EXPECT_EQ(stopped, 0) << "destroyed, not resumed";
}

TEST(async_generator, passes_the_stop_of_each_that_asks_to_what_it_holds) {
  int stopped = 0;
  std::vector<bool> seen;
  auto const items = [](int& n, std::vector<bool>& requested) -> async_generator<int> {
    unio::stop_token const stop = co_await unio::this_coro::stop_token;
    unio::task_group group(co_await unio::this_coro::environment);
    group.start([](int& count) -> task<> {
      count += (co_await unio::co_sleep(1h)).error() == condition::canceled;
    }(n));
    requested.push_back(stop.stop_requested());
    co_yield 1;
    co_await group.co_join(); // until a stop of the second one that asks
    requested.push_back(stop.stop_requested());
    co_yield 2;
    requested.push_back(stop.stop_requested()); // the third is not asked to stop
    co_yield 3;
  };
  auto const body = [&]() -> task<int> {
    async_generator<int> g = items(stopped, seen);
    int sum = 0;
    sum += **co_await unio::timeout(1h, g.co_next());
    sum += **co_await unio::timeout(1ms, g.co_next());
    sum += **co_await unio::timeout(1h, g.co_next());
    co_return sum;
  };
  EXPECT_EQ(unio::run(body()), 6) << "a value beats the timer";
  EXPECT_EQ(stopped, 1);
  EXPECT_EQ(seen, (std::vector{false, true, false}));
}

// Resumes inside the request.
struct until_stopped {
  unio::stop_token token;
  std::coroutine_handle<> waits;
  struct resumes {
    until_stopped* self;
    void operator()() const noexcept { self->waits.resume(); }
  };
  std::optional<unio::stop_callback<resumes>> callback;

  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h) {
    waits = h;
    callback.emplace(token, resumes{this});
  }
  void await_resume() noexcept { callback.reset(); }
};

TEST(async_generator, may_be_destroyed_inside_the_stop_that_it_passes_on) {
  unio::stop_source source;
  std::atomic<int> destroyed = 0;
  auto const items = [](test::counts_destruction w) -> async_generator<int> {
    until_stopped until{.token = co_await unio::this_coro::stop_token, .waits = {}, .callback = {}};
    co_await until;
    co_yield w.count != nullptr;
  };
  int got = 0;
  auto const body = [&]() -> task<> {
    async_generator<int> g = items(test::counts_destruction(destroyed));
    int const* const item = co_await g.co_next();
    got = item != nullptr ? *item : 0;
  };
  unio::async_run(unio::inline_executor(), body(), {.stop = source.get_token()});
  EXPECT_EQ(got, 0);
  source.request_stop();
  EXPECT_EQ(got, 1);
  EXPECT_EQ(destroyed, 1);
}

TEST(async_generator, destroyed_before_it_began_or_between_items_destroys_what_its_coroutine_holds) {
  std::atomic<int> destroyed = 0;
  auto const items = [](test::counts_destruction w) -> async_generator<int> {
    for (int i = 0; w.count != nullptr; ++i) {
      (co_await unio::co_no_op()).value();
      co_yield i;
    }
  };
  auto const body = [&]() -> task<> {
    async_generator<int> const never_begun = items(test::counts_destruction(destroyed));
    async_generator<int> g = items(test::counts_destruction(destroyed));
    (void)co_await g.co_next();
    (void)co_await g.co_next();
    EXPECT_EQ(destroyed, 0);
    async_generator<int> moved = std::move(g);
    EXPECT_FALSE(g); // NOLINT: what a moved-from one says
    (void)co_await moved.co_next();
    moved = async_generator<int>();
    EXPECT_EQ(destroyed, 1);
  };
  unio::run(body());
  EXPECT_EQ(destroyed, 2);
}

async_generator<int> reading(unio::io_handle& h, test::counts_destruction w) {
  for (char room[1]; w.count != nullptr;) {
    (void)co_await h.co_read(unio::mutable_buffer(room));
    co_yield 1;
  }
}

// Begins a coroutine that only its multiplexer ends.
struct abandoned {
  std::unique_ptr<unio::io_multiplexer> m = unio::io_multiplexer::best_available(1).value();
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  abandoned() { p.reader.set_multiplexer(m.get()); }
};

// GCC 12 lays out the frame of a coroutine wrongly that awaits in a condition and declares no variable: hence
// the item.
task<> consume(async_generator<int> g) {
  while (int const* i = co_await g.co_next()) (void)i;
}
task<> consume_by_reference(async_generator<int>& g) {
  while (int const* i = co_await g.co_next()) (void)i;
}

// Starts a task by hand, so that it can be destroyed where it is suspended.
void start(task<> const& t, unio::environment const& e) {
  t.child().promise().set_environment(e);
  t.child().resume();
}

TEST(async_generator, is_destroyed_safely_with_its_consumer_while_it_waits) {
  abandoned a;
  unio::multiplexer_executor const executor = a.m->executor();
  unio::environment const e{.executor = executor, .multiplexer = a.m.get()};
  std::atomic<int> destroyed = 0;
  {
    task<> t = consume(reading(a.p.reader, test::counts_destruction(destroyed)));
    start(t, e);
    (void)a.m->try_run();
    EXPECT_EQ(destroyed, 0);
  }
  EXPECT_EQ(destroyed, 1);
  unio::counters const c = a.m->counters();
  EXPECT_EQ(c.started, c.finished);
}

TEST(async_generator, ends_with_the_coroutine_that_waits_for_it_where_another_owns_it) {
  abandoned a;
  unio::multiplexer_executor const executor = a.m->executor();
  unio::environment const e{.executor = executor, .multiplexer = a.m.get()};
  std::atomic<int> destroyed = 0;
  async_generator<int> g = reading(a.p.reader, test::counts_destruction(destroyed));
  {
    task<> t = consume_by_reference(g);
    start(t, e);
    (void)a.m->try_run();
  }
  EXPECT_EQ(destroyed, 1);
  EXPECT_FALSE(g);
}

TEST(async_generator, may_be_destroyed_before_the_coroutine_that_waits_for_it) {
  abandoned a;
  unio::multiplexer_executor const executor = a.m->executor();
  unio::environment const e{.executor = executor, .multiplexer = a.m.get()};
  std::atomic<int> destroyed = 0;
  std::optional<async_generator<int>> g(reading(a.p.reader, test::counts_destruction(destroyed)));
  task<> t = consume_by_reference(*g);
  start(t, e);
  (void)a.m->try_run();
  g.reset();
  EXPECT_EQ(destroyed, 1);
  t = task<>();
  EXPECT_EQ(destroyed, 1);
}

TEST(async_generator, of_a_million_items_uses_constant_stack) {
  test::stack_extent stack;
  auto const items = [](test::stack_extent& s) -> async_generator<int> {
    for (int i = 0; i < 1'000'000; ++i) {
      if (i % 1024 == 0) s.look();
      co_yield i;
    }
  };
  auto const body = [&]() -> task<long long> {
    long long sum = 0;
    async_generator<int> g = items(stack);
    while (int const* i = co_await g.co_next()) {
      if (*i % 1024 == 1) stack.look();
      sum += *i;
    }
    co_return sum;
  };
  EXPECT_EQ(unio::run(body()), 499'999'500'000);
  EXPECT_LT(stack.bytes(), 65536u);
}

TEST(async_generator_death_test, that_is_empty_cannot_be_asked) {
  auto const body = []() -> task<> {
    async_generator<int> g;
    (void)co_await g.co_next();
  };
  EXPECT_DEATH(unio::run(body()), "an empty async_generator");
}

} // namespace
