// Frames that become part of their caller's: how many are taken, and that nothing else is different.
//
// Only an optimiser does it, so this file is always compiled with -O2 (tests/CMakeLists.txt). Clang does it
// to a generator that does not leave its function, and from Clang 20 on to a task that is awaited where it is
// called (`[[clang::coro_await_elidable]]`). What a compiler cannot do is skipped, and the rest is held.

#include "support/test.hpp"

namespace {

using namespace test;

#if defined(__has_cpp_attribute) && defined(__OPTIMIZE__)
#if __has_cpp_attribute(clang::coro_await_elidable)
#define ELIDES true
#endif
#endif
#ifndef ELIDES
#define ELIDES false
#endif
constexpr bool elides = ELIDES; // tasks
constexpr char const* needs_clang_20 = "tasks: Clang 20 or later, optimising";

/// Gives frames, and counts them; and what happened, in words.
struct scene {
  void* allocate(std::size_t n) {
    ++frames;
    return ::operator new(n);
  }
  void deallocate(void* p, std::size_t) noexcept { ::operator delete(p); }
  scene& get_frame_allocator() noexcept { return *this; }
  int frames = 0;
  std::string events;
};

/// Says when it is destroyed.
class noted {
 public:
  noted(scene& s, char const* name) : scene_(&s), name_(name) {}
  noted(noted&& other) noexcept : scene_(std::exchange(other.scene_, nullptr)), name_(other.name_) {}
  noted& operator=(noted&&) = delete;
  ~noted() {
    if (scene_ != nullptr) scene_->events.append(name_).append(", ");
  }

 private:
  scene* scene_;
  char const* name_;
};

task<int> child(scene& s, noted, int n) {
  noted const local(s, "the child's");
  co_await unio::co_yield_now();
  s.events += "goes on, ";
  co_return 2 * n;
}

// Awaited where it is called, which is what can be elided.
task<int> calls_directly(scene& s) {
  noted const local(s, "the parent's");
  noted given(s, "the parameter");
  int const r = co_await child(s, std::move(given), 21);
  s.events += "after it, ";
  co_return r;
}
// A task with a name has a frame of its own with every compiler.
task<int> calls_by_name(scene& s) {
  noted const local(s, "the parent's");
  noted given(s, "the parameter");
  int r = 0;
  {
    task<int> named = child(s, std::move(given), 21);
    r = co_await std::move(named);
  }
  s.events += "after it, ";
  co_return r;
}

TEST(elision, leaves_a_task_that_is_awaited_where_it_is_called_no_frame_of_its_own) {
  scene direct, by_name;
  EXPECT_EQ(unio::run(calls_directly(direct)), 42);
  EXPECT_EQ(unio::run(calls_by_name(by_name)), 42);
  EXPECT_EQ(by_name.frames, 2) << "the parent's and the child's";
  if (!elides) GTEST_SKIP() << needs_clang_20;
  EXPECT_EQ(direct.frames, 1);
}

TEST(elision, changes_neither_what_happens_nor_in_which_order) {
  scene direct, by_name;
  (void)unio::run(calls_directly(direct));
  (void)unio::run(calls_by_name(by_name));
  EXPECT_EQ(direct.events, "goes on, the child's, the parameter, after it, the parent's, ");
  EXPECT_EQ(direct.events, by_name.events);
}

task<int> level(scene& s, int depth, noted) {
  if (depth == 0) co_return 0;
  noted given(s, "one more");
  int const below = co_await level(s, depth - 1, std::move(given));
  co_return below + 1;
}
task<int> several(scene& s) {
  int sum = 0;
  for (int i = 0; i != 3; ++i) {
    noted given(s, "one");
    sum += co_await child(s, std::move(given), i);
  }
  co_return sum;
}

TEST(elision, uses_its_room_again_for_each_round_of_a_loop) {
  scene s;
  EXPECT_EQ(unio::run(several(s)), 6);
  if (!elides) GTEST_SKIP() << needs_clang_20;
  EXPECT_EQ(s.frames, 1);
}

// The frame of a recursive task cannot be within itself: it ends, whatever is elided.
TEST(elision, ends_where_a_task_calls_itself) {
  scene s;
  noted given(s, "the first");
  EXPECT_EQ(unio::run(level(s, 9, std::move(given))), 9);
  EXPECT_GE(s.frames, 2);
  EXPECT_LE(s.frames, 10);
}

task<std::uint64_t> blocks_while_it_runs() { co_return frame_pool::held().heap_blocks; }
task<std::uint64_t> blocks_for_a_call() {
  frame_pool::trim();
  std::uint64_t const before = frame_pool::held().heap_blocks;
  std::uint64_t const within = co_await blocks_while_it_runs();
  co_return within - before;
}
task<std::uint64_t> blocks_for_a_name() {
  frame_pool::trim();
  std::uint64_t const before = frame_pool::held().heap_blocks;
  task<std::uint64_t> named = blocks_while_it_runs();
  std::uint64_t const within = co_await std::move(named);
  co_return within - before;
}

TEST(elision, takes_nothing_from_the_pool_either) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees each frame come from the heap";
  EXPECT_EQ(unio::run(blocks_for_a_name()), 1u);
  if (!elides) GTEST_SKIP() << needs_clang_20;
  EXPECT_EQ(unio::run(blocks_for_a_call()), 0u);
}

