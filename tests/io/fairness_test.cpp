// What multiplexer.hpp and task.hpp promise about turns: everything that is ready is served once before
// anything is served twice, in every style and on every driver; timers and posted work have their turn beside
// it.

#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "support/tiny_rings.hpp"

namespace {

using namespace test;

// ---- a server in several styles ---------------------------------------------------------------------------

constexpr std::size_t room_bytes = 64;

task<> awaits(socket_handle s) {
  std::array<char, room_bytes> room;
  for (;;) {
    auto const got = co_await s.co_read(room);
    if (!got || got->empty()) co_return;
    auto const sent = co_await s.co_write(std::string_view(room.data(), got.bytes_transferred()));
    if (!sent) co_return;
  }
}

task<> polls_first(socket_handle s) {
  std::array<char, room_bytes> room;
  for (;;) {
    auto const ready = co_await s.co_poll(unio::readiness::readable);
    if (!ready) co_return;
    auto const got = co_await s.co_read(room);
    if (!got || got->empty()) co_return;
    auto const sent = co_await s.co_write(std::string_view(room.data(), got.bytes_transferred()));
    if (!sent) co_return;
  }
}

task<> links(socket_handle s) {
  std::array<char, room_bytes> room;
  auto got = co_await s.co_read(room);
  while (got && !got->empty()) {
    std::string_view const answer(room.data(), got.bytes_transferred());
    auto both = co_await unio::co_link(unio::async_write(s, answer), unio::async_read(s, room));
    if (both.completed() == 0) co_return;
    got = both.get<1>();
  }
}

/// Operations and their receivers. It ends, and is no more, when the stream does.
class receiver_server {
 public:
  explicit receiver_server(socket_handle s) : socket_(std::move(s)) {
    read_ = unio::connect(unio::async_read(socket_, room_), after_read{this});
    write_ = unio::connect(unio::async_write(socket_, {}), after_write{this});
    read_.start();
  }

 private:
  struct after_read {
    receiver_server* self = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) { self->bytes_ = got.bytes_transferred(); }
    void set_done() {
      if (self->bytes_ == 0) return delete self;
      self->write_.reset(std::string_view(self->room_.data(), self->bytes_));
      self->write_.start();
    }
  };
  struct after_write {
    receiver_server* self = nullptr;
    bool failed = false;
    void set_value(unio::io_result<unio::const_buffers>&& r) { failed = !r; }
    void set_done() {
      if (failed) return delete self;
      self->read_.reset();
      self->read_.start();
    }
  };

  socket_handle socket_;
  std::array<char, room_bytes> room_;
  std::size_t bytes_ = 0;
  unio::io_operation_connection<unio::async_read, after_read> read_;
  unio::io_operation_connection<unio::async_write, after_write> write_;
};

void serve(io_multiplexer& m, std::string_view style, socket_handle s) {
  s.set_multiplexer(&m);
  if (style == "receivers") {
    new receiver_server(std::move(s));
  } else {
    unio::async_run(m, style == "awaits"        ? awaits(std::move(s))
                       : style == "polls_first" ? polls_first(std::move(s))
                                                : links(std::move(s)));
  }
}

class fairness : public test::on_each_driver {};

UNIO_ON_BOTH_DRIVERS(fairness);

// Clients that answer only between turns, each at once: no clock, so that every run is the same.
struct clients {
  clients(io_multiplexer& m, std::string_view style, std::size_t n) : answers(n) {
    for (std::size_t i = 0; i != n; ++i) {
      auto both = socket_handle::pair().value();
      sockets.push_back(std::move(both.second));
      serve(m, style, std::move(both.first));
      put(i, 1);
    }
  }
  void put(std::size_t i, std::size_t bytes) {
    std::string const text(bytes, 'x');
    ASSERT_EQ(::send(sockets[i].native_handle(), text.data(), bytes, MSG_NOSIGNAL),
              static_cast<ssize_t>(bytes));
  }
  // Takes what has come; true: something has.
  bool take(std::size_t i) {
    char room[512];
    ssize_t const n = ::recv(sockets[i].native_handle(), room, sizeof room, MSG_DONTWAIT);
    if (n <= 0) return false;
    answers[i] += static_cast<int>(n);
    return true;
  }
  void answer_all() {
    for (std::size_t i = 0; i != sockets.size(); ++i)
      if (take(i)) put(i, 1);
  }
  [[nodiscard]] int fewest() const { return *std::ranges::min_element(answers); }
  [[nodiscard]] int most() const { return *std::ranges::max_element(answers); }

