// A handler that takes the value, and not the outcome, of a task.
// any: 1 error: the handler is called with the outcome of the task, a value or an exception

#include <unio/task_group.hpp>

unio::task<int> one() { co_return 1; }

void starts(unio::task_group& group) {
  group.start(one(), [](int) {});
}
