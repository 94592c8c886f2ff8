// task: lazy, whatever its value, whatever leaves it, wherever it is destroyed.

#include "support/other_thread.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using test::failure;

static_assert(sizeof(task<>) == sizeof(void*) && sizeof(task<std::string>) == sizeof(void*));
static_assert(std::is_nothrow_move_constructible_v<task<int>> && !std::is_copy_constructible_v<task<int>>);

// ---- happy ------------------------------------------------------------------------------------------------

task<> mark(bool& ran) {
  ran = true;
  co_return;
}

TEST(task, does_nothing_before_it_is_awaited) {
  bool ran = false;
  auto outer = [](bool& r) -> task<bool> {
    task<> inner = mark(r);
    bool const before = r;
    co_await std::move(inner);
    co_return before;
  };
  task<bool> t = outer(ran);
  EXPECT_FALSE(ran);
  EXPECT_FALSE(unio::run(std::move(t)));
  EXPECT_TRUE(ran);
}

template <class T> task<T> yields(T value) { co_return std::move(value); }
template <class T> task<T> passes_on(task<T> inner) { co_return co_await std::move(inner); }

TEST(task, yields_values_of_any_kind_through_three_levels) {
  EXPECT_EQ(unio::run(passes_on(passes_on(yields(5)))), 5);
  EXPECT_EQ(unio::run(passes_on(passes_on(yields(std::string(100, 'x'))))), std::string(100, 'x'));
  EXPECT_EQ(*unio::run(passes_on(passes_on(yields(std::make_unique<int>(3))))), 3);
}

TEST(task, yields_references_to_the_very_object) {
  struct base {
    int n = 1;
  };
  struct derived : base {};
  derived d;
  auto refers = [](derived& to) -> task<base&> { co_return to; };
  base& through = unio::run(passes_on<base&>(refers(d)));
  EXPECT_EQ(&through, &d);
  auto moves = [](std::string& s) -> task<std::string&&> { co_return std::move(s); };
  std::string s = "moved";
  std::string const taken = unio::run(moves(s));
  EXPECT_EQ(taken, "moved");
  EXPECT_TRUE(s.empty());
}

// A reference to a temporary would dangle: it does not compile.
template <class T, class U>
concept returns = requires(typename task<T>::promise_type& p, U&& u) { p.return_value(std::forward<U>(u)); };
static_assert(returns<int const&, int&> && returns<int const&, int const&> && !returns<int const&, int>);
static_assert(!returns<int&, int const&> && returns<int&&, int> && !returns<int&&, int&>);
static_assert(returns<std::string, char const*> && !returns<std::string, void*>);

TEST(task, yields_values_that_are_const_or_over_aligned) {
  auto constant = []() -> task<std::string const> { co_return "constant"; };
  EXPECT_EQ(unio::run(constant()), "constant");
  struct alignas(256) wide {
    explicit wide(int v) : n(v) { check(); }
    wide(wide&& other) noexcept : n(other.n) { check(); }
    ~wide() { check(); }
    void check() const { EXPECT_EQ(reinterpret_cast<std::uintptr_t>(this) % alignof(wide), 0u); }
    int n;
  };
  auto make = [](int v) -> task<wide> { co_return wide(v); };
  std::vector<std::unique_ptr<char[]>> shift; // so that frames are not aligned by chance
  for (int i = 0; i < 32; ++i) {
    shift.push_back(std::make_unique<char[]>(48));
    EXPECT_EQ(unio::run(make(i)).n, i);
  }
}

// ---- error ------------------------------------------------------------------------------------------------

task<int> fails(int depth, int& unwound) {
  struct on_exit {
    int& n;
    ~on_exit() { ++n; }
  } const guard{unwound};
  if (depth == 0) throw failure(42);
  int const value = co_await fails(depth - 1, unwound);
  co_return value;
}

TEST(task, throws_what_left_it_at_who_awaits_it) {
  int unwound = 0;
  try {
    (void)unio::run(fails(3, unwound));
    ADD_FAILURE() << "nothing was thrown";
  } catch (failure const& f) {
    EXPECT_EQ(f.number, 42);
  }
  EXPECT_EQ(unwound, 4);
  auto catches = [](int& n) -> task<int> {
    try {
      (void)co_await fails(2, n);
    } catch (failure const& f) {
      co_return f.number;
    }
    co_return 0;
  };
  EXPECT_EQ(unio::run(catches(unwound)), 42);
}

struct throws_when_copied {
  throws_when_copied() = default;
  throws_when_copied(throws_when_copied const&) { throw failure(1); }
};

