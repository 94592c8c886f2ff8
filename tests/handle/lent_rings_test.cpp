// Buffers of which a ring's kernel chooses: what it reads ahead of the receiver, runs out of, and leaves
// behind. The same tests run on epoll, which reads when it is asked to.

#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"
#include "sys/multishot.hpp"

#include <linux/io_uring.h>

#include <random>

namespace {

using namespace test;

// What one operation brings.
struct brought {
  std::string text;
  int values = 0;
  int dones = 0;
  std::error_code error;
  std::function<void(lent_buffer&&)> on_value = [](lent_buffer&&) {};
};

struct notes_buffers {
  brought* to;
  void set_value(unio::io_result<lent_buffer>&& r) noexcept {
    if (!r.has_value()) {
      to->error = r.error();
    } else {
      to->text += text_of(*r);
      ++to->values;
      to->on_value(std::move(*r));
    }
  }
  void set_done() noexcept { ++to->dones; }
};

using many = unio::io_operation_connection<unio::async_receive_many, notes_buffers>;

class lent_rings : public test::on_each_driver {
 protected:
  template <class Ended> void run_until(Ended ended) {
    for (int i = 0; i != 2000 && !ended(); ++i) ASSERT_TRUE(m_->try_run_for(10ms).has_value());
    ASSERT_TRUE(ended());
  }
  unio::anonymous_pipe pipe() {
    auto p = unio::pipe_handle::anonymous().value();
    p.reader.set_multiplexer(m_.get());
    return p;
  }
  unio::socket_pair pair() {
    auto p = unio::socket_handle::pair().value();
    p.first.set_multiplexer(m_.get());
    return p;
  }
  std::unique_ptr<many> start(unio::io_handle& h, buffer_pool& pool, brought& t) {
    auto op = std::make_unique<many>(unio::async_receive_many(h, pool), notes_buffers{&t});
    op->start();
    return op;
  }
};
INSTANTIATE_TEST_SUITE_P(on, lent_rings, ::testing::Values("uring", "epoll"),
                         [](auto const& of) { return of.param; });

std::string letters(std::size_t n, unsigned seed = 0) {
  std::string s(n, 'a');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>('a' + (i * 7 + seed) % 26);
  return s;
}

TEST_P(lent_rings, one_request_brings_many_values) {
  buffer_pool pool(64, 1);
  auto p = pipe();
  brought t;
  auto const op = start(p.reader, pool, t);
  std::string const sent = letters(1000);
  put(p.writer, sent);
  run_until([&] { return t.text.size() == sent.size(); });
  EXPECT_EQ(t.text, sent);
  EXPECT_EQ(t.values, 1000);
  EXPECT_EQ(pool.lent(), 0u);
  bool const is_large = m_->capabilities().ring_entries >= 64;
  if (m_->capabilities().defer_taskrun && unio::sys::reads_many() && is_large) {
    EXPECT_LT(m_->counters().submissions, 100u);
    EXPECT_GE(m_->counters().completions, 1000u);
  }
}

// Both come from another thread, at any moment of the request's beginning (driver/uring/choosing.cpp).
TEST_P(lent_rings, a_unix_socket_that_sends_and_ends_at_once_is_read_to_its_end) {
  buffer_pool pool(16, 64);
  std::atomic<int> round{0}, sent{0};
  unio::socket_pair ends;
  std::string const text = letters(600);
  auto const becomes = [](std::atomic<int>& n, int wanted, std::stop_token const& stop) {
    for (int spins = 0; n.load() != wanted; ++spins) {
      if (stop.stop_requested()) return false;
      if (spins > 1000) std::this_thread::yield();
    }
    return true;
  };
  std::jthread const sender([&](std::stop_token const& stop) {
    for (int i = 1; becomes(round, i, stop); ++i) {
      for (int spin = i % 500; spin != 0; --spin) (void)sent.load();
      put(ends.second, text);
      (void)ends.second.shutdown(unio::socket_handle::side::send);
      sent = i;
    }
  });
  auto const end = std::chrono::steady_clock::now() + 1s; // some 20,000 rounds
  for (int i = 1; std::chrono::steady_clock::now() < end && !HasFailure(); ++i) {
    ends = pair();
    brought t;
    round = i;
    auto const op = start(ends.first, pool, t);
    for (int tries = 0; tries != 500 && t.dones == 0; ++tries) (void)m_->try_run_for(10ms);
    (void)becomes(sent, i, {});
    EXPECT_EQ(t.dones, 1) << "round " << i;
    EXPECT_EQ(t.text, text);
  }
}

TEST_P(lent_rings, the_end_comes_after_what_was_sent_before_it) {
  for (bool const is_socket : {false, true}) {
    buffer_pool pool(8, 4);
    auto p = pipe();
    auto s = pair();
    brought t;
    auto const op = is_socket ? start(s.first, pool, t) : start(p.reader, pool, t);
    (void)m_->try_run_for(0ms);
    std::string const sent = letters(100);
    if (is_socket) {
      put(s.second, sent);
      ASSERT_TRUE(s.second.shutdown(unio::socket_handle::side::send).has_value());
    } else {
      put(p.writer, sent);
      ASSERT_TRUE(p.writer.close().has_value());
    }
    run_until([&] { return t.dones == 1; });
    EXPECT_EQ(t.text, sent);
    EXPECT_FALSE(t.error);
    EXPECT_EQ(pool.lent(), 0u);
  }
}

// What one operation has to deliver does not keep the others' from being taken out of the ring.
TEST_P(lent_rings, values_of_one_do_not_hold_up_another) {
  buffer_pool pool(64, 1);
  auto p = pipe(), other = pipe();
  brought t, u;
  auto const first = start(p.reader, pool, t);
  auto const second = start(other.reader, pool, u);
  (void)m_->try_run_for(0ms);
  int before = -1;
  u.on_value = [&](lent_buffer&&) {
    if (before < 0) before = t.values;
  };
  put(p.writer, letters(60));
  put(other.writer, "x");
  run_until([&] { return t.values == 60 && u.values == 1; });
  // On a ring with few entries the kernel itself keeps back what does not fit.
  unsigned const entries = m_->capabilities().ring_entries;
  if (entries == 0 || entries >= 64) {
    EXPECT_LE(before, 3) << "it had to wait for as many values of the other";
  }
}

// Bytes that a ring has read are no longer in the pipe: the stop comes after them.
TEST_P(lent_rings, a_stop_loses_no_byte) {
  for (int const after : {0, 1, 5, 20}) {
    buffer_pool pool(32, 1);
    auto p = pipe();
    brought t;
    auto op = start(p.reader, pool, t);
    t.on_value = [&](lent_buffer&&) {
      if (t.values == after) op->cancel();
    };
    (void)m_->try_run_for(0ms);
    std::string const sent = letters(50);
    put(p.writer, sent);
    if (after == 0) op->cancel();
    run_until([&] { return t.dones == 1; });
    EXPECT_EQ(t.error, condition::canceled);
    std::string rest;
    for (;;) {
      auto got = p.reader.try_receive(pool);
      if (!got.has_value()) break;
      rest += text_of(*got);
    }
    EXPECT_EQ(t.text + rest, sent);
    EXPECT_EQ(pool.lent(), 0u);
  }
}

TEST_P(lent_rings, a_stop_brings_what_was_read_although_all_buffers_are_lent) {
  buffer_pool pool(2, 4);
  auto p = pipe();
  brought t;
  std::vector<lent_buffer> kept;
  t.on_value = [&](lent_buffer&& b) { kept.push_back(std::move(b)); };
  auto op = start(p.reader, pool, t);
  (void)m_->try_run_for(0ms);
  std::string const sent = letters(30);
  put(p.writer, sent.substr(0, 8));
  run_until([&] { return t.values == 2; });
  put(p.writer, sent.substr(8)); // of this a ring's request reads two buffers more
  run_until([&] { return pool.waits() >= 1; });
  EXPECT_EQ(pool.lent(), 2u);
  EXPECT_EQ(t.values, 2);
  op->cancel();
  run_until([&] { return t.dones == 1; });
  kept.clear();
  EXPECT_EQ(pool.lent(), 0u);
  std::string rest(sent.size(), ' ');
  rest.resize(p.reader.try_read(unio::mutable_buffer(rest.data(), rest.size())).bytes_transferred());
  EXPECT_EQ(t.text + rest, sent);
  // All that there are can be lent again, and no more.
  std::vector<lent_buffer> all;
  while (lent_buffer b = pool.try_take()) all.push_back(std::move(b));
  EXPECT_EQ(all.size(), 2u);
}

// All slots were emptied by a stop; they are filled again when there is something to fill them with.
TEST_P(lent_rings, recover_from_lending_too_many) {
  constexpr std::size_t count = 16;
  buffer_pool pool(count, 1);
  auto p = pipe();
  brought t;
  std::vector<lent_buffer> kept;
  t.on_value = [&](lent_buffer&& b) { kept.push_back(std::move(b)); };
  {
    auto op = start(p.reader, pool, t);
    // All are lent, and the request goes on.
    put(p.writer, letters(count));
    run_until([&] { return t.text.size() == count; });
    put(p.writer, letters(3 * count).substr(count));
    run_until([&] { return pool.waits() >= 1; });
    op->cancel();
    run_until([&] { return t.dones == 1; });
  }
  kept.clear();
  t.on_value = [](lent_buffer&&) {};
  std::size_t const rest = 3 * count - t.text.size();
  auto op = start(p.reader, pool, t);
  run_until([&] { return t.text.size() == 3 * count; });
  std::uint64_t const before = m_->counters().submissions;
  put(p.writer, letters(500));
  run_until([&] { return t.text.size() == 3 * count + 500; });
  EXPECT_EQ(t.text.substr(0, 3 * count), letters(3 * count));
  EXPECT_LE(rest, 2 * count);
  if (m_->capabilities().ring_entries >= 64 && m_->capabilities().defer_taskrun && unio::sys::reads_many()) {
    EXPECT_LT(m_->counters().submissions - before, 100u);
  }
}

// No ring keeps buffers from another: two threads share two, and each gets what it is sent.
TEST_P(lent_rings, threads_share_few_buffers) {
  buffer_pool pool(2, 8);
  constexpr std::size_t bytes = 20'000;
  std::vector<std::thread> threads;
  std::vector<std::unique_ptr<unio::io_multiplexer>> multiplexers; // made here: that sets a variable
  for (int i = 0; i != 3; ++i) multiplexers.push_back(test::make_multiplexer(GetParam().c_str()).value());
  for (unsigned me = 0; me != 3; ++me)
    threads.emplace_back([&, me] {
      unio::io_multiplexer* const mine = multiplexers[me].get();
      auto p = unio::socket_handle::pair().value();
      p.first.set_multiplexer(mine);
      brought t;
      auto const op = std::make_unique<many>(unio::async_receive_many(p.first, pool), notes_buffers{&t});
      op->start();
      std::string const sent = letters(bytes, me);
      std::size_t put_in = 0;
      while (t.text.size() != bytes) {
        if (put_in != bytes) {
          unio::const_buffer const next(sent.data() + put_in, std::min<std::size_t>(200, bytes - put_in));
          put_in += p.second.try_write(next).bytes_transferred();
        }
        ASSERT_TRUE(mine->try_run_for(put_in != bytes ? 0ms : 5ms).has_value());
      }
      EXPECT_EQ(t.text, sent);
      op->cancel();
      while (t.dones == 0) ASSERT_TRUE(mine->try_run_for(5ms).has_value());
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.lent(), 0u);
}

// An idle ring's slots keep nothing from those that take buffers.
TEST_P(lent_rings, waiting_operations_leave_all_buffers_to_others) {
  buffer_pool pool(4, 8);
  auto p = pipe();
  brought t;
  auto const op = start(p.reader, pool, t);
  for (int i = 0; i != 3; ++i) (void)m_->try_run_for(0ms);
  std::vector<lent_buffer> all;
  while (lent_buffer b = pool.try_take()) all.push_back(std::move(b));
  EXPECT_EQ(all.size(), 4u);
  put(p.writer, "text");
  for (int i = 0; i != 5; ++i) (void)m_->try_run_for(0ms);
  EXPECT_EQ(t.values, 0);
  all.pop_back();
  run_until([&] { return t.values == 1; });
  EXPECT_EQ(t.text, "text");
}

TEST_P(lent_rings, pools_come_and_go_while_a_ring_lives) {
  for (int i = 0; i != 50; ++i) {
    auto pool = std::make_unique<buffer_pool>(4, 16);
    auto p = pipe();
    brought t;
    lent_buffer kept;
    t.on_value = [&](lent_buffer&& b) { kept = std::move(b); };
    auto op = start(p.reader, *pool, t);
    put(p.writer, "some text");
    run_until([&] { return t.values == 1; });
    op.reset();
    pool.reset();
    EXPECT_EQ(text_of(kept), "some text"); // ASan looks
  }
}

// More than a ring has groups for: the others are read without.
TEST_P(lent_rings, many_pools_at_once) {
  constexpr std::size_t pools = 20;
  std::deque<buffer_pool> all;
  std::deque<brought> texts(pools);
  std::vector<unio::anonymous_pipe> pipes;
  std::vector<std::unique_ptr<many>> operations;
  pipes.reserve(pools);
  for (std::size_t i = 0; i != pools; ++i) {
    all.emplace_back(4, 16);
    pipes.push_back(pipe());
    operations.push_back(start(pipes[i].reader, all[i], texts[i]));
    put(pipes[i].writer, std::to_string(i));
  }
  run_until([&] { return std::ranges::all_of(texts, [](brought const& t) { return t.values == 1; }); });
  for (std::size_t i = 0; i != pools; ++i) EXPECT_EQ(texts[i].text, std::to_string(i));
}

TEST_P(lent_rings, multiplexers_come_and_go_while_a_pool_lives) {
  buffer_pool pool(4, 4);
  for (int i = 0; i != 20; ++i) {
    auto p = pipe();
    brought t;
    auto op = start(p.reader, pool, t);
    put(p.writer, "0123456789");
    run_until([&] { return t.text.size() == 10; });
    EXPECT_EQ(t.text, "0123456789");
    op.reset();
    p.reader.set_multiplexer(nullptr);
    m_ = test::make_multiplexer(GetParam().c_str()).value();
  }
  EXPECT_EQ(pool.lent(), 0u);
}

// The peer goes, and the handle is closed, with more to be read than there are buffers.
TEST_P(lent_rings, connections_end_with_much_on_the_way) {
  buffer_pool pool(8, 1);
  for (int i = 0; i != 30; ++i) {
    auto p = pair();
    brought t;
    t.on_value = [&](lent_buffer&&) {
      if (t.values == i) {
        EXPECT_TRUE(p.first.close().has_value());
      }
    };
    auto const op = start(p.first, pool, t);
    std::string const sent = letters(100);
    put(p.second, sent);
    if (i % 3 == 0) {
      ASSERT_TRUE(p.second.close().has_value());
    }
    if (i == 0) {
      (void)m_->try_run_for(0ms);
      ASSERT_TRUE(p.first.close().has_value());
    }
    run_until([&] { return t.dones == 1; });
    EXPECT_EQ(t.text, sent.substr(0, t.text.size()));
    EXPECT_EQ(pool.lent(), 0u);
  }
  std::vector<lent_buffer> all;
  while (lent_buffer b = pool.try_take()) all.push_back(std::move(b));
  EXPECT_EQ(all.size(), 8u);
}

// Connections of all sizes, a receiver that keeps what it gets for a while and drops it on another thread.
TEST_P(lent_rings, against_what_was_sent) {
  std::mt19937 random(7);
  auto const below = [&](unsigned n) { return static_cast<std::size_t>(random() % n); };
  for (int round = 0; round != 20; ++round) {
    buffer_pool pool(1 + below(6), 1 + below(20));
    std::size_t const connections = 1 + below(8);
    std::vector<unio::socket_pair> pairs;
    std::deque<brought> texts(connections);
    std::vector<std::string> sent(connections);
    std::vector<std::size_t> at(connections);
    std::vector<std::unique_ptr<many>> operations;
    std::vector<lent_buffer> kept;
    pairs.reserve(connections);
    for (std::size_t i = 0; i != connections; ++i) {
      pairs.push_back(pair());
      sent[i] = letters(below(2000), static_cast<unsigned>(i));
      texts[i].on_value = [&](lent_buffer&& b) {
        if (below(3) == 0) kept.push_back(std::move(b));
      };
      operations.push_back(start(pairs[i].first, pool, texts[i]));
    }
    auto const all_done = [&] {
      return std::ranges::all_of(texts, [](brought const& t) { return t.dones == 1; });
    };
    for (int turn = 0; turn != 100'000 && !all_done(); ++turn) {
      std::size_t const i = below(static_cast<unsigned>(connections));
      if (at[i] < sent[i].size()) {
        std::size_t const n = std::min(sent[i].size() - at[i], 1 + below(100));
        put(pairs[i].second, sent[i].substr(at[i], n));
        at[i] += n;
      } else if (at[i] == sent[i].size()) {
        ASSERT_TRUE(pairs[i].second.shutdown(unio::socket_handle::side::send).has_value());
        ++at[i];
      }
      if (below(4) == 0) std::thread([gone = std::exchange(kept, {})]() mutable { gone.clear(); }).join();
      ASSERT_TRUE(m_->try_run_for(0ms).has_value());
    }
    ASSERT_TRUE(all_done());
    for (std::size_t i = 0; i != connections; ++i) {
      EXPECT_EQ(texts[i].text, sent[i]);
      EXPECT_FALSE(texts[i].error);
    }
    kept.clear();
    EXPECT_EQ(pool.lent(), 0u);
  }
}

// ---- rings that lose what they had ------------------------------------------------------------------------

class lent_rings_alone : public lent_rings {};
INSTANTIATE_TEST_SUITE_P(on, lent_rings_alone, ::testing::Values("uring"),
                         [](auto const& of) { return of.param; });

// RLIMIT_MEMLOCK, say, or a filter.
TEST_P(lent_rings_alone, are_not_needed) {
  test::failing_calls calls;
  static int refused;
  refused = 0;
  calls.answer<&unio::sys::table::io_uring_register>(
      [](int fd, unsigned opcode, void* argument, unsigned n) noexcept -> std::int64_t {
        if (opcode != IORING_REGISTER_PBUF_RING)
          return unio::sys::kernel.io_uring_register(fd, opcode, argument, n);
        ++refused;
        return -ENOMEM;
      });
  buffer_pool pool(4, 4);
  auto p = pipe();
  brought t;
  auto const op = start(p.reader, pool, t);
  std::string const sent = letters(100);
  put(p.writer, sent);
  run_until([&] { return t.text.size() == sent.size(); });
  EXPECT_EQ(t.text, sent);
  if (m_->capabilities().defer_taskrun) {
    EXPECT_GT(refused, 0);
    EXPECT_LT(refused, 10) << "it is not tried again and again";
  }
}

// The ring may not be entered any more, at any moment: epoll goes on where it stopped.
TEST_P(lent_rings_alone, may_be_forbidden_under_way) {
  for (int after = 1; after != 12; ++after) {
    buffer_pool pool(4, 4);
    std::string const sent = letters(200);
    m_ = test::make_multiplexer("uring").value();
    brought t, u;
    auto p = pipe();
    auto s = pair();
    auto const op = start(p.reader, pool, t);
    auto const other = start(s.first, pool, u);
    (void)m_->try_run_for(0ms);
    {
      test::failing_calls calls;
      calls.fail<&unio::sys::table::io_uring_enter>(EPERM, {.at = after, .times = test::which_calls::all});
      for (std::size_t at = 0; at != sent.size(); at += 20) {
        put(p.writer, sent.substr(at, 20));
        put(s.second, sent.substr(at, 20));
        (void)m_->try_run_for(1ms);
      }
      run_until([&] {
        return (t.text.size() == sent.size() || t.dones != 0) &&
               (u.text.size() == sent.size() || u.dones != 0);
      });
      EXPECT_GT(calls.failures<&unio::sys::table::io_uring_enter>(), 0);
      // What a tiny ring has read and not yet told is lost with it, and the operations say so.
      if (t.dones != 0 || u.dones != 0) {
        for (brought const* each : {&t, &u}) {
          if (each->dones != 0) {
            EXPECT_EQ(each->error, std::errc::state_not_recoverable);
          }
          EXPECT_EQ(each->text, sent.substr(0, each->text.size()));
        }
        EXPECT_GT(m_->counters().overflows, 0u);
        continue;
      }
      ASSERT_TRUE(p.writer.close().has_value());
      run_until([&] { return t.dones == 1; });
      other->cancel();
      run_until([&] { return u.dones == 1; });
    }
    EXPECT_EQ(t.text, sent);
    EXPECT_EQ(u.text, sent);
    EXPECT_FALSE(t.error);
    EXPECT_EQ(pool.lent(), 0u);
  }
}

} // namespace
