// async_generator on the simulation: whatever the order of completions and the moment of a stop or of
// destruction, every byte that was read is yielded once, and in order.

#include "support.hpp"

#include <unio/async_generator.hpp>
#include <unio/run.hpp>

#include <algorithm>
#include <chrono>

namespace {

using namespace test;
using unio::async_generator;
using unio::task;

// Yields each byte, until the end or an error.
async_generator<std::byte> bytes_of(unio::io_handle& h, std::error_code& why, int& alive) {
  struct counted {
    explicit counted(int& of) : n(of) { ++n; }
    ~counted() { --n; }
    int& n;
  } const here(alive);
  std::array<std::byte, 7> room{};
  for (;;) {
    unio::io_result<unio::mutable_buffers> const got = co_await h.co_read(unio::mutable_buffer(room));
    why = got.error();
    if (!got.has_value() || got.bytes_transferred() == 0) co_return;
    for (std::size_t i = 0; i != got.bytes_transferred(); ++i) co_yield room[i];
  }
}

// In two coroutines, one of which gives the generator to the other.
async_generator<std::byte> through(async_generator<std::byte> inner) {
  while (std::byte const* b = co_await inner.co_next()) co_yield *b;
}

task<> consume(async_generator<std::byte> g, std::uint64_t& seen, std::uint64_t at_most, bool& ended,
               unio::executor_ref where) {
  while (seen != at_most) {
    std::byte const* const b = co_await g.co_next();
    unio::executor_ref const here = co_await unio::this_coro::executor;
    EXPECT_EQ(here, where);
    if (b == nullptr) break;
    EXPECT_EQ(*b, byte_at(seen));
    ++seen;
  }
  ended = true;
}

task<> produce(unio::pipe_handle writer, std::uint64_t n) {
  for (std::uint64_t sent = 0; sent != n;) {
    std::array<std::byte, 16> room{};
    std::size_t const some = std::min<std::uint64_t>(room.size(), n - sent);
    for (std::size_t i = 0; i != some; ++i) room[i] = byte_at(sent + i);
    unio::io_result<unio::const_buffers> const put =
        co_await writer.co_write(unio::const_buffer(room.data(), some));
    if (!put.has_value()) break; // the reader has gone
    sent += put.bytes_transferred();
  }
}

TEST(simulated_async_generator, yields_every_byte_once_whatever_the_order) {
  std::uint64_t stopped = 0, whole = 0, left_early = 0;
  for_seeds(2000, [&](simulation& s) {
    dice d(s.seed());
    auto [reader, writer] = s.pipe();
    std::uint64_t const total = 1 + d.below(200);
    std::uint64_t const wanted = d.below(3) == 0 ? d.below(total) + 1 : total + 1;
    std::uint64_t seen = 0;
    int alive = 0;
    bool ended = false;
    std::error_code why;
    unio::stop_source source;
    unio::multiplexer_executor const executor = s.multiplexer().executor();
    async_generator<std::byte> g = bytes_of(reader, why, alive);
    if (d.below(2) == 0) g = through(std::move(g));
    unio::async_run(executor, consume(std::move(g), seen, wanted, ended, executor),
                    {.stop = source.get_token()});
    unio::async_run(executor, produce(std::move(writer), total));
    bool const stops = d.below(2) == 0;
    if (stops) s.after(std::chrono::nanoseconds(d.below(20)), [&source] { (void)source.request_stop(); });
    for (std::uint64_t turns = d.below(30); stops && turns != 0; --turns) (void)s.multiplexer().try_run();
    if (stops && d.below(2) == 0) (void)source.request_stop();
    EXPECT_TRUE(run_until(s, [&] { return ended; }));
    EXPECT_EQ(alive, 0);
    if (why == unio::condition::canceled) {
      EXPECT_TRUE(source.stop_requested());
      ++stopped;
    } else {
      EXPECT_FALSE(why) << why.message();
      EXPECT_EQ(seen, std::min(total, wanted));
      ++(wanted > total ? whole : left_early);
    }
    (void)reader.close(); // the producer sees it
    for (int i = 0; i != 400 && s.open_descriptors() != 0; ++i) (void)s.multiplexer().try_run();
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(stopped, 100u);
    EXPECT_GT(whole, 100u);
    EXPECT_GT(left_early, 100u);
  }
}

TEST(simulated_async_generator, destroyed_with_its_consumer_at_any_moment_leaves_nothing_behind) {
  std::uint64_t cut_off = 0;
  for_seeds(2000, [&](simulation& s) {
    dice d(s.seed());
    auto [reader, writer] = s.pipe();
    std::uint64_t seen = 0;
    int alive = 0;
    bool ended = false;
    std::error_code why;
    unio::multiplexer_executor const executor = s.multiplexer().executor();
    unio::environment const e{.executor = executor, .multiplexer = &s.multiplexer()};
    unio::async_run(executor, produce(std::move(writer), 60));
    {
      async_generator<std::byte> g = bytes_of(reader, why, alive);
      if (d.below(2) == 0) g = through(std::move(g));
      task<> const t = consume(std::move(g), seen, 61, ended, executor);
      t.child().promise().set_environment(e);
      t.child().promise().set_continuation(std::noop_coroutine());
      t.child().resume();
      for (std::uint64_t turns = d.below(12); turns != 0; --turns) (void)s.multiplexer().try_run();
      if (!ended) ++cut_off;
    }
    EXPECT_EQ(alive, 0);
    (void)reader.close();
    for (int i = 0; i != 400 && s.open_descriptors() != 0; ++i) (void)s.multiplexer().try_run();
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(cut_off, 500u);
  }
}

} // namespace
