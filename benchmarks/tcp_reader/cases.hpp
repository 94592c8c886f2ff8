// The rows of one subject: an operation is a megabyte.
#pragma once

#include "sender.hpp"
#include "stream.h"
#include "support/measure.hpp"

#include <concepts>
#include <stdexcept>
#include <string>
#include <vector>

namespace benchmarks {

inline constexpr std::uint64_t megabyte = 1'000'000;

/// What a subject reads into, and what it has read: it says so of each piece.
class receiving {
 public:
  receiving(std::size_t room_bytes, std::uint64_t wanted) : room_(room_bytes), wanted_(wanted) {}

  [[nodiscard]] unsigned char* room() noexcept { return room_.data(); }
  [[nodiscard]] std::size_t room_bytes() const noexcept { return room_.size(); }
  /// Into the room. True: there is more to come. It also ends with what was not sent: then got() is less than
  /// wanted().
  bool took(std::size_t n) noexcept {
    if (n == 0 || !is_stream(room_.data(), n, got_)) return false;
    got_ += n;
    return got_ < wanted_;
  }
  [[nodiscard]] std::uint64_t got() const noexcept { return got_; }
  [[nodiscard]] std::uint64_t wanted() const noexcept { return wanted_; }
  void set_got(std::uint64_t n) noexcept { got_ = n; } // for who counted elsewhere

 private:
  std::vector<unsigned char> room_;
  std::uint64_t wanted_;
  std::uint64_t got_ = 0;
};

/// Measures `read_all(receiving&)`, which begins when the sender does.
template <class F> sample measure_reading(sender& from, receiving& to, F&& read_all) {
  from.go();
  const double before = processor_ns();
  sample s = measure(to.wanted() / megabyte, read_all);
  const double used_ns = processor_ns() - before;
  if (to.got() != to.wanted())
    throw std::runtime_error("the stream ended early, or something else was received");
  s.value = static_cast<double>(to.wanted()) / 1e6 / (s.elapsed_ns / 1e9);
  s.extra.push_back({"CPU ms/GB", used_ns / 1e6 / (static_cast<double>(to.wanted()) / 1e9)});
  return s;
}

/// `f(sender&, receiving&)` prepares, and calls measure_reading().
template <std::invocable<sender&, receiving&> F>
void add_cases(std::vector<benchmark_case>& to, std::string const& subject, F f) {
  for (const std::size_t kib : {4u, 64u})
    to.push_back({.subject = subject,
                  .parameters = {{"buffer", std::to_string(kib) + " KiB"}},
                  .run =
                      [=](std::uint64_t megabytes) {
                        sender from(megabytes * megabyte);
                        receiving room(kib * 1024, megabytes * megabyte);
                        return f(from, room);
                      },
                  .operations = 1000});
}

} // namespace benchmarks
