// Whole transfers, copying, lines and buffers allocate nothing and lock nothing once warm: their frames and
// blocks come from the pool. Ready and waiting, on handles and on a foreign stream.

#include "alloc/counting.hpp"
#include "support/ends.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

constexpr int warm_up = 200;
constexpr int measured = 400;

struct measurement {
  costs spent;
  bool fine = true;
};

// Runs `round` as one task until it is warm, and then says what more of it costs.
template <class Round> measurement cost_of(Round round) {
  auto const body = [](Round& r) -> task<measurement> {
    measurement m;
    costs before;
    for (int i = -warm_up; i != measured; ++i) {
      if (i == 0) before = test::costs_so_far();
      bool const fine = co_await r();
      m.fine = m.fine && fine;
    }
    m.spent = test::costs_so_far() - before;
    co_return m;
  };
  return unio::run(body(round));
}

template <class Round> void expect_free(Round round) {
  measurement const m = cost_of(std::move(round));
  EXPECT_TRUE(m.fine);
  EXPECT_EQ(m.spent, costs{});
}

unio::socket_pair ends() { return unio::socket_handle::pair().value(); }
unio::anonymous_pipe pipe_ends() { return unio::pipe_handle::anonymous().value(); }

// Gives one byte of a text at a time; its awaitable is no task, so it is awaited through one.
struct somebody_elses {
  std::string_view text;
  std::size_t at = 0;
  struct awaiter {
    somebody_elses& s;
    mutable_buffers to;
    static bool await_ready() noexcept { return false; }
    static bool await_suspend(std::coroutine_handle<>, unio::environment const&) noexcept { return false; }
    [[nodiscard]] io_result<mutable_buffers> await_resume() const noexcept {
      if (s.at == s.text.size()) s.at = 0;
      *to.front().data() = static_cast<std::byte>(s.text[s.at++]);
      return {unio::result<mutable_buffers>(to.first(1)), 1};
    }
  };
  [[nodiscard]] awaiter co_read(io_request<mutable_buffers> r) { return {*this, r.buffers}; }
};

TEST(stream_costs, of_read_and_write_are_none) {
  auto e = ends();
  std::array<char, 4096> out{}, in{};
  auto const round = [&]() -> task<bool> {
    auto const w = co_await unio::co_write(e.first, out);
    auto const r = co_await unio::co_read(e.second, in);
    co_return w.has_value() && r.has_value();
  };
  expect_free(round);
}

TEST(stream_costs, of_a_read_that_waits_are_none) {
  auto there = ends(), back = ends();
  std::array<char, 64> a{}, b{}, c{};
  // Answers everything; ends with its stream.
  auto const answer = [](unio::socket_handle& from, unio::socket_handle& to,
                         std::array<char, 64>& room) -> task<> {
    for (;;) {
      auto const r = co_await unio::co_read(from, room);
      if (!r) co_return;
      auto const w = co_await unio::co_write(to, room);
      if (!w) co_return;
    }
  };
  bool ended = false;
  unio::async_run(unio::this_thread::multiplexer(), answer(there.second, back.second, c),
                  [&](unio::task_outcome<void>) { ended = true; });
  auto const round = [&]() -> task<bool> {
    auto const w = co_await unio::co_write(there.first, a);
    auto const r = co_await unio::co_read(back.first, b);
    co_return w.has_value() && r.has_value();
  };
  expect_free(round);
  there.first.close().value();
  while (!ended) (void)unio::this_thread::multiplexer().run();
}

TEST(stream_costs, of_copying_are_none) {
  auto p = pipe_ends(), q = pipe_ends();
  auto e = ends(), f = ends();
  std::array<char, 8192> text{};
  auto const spliced = [&]() -> task<bool> {
    auto const w = co_await unio::co_write(p.writer, text);
    auto const c = co_await unio::co_copy(p.reader, q.writer, text.size());
    auto const r = co_await unio::co_read(q.reader, text);
    co_return w.has_value() && c.has_value() && r.has_value();
  };
  expect_free(spliced);
  auto const buffered = [&]() -> task<bool> {
    auto const w = co_await unio::co_write(e.first, text);
    auto const c = co_await unio::co_copy(e.second, f.first, text.size());
    auto const r = co_await unio::co_read(f.second, text);
    co_return w.has_value() && c.has_value() && r.has_value();
  };
  expect_free(buffered);
}

