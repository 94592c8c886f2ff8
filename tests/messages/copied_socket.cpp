// A socket that is copied.
// g++: 1 error: use of deleted function
// clang: 1 error: call to implicitly-deleted copy constructor of 'unio::socket_handle'

#include <unio/socket_handle.hpp>
#include <unio/task.hpp>

unio::task<> serve(unio::socket_handle s);

unio::task<> begin(unio::socket_handle s) {
  co_await serve(s);
  co_return;
}
