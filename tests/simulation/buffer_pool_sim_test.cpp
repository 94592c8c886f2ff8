// Connections that share few buffers, in the simulation: whatever is delayed, cancelled or closed, each byte
// arrives once and in order, no buffer is lost, and no connection waits for ever.

#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

struct one_connection {
  unio::socket_pair ends;
  std::string sent;
  std::string received;
  bool ended = false;
};

task<> sends(one_connection& c, dice d) {
  for (std::size_t at = 0; at < c.sent.size();) {
    std::size_t const n = std::min(c.sent.size() - at, std::size_t{1} + d.below(40));
    auto const r = co_await c.ends.second.co_write(unio::const_buffer(c.sent.data() + at, n));
    if (!r.has_value()) co_return;
    at += r.bytes_transferred();
    if (d.below(2) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(100)));
  }
  (void)c.ends.second.shutdown(unio::socket_handle::side::send);
}

// Gives up waiting now and then, and keeps what it got for a while.
task<> receives(one_connection& c, unio::buffer_pool& pool, dice d) {
  for (;;) {
    bool const is_patient = d.below(3) != 0;
    unio::deadline const within =
        is_patient ? unio::deadline::none() : std::chrono::microseconds(d.below(80));
    auto got = co_await c.ends.first.co_receive(pool, within);
    if (!got.has_value()) {
      EXPECT_TRUE(got.error() == condition::timed_out || got.error() == condition::would_block)
          << got.error().message();
      continue;
    }
    if (!*got) break;
    c.received.append(reinterpret_cast<char const*>(got->data()), got->size());
    if (d.below(2) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(100)));
  }
  c.ended = true;
}

/// Has as many connections each send and receive up to `most` bytes, and expects that all of them arrive.
template <class Connection, class Receiver, class Sender>
void expect_all_received(simulation& sim, unio::buffer_pool& pool, dice& d, std::uint64_t connections,
                         std::uint64_t most, Receiver receiver, Sender sender) {
  std::vector<std::unique_ptr<Connection>> all(connections);
  for (auto& c : all) {
    c = std::make_unique<Connection>();
    c->ends = sim.stream_pair();
    for (std::size_t n = d.below(most); n != 0; --n) c->sent.push_back(static_cast<char>('a' + d.below(26)));
    unio::async_run(sim.multiplexer(), receiver(*c, dice(d.below(1 << 20))));
    unio::async_run(sim.multiplexer(), sender(*c, dice(d.below(1 << 20))));
  }
  EXPECT_TRUE(
      run_until(sim, [&] { return std::ranges::all_of(all, [](auto const& c) { return c->ended; }); }));
  for (auto const& c : all) EXPECT_EQ(c->received, c->sent);
  EXPECT_EQ(pool.lent(), 0u);
}

SEEDED_TEST(simulated_pool, loses_no_byte_and_no_buffer, 1000) {
  dice d(s.seed());
  unio::buffer_pool pool(1 + d.below(3), 1 + d.below(64));
  expect_all_received<one_connection>(
      s, pool, d, 2 + d.below(6), 300, [&](auto& c, dice e) { return receives(c, pool, e); }, sends);
}

// Handles are closed and multiplexers stopped while operations wait for bytes or buffers.
SEEDED_TEST(simulated_pool, gets_its_buffers_back_from_what_is_stopped, 1000) {
  dice d(s.seed());
  unio::buffer_pool pool(1 + d.below(2), 16);
  struct notes {
    int* ended;
    static void set_value(unio::io_result<unio::lent_buffer>&&) noexcept {}
    void set_done() const noexcept { ++*ended; }
  };
  int ended = 0;
  std::vector<unio::socket_pair> pairs;
  std::size_t const n = 2 + d.below(5);
  pairs.reserve(n);
  using many = decltype(unio::connect(unio::async_receive_many(pairs[0].first, pool), notes{&ended}));
  std::vector<std::unique_ptr<many>> operations;
  for (std::size_t i = 0; i != n; ++i) {
    pairs.push_back(s.stream_pair());
    operations.push_back(
        std::make_unique<many>(unio::async_receive_many(pairs[i].first, pool), notes{&ended}));
    operations.back()->start();
    (void)pairs[i].second.write(unio::const_buffer("some bytes, more than one buffer", 32));
  }
  unio::lent_buffer held = pool.try_take();
  for (std::uint64_t turns = d.below(20); turns != 0; --turns) (void)s.multiplexer().try_run_for(1us);
  for (std::size_t i = 0; i != n; ++i) {
    if (d.below(3) == 0) held.reset();
    switch (d.below(3)) {
      case 0:
        operations[i]->cancel();
        break;
      case 1:
        EXPECT_TRUE(pairs[i].first.close().has_value());
        break;
      case 2:
        ended += operations[i]->finished() ? 0 : 1; // its receiver is not notified
        operations[i].reset();
        break;
    }
  }
  held.reset();
  EXPECT_TRUE(run_until(s, [&] { return ended == static_cast<int>(n); }));
  EXPECT_EQ(pool.lent(), 0u);
}

