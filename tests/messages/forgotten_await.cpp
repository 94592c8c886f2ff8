// A task and an operation that are not awaited.
// g++: 2 warnings: ignoring returned value of type
// clang: 2 warnings: ignoring return value of function declared with 'nodiscard' attribute

#include <unio/run.hpp>
#include <unio/socket_handle.hpp>

unio::task<> one() { co_return; }

unio::task<> two(unio::socket_handle& s) {
  std::byte some[4];
  one();
  s.co_read(some);
  co_return;
}
