// The other half: it has a reactor too, as each file has that makes a context.

#include <asio/io_context.hpp>
#include <asio/steady_timer.hpp>

int other();
int other() {
  asio::io_context context;
  asio::steady_timer timer(context, std::chrono::milliseconds(1));
  timer.async_wait([](asio::error_code) {});
  return context.run() == 1 ? 0 : 1;
}
