// growth_asio: one thread, callbacks; coroutines for the connections.

#include "growth/counts.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/write.hpp>
#include <memory>

namespace {

using namespace growth_bench;
namespace asio = boost::asio;
using error = boost::system::error_code;

// Turns until `done` has grown by so many.
void turn(asio::io_context& io, std::size_t& done, std::size_t n) {
  while (done < n) io.run_one();
  done = 0;
}

sample timers(std::size_t count, std::uint64_t operations) {
  asio::io_context io(1);
  std::vector<asio::steady_timer> all;
  all.reserve(count);
  draw spans(count);
  std::size_t cancelled = 0;
  auto const set = [&](std::size_t i) {
    all[i].expires_after(far_away(spans));
    all[i].async_wait([&](error) { ++cancelled; });
  };
  for (std::size_t i = 0; i < count; ++i) {
    all.emplace_back(io);
    set(i);
  }
  return in_batches(
      count, operations, set, [&](std::size_t n) { turn(io, cancelled, n); }, [](std::size_t) {});
}

sample pending(std::size_t count, std::uint64_t operations) {
  asio::io_context io(1);
  std::vector<asio::posix::stream_descriptor> all;
  all.reserve(count);
  std::uint64_t value = 1, taken = 0;
  std::size_t done = 0;
  std::function<void(std::size_t)> const wait = [&](std::size_t i) {
    all[i].async_read_some(asio::buffer(&taken, 8), [&, i](error e, std::size_t) {
      if (e) return;
      ++done;
      wait(i);
    });
  };
  for (std::size_t i = 0; i < count; ++i) {
    int const fd = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    check(fd >= 0, "eventfd");
    all.emplace_back(io, fd);
    wait(i);
  }
  auto const signal = [&](std::size_t i) { check(::write(all[i].native_handle(), &value, 8) == 8, "write"); };
  return in_batches(count, operations, signal, [&](std::size_t n) { turn(io, done, n); }, [](std::size_t) {});
}

asio::awaitable<void> echo(asio::local::stream_protocol::socket s, std::size_t& done) {
  std::array<char, 4096> room;
  for (;;) {
    std::size_t const n = co_await s.async_read_some(asio::buffer(room), asio::deferred);
    co_await asio::async_write(s, asio::buffer(room, n), asio::deferred);
    ++done;
  }
}

sample connections(std::size_t count, std::uint64_t operations) {
  descriptors peers;
  std::size_t done = 0;
  asio::io_context io(1);
  connect_pairs(count, peers, [&](int fd) {
    asio::co_spawn(io, echo({io, asio::local::stream_protocol(), fd}, done), asio::detached);
  });
  io.poll();
  return in_batches(
      count, operations, [&](std::size_t i) { send_to(peers.all[i]); },
      [&](std::size_t n) { turn(io, done, n); }, [&](std::size_t i) { receive_from(peers.all[i]); });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "asio", "timers", most_timers, timers);
  add_cases(cases, "asio", "pending", most_pending(), pending);
  add_cases(cases, "asio", "connections", most_connections(), connections);
  return subject_main(argc, argv, cases);
}
