// A task with nothing to spare: lazy, symmetric transfer, a free list for frames, and no environment: no
// executor to come back to, no stop, no exception. The floor that a task with all of that is measured
// against. The pool is not the thread's: one client runs.

#include "mock/coroutine.hpp"

#include <array>
#include <cstdlib>
#include <new>
#include <utility>

namespace mock {
namespace {

struct free_list {
  static constexpr std::size_t unit = 64, classes = 16;
  struct block {
    block* next;
  };
  static inline std::array<block*, classes> lists{};

  static void* take(std::size_t n) {
    std::size_t const c = (n - 1) / unit;
    if (c >= classes) return ::operator new(n);
    if (block* const b = lists[c]; b != nullptr) [[likely]]
      return lists[c] = b->next, b;
    return ::operator new((c + 1) * unit);
  }
  static void give_back(void* p, std::size_t n) noexcept {
    std::size_t const c = (n - 1) / unit;
    if (c >= classes) return ::operator delete(p);
    lists[c] = ::new (p) block{lists[c]};
  }
};

class [[nodiscard]] plain_task {
 public:
  struct promise_type {
    static void* operator new(std::size_t n) { return free_list::take(n); }
    static void operator delete(void* p, std::size_t n) noexcept { free_list::give_back(p, n); }
    plain_task get_return_object() noexcept {
      return plain_task(std::coroutine_handle<promise_type>::from_promise(*this));
    }
    static std::suspend_always initial_suspend() noexcept { return {}; }
    static auto final_suspend() noexcept {
      struct to_caller : std::suspend_always {
        static std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> h) noexcept {
          return h.promise().caller;
        }
      };
      return to_caller{};
    }
    static void return_void() noexcept {}
    [[noreturn]] static void unhandled_exception() noexcept { std::abort(); }
    std::coroutine_handle<> caller = std::noop_coroutine();
  };

  explicit plain_task(std::coroutine_handle<promise_type> h) noexcept : child(h) {}
  plain_task(plain_task&& other) noexcept : child(std::exchange(other.child, nullptr)) {}
  ~plain_task() {
    if (child) child.destroy();
  }
  static bool await_ready() noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> caller) const noexcept {
    child.promise().caller = caller;
    return child;
  }
  static void await_resume() noexcept {}

  std::coroutine_handle<promise_type> child;
};

benchmarks::sample run(depth d, std::uint64_t requests) {
  io_context context;
  socket s(context);
  const plain_task client = operations<plain_task, each_level_a_task<plain_task>>::client(s, d, requests);
  std::uint64_t completed = 0;
  const benchmarks::sample result = benchmarks::measure(requests, [&] {
    client.child.resume();
    completed = context.run();
  });
  check_completed(d, requests, completed);
  return result;
}

} // namespace

subject plain_task_subject() { return {.name = "plain task", .run = run}; }

} // namespace mock
