// The same script on both drivers, and with blocking calls: promise P13, case 45. Scripts are pseudo-random;
// their seed is printed when two runs differ.

#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class kernel_differential : public ::testing::Test {};

struct random_numbers {
  std::uint64_t state;
  std::size_t operator()(std::size_t below) { // splitmix64
    std::uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<std::size_t>((z ^ z >> 31) % below);
  }
};

std::string say(std::error_code e) {
  if (!e) return "ok";
  for (unio::condition const c :
       {unio::condition::canceled, unio::condition::timed_out, unio::condition::would_block})
    if (e == c) return unio::make_error_condition(c).message();
  return std::to_string(e.value());
}

// A number for a piece of memory, so that what was read is compared too.
std::string digest(void const* data, std::size_t n) {
  std::uint64_t h = 14695981039346656037u; // FNV-1a
  for (std::size_t i = 0; i < n; ++i) h = (h ^ static_cast<unsigned char const*>(data)[i]) * 1099511628211u;
  return std::to_string(n) + ":" + std::to_string(h);
}

// One run. Only steps whose outcome the kernel leaves no choice in: nothing here is a race. Without a
// multiplexer each call blocks; `steps` then leaves out what is started and finished later.
enum class steps : std::uint8_t { calls = 17, all = 20 };

class run {
 public:
  run(std::uint64_t seed, unio::io_multiplexer* m, steps which) : random_{seed}, m_(m), which_(which) {
    directory_.write("file", pattern(10'000));
    file_ = unio::file_handle::file(directory_.handle(), "file", unio::handle::mode::write).value();
    file_.set_multiplexer(m);
    for (int i = 0; i < 3; ++i) {
      pairs_.push_back(local_connection(m));
      pipes_.push_back(unio::pipe_handle::anonymous().value());
      pipes_.back().reader.set_multiplexer(m);
      pipes_.back().writer.set_multiplexer(m);
    }
    auto [l, port] = listener(m);
    accepting_ = std::move(l);
    port_ = port;
    event_ = unio::event_handle::create().value();
    event_.set_multiplexer(m);
  }

  std::vector<std::string> play(int n) {
    for (int i = 0; i < n; ++i) step();
    return std::move(log_);
  }

 private:
  void note(std::string text) { log_.push_back(std::to_string(log_.size()) + " " + std::move(text)); }

  template <class Result> void note_read(std::string const& what, Result const& r) {
    std::string text = what + " " + say(r.error()) + " " + std::to_string(r.bytes_transferred());
    if (r.has_value())
      for (auto const b : *r) text += " " + digest(b.data(), b.size());
    note(std::move(text));
  }

  void step() {
    connection& c = pairs_[random_(pairs_.size())];
    unio::anonymous_pipe& p = pipes_[random_(pipes_.size())];
    std::string const bytes = pattern(1 + random_(3000), random_(1000));
    std::size_t const room = 1 + random_(4000);
    // Sometimes in two pieces.
    std::array<unio::mutable_buffer, 2> const two = {
        unio::mutable_buffer(memory_.data(), room / 2),
        unio::mutable_buffer(memory_.data() + room / 2, room - room / 2)};
    bool const split = random_(3) == 0;
    unio::mutable_buffers const into =
        split ? unio::mutable_buffers(two)
              : unio::mutable_buffers(unio::mutable_buffer(memory_.data(), room));
    std::array<unio::const_buffer, 2> const parts = {
        unio::const_buffer(bytes.data(), bytes.size() / 3),
        unio::const_buffer(bytes.data() + bytes.size() / 3, bytes.size() - bytes.size() / 3)};
    unio::const_buffers const from =
        split ? unio::const_buffers(parts) : unio::const_buffers(unio::const_buffer(bytes));

    switch (random_(static_cast<std::size_t>(which_))) {
      case 0:
        return note_read("socket.try_read", c.socket.try_read(into));
      case 1:
        return note_read("socket.read", c.socket.read(into, 1ms));
      case 2:
        return note_read("socket.try_write", c.socket.try_write(from));
      case 3:
        return note_read("socket.write", c.socket.write(from, 1ms));
      case 4: {
        ssize_t const n = ::send(c.peer.fd(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
        return note("peer.write " + std::to_string(n));
      }
      case 5: {
        std::string const got = c.peer.read_some(room);
        return note("peer.read " + digest(got.data(), got.size()));
      }
      case 6:
        return note_read("pipe.try_read", p.reader.try_read(into));
      case 7:
        return note_read("pipe.write", p.writer.write(from, 1ms));
      case 8:
        return note_read("file.read", file_.read({into, random_(14'000)}));
      case 9:
        return note_read("file.write", file_.write({from, random_(14'000)}));
      case 10:
        return note("file.truncate " + say(file_.truncate(random_(14'000)).error()));
      case 11:
        return note("file.barrier " + say(file_.barrier(unio::barrier_kind::wait_data_only).error()));
      case 12: {
        auto const r = unio::splice(p.reader, c.socket, {.bytes = room}, 1ms);
        return note("splice " + say(r.error()) + " " + std::to_string(r.bytes_transferred()));
      }
      case 13:
        return note("socket.poll " + say(c.socket.poll(unio::readiness::readable, 1ms).error()));
      case 14: {
        if (random_(2) == 0) (void)event_.signal(room);
        auto const r = event_.try_wait();
        return note("event " + say(r.error()) + " " + (r.has_value() ? std::to_string(*r) : ""));
      }
      case 15: {
        raw const client = random_(2) == 0 ? raw_connection(port_) : raw();
        return note("accept " + say(accepting_.accept(client.fd() < 0 ? 1ms : 20s).error()));
      }
      case 16: { // ends one side, or brings a new pair
        if (random_(2) == 0)
          return note("shutdown " + say(c.socket.shutdown(unio::socket_handle::side::send).error()));
        std::string const closed = say(c.socket.close().error());
        c = local_connection(m_);
        return note("close " + closed);
      }
      case 17:
        return started_then("cancel", c, into, [&](auto& read) { read.cancel(); });
      case 18:
        return started_then("bytes", c, into,
                            [&](auto&) { (void)!::send(c.peer.fd(), "abc", 3, MSG_DONTWAIT); });
      default:
        return started_then("close", c, into, [&](auto&) {
          EXPECT_TRUE(c.socket.close().has_value());
          c = local_connection(m_);
        });
    }
  }

  // A read that is with the driver when something happens.
  template <class F>
  void started_then(char const* what, connection& c, unio::mutable_buffers into, F happens) {
    started read{unio::async_read(c.socket, into, 5s)};
    submit_all(*m_);
    bool const at_once = read.ended();
    happens(read);
    EXPECT_TRUE(drive(*m_, [&] { return read.ended(); }));
    note(std::string("read then ") + what + (at_once ? " (at once) " : " ") + say(read.error) + " " +
         std::to_string(read.bytes) + " " + std::to_string(read.values) + "/" + std::to_string(read.ends));
  }

  random_numbers random_;
  unio::io_multiplexer* m_;
  steps which_;
  temporary_directory directory_;
  unio::file_handle file_;
  std::deque<connection> pairs_;
  std::deque<unio::anonymous_pipe> pipes_;
  unio::listening_socket_handle accepting_;
  std::uint16_t port_ = 0;
  unio::event_handle event_;
  std::vector<char> memory_ = std::vector<char>(8192);
  std::vector<std::string> log_;
};

std::vector<std::string> log_of(std::uint64_t seed, char const* driver, int entries, int n,
                                steps which = steps::all) {
  environment_variable const name("UNIO_DRIVER", driver);
  auto const m = made_multiplexer(entries);
  std::vector<std::string> log;
  {
    run r(seed, m.get(), which);
    log = r.play(n);
  }
  expect_nothing_in_flight(*m);
  return log;
}

// By calls that block, on no multiplexer.
std::vector<std::string> log_of_blocking_calls(std::uint64_t seed, int n) {
  return run(seed, nullptr, steps::calls).play(n);
}

// The first place where two logs differ, or nothing.
std::string difference(std::vector<std::string> const& a, std::vector<std::string> const& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    std::string const left = i < a.size() ? a[i] : "(nothing)";
    std::string const right = i < b.size() ? b[i] : "(nothing)";
    if (left != right) return "one: " + left + "\nother: " + right;
  }
  return "";
}

TEST_F(kernel_differential, scripts_come_to_the_same_on_both_drivers) {
  if (!is_isolated()) {
    if (drivers() != std::vector<std::string>{"uring"}) // once in all runs of the suite, where there are both
      GTEST_SKIP() << "both drivers are needed; this is part of the run with UNIO_DRIVER=uring";
    return run_alone("uring");
  }
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    auto const epoll = log_of(seed, "epoll", 0, 150);
    EXPECT_EQ(difference(epoll, log_of(seed, "uring", 0, 150)), "") << "seed " << seed;
    if (seed % 4 == 0) {
      EXPECT_EQ(difference(epoll, log_of(seed, "uring", 1, 150)), "") << "seed " << seed << ", one entry";
    }
  }
}

TEST_F(kernel_differential, scripts_come_to_the_same_with_blocking_calls) {
  if (!is_isolated()) return run_alone(drivers()[0]);
  std::size_t blocked = 0;
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    auto const blocking = log_of_blocking_calls(seed, 150);
    for (std::string const& line : blocking) blocked += line.find("timed out") != std::string::npos;
    EXPECT_EQ(difference(blocking, log_of(seed, nullptr, 0, 150, steps::calls)), "") << "seed " << seed;
  }
  EXPECT_GT(blocked, 100u) << "the canary: calls waited";
}

TEST_F(kernel_differential, scripts_are_compared_by_what_notices_a_difference) {
  if (!is_isolated()) return run_alone(drivers()[0]);
  auto const once = log_of(7, nullptr, 0, 100);
  EXPECT_EQ(once.size(), 100u);
  EXPECT_EQ(difference(once, log_of(7, nullptr, 0, 100)), "") << "a script is the same each time";
  EXPECT_NE(difference(once, log_of(8, nullptr, 0, 100)), "");
}

} // namespace
