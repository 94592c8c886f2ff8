// receiving: a stream in buffers of a pool, read ahead as far as a window.

#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"
#include "support/work.hpp"

namespace {

using namespace test;

std::string letters(std::size_t n) {
  std::string s(n, 'a');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>('a' + i * 7 % 26);
  return s;
}

class receiving_range : public test::on_each_driver {
 protected:
  unio::socket_pair pair() {
    auto p = unio::socket_handle::pair().value();
    p.first.set_multiplexer(m_.get());
    p.second.set_multiplexer(m_.get());
    return p;
  }
  /// A few turns, in which what can be done is done.
  void settle() const {
    for (int i = 0; i != 20; ++i) (void)m_->try_run_for(0ms);
  }
};
INSTANTIATE_TEST_SUITE_P(on, receiving_range, ::testing::Values("uring", "epoll"),
                         [](auto const& of) { return of.param; });

task<> sends(unio::socket_handle& to, std::string const& text) {
  (void)co_await unio::co_write(to, unio::const_buffer(text.data(), text.size()));
  (void)to.shutdown(unio::socket_handle::side::send);
}

task<std::string> receives_all(unio::io_handle& from, buffer_pool& pool, receiving::options o,
                               std::error_code& error) {
  receiving in(from, pool, o);
  std::string text;
  while (lent_buffer* next = co_await in.co_next()) text += text_of(*next);
  error = in.error();
  EXPECT_EQ(co_await in.co_next(), nullptr); // and ever after
  EXPECT_EQ(in.error(), error);
  co_return text;
}

TEST_P(receiving_range, brings_the_stream_and_its_end) {
  for (std::size_t const window : {0, 1, 64, 1000, 1 << 20}) {
    for (std::size_t const buffers : {1, 2, 50}) {
      buffer_pool pool(buffers, 16);
      auto p = pair();
      std::string const sent = letters(5000);
      unio::async_run(*m_, sends(p.second, sent));
      std::error_code error;
      EXPECT_EQ(unio::run(*m_, receives_all(p.first, pool, {.window = window}, error)), sent);
      EXPECT_FALSE(error);
      EXPECT_EQ(pool.lent(), 0u);
    }
  }
}

TEST_P(receiving_range, reads_from_pipes) {
  buffer_pool pool(4, 8);
  auto p = make_pipe();
  put(p.writer, "some text, and more");
  ASSERT_TRUE(p.writer.close().has_value());
  std::error_code error;
  EXPECT_EQ(unio::run(*m_, receives_all(p.reader, pool, {}, error)), "some text, and more");
  EXPECT_FALSE(error);
}

// While nobody asks, no more is read than the window holds, and what a ring had begun.
TEST_P(receiving_range, stops_reading_at_its_window) {
  buffer_pool pool(1000, 8);
  auto p = pair();
  std::string const sent = letters(100'000);
  unio::async_run(*m_, sends(p.second, sent));
  auto body = [&]() -> task<std::string> {
    receiving in(p.first, pool, {.window = 80});
    std::string text;
    lent_buffer* next = co_await in.co_next();
    std::size_t most = 0;
    while (next != nullptr) {
      for (int i = 0; i != 3; ++i) co_await unio::co_yield_now();
      most = std::max(most, in.kept());
      text += text_of(*next);
      next = co_await in.co_next();
    }
    EXPECT_LE(most, 10u + 65u);
    EXPECT_FALSE(in.error());
    co_return text;
  };
  EXPECT_EQ(unio::run(*m_, body()), sent);
  EXPECT_EQ(pool.lent(), 0u);
}

TEST_P(receiving_range, may_be_asked_again_after_a_deadline_and_a_stop) {
  buffer_pool pool(4, 16);
  auto p = pair();
  receiving in(p.first, pool);
  auto timed = [&]() -> task<> {
    EXPECT_EQ(co_await in.co_next(2ms), nullptr);
    EXPECT_EQ(in.error(), condition::timed_out);
  };
  unio::run(*m_, timed());
  auto stopped = [&]() -> task<> {
    EXPECT_EQ(co_await in.co_next(), nullptr);
    EXPECT_EQ(in.error(), condition::canceled);
  };
  auto both = [&]() -> task<> { (void)co_await unio::timeout(2ms, stopped()); };
  unio::run(*m_, both());
  put(p.second, "late");
  settle(); // it is kept, though nobody asks
  EXPECT_EQ(in.kept(), 1u);
  auto asks = [&]() -> task<std::string> {
    lent_buffer* const next = co_await in.co_next(10s);
    EXPECT_FALSE(in.error());
    co_return next != nullptr ? text_of(*next) : "nothing";
  };
  EXPECT_EQ(unio::run(*m_, asks()), "late");
}

// Though the coroutine that asks awaits nothing else.
TEST_P(receiving_range, that_is_polled_brings_what_is_there) {
  buffer_pool pool(4, 16);
  auto p = pair();
  put(p.second, "there");
  receiving in(p.first, pool);
  auto polls = [&]() -> task<std::string> {
    for (int i = 0; i != 100'000; ++i) {
      if (lent_buffer* const next = co_await in.co_next(0ms)) co_return text_of(*next);
      EXPECT_EQ(in.error(), condition::timed_out);
    }
    co_return "nothing";
  };
  EXPECT_EQ(unio::run(*m_, polls()), "there");
}

TEST_P(receiving_range, lets_its_buffers_be_kept) {
  buffer_pool pool(4, 2);
  auto p = pair();
  put(p.second, "abcd");
  std::vector<lent_buffer> kept;
  auto body = [&]() -> task<> {
    receiving in(p.first, pool);
    while (kept.size() != 2) {
      lent_buffer* const next = co_await in.co_next(10s);
      if (next == nullptr) co_return;
      kept.push_back(std::move(*next));
    }
  };
  unio::run(*m_, body());
  ASSERT_EQ(kept.size(), 2u);
  EXPECT_EQ(text_of(kept[0]) + text_of(kept[1]), "abcd");
  EXPECT_EQ(pool.lent(), 2u);
}

TEST_P(receiving_range, that_is_dropped_gives_everything_back) {
  buffer_pool pool(100, 1);
  for (int asked = 0; asked != 5; ++asked) {
    auto p = pair();
    put(p.second, letters(50));
    auto body = [&]() -> task<> {
      receiving in(p.first, pool, {.window = 20});
      for (int i = 0; i != asked; ++i) EXPECT_NE(co_await in.co_next(10s), nullptr);
    };
    unio::run(*m_, body());
    EXPECT_EQ(pool.lent(), 0u);
  }
}

// Of an executor that resumes at once: inside of what notifies it of a buffer, or of the end.
TEST_P(receiving_range, may_be_dropped_by_a_coroutine_that_goes_on_at_once) {
  buffer_pool pool(100, 16);
  auto body = [&](unio::socket_handle& from, int wanted, bool& is_over) -> task<> {
    {
      receiving in(from, pool);
      lent_buffer* next = co_await in.co_next();
      while (next != nullptr && --wanted != 0) next = co_await in.co_next();
    }
    is_over = true;
  };
  for (int const wanted : {1, 3, 100}) {
    auto p = pair();
    bool is_over = false;
    unio::async_run(unio::inline_executor(), body(p.first, wanted, is_over));
    put(p.second, letters(100));
    ASSERT_TRUE(p.second.close().has_value());
    for (int i = 0; i != 2000 && !is_over; ++i) ASSERT_TRUE(m_->try_run_for(10ms).has_value());
    ASSERT_TRUE(is_over);
    EXPECT_EQ(pool.lent(), 0u);
    EXPECT_EQ(m_->counters().started, m_->counters().finished);
  }
}

TEST_P(receiving_range, reports_errors_after_what_came_before_them) {
  buffer_pool pool(8, 4);
  auto p = pair();
  put(p.second, "abcdefgh");
  auto body = [&]() -> task<> {
    receiving in(p.first, pool);
    lent_buffer* const first = co_await in.co_next(10s);
    EXPECT_NE(first, nullptr);
    EXPECT_TRUE(p.first.close().has_value());
    lent_buffer* next = co_await in.co_next(10s);
    while (next != nullptr) next = co_await in.co_next(10s);
    EXPECT_EQ(in.error(), condition::canceled);
    EXPECT_EQ(co_await in.co_next(10s), nullptr);
    EXPECT_TRUE(in.error());
  };
  unio::run(*m_, body());
  EXPECT_EQ(pool.lent(), 0u);
}

// What gets the number of a stream that was closed is not read.
TEST_P(receiving_range, ends_where_its_stream_is_closed_while_it_pauses) {
  buffer_pool pool(100, 1);
  auto p = pair();
  put(p.second, "abcdefgh");
  auto body = [&]() -> task<std::string> {
    receiving in(p.first, pool, {.window = 4});
    lent_buffer* next = co_await in.co_next(10s);
    for (int i = 0; i != 50; ++i) co_await unio::co_yield_now();
    EXPECT_TRUE(p.first.close().has_value());
    auto const other = pair();
    put(other.first, "xxxx");
    put(other.second, "xxxx");
    std::string text;
    while (next != nullptr) {
      text += text_of(*next);
      next = co_await in.co_next(10s);
    }
    EXPECT_EQ(in.error(), condition::canceled);
    co_return text;
  };
  std::string const text = unio::run(*m_, body());
  EXPECT_EQ(text, std::string("abcdefgh").substr(0, text.size()));
  EXPECT_EQ(pool.lent(), 0u);
}

// ---- several threads --------------------------------------------------------------------------------------

class receiving_on_threads : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (auto const made = make_multiplexer(GetParam().c_str()); !made.has_value())
      GTEST_SKIP() << made.error().message();
    pool_.emplace(2);
  }
  watchdog watchdog_{100s};
  environment_variable const driver_{"UNIO_DRIVER", GetParam().c_str()}; // for the pool's engines
  std::optional<unio::thread_pool> pool_;
};
UNIO_ON_BOTH_DRIVERS(receiving_on_threads);

