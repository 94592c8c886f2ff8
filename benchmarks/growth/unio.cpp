// growth_unio: operations and their receivers; tasks for the connections.

#include "growth/counts.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

namespace {

using namespace growth_bench;

// What `count` operations share.
struct progress {
  std::size_t done = 0;
  std::error_code error;

  void turn(unio::io_multiplexer& m, std::size_t n) {
    while (done < n && !error) m.run().value();
    if (error) throw std::system_error(error);
    done = 0;
  }
};

struct after_wait {
  progress* all = nullptr;
  void set_value(unio::io_result<void>&&) noexcept {} // canceled
  void set_done() noexcept { ++all->done; }
};

sample timers(std::string const& driver, std::size_t count, std::uint64_t operations) {
  auto const m = multiplexer_on(driver);
  progress all;
  draw spans(count);
  std::vector<unio::timer_handle> set(count);
  using connection = unio::io_operation_connection<unio::async_wait, after_wait>;
  std::vector<connection> waits;
  waits.reserve(count);
  for (unio::timer_handle& t : set) {
    t = unio::timer_handle(far_away(spans), m.get());
    waits.push_back(unio::connect(unio::async_wait(t), after_wait{&all}));
  }
  for (connection& w : waits) w.start();
  sample const s = in_batches(
      count, operations, [&](std::size_t i) { waits[i].cancel(); }, [&](std::size_t n) { all.turn(*m, n); },
      [&](std::size_t i) {
        waits[i].reset(); // its span, from now
        waits[i].start();
      });
  for (connection& w : waits) w.cancel();
  all.turn(*m, count);
  return s;
}

struct after_signal {
  progress* all = nullptr;
  unio::io_operation* op = nullptr;
  bool* ends = nullptr;
  void set_value(unio::io_result<std::uint64_t>&& r) noexcept {
    if (!r && !*ends) all->error = r.error();
  }
  void set_done() noexcept {
    ++all->done;
    if (*ends) return;
    op->reset();
    op->start();
  }
};

sample pending(std::string const& driver, std::size_t count, std::uint64_t operations) {
  auto const m = multiplexer_on(driver);
  progress all;
  bool ends = false;
  std::vector<unio::event_handle> events;
  using connection = unio::io_operation_connection<unio::async_wait_event, after_signal>;
  std::vector<connection> waits;
  events.reserve(count);
  waits.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    events.push_back(unio::event_handle::create().value());
    events.back().set_multiplexer(m.get());
    waits.push_back(unio::connect(unio::async_wait_event(events.back()), after_signal{&all, nullptr, &ends}));
  }
  for (connection& w : waits) {
    w.receiver().op = &w;
    w.start();
  }
  m->try_run().value();
  sample const s = in_batches(
      count, operations, [&](std::size_t i) { events[i].signal().value(); },
      [&](std::size_t n) { all.turn(*m, n); }, [](std::size_t) {});
  ends = true;
  for (connection& w : waits) w.cancel();
  all.turn(*m, count);
  return s;
}

unio::task<> echo(unio::io_handle s, progress& all) {
  std::array<char, 4096> room;
  for (;;) {
    auto const got = co_await s.co_read(room);
    if (!got || got->empty()) co_return;
    if (!co_await unio::co_write(s, unio::const_buffer(room.data(), got.bytes_transferred()))) co_return;
    ++all.done;
  }
}

sample connections(std::string const& driver, std::size_t count, std::uint64_t operations) {
  auto const m = multiplexer_on(driver);
  progress all;
  descriptors peers;
  connect_pairs(count, peers, [&](int fd) {
    auto socket = unio::io_handle::adopt(fd).value();
    socket.set_multiplexer(m.get());
    unio::async_run(*m, echo(std::move(socket), all));
  });
  m->try_run().value();
  sample const s = in_batches(
      count, operations, [&](std::size_t i) { send_to(peers.all[i]); },
      [&](std::size_t n) { all.turn(*m, n); }, [&](std::size_t i) { receive_from(peers.all[i]); });
  for (int const fd : peers.all) ::shutdown(fd, SHUT_RDWR);
  while (m->run().value() != 0) {
  }
  return s;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (std::string const driver : both_drivers) {
    auto const on = [&](auto run) {
      return [=](std::size_t count, std::uint64_t n) { return run(driver, count, n); };
    };
    add_cases(cases, "unio, " + driver, "timers", most_timers, on(timers));
    add_cases(cases, "unio, " + driver, "pending", most_pending(), on(pending));
    add_cases(cases, "unio, " + driver, "connections", most_connections(), on(connections));
  }
  return subject_main(argc, argv, cases);
}
