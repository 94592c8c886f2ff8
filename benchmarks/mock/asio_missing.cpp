// Stands for asio_awaitable.cpp where Boost's headers were not found: its rows say so.

#include "mock/subjects.hpp"

namespace mock {

subject asio_awaitable() { return {.name = "asio awaitable", .unavailable = "Boost.Asio was not found"}; }
subject asio_awaitable_tuned() {
  return {.name = "asio awaitable, tuned", .unavailable = "Boost.Asio was not found"};
}

} // namespace mock