/// Computes a little after each buffer, and goes on wherever there is time. Leaves after so many.
task<std::string> receives_here_and_there(unio::io_handle& from, buffer_pool& pool, int buffers) {
  receiving in(from, pool, {.window = 8 * pool.size()});
  std::string text;
  while (buffers-- != 0) {
    lent_buffer* const next = co_await in.co_next();
    if (next == nullptr) break;
    for (int i = 0; i != 50; ++i) text.reserve(text.size() + static_cast<std::size_t>(i % 2));
    text += text_of(*next);
    if (buffers % 3 != 0) co_await unio::co_fork();
  }
  co_return text;
}

TEST_P(receiving_on_threads, brings_the_stream_to_a_coroutine_that_moves) {
  buffer_pool buffers(64, 16);
  std::string const sent = letters(20'000);
  for (int round = 0; round != 10; ++round) {
    auto p = unio::socket_handle::pair().value();
    p.first.set_multiplexer(&pool_->multiplexer());
    p.second.set_multiplexer(&pool_->multiplexer());
    unio::async_run(pool_->executor(), sends(p.second, sent));
    ASSERT_EQ(unio::sync_wait(pool_->executor(), receives_here_and_there(p.first, buffers, -1)), sent);
    ASSERT_EQ(buffers.lent(), 0u);
  }
}

TEST_P(receiving_on_threads, that_is_dropped_gives_everything_back) {
  buffer_pool buffers(64, 16);
  std::string const sent = letters(2'000);
  for (int round = 0; round != 100; ++round) {
    auto p = unio::socket_handle::pair().value();
    p.first.set_multiplexer(&pool_->multiplexer());
    put(p.second, sent);
    std::string const got =
        unio::sync_wait(pool_->executor(), receives_here_and_there(p.first, buffers, 1 + round % 20));
    ASSERT_EQ(got, sent.substr(0, got.size()));
    ASSERT_EQ(buffers.lent(), 0u);
  }
}

} // namespace