// ---- async_receive_many -----------------------------------------------------------------------------------

struct repeated {
  unio::socket_pair ends;
  std::string sent;
  std::string received;
  int dones = 0;
  bool ended = false;
  std::function<void(unio::lent_buffer&&)> keep;
};

struct repeated_notes {
  repeated* self;
  void set_value(unio::io_result<unio::lent_buffer>&& r) noexcept {
    if (!r.has_value()) {
      EXPECT_EQ(r.error(), condition::canceled);
    } else if (!*r) {
      self->ended = true;
    } else {
      self->received.append(reinterpret_cast<char const*>(r->data()), r->size());
      self->keep(std::move(*r));
    }
  }
  void set_done() noexcept { ++self->dones; }
};

task<> sends_all(repeated& c, dice d) {
  for (std::size_t at = 0; at < c.sent.size();) {
    std::size_t const n = std::min(c.sent.size() - at, std::size_t{1} + d.below(60));
    auto const r = co_await c.ends.second.co_write(unio::const_buffer(c.sent.data() + at, n));
    if (!r.has_value()) co_return;
    at += r.bytes_transferred();
    if (d.below(2) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(50)));
  }
  // No end and no byte helps one that was forgotten.
  bool const waits = d.below(2) == 0;
  for (int ms = 0; waits && ms != 1000 && c.received.size() != c.sent.size(); ++ms)
    (void)co_await unio::co_sleep(std::chrono::milliseconds(1));
  if (waits) {
    EXPECT_EQ(c.received.size(), c.sent.size()) << "nobody wakes it";
  }
  (void)c.ends.second.shutdown(unio::socket_handle::side::send);
}

// Each is stopped again and again, and started again: what was read before the stop arrives before its end.
SEEDED_TEST(simulated_pool, loses_no_byte_of_operations_that_bring_many, 2000) {
  dice d(s.seed());
  unio::buffer_pool pool(1 + d.below(5), 1 + d.below(30));
  std::vector<unio::lent_buffer> kept;
  std::vector<std::unique_ptr<repeated>> all(1 + d.below(5));
  using many = unio::io_operation_connection<unio::async_receive_many, repeated_notes>;
  std::vector<std::unique_ptr<many>> operations;
  for (auto& c : all) {
    c = std::make_unique<repeated>();
    c->ends = s.stream_pair();
    c->keep = [&](unio::lent_buffer&& b) {
      if (d.below(3) == 0) kept.push_back(std::move(b));
      if (d.below(8) == 0) operations[d.below(operations.size())]->cancel();
    };
    for (std::size_t n = d.below(400); n != 0; --n) c->sent.push_back(static_cast<char>('a' + d.below(26)));
    operations.push_back(
        std::make_unique<many>(unio::async_receive_many(c->ends.first, pool), repeated_notes{c.get()}));
    unio::async_run(s.multiplexer(), sends_all(*c, dice(d.below(1 << 20))));
  }
  for (auto& op : operations) op->start();
  EXPECT_TRUE(run_until(s, [&] {
    if (d.below(2) == 0 || kept.size() >= pool.count()) kept.clear(); // all wait for these otherwise
    bool any_open = false;
    for (std::size_t i = 0; i != all.size(); ++i) {
      if (all[i]->ended) continue;
      any_open = true;
      if (d.below(40) == 0) operations[i]->cancel();
      if (!operations[i]->finished()) continue;
      operations[i]->reset();
      operations[i]->start();
    }
    return !any_open;
  }));
  kept.clear();
  for (auto const& c : all) EXPECT_EQ(c->received, c->sent);
  operations.clear();
  EXPECT_EQ(pool.lent(), 0u);
  std::vector<unio::lent_buffer> everything;
  while (unio::lent_buffer b = pool.try_take()) everything.push_back(std::move(b));
  EXPECT_EQ(everything.size(), pool.count());
}

