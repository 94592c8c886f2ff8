// Operations whose receivers are counted, on connections of which one end is read; and a thread that ends and
// leaves some.

#pragma once

#include "threads/support.hpp"

#include <atomic>
#include <latch>
#include <system_error>
#include <thread>
#include <utility>

namespace threads_tests {

using unio::condition;
using unio::io_multiplexer;

/// What a receiver got, from whichever thread.
struct tally {
  std::atomic<int> values{0}, ends{0};
  std::error_code error; // written before `ends`

  void expect_ended_once() const {
    require(ends == 1, "the end was notified once");
    require(values == 1, "the value was notified once");
  }
  void expect_ended_with(condition c) const {
    expect_ended_once();
    require(error == c, "it ended with that error");
  }
  void expect_success() const {
    expect_ended_once();
    require(!error, "it ended without an error");
  }
  void expect_nothing() const { require(ends == 0 && values == 0, "the receiver was not called"); }
};

struct tell {
  tally* to;
  template <class Result> void set_value(Result&& r) noexcept {
    require(to->ends == 0, "no value after the end");
    to->error = r.error();
    ++to->values;
  }
  void set_done() noexcept { ++to->ends; }
};

template <class Sender> struct watched : tally, unio::io_operation_connection<Sender, tell> {
  explicit watched(Sender s) : unio::io_operation_connection<Sender, tell>(std::move(s), tell{this}) {}
};

/// Two ends of a connection; the first is read.
struct connection {
  explicit connection(io_multiplexer& m) : ends(unio::socket_handle::pair().value()) {
    ends.first.set_multiplexer(&m);
  }
  void write() { write_one_byte(ends.second); }
  unio::socket_pair ends;
};

/// Reads a byte.
template <class Read> struct reading : connection {
  explicit reading(io_multiplexer& m) : connection(m), op(Read(ends.first, unio::mutable_buffer(room))) {}
  /// What is in flight on it ends, though no other thread runs the multiplexer.
  void close() {
    require(ends.first.close().has_value(), "the handle is closed");
    while (op.ends == 0) std::this_thread::yield(); // another thread may be about to notify its receiver
    op.expect_ended_with(condition::canceled);
  }
  std::byte room[1];
  watched<Read> op;
};
using plain = reading<unio::async_read>;
using shareable = reading<unio::atomic_async_read>;

inline void run_to_the_end(io_multiplexer& m) {
  while (m.run().value() != 0) continue;
}

/// A thread that runs `m`, has started what `start` starts, and ends.
template <class Start> class leaver {
 public:
  leaver(io_multiplexer& m, Start start)
      : thread_([this, &m, start] {
          (void)m.try_run();
          start();
          (void)m.try_run();
          started_.count_down();
        }) {
    started_.wait();
  }
  void join() { thread_.join(); }

 private:
  std::latch started_{1};
  std::thread thread_;
};

} // namespace threads_tests
