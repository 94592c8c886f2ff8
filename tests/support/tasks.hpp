// Tasks that several tests await, and tests that are tasks.

#pragma once

#include "support/test.hpp"

namespace test {

inline task<int> ready(int i) { co_return i; }
inline task<int> later(int i) {
  (co_await co_no_op()).value();
  co_return i;
}
inline task<> asks_to_stop(stop_source& whom) {
  (co_await co_no_op()).value();
  whom.request_stop();
}
inline task<int> fibonacci(int n) {
  co_await co_fork();
  if (n < 2) co_return n;
  auto const [a, b] = co_await when_all(fibonacci(n - 1), fibonacci(n - 2));
  co_return a + b;
}

} // namespace test

/// A test that is a task, and runs on this thread's multiplexer.
#define TASK_TEST(suite, name)                              \
  static unio::task<> suite##_##name##_task();              \
  TEST(suite, name) { unio::run(suite##_##name##_task()); } \
  static unio::task<> suite##_##name##_task()