task<> receives_through_a_window(repeated& c, unio::buffer_pool& pool, dice d) {
  unio::receiving in(c.ends.first, pool, {.window = d.below(200)});
  for (;;) {
    unio::deadline const within =
        d.below(3) == 0 ? unio::deadline(std::chrono::microseconds(1 + d.below(50))) : unio::deadline::none();
    unio::lent_buffer* const next = co_await in.co_next(within);
    if (next == nullptr && in.error() == condition::timed_out) continue;
    if (next == nullptr) {
      EXPECT_FALSE(in.error()) << in.error().message();
      break;
    }
    c.received.append(reinterpret_cast<char const*>(next->data()), next->size());
    unio::lent_buffer const mine = std::move(*next);
    if (d.below(3) == 0) (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(80)));
  }
  c.ended = true;
}

SEEDED_TEST(simulated_pool, loses_no_byte_through_windows, 1000) {
  dice d(s.seed());
  unio::buffer_pool pool(8 + d.below(5), 1 + d.below(30));
  expect_all_received<repeated>(
      s, pool, d, 1 + d.below(4), 400, [&](auto& c, dice e) { return receives_through_a_window(c, pool, e); },
      sends_all);
}

// ---- registered memory ------------------------------------------------------------------------------------

// Copies what arrives into a file, from the buffers that it was received into, and reads the file back into
// buffers that it takes. The simulated kernel refuses, with EFAULT, what is not registered under the number
// that an entry names.
task<> through_registered_memory(one_connection& c, unio::buffer_pool& pool, unio::file_handle& file,
                                 dice d) {
  std::uint64_t at = 0;
  for (;;) {
    auto got = co_await c.ends.first.co_receive(pool);
    EXPECT_TRUE(got.has_value());
    if (!got.has_value() || !*got) break;
    if (d.below(4) == 0) { // its place in the table may be another's next
      unio::buffer_pool other(1, 8, unio::pool_memory::registered);
      unio::lent_buffer const b = other.try_take();
      auto const read = co_await file.co_read({unio::mutable_buffer(b.data(), b.capacity()), 0});
      EXPECT_FALSE(read.error()) << read.error().message();
    }
    for (std::size_t n = 0; n != got->size();) {
      auto const written =
          co_await file.co_write({unio::const_buffer(got->data() + n, got->size() - n), at + n});
      EXPECT_FALSE(written.error()) << written.error().message();
      if (written.error()) co_return;
      n += written.bytes_transferred();
    }
    at += got->size();
  }
  unio::lent_buffer b;
  while (!(b = pool.try_take())) (void)co_await unio::co_sleep(1us);
  for (std::uint64_t from = 0; from != at;) {
    auto const read = co_await file.co_read({unio::mutable_buffer(b.data(), b.capacity()), from});
    EXPECT_FALSE(read.error()) << read.error().message();
    std::size_t const n = read.bytes_transferred();
    if (n == 0) break;
    c.received.append(reinterpret_cast<char const*>(b.data()), n);
    from += n;
  }
  c.ended = true;
}

TEST(simulated_pool, whose_memory_is_registered_loses_no_byte) {
  std::uint64_t uses = 0, refusals = 0;
  for_seeds(500, [&](simulation& sim) {
    dice d(sim.seed());
    unio::buffer_pool pool(1 + d.below(3), 1 + d.below(64), unio::pool_memory::registered);
    std::deque<unio::file_handle> files;
    auto const through_files = [&](one_connection& c, dice e) {
      files.push_back(unio::file_handle::temp_inode().value());
      files.back().set_multiplexer(&sim.multiplexer());
      return through_registered_memory(c, pool, files.back(), e);
    };
    expect_all_received<one_connection>(sim, pool, d, 1 + d.below(4), 300, through_files, sends);
    uses += sim.multiplexer().counters().registered_uses;
    refusals += sim.multiplexer().counters().registrations_refused;
  });
  EXPECT_GT(uses, 1000u) << "the canary";
  EXPECT_GT(refusals, 10u) << "the canary";
}

} // namespace