// ---- generators ------------------------------------------------------------------------------------------

unio::generator<int> below(scene&, int n) {
  for (int i = 0; i < n; ++i) co_yield i;
}

TEST(elision, leaves_a_generator_that_a_loop_goes_through_no_frame_of_its_own) {
#if !defined(__clang__) || !defined(__OPTIMIZE__)
  GTEST_SKIP() << "generators: Clang, optimising";
#elif defined(_LIBCPP_VERSION)
  GTEST_SKIP() << "with libc++ Clang does not inline the loop";
#elif __has_feature(address_sanitizer)
  GTEST_SKIP() << "with AddressSanitizer each frame comes from the heap";
#endif
  scene s;
  int sum = 0;
  for (int const i : below(s, 5)) sum += i;
  EXPECT_EQ(sum, 10);
  EXPECT_EQ(s.frames, 0);
}

[[gnu::noinline]] std::unique_ptr<unio::generator<int>> leaves_its_function(scene& s) {
  return std::make_unique<unio::generator<int>>(below(s, 5));
}

// What the counts above rest on: a frame that cannot be left out is counted, with every compiler.
TEST(elision, counts_the_frame_of_a_generator_that_outlives_its_function) {
  scene s;
  auto const kept = leaves_its_function(s);
  int sum = 0;
  for (int const i : *kept) sum += i;
  EXPECT_EQ(sum, 10);
  EXPECT_EQ(s.frames, 1);
}

// ---- exceptions ------------------------------------------------------------------------------------------

#ifdef __cpp_exceptions
task<> throws(scene& s, noted) {
  noted const local(s, "the child's");
  co_await unio::co_yield_now();
  throw std::runtime_error("thrown");
}
task<> catches_directly(scene& s) {
  noted given(s, "the parameter");
  try {
    co_await throws(s, std::move(given));
  } catch (std::runtime_error const& e) {
    s.events += e.what();
  }
}
task<> catches_by_name(scene& s) {
  noted given(s, "the parameter");
  try {
    task<> named = throws(s, std::move(given));
    co_await std::move(named);
  } catch (std::runtime_error const& e) {
    s.events += e.what();
  }
}

TEST(elision, changes_nothing_about_exceptions) {
  scene direct, by_name;
  unio::run(catches_directly(direct));
  unio::run(catches_by_name(by_name));
  EXPECT_EQ(direct.events, "the child's, the parameter, thrown");
  EXPECT_EQ(direct.events, by_name.events);
  EXPECT_EQ(by_name.frames, 2);
  EXPECT_EQ(direct.frames, elides ? 1 : 2);
}
#endif

} // namespace
