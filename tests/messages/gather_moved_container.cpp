// A container of tasks, moved.
// any: 1 error: tasks in a container stay there: write when_all(tasks), of a variable that is not const

#include <unio/when.hpp>

#include <vector>

unio::task<> waits(std::vector<unio::task<int>> tasks) { (void)co_await unio::when_all(std::move(tasks)); }
