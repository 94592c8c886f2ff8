// instructions_unio: what one thread does alone, both ends included, so that each run has the same
// instructions.
//
// In the tables another process has the other end, and decides what is ready when.

#include "support/measure.hpp"
#include "support/unio_driver.hpp"

#include <unio/connect_to.hpp>
#include <unio/unio.hpp>

#include <array>
#include <span>
#include <stdexcept>
#include <utility>

namespace {

using namespace benchmarks;

std::span<std::byte> bytes_of(std::span<char> s) { return std::as_writable_bytes(s); }

// Before a byte is read: fills the pipe where it is empty.
void fill(unio::pipe_handle& to, std::uint64_t read_so_far) {
  static constexpr std::array<char, 4096> full{};
  if (read_so_far % full.size() == 0) to.write(std::as_bytes(std::span(full))).value();
}

unio::task<> byte_of_pipe(std::uint64_t operations) {
  auto [from, to] = unio::pipe_handle::anonymous().value();
  std::array<char, 1> byte{};
  for (std::uint64_t done = 0; done < operations; ++done) {
    fill(to, done);
    (co_await from.co_read(bytes_of(byte))).value();
  }
}

unio::task<> lent_byte_of_pipe(std::uint64_t operations) {
  auto [from, to] = unio::pipe_handle::anonymous().value();
  unio::buffer_pool pool(64, 1);
  unio::receiving in(from, pool);
  for (std::uint64_t done = 0; done < operations; ++done) {
    fill(to, done);
    if (co_await in.co_next() == nullptr) throw std::runtime_error("the pipe has ended");
  }
}

unio::task<> answer(unio::socket_handle s) {
  std::array<char, 64> bytes{};
  while (true) {
    auto const got = (co_await s.co_read(bytes_of(bytes))).value();
    if (got.empty()) co_return;
    (co_await s.co_write(got)).value();
  }
}

unio::task<> ask(unio::socket_handle given, std::uint64_t operations) {
  auto s = std::move(given); // closed when this ends: a parameter lives as long as the frame
  std::array<char, 64> bytes{};
  for (; operations != 0; --operations) {
    (co_await s.co_write(std::as_bytes(std::span(bytes)))).value();
    (co_await s.co_read(bytes_of(bytes))).value();
  }
}

unio::task<> echo(std::uint64_t operations) {
  auto [client, server] = unio::socket_handle::pair().value();
  co_await unio::when_all(answer(std::move(server)), ask(std::move(client), operations));
}

// What is accepted is reset, so that its port is free again.
unio::task<> accept(unio::listening_socket_handle& listener) {
  auto server = (co_await listener.co_accept()).value();
  server.linger(0).value();
}

unio::listening_socket_handle listening() {
  return unio::listening_socket_handle::listen(unio::parse_endpoint("127.0.0.1:0").value()).value();
}

unio::task<> connected_to(std::uint64_t operations) {
  auto listener = listening();
  auto const at = listener.local_endpoint().value();
  for (; operations != 0; --operations) {
    auto const client = (co_await unio::socket_handle::co_connected_to(at)).value();
    co_await accept(listener);
  }
}

unio::task<> connect_to(std::uint64_t operations) {
  auto listener = listening();
  auto const at = "127.0.0.1:" + std::to_string(listener.local_endpoint().value().port());
  for (; operations != 0; --operations) {
    auto const client = (co_await unio::co_connect_to(at)).value();
    co_await accept(listener);
  }
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  const auto add = [&](char const* what, unio::task<> (*work)(std::uint64_t)) {
    for (std::string const driver : both_drivers)
      cases.push_back({"unio awaited, " + driver, {{"what", what}}, [=](std::uint64_t n) {
                         const auto m = multiplexer_on(driver);
                         return measure(n, [&] { unio::run(*m, work(n)); });
                       }});
  };
  add("byte of a full pipe", byte_of_pipe);
  add("lent byte of a full pipe", lent_byte_of_pipe);
  add("echo of 64 bytes", echo);
  add("co_connected_to", connected_to);
  add("co_connect_to", connect_to);
  return subject_main(argc, argv, cases);
}
