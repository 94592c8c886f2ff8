// Tasks that exchange bytes over simulated pipes, stopped and destroyed at random: no byte is lost or out of
// order, all end, nothing stays open.

#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

struct flow {
  unio::anonymous_pipe pipe;
  std::uint64_t sent = 0;     // as reported to the writer
  std::uint64_t received = 0; // as reported to the reader
  bool in_order = true;
  int alive = 0;
  int ended = 0;
};

struct lives {
  flow& f;
  explicit lives(flow& of) : f(of) { ++f.alive; }
  lives(lives const&) = delete;
  lives& operator=(lives const&) = delete;
  ~lives() { --f.alive; }
};

task<std::size_t> writes_some(flow& f, std::size_t n) {
  std::array<std::byte, 64> block;
  for (std::size_t i = 0; i != n; ++i) block[i] = byte_at(f.sent + i);
  auto const r = co_await f.pipe.writer.co_write(unio::const_buffer(block.data(), n));
  if (r.error()) throw std::system_error(r.error());
  f.sent += r.bytes_transferred();
  co_return r.bytes_transferred();
}

task<> writer(flow& f, std::uint64_t bytes, dice d) {
  lives const here(f);
  try {
    while (f.sent < bytes) {
      std::size_t const n = 1 + d.below(std::min<std::uint64_t>(64, bytes - f.sent));
      (void)co_await writes_some(f, n);
    }
  } catch (std::system_error const& e) {
    EXPECT_TRUE(e.code() == condition::canceled) << e.code();
  }
  ++f.ended;
}

task<> reader(flow& f, std::uint64_t bytes, dice d) {
  lives const here(f);
  while (f.received < bytes) {
    std::array<std::byte, 64> block;
    auto const r = co_await f.pipe.reader.co_read(unio::mutable_buffer(block.data(), 1 + d.below(64)),
                                                  d.below(3) == 0 ? 3us : 1h);
    for (std::size_t i = 0; i != r.bytes_transferred(); ++i)
      f.in_order = f.in_order && block[i] == byte_at(f.received + i);
    f.received += r.bytes_transferred();
    if (r.error() == condition::timed_out) continue;
    if (r.error()) {
      EXPECT_EQ(r.error(), condition::canceled);
      break;
    }
  }
  ++f.ended;
}

// What the reports do not say, the pipe does.
void drain(flow& f) {
  (void)f.pipe.writer.close();
  for (;;) {
    std::array<std::byte, 256> block;
    auto const r = f.pipe.reader.read(unio::mutable_buffer(block));
    if (r.bytes_transferred() == 0) break;
    for (std::size_t i = 0; i != r.bytes_transferred(); ++i)
      f.in_order = f.in_order && block[i] == byte_at(f.received + i);
    f.received += r.bytes_transferred();
  }
}

int stopped_early = 0;

TEST(simulated_tasks, lose_no_byte_when_they_are_stopped_at_random) {
  stopped_early = 0;
  for_seeds(1500, [](simulation& s) {
    dice d(s.seed());
    std::vector<flow> flows(1 + d.below(3));
    auto const source =
        std::make_shared<unio::stop_source>(); // what comes later may come after all has ended
    unio::stop_source& stop = *source;
    constexpr std::uint64_t bytes = 600;
    for (flow& f : flows) {
      f.pipe = s.pipe();
      bool const from_start = d.below(4) == 0;
      unio::async_run(s.multiplexer(), writer(f, bytes, dice(d.below(1 << 20))),
                      {.stop = d.below(2) == 0 ? stop.get_token() : unio::stop_token()});
      unio::async_run(s.multiplexer(), reader(f, bytes, dice(d.below(1 << 20))), {.stop = stop.get_token()});
      if (from_start) stop.request_stop();
    }
    s.after(std::chrono::microseconds(d.below(200)), [source] { source->request_stop(); });
    auto const ended = [&] {
      for (flow const& f : flows)
        if (f.ended != 2) return false; // the pipe has room for all, so a writer ends without a stop as well
      return true;
    };
    EXPECT_TRUE(run_until(s, ended));
    s.advance(1ms);
    for (int turns = 0; turns != 8 && !stop.stop_requested(); ++turns) (void)s.multiplexer().try_run();
    EXPECT_TRUE(stop.stop_requested());
    for (flow& f : flows) {
      if (f.received < bytes) ++stopped_early;
      drain(f);
      EXPECT_EQ(f.alive, 0);
      EXPECT_TRUE(f.in_order);
      EXPECT_EQ(f.received, f.sent);
      EXPECT_EQ(f.ended, 2);
      (void)f.pipe.reader.close();
    }
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(stopped_early, 100);
  }
}

TEST(simulated_tasks, can_be_destroyed_at_any_moment) {
  int cut = 0;
  for_seeds(1500, [&cut](simulation& s) {
    dice d(s.seed());
    flow f;
    f.pipe = s.pipe();
    unio::multiplexer_executor const executor = s.multiplexer().executor();
    unio::stop_source stop;
    unio::environment const with{.executor = executor,
                                 .stop = d.below(2) == 0 ? stop.get_token() : unio::stop_token(),
                                 .multiplexer = &s.multiplexer()};
    {
      std::optional<task<>> tasks[2] = {writer(f, 600, dice(s.seed())), reader(f, 600, dice(s.seed() + 1))};
      for (auto& t : tasks) {
        t->child().promise().set_environment(with);
        t->child().promise().set_continuation(std::noop_coroutine());
        unio::detail::resume(t->child());
      }
      for (std::uint64_t turns = d.below(40); turns != 0; --turns) {
        (void)s.multiplexer().try_run(d.below(2) == 0 ? -1 : 0);
        if (d.below(60) == 0) stop.request_stop();
      }
      std::size_t const which = d.below(2);
      tasks[which].reset();
      for (std::uint64_t turns = d.below(20); turns != 0; --turns) (void)s.multiplexer().try_run();
      tasks[1 - which].reset();
    }
    EXPECT_EQ(f.alive, 0);
    cut += f.ended < 2;
    EXPECT_TRUE(f.in_order);
    (void)f.pipe.reader.close();
    (void)f.pipe.writer.close();
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(cut, 100);
  }
}

} // namespace