  std::vector<socket_handle> sockets;
  std::vector<int> answers;
};

class fairness_in : public fairness {
 protected:
  void each_gets_as_much(std::string_view style) {
    for (std::size_t const n :
         {std::size_t{5}, std::size_t{64}, std::size_t{65}, std::size_t{100}, std::size_t{500}}) {
      SCOPED_TRACE(std::string(style) + ", connections: " + std::to_string(n));
      {
        clients all(*m_, style, n);
        for (int turn = 0; turn != 200; ++turn) {
          ASSERT_TRUE(m_->try_run().has_value());
          all.answer_all();
        }
        EXPECT_GE(all.fewest(), 20) << "they hardly moved";
        EXPECT_LE(all.most() - all.fewest(), 2) << "fewest: " << all.fewest();
      }
      for (int turn = 0; turn != 100 && m_->try_run().value() != 0; ++turn) continue;
    }
  }
};

INSTANTIATE_TEST_SUITE_P(driver, fairness_in, ::testing::Values("uring", "epoll"),
                         [](auto const& of) { return of.param; });

TEST_P(fairness_in, coroutines_each_connection_gets_as_much) {
  if (are_tiny() && GetParam() == "uring") GTEST_SKIP() << "a turn of a ring of one entry is one operation";
  each_gets_as_much("awaits");
}
TEST_P(fairness_in, receivers_each_connection_gets_as_much) {
  if (are_tiny() && GetParam() == "uring") GTEST_SKIP() << "a turn of a ring of one entry is one operation";
  each_gets_as_much("receivers");
}
TEST_P(fairness_in, coroutines_that_poll_first_each_connection_gets_as_much) {
  if (are_tiny() && GetParam() == "uring") GTEST_SKIP() << "a turn of a ring of one entry is one operation";
  each_gets_as_much("polls_first");
}
TEST_P(fairness_in, links_each_connection_gets_as_much) {
  if (are_tiny() && GetParam() == "uring") GTEST_SKIP() << "a turn of a ring of one entry is one operation";
  each_gets_as_much("links");
}

// ---- what is always ready ---------------------------------------------------------------------------------

task<> reads_bytes(unio::pipe_handle& p, int& count, bool const& stop) {
  char byte;
  while (!stop) {
    auto const got = co_await p.co_read(unio::mutable_buffer(&byte, 1));
    if (!got || got->empty()) co_return;
    ++count;
  }
}

TEST_P(fairness, of_many_that_are_always_ready_none_is_ahead_of_another_by_more_than_a_turn) {
  for (std::size_t const n : {std::size_t{3}, std::size_t{64}, std::size_t{200}}) {
    std::vector<unio::anonymous_pipe> pipes;
    std::vector<int> counts(n);
    bool stop = false;
    for (std::size_t i = 0; i != n; ++i) {
      pipes.push_back(unio::pipe_handle::anonymous().value());
      pipes[i].reader.set_multiplexer(m_.get());
      std::string const text(2000, 'x');
      ASSERT_EQ(::write(pipes[i].writer.native_handle(), text.data(), text.size()), 2000);
    }
    for (std::size_t i = 0; i != n; ++i) unio::async_run(*m_, reads_bytes(pipes[i].reader, counts[i], stop));
    // A turn serves each once, and then may complete up to 64 in all: so many rounds of two (what it was
    // resumed with, and one on the spot), of which the last may not reach all of them.
    for (int turn = 0; turn != 8; ++turn) {
      ASSERT_GT(m_->try_run().value(), 0);
      auto const [fewest, most] = std::ranges::minmax(counts);
      EXPECT_LE(most - fewest, 2) << n << " pipes, turn " << turn;
    }
    EXPECT_GT(std::ranges::min(counts), 0);
    stop = true;
    for (auto& p : pipes) p.writer = {};
    while (m_->try_run().value() != 0) continue;
  }
}

