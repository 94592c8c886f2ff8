// A function that takes no socket.
// any: 1 error: co_for_each_connection calls this with a socket: write [](unio::socket_handle s) { ... }

#include <unio/task_group.hpp>

unio::task<> serve(int fd);

unio::task<> server(unio::listening_socket_handle& listener) {
  (co_await unio::co_for_each_connection(listener, serve)).value();
}