TEST(task, throws_what_the_copy_into_its_result_threw) {
  auto copies = []() -> task<throws_when_copied> {
    throws_when_copied const value;
    co_return value;
  };
  EXPECT_THROW((void)unio::run(copies()), failure);
}

TEST(task, throws_what_a_destructor_threw_after_its_value_was_known) {
  std::atomic<int> alive{0};
  struct throws_at_end {
    ~throws_at_end() noexcept(false) { throw failure(2); }
  };
  auto late = [](std::atomic<int>& n) -> task<counted> {
    throws_at_end const guard;
    co_return counted(n);
  };
  EXPECT_THROW((void)unio::run(late(alive)), failure);
  EXPECT_EQ(alive, 0);
}

TEST(task, awaited_when_empty_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto awaits = []() -> task<> {
    task<> empty;
    co_await std::move(empty);
  };
  EXPECT_DEATH(unio::run(awaits()), "an empty task was awaited");
  EXPECT_DEATH(unio::run(task<>()), "an empty task was");
  EXPECT_DEATH((unio::async_run(unio::this_thread::multiplexer(), task<>())), "an empty task was");
}

// ---- lifetime ---------------------------------------------------------------------------------------------

task<> holds(counted, unio::pipe_handle& from, std::array<char, 4>& to) {
  (void)co_await from.co_read(unio::mutable_buffer(to));
}

