// A lambda, started in a group without being called.
// any: 1 error: a function is not awaitable, but what it returns is: call it, write f() in place of f

#include <unio/task_group.hpp>

void starts(unio::task_group& group) {
  group.start([]() -> unio::task<> { co_return; });
}
