// Shows     which driver runs, why, what it uses of the kernel, and what it did: the first things to look at
//           when a program is slower than it should be, or runs in a container.
// Run       build/release/examples/example_driver_in_use; with UNIO_DRIVER=epoll too
// Read next <unio/multiplexer.hpp>, docs/howto/containers.md, docs/howto/why-is-it-slow.md

#include <unio/unio.hpp>

#include <array>
#include <cstdio>

namespace {

unio::task<> exchange(unio::socket_handle& a, unio::socket_handle& b, int times) {
  std::array<char, 64> room;
  for (int i = 0; i != times; ++i) {
    (co_await unio::co_write(a, unio::const_buffer("hello", 5))).value();
    (co_await b.co_read(room)).value();
  }
}

} // namespace

int main() {
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  unio::capabilities const has = m.capabilities();
  std::printf("%s\n", to_string(has).c_str());
  if (!has.why.empty()) std::printf("not io_uring: %s\n", has.why.c_str());

  auto pair = unio::socket_handle::pair().value();
  unio::counters const before = m.counters();
  unio::run(exchange(pair.first, pair.second, 1000));
  unio::counters const after = m.counters();
  auto const per_thousand = [&](char const* what, std::uint64_t unio::counters::* n) {
    std::printf("%-14s %llu\n", what, static_cast<unsigned long long>(after.*n - before.*n));
  };
  per_thousand("started", &unio::counters::started);
  per_thousand("inline hits", &unio::counters::inline_hits);
  per_thousand("inline misses", &unio::counters::inline_misses);
  per_thousand("turns", &unio::counters::turns);
  per_thousand("worker jobs", &unio::counters::worker_jobs);
  return after.started - before.started >= 2000 ? 0 : 1;
}
