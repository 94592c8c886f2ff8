// Receivers that note what they get, and operations with such a receiver.
//
//   tally, tell        what a receiver got, and the receiver that notes it
//   watched, started   an operation with its tally; started() starts it as well
//   ignore             a receiver that notes nothing
//   calls, keep        receivers that call a function at the end, and that keep the results

#pragma once

#include "support/test.hpp"

namespace test {

/// What a receiver got.
struct tally {
  int values = 0;
  int ends = 0;
  std::error_code error; ///< of the last value
  std::size_t bytes = 0; ///< of all values
  std::vector<unio::socket_handle> accepted;
  std::vector<std::error_code> errors; ///< all that there were

  [[nodiscard]] bool ended() const { return ends != 0; }
  [[nodiscard]] bool ended_once() const { return ends == 1; }
};

struct tell {
  tally* to = nullptr;
  unio::io_operation const* operation = nullptr; ///< if given, it may be started again

  template <class Result> void set_value(Result&& r) noexcept {
    EXPECT_FALSE(operation != nullptr ? operation->finished() : to->ended()) << "a value after the end";
    ++to->values;
    to->error = r.error();
    if constexpr (requires { r.bytes_transferred(); }) to->bytes += r.bytes_transferred();
    if (to->error) to->errors.push_back(to->error);
    if constexpr (requires { r->remote_endpoint(); })
      if (r.has_value()) to->accepted.push_back(std::move(*r));
  }
  void set_done() noexcept { ++to->ends; }
};

inline void expect_ended_once(tally const& told) {
  EXPECT_EQ(told.values, 1);
  EXPECT_EQ(told.ends, 1);
}

/// An operation, and what its receiver got: `watched read{unio::async_read(…)};`
template <class Sender> struct watched : tally, unio::io_operation_connection<Sender, tell> {
  explicit watched(Sender s) : unio::io_operation_connection<Sender, tell>(std::move(s), tell{this}) {
    this->receiver().operation = this;
  }
  watched(watched const&) = delete;
  watched& operator=(watched const&) = delete;
};

/// The same, started.
template <class Sender> struct started : watched<Sender> {
  explicit started(Sender s, unio::io_multiplexer* m = nullptr) : watched<Sender>(std::move(s)) {
    this->start(m);
  }
};

/// Whether all of many operations have ended.
template <class Operations> bool all_ended(Operations const& all) {
  return std::ranges::all_of(all, [](tally const& one) { return one.ended(); });
}

struct ignore {
  template <class Result> static void set_value(Result&&) noexcept {}
  static void set_done() noexcept {}
};

struct calls {
  std::function<void()> on_done;
  template <class Result> static void set_value(Result&&) {}
  void set_done() {
    if (on_done) on_done();
  }
};

template <class Result> struct keep {
  std::vector<Result>* to;
  void set_value(Result&& r) noexcept { to->push_back(std::move(r)); }
  static void set_done() noexcept {}
};
template <class Result> keep(std::vector<Result>*) -> keep<Result>;

} // namespace test
