// threads/: the work that subjects are given, the window of a producer, servers on several threads.

#include "echo/servers.hpp"
#include "threads/posts.hpp"
#include "threads/tasks.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>

namespace {

using namespace threads_bench;

// Runs what is posted at once.
struct here {
  int* blocks;
  template <class F> void post(F f) { f(); }
  void* allocate(std::size_t bytes) {
    ++*blocks;
    return ::operator new(bytes);
  }
  void deallocate(void* p, std::size_t) noexcept {
    --*blocks;
    ::operator delete(p);
  }
};

TEST(tasks, of_fib_are_its_calls) {
  EXPECT_EQ(fibonacci_of(0).calls, 1u);
  EXPECT_EQ(fibonacci_of(2).calls, 3u);
  EXPECT_EQ(fibonacci_of(10).value, 55u);
  EXPECT_EQ(fibonacci_of(10).calls, 177u);
}

TEST(tasks, of_skynet_are_all_nodes_of_the_tree) {
  EXPECT_EQ(tasks_of_skynet(1), 1u);
  EXPECT_EQ(tasks_of_skynet(1000), 1111u);
}

TEST(tasks, by_callbacks_compute_what_is_expected_and_keep_no_memory) {
  int blocks = 0;
  by_callbacks<here> callbacks;
  callbacks.begin(here{&blocks});
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(callbacks.skynet(1000), sum_of_skynet(1000));
    EXPECT_EQ(callbacks.fib(15), fibonacci_of(15).value);
    EXPECT_EQ(callbacks.fib(1), 1u);
  }
  EXPECT_EQ(blocks, 0);
}

TEST(tasks, that_compute_something_else_fail_the_run) {
  EXPECT_THROW(run_tasks(1, 2, [] { return std::uint64_t{3}; }), std::runtime_error);
}

TEST(posts, of_a_producer_are_as_many_as_asked_and_never_more_than_its_window) {
  std::vector<window> windows(2);
  std::mutex mutex;
  std::vector<std::pair<std::size_t, unsigned>> waiting;
  std::size_t most = 0;
  std::uint64_t count = 0;
  bool is_over = false;
  const sample s = run_posts(
      windows, 5000,
      [&](window& w) {
        return [&, of = static_cast<std::size_t>(&w - windows.data())](unsigned i) {
          const std::lock_guard lock(mutex);
          waiting.emplace_back(of, i);
          most = std::max(most, waiting.size());
        };
      },
      [&] {
        for (bool goes_on = true; goes_on; std::this_thread::yield()) {
          std::vector<std::pair<std::size_t, unsigned>> now;
          {
            const std::lock_guard lock(mutex);
            now.swap(waiting);
            goes_on = !is_over;
          }
          for (auto const& [of, i] : now) windows[of].part_of(i).ran();
          count += now.size();
        }
      },
      [&] {
        const std::lock_guard lock(mutex);
        is_over = true;
      });
  EXPECT_EQ(count, 5000u);
  EXPECT_LE(most, 2 * window::posts);
  EXPECT_GT(s.elapsed_ns, 0);
}

std::vector<std::string> options_of(std::string subject, bool is_shared) {
  const auto on = on_threads({.subject = std::move(subject), .driver = "", .command = {"x"}}, 2, is_shared);
  return on ? std::vector(on->command.begin() + 1, on->command.end()) : std::vector<std::string>{"none"};
}

TEST(servers, are_told_whether_their_threads_share) {
  using all = std::vector<std::string>;
  EXPECT_EQ(options_of("asio callbacks", true), (all{"--threads", "2"}));
  EXPECT_EQ(options_of("asio callbacks", false), (all{"--threads", "2", "--one-each"}));
  EXPECT_EQ(options_of("unio awaited, epoll", true), (all{"--threads", "2", "--shared"}));
  EXPECT_EQ(options_of("unio awaited, epoll", false), (all{"--threads", "2"}));
  EXPECT_EQ(options_of("libuv", true), all{"none"});
  EXPECT_EQ(options_of("epoll, C", true), all{"none"});
  EXPECT_EQ(options_of("epoll, C", false), (all{"--threads", "2"}));
}

TEST(servers, need_every_figure_that_is_asked_for) {
  const sample s{.extra = {{"p99 µs", 7}}};
  EXPECT_EQ(figure_of(s, "p99 µs"), 7);
  EXPECT_THROW((void)figure_of(s, "p98 µs"), std::runtime_error);
}

} // namespace