TEST(stream_costs, of_lines_are_none) {
  auto e = ends();
  auto text = unio::lines(e.second);
  std::string_view const written = "one line\nanother line\n";
  auto const round = [&]() -> task<bool> {
    auto const w = co_await unio::co_write(e.first, written);
    auto const first = co_await text.co_next();
    bool const one = first.has_value() && *first == "one line";
    auto const second = co_await text.co_next();
    co_return w.has_value() && one&& second.has_value() && *second == "another line";
  };
  expect_free(round);
  auto const fresh = [&]() -> task<bool> { // a reader of its own each time: its block comes from the pool too
    auto const w = co_await unio::co_write(e.first, written);
    auto own = unio::lines(e.second);
    auto const first = co_await own.co_next();
    auto const second = co_await own.co_next();
    co_return w.has_value() && first.has_value() && second.has_value();
  };
  expect_free(fresh);
}

TEST(stream_costs, of_buffers_and_delimiters_are_none) {
  auto e = ends();
  unio::buffered_stream first(e.first), second(e.second);
  std::string into;
  std::string_view const written = "a request\r\n\r\n";
  auto const round = [&]() -> task<bool> {
    auto const w = co_await unio::co_write(first, written);
    auto const f = co_await first.co_flush();
    auto const p = co_await second.co_peek(written.size());
    auto const u = co_await unio::co_read_until(second, into, "\r\n\r\n");
    into.clear();
    co_return w.has_value() && f.has_value() && p.has_value() && u.has_value() && *u == written.size();
  };
  expect_free(round);
}

TEST(stream_costs, of_a_stream_of_somebody_elses_are_none) {
  somebody_elses s{.text = "line\n"};
  std::array<char, 32> room{};
  auto text = unio::lines(s);
  auto const round = [&]() -> task<bool> {
    auto const r = co_await unio::co_read(s, mutable_buffer(room.data(), 10));
    auto const line = co_await text.co_next();
    co_return r.has_value() && line.has_value();
  };
  expect_free(round);
}

// Canary: what is allocated in a round is seen.
TEST(stream_costs, are_noticed) {
  auto const round = [&]() -> task<bool> {
    auto const p = std::make_unique<int>(1);
    asm volatile("" : : "r"(p.get()) : "memory");
    co_return true;
  };
  EXPECT_EQ(cost_of(round).spent.allocations, static_cast<std::uint64_t>(measured));
}

// Ready, waiting, and waiting for the only buffer, which another task keeps for a while.
TEST(stream_costs, of_receiving_into_a_pool_are_none) {
  unio::buffer_pool pool(1, 64);
  test::unix_ends one, other;
  expect_free([&]() -> task<bool> {
    auto const receives = [](unio::socket_handle& s, unio::buffer_pool& from) -> task<bool> {
      auto got = co_await s.co_receive(from);
      co_await unio::co_yield_now();
      co_return got.has_value() && got->size() == 1;
    };
    auto const sends = [](unio::socket_handle& s) -> task<bool> {
      co_await unio::co_yield_now();
      char const byte = 'x';
      co_return s.write(const_buffer(&byte, 1)).has_value();
    };
    auto const [a, b, c, d] = co_await unio::when_all(
        receives(one.source, pool), receives(other.source, pool), sends(one.sink), sends(other.sink));
    bool const fine = a && b && c && d;
    co_return fine&& pool.lent() == 0;
  });
  EXPECT_GT(pool.waits(), 0u);
}

// Many values of one operation, read ahead and paused.
TEST(stream_costs, of_receiving_through_a_window_are_none) {
  unio::buffer_pool pool(16, 4);
  test::unix_ends ends;
  expect_free([&]() -> task<bool> {
    unio::receiving in(ends.source, pool, {.window = 16});
    std::array<char, 100> text{};
    bool const sent = ends.sink.write(const_buffer(text)).has_value();
    std::size_t bytes = 0;
    while (bytes != text.size()) {
      unio::lent_buffer const* const next = co_await in.co_next();
      if (next == nullptr) co_return false;
      bytes += next->size();
    }
    co_return sent;
  });
  EXPECT_EQ(pool.lent(), 0u);
}

} // namespace
