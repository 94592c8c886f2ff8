// Shows     a library that does I/O without showing it in its header: its functions return tasks, which run
//           wherever the calling program runs its own.
// Run       build/release/examples/example_library_with_task
// Read next dictionary.hpp, dictionary.cpp; <unio/task.hpp>, <unio/buffered_stream.hpp>

#include "dictionary.hpp"

#include <unio/buffered_stream.hpp>
#include <unio/unio.hpp>

#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

namespace {

// A server that knows one word. It answers two questions.
unio::task<> serve(unio::listening_socket_handle& listening) {
  for (int questions = 0; questions != 2; ++questions) {
    auto accepted = co_await listening.co_accept();
    unio::socket_handle connection = std::move(accepted).value();
    auto words = unio::lines(connection);
    auto const word = co_await words.co_next();
    if (word.value() != "echo") continue; // closes the connection
    std::string_view const answer = "a sound that comes back\n";
    auto const sent = co_await unio::co_write(connection, answer);
    sent.value();
  }
}

// A program's own tasks await those of the library.
unio::task<std::string> explain(std::string word, std::string address) {
  std::string meaning = co_await dictionary::meaning_of(word, std::move(address));
  co_return word + ": " + (meaning.empty() ? "unknown" : meaning);
}

} // namespace

int main() {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  std::string const address = to_string(listening.local_endpoint().value());
  std::thread server([&] { unio::run(serve(listening)); });

  std::string const known = unio::run(explain("echo", address));
  std::string const unknown = unio::run(explain("ecco", address));
  std::printf("%s\n%s\n", known.c_str(), unknown.c_str());

  server.join();
  return known == "echo: a sound that comes back" && unknown == "ecco: unknown" ? 0 : 1;
}
