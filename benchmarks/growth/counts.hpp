// What all programs of this table share: how many wait, and which of them is next.
#pragma once

#include "support/measure.hpp"

#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <system_error>
#include <vector>

namespace growth_bench {

using namespace benchmarks;

inline constexpr std::size_t batch = 32; // operations between two turns
inline constexpr std::size_t message_bytes = 64;

inline void check(bool good, char const* what) {
  if (!good) throw std::system_error(errno, std::system_category(), what);
}

/// The same sequence for every subject.
class draw {
 public:
  explicit draw(std::size_t count) : count_(count) {}
  std::size_t next() noexcept {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_ % count_;
  }
  /// Different ones, as many as there are, at most `batch`.
  std::vector<std::size_t> const& some() {
    drawn_.clear();
    while (drawn_.size() < std::min(batch, count_)) {
      std::size_t const i = next();
      if (std::find(drawn_.begin(), drawn_.end(), i) == drawn_.end()) drawn_.push_back(i);
    }
    return drawn_;
  }

 private:
  std::size_t count_;
  std::uint64_t state_ = 88172645463325252u;
  std::vector<std::size_t> drawn_;
};

inline std::chrono::milliseconds far_away(draw& d) {
  return std::chrono::hours(1) + std::chrono::milliseconds(d.next() % 3'600'000);
}

/// Allows as many open descriptors as the system does, and says how many; a thousand remain for others.
inline std::size_t room_for_descriptors() {
  rlimit limit{};
  check(::getrlimit(RLIMIT_NOFILE, &limit) == 0, "getrlimit");
  limit.rlim_cur = limit.rlim_max;
  check(::setrlimit(RLIMIT_NOFILE, &limit) == 0, "setrlimit");
  return limit.rlim_cur > 2000 ? limit.rlim_cur - 1000 : 1000;
}

/// Descriptors that are closed at the end.
struct descriptors {
  std::vector<int> all;
  descriptors() = default;
  descriptors(descriptors const&) = delete;
  ~descriptors() {
    for (int const fd : all) ::close(fd);
  }
};

/// The peers' ends of `count` connections; the others are passed to `serve`.
inline void connect_pairs(std::size_t count, descriptors& peers, std::function<void(int)> const& serve) {
  for (std::size_t i = 0; i < count; ++i) {
    int ends[2];
    check(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0, "socketpair");
    peers.all.push_back(ends[0]);
    serve(ends[1]);
  }
}

inline void send_to(int peer) {
  std::array<char, message_bytes> message{};
  check(::write(peer, message.data(), message.size()) == message_bytes, "sending");
}
inline void receive_from(int peer) {
  std::array<char, message_bytes> message;
  check(::read(peer, message.data(), message.size()) == message_bytes, "receiving");
}

/// `operations` of them, some at a time. `begin` of each that was drawn, then `turn` until all are done, then
/// `end` of each. The first ones are not measured: what waits may reach the kernel with them.
template <class Begin, class Turn, class End>
sample in_batches(std::size_t count, std::uint64_t operations, Begin begin, Turn turn, End end) {
  draw d(count);
  auto const next = [&] {
    auto const& some = d.some();
    for (std::size_t const i : some) begin(i);
    turn(some.size());
    for (std::size_t const i : some) end(i);
    return some.size();
  };
  for (int i = 0; i != 20; ++i) next();
  std::uint64_t done = 0;
  return measure(operations, [&] {
    while (done < operations) done += next();
  });
}

/// A case for each power of ten up to `most`, and for `most`.
inline void add_cases(std::vector<benchmark_case>& to, std::string const& subject, char const* what,
                      std::size_t most, std::function<sample(std::size_t, std::uint64_t)> const& run) {
  std::vector<std::size_t> counts;
  for (std::size_t count = 1; count < most; count *= 10) counts.push_back(count);
  counts.push_back(most);
  for (std::size_t const count : counts)
    to.push_back({subject, {{"what", what}, {"count", std::to_string(count)}}, [run, count](std::uint64_t n) {
                    return run(count, n);
                  }});
}

inline constexpr std::size_t most_timers = 1'000'000;
/// Each needs a descriptor, and each connection two.
inline std::size_t most_pending() { return std::min<std::size_t>(100'000, room_for_descriptors()); }
inline std::size_t most_connections() { return std::min<std::size_t>(10'000, room_for_descriptors() / 2); }

} // namespace growth_bench
