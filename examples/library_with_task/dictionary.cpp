#include "dictionary.hpp"

#include <unio/buffered_stream.hpp>
#include <unio/unio.hpp>

#include <chrono>

using namespace std::chrono_literals;

namespace dictionary {

unio::task<std::string> meaning_of(std::string word, std::string address) {
  unio::deadline const until = std::chrono::steady_clock::now() + 5s; // for the whole exchange
  unio::endpoint const server = unio::parse_endpoint(address).value();
  auto socket = unio::socket_handle::create(server.family()).value();
  auto const connected = co_await socket.co_connect(server, until);
  connected.value();

  word += '\n';
  auto const asked = co_await unio::co_write(socket, word, until);
  asked.value();
  auto answers = unio::lines(socket);
  auto const answer = co_await answers.co_next(until);
  if (!answer && answer.error() == unio::condition::end_of_stream) co_return std::string();
  co_return std::string(answer.value());
}

} // namespace dictionary
