// A task in a variable, started in a group without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/task_group.hpp>

void starts(unio::task_group& group, unio::task<> t) { group.start(t); }
