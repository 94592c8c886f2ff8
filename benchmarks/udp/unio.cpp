// udp_unio: unio, with blocking calls, and awaited on each driver.

#include "support/measure.hpp"
#include "support/unio_driver.hpp"
#include "udp/ways.hpp"

#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <vector>

namespace udp_bench {
namespace {

using unio::datagram_handle;

[[noreturn]] void fail(std::string const& what, std::error_code why) {
  throw std::runtime_error(what + ": " + why.message());
}

// Both ends, and the memory of a group.
class exchange {
 public:
  exchange(udp_way way, unio::io_multiplexer* m) {
    to_ = datagram_handle::bind(unio::endpoint::ipv4_loopback(0), {.gro = way == udp_segments}).value();
    from_ = datagram_handle::create(unio::address_family::ipv4).value();
    (void)to_.receive_buffer(4 << 20);
    to_.set_multiplexer(m);
    from_.set_multiplexer(m);
    how_.to = to_.local_endpoint().value();
    segmented_ = how_;
    segmented_.segment = udp_bytes;
    for (std::size_t i = 0; i < udp_group; ++i) {
      out_[i].how = how_;
      out_[i].bytes = datagram(i);
      in_[i].room = unio::mutable_buffer(room_.data() + i * udp_bytes, udp_bytes);
    }
  }

  // The calls of each way: what differs between the styles is how these are waited for.

  [[nodiscard]] unio::const_buffer datagram(std::size_t i) const noexcept {
    return {static_cast<void const*>(block_.data() + i * udp_bytes), udp_bytes};
  }
  [[nodiscard]] unio::const_buffer joined(std::size_t n) const noexcept {
    return {static_cast<void const*>(block_.data()), n * udp_bytes};
  }
  [[nodiscard]] unio::mutable_buffer room() noexcept { return {room_.data(), room_.size()}; }
  std::span<unio::datagram_to_send> out(std::size_t n) noexcept {
    for (std::size_t i = 0; i < n; ++i) out_[i].sent = 0;
    return std::span(out_).first(n);
  }
  std::span<unio::received_datagram> in(std::size_t n) noexcept { return std::span(in_).first(n); }

  datagram_handle from_, to_;
  unio::send_description how_, segmented_;
  unio::datagram_info info_;

 private:
  std::vector<unsigned char> block_ = std::vector<unsigned char>(udp_bytes * udp_group);
  std::vector<unsigned char> room_ = std::vector<unsigned char>(65'536);
  std::array<unio::datagram_to_send, udp_group> out_;
  std::array<unio::received_datagram, udp_group> in_;
};

void check(std::error_code error, bool is_right) {
  if (error) fail("datagrams", error);
  if (!is_right) throw std::runtime_error("datagrams: not as they were sent");
}

// Nothing here ever has to wait.
void blocking(exchange& x, udp_way way, std::size_t n) {
  if (way == udp_one_by_one) {
    for (std::size_t i = 0; i < n; ++i) check(x.from_.send_to(x.how_, x.datagram(i)).error(), true);
    for (std::size_t i = 0; i < n; ++i) {
      auto const r = x.to_.receive_from(x.room(), x.info_);
      check(r.error(), r.bytes_transferred() == udp_bytes);
    }
  } else if (way == udp_batches) {
    auto const sent = x.from_.send_batch(x.out(n));
    check(sent.error(), sent && *sent == n);
    for (std::size_t left = n; left != 0;) {
      auto const got = x.to_.receive_batch(x.in(left));
      check(got.error(), got && *got != 0);
      left -= *got;
    }
  } else {
    auto const sent = x.from_.send_to(x.segmented_, x.joined(n));
    check(sent.error(), sent.bytes_transferred() == n * udp_bytes);
    for (std::size_t left = n * udp_bytes; left != 0;) {
      auto const r = x.to_.receive_from(x.room(), x.info_);
      check(r.error(), unio::segments(r->front(), x.info_)[0].size() == udp_bytes);
      left -= r.bytes_transferred();
    }
  }
}

unio::task<> awaited(exchange& x, udp_way way, std::uint64_t datagrams) {
  while (datagrams != 0) {
    std::size_t const n = std::min<std::uint64_t>(datagrams, udp_group);
    datagrams -= n;
    if (way == udp_one_by_one) {
      for (std::size_t i = 0; i < n; ++i) {
        auto const sent = co_await x.from_.co_send_to(x.how_, x.datagram(i));
        check(sent.error(), true);
      }
      for (std::size_t i = 0; i < n; ++i) {
        auto const r = co_await x.to_.co_receive_from(x.room(), x.info_);
        check(r.error(), r.bytes_transferred() == udp_bytes);
      }
    } else if (way == udp_batches) {
      auto const sent = co_await x.from_.co_send_batch(x.out(n));
      check(sent.error(), sent && *sent == n);
      for (std::size_t left = n; left != 0;) {
        auto const got = co_await x.to_.co_receive_batch(x.in(left));
        check(got.error(), got && *got != 0);
        left -= *got;
      }
    } else {
      auto const sent = co_await x.from_.co_send_to(x.segmented_, x.joined(n));
      check(sent.error(), sent.bytes_transferred() == n * udp_bytes);
      for (std::size_t left = n * udp_bytes; left != 0;) {
        auto const r = co_await x.to_.co_receive_from(x.room(), x.info_);
        check(r.error(), unio::segments(r->front(), x.info_)[0].size() == udp_bytes);
        left -= r.bytes_transferred();
      }
    }
  }
}

benchmarks::sample run_blocking(udp_way way, std::uint64_t operations) {
  exchange x(way, nullptr);
  return benchmarks::measure(operations, [&] {
    for (std::uint64_t left = operations; left != 0;) {
      std::size_t const n = std::min<std::uint64_t>(left, udp_group);
      blocking(x, way, n);
      left -= n;
    }
  });
}

benchmarks::sample run_awaited(udp_way way, std::string const& driver, std::uint64_t operations) {
  auto const m = benchmarks::multiplexer_on(driver);
  exchange x(way, m.get());
  return benchmarks::measure(operations, [&] { unio::run(*m, awaited(x, way, operations)); });
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> all;
  for (named_way const& w : all_ways) {
    std::vector<benchmarks::parameter> const parameters = {{"way", w.name}};
    all.push_back({.subject = "unio blocking",
                   .parameters = parameters,
                   .run = [way = w.way](std::uint64_t n) { return run_blocking(way, n); }});
    for (char const* const driver : benchmarks::both_drivers)
      all.push_back({.subject = std::string("unio awaited, ") + driver,
                     .parameters = parameters,
                     .run = [way = w.way, driver](std::uint64_t n) { return run_awaited(way, driver, n); }});
  }
  return all;
}

} // namespace
} // namespace udp_bench

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, udp_bench::cases()); }
