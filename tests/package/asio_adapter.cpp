// Prints the version of the unio that it was built with, if a timer of unio's has a handler of Asio's called.

#include <unio/asio.hpp>

#include <asio.hpp>
#include <chrono>
#include <cstdio>

int main() {
  unio::asio_context context;
  unio::asio_timer timer(context, std::chrono::milliseconds(1));
  bool fired = false;
  timer.async_wait([&](std::error_code e) { fired = !e; });
  context.run();
  if (!fired) return 1;
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
