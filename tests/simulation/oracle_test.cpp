// No byte is lost, doubled or invented, whatever is cancelled; and the checker that says so can say no.
//
// Writers and readers work on lanes of an endless stream. Each result is taken at its word: a writer goes on
// behind the bytes that it was told were taken, a reader compares what it was given with where it stands. An
// operation that hides bytes shifts the two against each other.

#include "support.hpp"

#include <cerrno>
#include <chrono>
#include <limits>

namespace {

using namespace test;
using namespace std::chrono_literals;
using unio::async_read;
using unio::async_write;

constexpr std::size_t most = 300;

// One direction of a pipe or a connection.
template <class Read, class Write> struct lane {
  unio::io_handle* in = nullptr;
  unio::io_handle* out = nullptr;
  std::array<std::byte, most> read_buffer{};
  std::array<std::byte, most> write_buffer{};
  std::uint64_t read = 0;
  std::uint64_t written = 0;
  std::string wrong;

  template <class Sender> struct receiver {
    lane* l = nullptr;
    template <class Result> void set_value(Result&& r) { l->ended(r); }
    void set_done() {}
  };
  unio::io_operation_connection<Read, receiver<Read>> reading;
  unio::io_operation_connection<Write, receiver<Write>> writing;

  void ended(unio::io_result<unio::mutable_buffers> const& r) {
    if (!r.has_value()) return;
    for (std::size_t i = 0; i != r.bytes_transferred(); ++i)
      if (read_buffer[i] != byte_at(read + i) && wrong.empty())
        wrong = "byte " + std::to_string(read + i) + " is not the one that was written";
    read += r.bytes_transferred();
  }
  void ended(unio::io_result<unio::const_buffers> const& r) {
    if (r.has_value()) written += r.bytes_transferred();
  }

  void start_read(std::size_t n, unio::deadline d) {
    if (reading.in_flight()) return;
    reading = connect(Read(*in, unio::mutable_buffer(read_buffer.data(), n), d), receiver<Read>{this});
    reading.start();
  }
  void start_write(std::size_t n, unio::deadline d) {
    if (writing.in_flight()) return;
    for (std::size_t i = 0; i != n; ++i) write_buffer[i] = byte_at(written + i);
    writing = connect(Write(*out, unio::const_buffer(write_buffer.data(), n), d), receiver<Write>{this});
    writing.start();
  }
};

// Plays one random script. Returns what went wrong, or nothing.
template <class Read, class Write> std::string play(simulation& s) {
  using lane_type = lane<Read, Write>;
  dice d(s.seed());
  auto first = s.pipe();
  auto second = s.pipe();
  auto [a, b] = s.stream_pair();
  std::array<lane_type, 4> lanes;
  auto connect_lane = [&](std::size_t i, unio::io_handle& in, unio::io_handle& out) {
    lanes[i].in = &in;
    lanes[i].out = &out;
  };
  connect_lane(0, first.reader, first.writer);
  connect_lane(1, second.reader, second.writer);
  connect_lane(2, a, b);
  connect_lane(3, b, a);

  auto some_deadline = [&]() -> unio::deadline {
    switch (d.below(4)) {
      case 0:
        return std::chrono::nanoseconds(d.below(3000));
      case 1:
        return unio::deadline::zero();
      default:
        return {};
    }
  };
  for (int step = 0; step != 60; ++step) {
    lane_type& l = lanes[d.below(lanes.size())];
    switch (d.below(8)) {
      case 0:
      case 1:
        l.start_read(1 + d.below(most), some_deadline());
        break;
      case 2:
      case 3:
        l.start_write(1 + d.below(most), some_deadline());
        break;
      case 4:
        l.reading.cancel();
        break;
      case 5:
        l.writing.cancel();
        break;
      case 6:
        (void)s.multiplexer().try_run();
        break;
      case 7:
        if (d.below(2) == 0)
          s.advance(std::chrono::nanoseconds(d.below(2000)));
        else
          (void)s.multiplexer().complete_io();
        break;
    }
  }
  for (lane_type& l : lanes) {
    l.reading.cancel();
    l.writing.cancel();
  }
  bool const ended = run_until(s, [&] {
    for (lane_type const& l : lanes)
      if (l.reading.in_flight() || l.writing.in_flight()) return false;
    return true;
  });
  if (!ended) return "an operation does not end";
  (void)first.writer.close();
  (void)second.writer.close();
  (void)a.shutdown(unio::socket_handle::side::send);
  (void)b.shutdown(unio::socket_handle::side::send);
  for (lane_type& l : lanes) {
    for (;;) { // with the true operation: the rest is to be seen as it is
      auto const r = l.in->read(unio::mutable_buffer(l.read_buffer));
      if (!r.has_value() || r.bytes_transferred() == 0) break;
      l.ended(r);
    }
    if (!l.wrong.empty()) return l.wrong;
    if (l.read != l.written)
      return std::to_string(l.written) + " bytes were written and " + std::to_string(l.read) + " read";
  }
  return {};
}

simulation_options small_buffers(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::from_seed(seed);
  o.pipe_capacity = 100 + seed % 400;
  o.stream_capacity = 50 + seed % 500;
  return o;
}

TEST(simulated_streams, keep_every_byte_whatever_is_cancelled) {
  for_seeds<small_buffers>(20'000, [](simulation& s) { EXPECT_EQ((play<async_read, async_write>(s)), ""); });
}

// An operation whose decoder asks for the stop before it asks for bytes: the fault that the oracle is there
// to find.
unio::driver::outcome complete_stop_first(unio::io_operation& op, int res, unsigned) noexcept {
  if (res == -EAGAIN) return unio::driver::outcome::again;
  bool const stopped = op.links.is.cancel_wanted || op.links.is.timed_out;
  op.set_outcome(stopped || res == -EINTR ? op.canceled_code() : res);
  return unio::driver::outcome::finished;
}

template <class Sender> class stop_before_bytes : public Sender {
 public:
  stop_before_bytes() = default;
  template <class Request>
  stop_before_bytes(unio::io_handle& h, Request request, unio::deadline d) : Sender(h, request, d) {
    unio::io_operation::operator=(broken(h, d, broken_faces(this->faces())));
  }

 private:
  struct broken : unio::io_operation {
    broken(unio::io_handle& h, unio::deadline d, unio::driver::operation_faces const& faces)
        : io_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
  };
  static unio::driver::operation_faces const& broken_faces(unio::driver::operation_faces const& from) {
    static unio::driver::operation_faces faces;
    faces = from;
    faces.values_from = std::numeric_limits<int>::max(); // so that it is asked
    faces.complete = complete_stop_first;
    return faces;
  }
};

template <class Read, class Write> int count_of_wrong_plays() {
  int wrong = 0;
  for (std::uint64_t seed = 0; seed != 1000; ++seed) {
    simulation s(small_buffers(seed));
    if (!play<Read, Write>(s).empty()) ++wrong;
  }
  return wrong;
}

TEST(simulated_streams, canary_that_hides_bytes_behind_a_stop_is_caught) {
  EXPECT_GT((count_of_wrong_plays<stop_before_bytes<async_read>, async_write>()), 20);
  EXPECT_GT((count_of_wrong_plays<async_read, stop_before_bytes<async_write>>()), 20);
}

// Canary: a receiver that gets two values fails the check that every other test relies on.
TEST(simulated_streams, canary_that_is_told_twice_is_caught) {
  static tally twice;
  twice = {};
  tell r{&twice};
  r.set_value(unio::io_result<void>());
  r.set_value(unio::io_result<void>());
  r.set_done();
  EXPECT_NONFATAL_FAILURE(EXPECT_EQ(twice.values, 1), "twice.values");
  EXPECT_NONFATAL_FAILURE(tell{&twice}.set_value(unio::io_result<void>()), "a value after the end");
}

struct record {
  std::uint64_t fingerprint;
  std::string trace;
};

record recorded(std::uint64_t seed) {
  simulation_options o = small_buffers(seed);
  o.record = true;
  simulation s(o);
  EXPECT_EQ((play<async_read, async_write>(s)), "");
  return {s.fingerprint(), s.trace()};
}

TEST(simulated_streams, the_same_seed_replays_exactly_and_another_does_not) {
  for (std::uint64_t seed = 0; seed != 200; ++seed) {
    record const first = recorded(seed);
    record const again = recorded(seed);
    EXPECT_EQ(first.trace, again.trace) << seed;
    EXPECT_EQ(first.fingerprint, again.fingerprint) << seed;
    EXPECT_NE(first.fingerprint, recorded(seed + 1).fingerprint) << seed;
  }
}

} // namespace
