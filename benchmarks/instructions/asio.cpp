// instructions_asio: what a message costs an Asio program that has both ends of its connections, in one
// thread. Compiled with Asio's own reactor and, as instructions_asio_unio, with unio::asio.

#include "echo/asio_flavour.hpp"
#include "support/measure.hpp"

#if UNIO_BENCHMARKS_ON_UNIO
#include "support/unio_driver.hpp"
#endif

#include <array>
#include <deque>
#include <string>
#include <vector>

namespace {

using namespace benchmarks;
using asio::local::stream_protocol;

// Sends back what comes, until `left`, which all have in common, have been sent.
class correspondent {
 public:
  correspondent(asio::io_context& context, std::uint64_t& left) : context_(context), left_(left) {}
  stream_protocol::socket& socket() noexcept { return socket_; }
  void write() {
    if (left_ == 0) return context_.stop();
    --left_;
    asio::async_write(socket_, asio::buffer(bytes_), [this](error_code e, std::size_t) {
      if (!e) read();
    });
  }
  void read() {
    socket_.async_read_some(asio::buffer(bytes_), [this](error_code e, std::size_t) {
      if (!e) write();
    });
  }

 private:
  asio::io_context& context_;
  stream_protocol::socket socket_{context_};
  std::array<char, 64> bytes_{};
  std::uint64_t& left_;
};

sample messages(std::uint64_t count, int connections) {
  asio::io_context context(1);
  std::uint64_t left = count;
  std::deque<correspondent> all;
  for (int i = 0; i != connections; ++i) {
    auto& one = all.emplace_back(context, left);
    auto& other = all.emplace_back(context, left);
    asio::local::connect_pair(one.socket(), other.socket());
    one.read();
    other.write();
  }
  return measure(count, [&] { context.run(); });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  const auto add = [&](std::string const& subject, std::string const& driver) {
    for (int const connections : {1, 16})
      cases.push_back({subject + ", " + driver,
                       {{"what", "message of 64 bytes"}, {"connections", std::to_string(connections)}},
                       [=](std::uint64_t n) {
#if UNIO_BENCHMARKS_ON_UNIO
                         (void)multiplexer_on(driver); // chosen, and to be had
#endif
                         return messages(n, connections);
                       }});
  };
#if UNIO_BENCHMARKS_ON_UNIO
  for (std::string const driver : both_drivers) add("unio asio", driver);
#else
  add("asio", "epoll");
#endif
  return subject_main(argc, argv, cases);
}