TEST(task, destroyed_before_its_start_has_run_nothing_and_frees_its_parameters) {
  std::atomic<int> alive{0};
  bool ran = false;
  {
    auto body = [](counted, bool& r) -> task<> {
      r = true;
      co_return;
    };
    task<> t = body(counted(alive), ran);
    EXPECT_EQ(alive, 1);
    task<> other = std::move(t);
    EXPECT_FALSE(t); // NOLINT: empty afterwards
    EXPECT_TRUE(other);
    other = task<>();
    EXPECT_EQ(alive, 0);
    other = body(counted(alive), ran);
    task<>& same = other;
    other = std::move(same);
    EXPECT_TRUE(other);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(ran);
}

// Starts a task by hand; where it is then suspended, it can be destroyed.
struct by_hand : unio::detail::end_listener {
  by_hand(unio::io_multiplexer& m, unio::stop_token stop = {})
      : end_listener([](end_listener& l) noexcept -> std::coroutine_handle<> {
          static_cast<by_hand&>(l).ended = true;
          return std::noop_coroutine();
        }),
        executor(m),
        with{.executor = executor, .stop = stop, .multiplexer = &m} {}
  template <class T> void start(task<T>& t) {
    t.child().promise().set_environment(with);
    t.child().promise().set_continuation(*this);
    unio::detail::resume(t.child());
  }
  unio::multiplexer_executor executor;
  unio::environment with;
  bool ended = false;
};

TEST(task, destroyed_while_it_waits_for_an_operation_leaves_none_in_flight) {
  auto const m = a_multiplexer();
  for (int turns = 0; turns < 3; ++turns) {
    for (bool const written : {false, true}) {
      for (bool const stoppable : {false, true}) {
        auto pipe = unio::pipe_handle::anonymous().value();
        pipe.reader.set_multiplexer(m.get());
        std::atomic<int> alive{0};
        auto memory = std::make_unique<std::array<char, 4>>();
        unio::stop_source stop;
        by_hand root(*m, stoppable ? stop.get_token() : unio::stop_token());
        {
          task<> t = holds(counted(alive), pipe.reader, *memory);
          root.start(t);
          for (int i = 0; i < turns; ++i) (void)m->try_run(0);
          if (written) (void)pipe.writer.write(unio::const_buffer("abc", 3));
          EXPECT_EQ(alive, 1);
        }
        memory.reset(); // AddressSanitizer sees a write to it
        EXPECT_EQ(alive, 0);
        EXPECT_FALSE(root.ended);
        (void)m->try_run();
        EXPECT_EQ(m->counters().started, m->counters().finished);
      }
    }
  }
}

TEST(task, destroyed_after_an_exception_that_nobody_took_frees_it) {
  auto const m = a_multiplexer();
  std::atomic<int> alive{0};
  {
    auto throws = [](std::atomic<int>& n) -> task<int> {
      throw counted(n);
      co_return 0;
    };
    task<int> t = throws(alive);
    by_hand root(*m);
    root.start(t);
    EXPECT_TRUE(root.ended);
    EXPECT_EQ(alive, 1);
  }
  EXPECT_EQ(alive, 0);
}

TEST(task, destroys_the_whole_chain_below_it) {
  auto const m = a_multiplexer();
  std::atomic<int> alive{0};
  foreign_event never;
  struct chain {
    static task<> level(int depth, counted c, foreign_event& e) {
      if (depth > 0) {
        co_await level(depth - 1, c, e);
      } else {
        (void)co_await e;
      }
    }
  };
  {
    task<> t = chain::level(9, counted(alive), never);
    by_hand root(*m);
    root.start(t);
    EXPECT_TRUE(never.has_waiter());
    EXPECT_GE(alive, 10);
  }
  EXPECT_EQ(alive, 0);
  EXPECT_FALSE(never.has_waiter());
}

// ---- in coroutines of other types -------------------------------------------------------------------------

// A foreign coroutine that passes an environment on, as the protocol asks for.
class guest {
 public:
  struct promise_type {
    unio::environment const* with = nullptr;
    bool* done = nullptr;
    template <class... Rest>
    explicit promise_type(unio::environment const& e, bool& d, Rest&...) : with(&e), done(&d) {}
    guest get_return_object() { return guest(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept {
      *done = true;
      return {};
    }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
    template <class A> struct hands_on {
      A awaited;
      unio::environment const& with;
      bool await_ready() { return awaited.await_ready(); }
      auto await_suspend(std::coroutine_handle<> h) { return awaited.await_suspend(h, with); }
      decltype(auto) await_resume() { return awaited.await_resume(); }
    };
    template <class T> auto await_transform(task<T>&& t) {
      return hands_on<unio::detail::task_awaiter<T>>{std::move(t).operator co_await(), *with};
    }
  };
  guest(guest&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  guest& operator=(guest&&) = delete;
  ~guest() {
    if (handle_) handle_.destroy();
  }

 private:
  explicit guest(std::coroutine_handle<promise_type> h) : handle_(h) {}
  std::coroutine_handle<promise_type> handle_;
};

task<int> answer_later() {
  unio::timer_handle timer(1ms);
  (void)co_await timer.co_wait();
  co_return 11;
}
guest ask(unio::environment const&, bool&, int& value) { value = co_await answer_later(); }

TEST(task, can_be_awaited_by_coroutines_of_other_types) {
  auto const m = a_multiplexer();
  unio::multiplexer_executor const executor(*m);
  unio::environment const with{.executor = executor, .multiplexer = m.get()};
  bool done = false;
  int value = 0;
  guest const g = ask(with, done, value);
  while (!done) (void)m->run();
  EXPECT_EQ(value, 11);
}

// ---- frames that cannot be had ----------------------------------------------------------------------------

// Gives frames until the n-th, which it refuses, and knows how many are out.
class refusing {
 public:
  explicit refusing(int n) noexcept : left_(n) {}
  void* allocate(std::size_t n) {
    if (left_-- == 0) throw std::bad_alloc();
    ++taken_;
    ++out_;
    return ::operator new(n);
  }
  void deallocate(void* p, std::size_t) noexcept {
    --out_;
    ::operator delete(p);
  }
  refusing& get_frame_allocator() noexcept { return *this; }
  [[nodiscard]] int out() const noexcept { return out_; }
  [[nodiscard]] int taken() const noexcept { return taken_; }

 private:
  int left_;
  int out_ = 0;
  int taken_ = 0;
};

task<int> leaf_of(refusing&) { co_return 1; }
task<int> branch_of(refusing& r) {
  int const first = co_await leaf_of(r);
  int const second = co_await leaf_of(r);
  co_return first + second;
}
task<int> tree_of(refusing& r) {
  int const left = co_await branch_of(r);
  int const right = co_await branch_of(r);
  co_return left + right;
}

TEST(task, whose_nth_frame_cannot_be_had_throws_where_it_is_called_and_leaves_nothing) {
  refusing none(-1);
  EXPECT_EQ(unio::run(tree_of(none)), 4);
  int const frames = none.taken(); // seven; fewer where Clang 20 and later make some part of their caller's
  EXPECT_GE(frames, 1);
  EXPECT_LE(frames, 7);
  int refused = 0;
  for (int n = 0; n != frames + 1; ++n) {
    refusing r(n);
    try {
      EXPECT_EQ(unio::run(tree_of(r)), 4);
    } catch (std::bad_alloc const&) {
      ++refused;
    }
    EXPECT_EQ(r.out(), 0) << n;
  }
  EXPECT_EQ(refused, frames);
}

} // namespace
