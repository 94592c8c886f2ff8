// Prints the version of the unio that it was built with, if a program of Asio's runs on it.

#include <unio/config.hpp>

#include <asio.hpp>
#include <cstdio>

int main() {
  asio::io_context context;
  asio::steady_timer timer(context, std::chrono::milliseconds(1));
  bool fired = false;
  timer.async_wait([&](asio::error_code e) { fired = !e; });
  context.run();
  // It is unio's, of which Asio's own has nothing.
  static_assert(std::is_base_of_v<unio::foreign_watch, asio::detail::epoll_reactor::watched>);
  if (!fired) return 1;
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
