// Frames that become part of their caller's (`[[clang::coro_await_elidable]]`): how many are taken, and that
// nothing else is different.
//
// Only an optimiser does it, so this file is always compiled with -O2 (tests/CMakeLists.txt). With a compiler
// that cannot, each task has a frame of its own, however it is awaited.

#include <unio/unio.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <new>
#include <stdexcept>
#include <string>
#include <utility>

namespace {

using unio::frame_pool;
using unio::task;

#if defined(__has_cpp_attribute) && defined(__OPTIMIZE__)
#if __has_cpp_attribute(clang::coro_await_elidable)
#define ELIDES true
#endif
#endif
#ifndef ELIDES
#define ELIDES false
#endif
constexpr bool elides = ELIDES;

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
  EXPECT_EQ(direct.frames, elides ? 1 : 2);
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
  EXPECT_EQ(s.frames, elides ? 1 : 4);
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
  EXPECT_EQ(unio::run(blocks_for_a_call()), elides ? 0u : 1u);
}

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
  EXPECT_EQ(direct.frames, elides ? 1 : 2);
  EXPECT_EQ(by_name.frames, 2);
}
#endif

} // namespace