// Each answer brings the next request on the spot.
task<> is_asked_again(socket_handle s, int client, int which, std::vector<int>& served) {
  std::array<char, room_bytes> room;
  for (;;) {
    auto const got = co_await s.co_read(room);
    if (!got || got->empty()) co_return;
    served.push_back(which);
    if (!co_await s.co_write(std::string_view(room.data(), 1))) co_return;
    if (::recv(client, room.data(), room.size(), MSG_DONTWAIT) > 0)
      (void)::send(client, "x", 1, MSG_NOSIGNAL);
  }
}

// A call of a ring brings some twenty results. What these start must wait for those of the calls after it.
TEST_P(fairness, those_that_are_asked_again_at_once_are_not_served_before_those_that_wait) {
  if (are_tiny() && GetParam() == "uring") GTEST_SKIP() << "a turn of a ring of one entry is one operation";
  for (int const n : {64, 100, 500}) {
    std::vector<socket_handle> clients;
    std::vector<int> served;
    for (int i = 0; i != n; ++i) {
      auto both = socket_handle::pair().value();
      both.first.set_multiplexer(m_.get());
      clients.push_back(std::move(both.second));
      unio::async_run(*m_, is_asked_again(std::move(both.first), clients.back().native_handle(), i, served));
    }
    for (int turn = 0; turn != 10; ++turn) (void)m_->try_run(); // all of them wait
    ASSERT_TRUE(served.empty());
    for (socket_handle const& c : clients) ASSERT_EQ(::send(c.native_handle(), "x", 1, MSG_NOSIGNAL), 1);
    std::vector<int> times(clients.size());
    for (int turn = 0, seen = 0; turn != 1000 && std::ranges::max(times) < 5; ++turn) {
      (void)m_->try_run();
      for (; seen != static_cast<int>(served.size()); ++seen) {
        int const before = times[static_cast<std::size_t>(served[static_cast<std::size_t>(seen)])]++;
        ASSERT_LE(before - std::ranges::min(times), 1) << n << " connections, service " << seen;
      }
    }
    EXPECT_GE(std::ranges::min(times), 4) << n << " connections";
    for (socket_handle& c : clients) c = {};
    while (m_->try_run().value() != 0) continue;
  }
}

TEST_P(fairness, what_is_alone_completes_64_in_a_row) {
  auto p = unio::pipe_handle::anonymous().value();
  p.reader.set_multiplexer(m_.get());
  std::string const text(4000, 'x');
  ASSERT_EQ(::write(p.writer.native_handle(), text.data(), text.size()), 4000);
  int count = 0;
  bool stop = false;
  unio::async_run(*m_, reads_bytes(p.reader, count, stop));
  for (int turn = 0, before = 0; turn != 20; ++turn, before = count) {
    ASSERT_TRUE(m_->try_run().has_value());
    EXPECT_LE(count - before, 2 * 64 + 2);
  }
  EXPECT_GE(count, 20 * 32) << "each turn has to ask the kernel";
  stop = true;
  p.writer = {};
  while (m_->try_run().value() != 0) continue;
}

// ---- turns inside of turns, and without run() -------------------------------------------------------------

struct then {
  std::function<void()> on_done;
  template <class Result> void set_value(Result&&) {}
  void set_done() {
    if (on_done) on_done();
  }
};

TEST_P(fairness, a_turn_that_a_receiver_takes_hides_nothing_from_the_run_that_called_it) {
  // One operation stays pending, so that a run() that has missed what was delivered sleeps for ever.
  auto never = unio::pipe_handle::anonymous().value();
  auto p = unio::pipe_handle::anonymous().value();
  char byte, other;
  auto pending = unio::connect(unio::async_read(never.reader, unio::mutable_buffer(&other, 1)), then{});
  for (int which = 0; which != 3; ++which) {
    auto read = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(&byte, 1)), then{[&] {
                                if (which == 0) (void)m_->complete_io();
                                if (which == 1) (void)m_->timeout_io();
                                if (which == 2) (void)m_->try_run();
                              }});
    if (!pending.started()) pending.start(m_.get());
    read.start(m_.get());
    if (!read.finished()) (void)m_->try_run();
    ASSERT_EQ(::write(p.writer.native_handle(), "x", 1), 1);
    EXPECT_GT(m_->try_run_for(10s).value(), 0) << which;
    EXPECT_TRUE(read.finished());
  }
  never.writer = {};
  while (!pending.finished()) (void)m_->run();
}

