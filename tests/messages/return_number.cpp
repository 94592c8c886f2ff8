// A number of another type that fits: nothing is said within the headers.
// any: 0 errors

#pragma GCC diagnostic warning "-Wconversion"
#pragma GCC diagnostic warning "-Wsign-conversion"

#include <unio/task.hpp>

#include <cstddef>

unio::task<std::size_t> none() { co_return 0; }
unio::task<bool> yes() { co_return true; }
unio::task<double> half() { co_return 0.5F; }