TEST_P(fairness, complete_io_alone_completes_64_in_a_row_again_and_again) {
  auto p = unio::pipe_handle::anonymous().value();
  p.reader.set_multiplexer(m_.get());
  std::string const text(4000, 'x');
  ASSERT_EQ(::write(p.writer.native_handle(), text.data(), text.size()), 4000);
  int count = 0;
  bool stop = false;
  unio::async_run(*m_, reads_bytes(p.reader, count, stop));
  (void)m_->invoke_posted_items();
  int calls = 0;
  for (; count < 3000 && calls != 1000; ++calls) (void)m_->complete_io();
  EXPECT_LE(calls, 200) << "each call completes one";
  stop = true;
  p.writer = {};
  while (m_->try_run().value() != 0) continue;
}

TEST_P(fairness, invoke_posted_items_runs_all_that_was_posted) {
  auto p = unio::pipe_handle::anonymous().value(); // something is in flight
  char byte;
  auto pending = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(&byte, 1)), then{});
  pending.start(m_.get());
  (void)m_->try_run();
  int ran = 0;
  for (int i = 0; i != 500; ++i) ASSERT_TRUE(m_->post([&ran] { ++ran; }).has_value());
  EXPECT_EQ(m_->invoke_posted_items().value(), 500);
  EXPECT_EQ(ran, 500);
  p.writer = {};
  while (!pending.finished()) (void)m_->run();
}

TEST_P(fairness, a_receiver_that_polls_another_does_not_renew_its_turn) {
  auto never = unio::pipe_handle::anonymous().value();
  auto p = unio::pipe_handle::anonymous().value();
  std::string const text(4000, 'x');
  ASSERT_EQ(::write(p.writer.native_handle(), text.data(), text.size()), 4000);
  char byte, other;
  auto pending = unio::connect(unio::async_read(never.reader, unio::mutable_buffer(&other, 1)), then{});
  pending.start(m_.get());
  int count = 0;
  unio::io_operation_connection<unio::async_read, then> read;
  read = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(&byte, 1)), then{[&] {
                         (void)pending.poll();
                         if (++count == 3000) return;
                         read.reset();
                         read.start(m_.get());
                       }});
  read.start(m_.get());
  for (int turn = 0, before = count; turn != 10; ++turn, before = count) {
    (void)m_->try_run();
    EXPECT_LE(count - before, 2 * 64 + 2);
  }
  while (!read.finished()) (void)m_->run();
  never.writer = {};
  while (!pending.finished()) (void)m_->run();
}

// ---- where a turn may do little ---------------------------------------------------------------------------

// Posts itself for ever.
struct restless : unio::work {
  explicit restless(io_multiplexer& to) : work(&invoke), m(to) {}
  static void invoke(unio::work& w, bool run) noexcept {
    auto& self = static_cast<restless&>(w);
    ++self.times;
    if (run && !self.stop) self.m.post(self);
  }
  io_multiplexer& m;
  int times = 0;
  bool stop = false;
};

TEST_P(fairness, turns_of_one_item_reach_posted_work_timers_and_io_alike) {
  restless r(*m_);
  m_->post(r);
  auto p = unio::pipe_handle::anonymous().value();
  p.reader.set_multiplexer(m_.get());
  std::string const text(2000, 'x');
  ASSERT_EQ(::write(p.writer.native_handle(), text.data(), text.size()), 2000);
  int reads = 0;
  bool stop = false;
  unio::async_run(*m_, reads_bytes(p.reader, reads, stop));
  int fired = 0;
  auto ticks = [](io_multiplexer& m, int& count, bool const& end) -> task<> {
    while (!end) {
      unio::timer_handle t(0ns, &m);
      (void)co_await t.co_wait();
      ++count;
    }
  };
  unio::async_run(*m_, ticks(*m_, fired, stop));
  for (int i = 0; i != 200; ++i) ASSERT_TRUE(m_->run(1).has_value());
  int const times_before = r.times, reads_before = reads,
            fired_before = fired; // each began with a share of its own
  for (int i = 0; i != 400; ++i) ASSERT_TRUE(m_->run(1).has_value());
  EXPECT_GE(r.times - times_before, 40);
  EXPECT_GE(reads - reads_before, 40);
  EXPECT_GE(fired - fired_before, 40);
  r.stop = stop = true;
  p.writer = {};
  while (m_->try_run().value() != 0) continue;
}

} // namespace
