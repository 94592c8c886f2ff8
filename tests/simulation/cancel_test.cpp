// Cancellation, deadlines and destruction, in every order that the simulation knows.

#include "support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// What is still in a pipe whose writer is `writer`, read to the end.
std::size_t drain(simulation& s, unio::io_handle& reader, unio::io_handle& writer) {
  (void)writer.close();
  std::size_t total = 0;
  for (;;) {
    std::array<std::byte, 256> buffer{};
    auto const r = reader.read(unio::mutable_buffer(buffer));
    if (!r.has_value() || r.bytes_transferred() == 0) break;
    total += r.bytes_transferred();
  }
  (void)s;
  return total;
}

// Case 1
SEEDED_TEST(simulated_cancel, at_any_moment_ends_the_operation_once_and_loses_no_byte, 4000) {
  auto [reader, writer] = s.pipe();
  dice d(s.seed());
  std::array<char, 16> buffer{};
  watched op{async_read(reader, unio::mutable_buffer(buffer))};
  std::size_t const sent = 1 + d.below(16);
  bool const write_first = d.below(2) == 0;
  auto write = [&, &out = writer] {
    std::array<char, 16> const data{};
    std::size_t written = 0;
    while (written != sent) {
      auto const r = out.write(unio::const_buffer(data.data(), sent - written));
      ASSERT_TRUE(r.has_value());
      written += r.bytes_transferred();
    }
  };
  if (write_first) write();
  op.start();
  if (!write_first && d.below(2) == 0)
    write();
  else if (!write_first)
    s.after(0ns, write), (void)s.multiplexer().try_run();
  switch (d.below(3)) {
    case 0:
      break; // before it is submitted
    case 1:  // after, before its completion is taken
      for (std::uint64_t turns = d.below(6); turns != 0; --turns) (void)s.multiplexer().complete_io(0);
      break;
    case 2:
      (void)run_until(s, [&] { return op.ended(); });
      break; // after it was delivered
  }
  op.cancel();
  op.cancel();
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  op.cancel();
  expect_ended_once(op);
  if (op.error) {
    EXPECT_EQ(op.error, condition::canceled);
    EXPECT_EQ(op.bytes, 0u);
  }
  for (int i = 0; i != 8; ++i) (void)s.multiplexer().try_run(); // what was posted has been written
  EXPECT_EQ(op.bytes + drain(s, reader, writer), sent);
}

// Case 1: between the taking of a completion and its delivery
TEST(simulated_cancel, between_completion_and_delivery_changes_nothing) {
  struct canceling_receiver : tell {
    unio::io_operation* other = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers> r) {
      tell::set_value(std::move(r));
      other->cancel();
    }
  };
  for_seeds(1000, [](simulation& s) {
    unio::anonymous_pipe pipes[2] = {s.pipe(), s.pipe()};
    tally t[2];
    std::array<char, 4> buffers[2]{};
    unio::io_operation_connection<async_read, canceling_receiver> ops[2];
    for (int i = 0; i != 2; ++i) {
      ops[i] = connect(async_read(pipes[i].reader, unio::mutable_buffer(buffers[i])),
                       canceling_receiver{{&t[i]}, &ops[1 - i]});
      ops[i].start();
      ASSERT_TRUE(pipes[i].writer.write(unio::const_buffer("1", 1)).has_value());
    }
    EXPECT_TRUE(run_until(s, [&] { return t[0].ended() && t[1].ended(); }));
    for (int i = 0; i != 2; ++i) {
      expect_ended_once(t[i]);
      EXPECT_EQ(t[i].bytes + drain(s, pipes[i].reader, pipes[i].writer), 1u);
    }
  });
}

simulation_options recorded_and_launched(std::uint64_t seed) noexcept {
  simulation_options o;
  o.seed = seed;
  o.record = true;
  o.inline_attempts = false;
  return o;
}

// Case 2
TEST(simulated_cancel, is_decoded_alike_for_each_answer_and_each_order_of_the_two_completions) {
  std::set<std::string> seen; // "cancel ANSWER ORDER RESULT"
  for_seeds<recorded_and_launched>(3000, [&](simulation& s) {
    auto [reader, writer] = s.pipe();
    dice d(s.seed());
    std::array<char, 16> buffer{};
    started op{async_read(reader, unio::mutable_buffer(buffer))};
    for (std::uint64_t turns = 1 + d.below(4); turns != 0; --turns) (void)s.multiplexer().complete_io();
    op.cancel();
    if (d.below(2) == 0) (void)writer.try_write(unio::const_buffer("0123456789abcdef", 16));
    EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
    expect_ended_once(op);
    for (int i = 0; i != 20; ++i) (void)s.multiplexer().complete_io();
    std::string const& trace = s.trace();
    std::size_t const at = trace.find(" cancel ");
    char const* const result = op.error ? "canceled" : op.bytes == 16 ? "all" : "part";
    EXPECT_TRUE(!op.error || op.error == condition::canceled);
    if (at != std::string::npos)
      seen.insert(trace.substr(at + 1, trace.find('\n', at) - at - 1) + " " + result);
  });
  auto name = [](int answer, int order, char const* result) {
    return "cancel " + std::to_string(answer) + " " + std::to_string(order) + " " + result;
  };
  if (std::getenv("UNIO_SEED") != nullptr) return;
  for (int order = 0; order != 2; ++order) {
    EXPECT_TRUE(seen.contains(name(0, order, "canceled")));
    EXPECT_TRUE(seen.contains(name(-ENOENT, order, "all")));
    EXPECT_TRUE(seen.contains(name(-ENOENT, order, "part")));
    EXPECT_TRUE(seen.contains(name(-EALREADY, order, "canceled")));
    EXPECT_TRUE(seen.contains(name(-EALREADY, order, "all")));
    EXPECT_TRUE(seen.contains(name(-EALREADY, order, "part")));
  }
}

// Case 3
SEEDED_TEST(simulated_cancel, is_not_dropped_when_the_queue_has_one_place, 1000,
            with<&simulation_options::queue_entries, 1>) {
  constexpr int n = 20;
  unio::anonymous_pipe pipes[n];
  std::array<char, 4> buffers[n];
  std::deque<started<async_read>> ops;
  for (int i = 0; i != n; ++i) {
    pipes[i] = s.pipe();
    ops.emplace_back(async_read(pipes[i].reader, unio::mutable_buffer(buffers[i])));
  }
  for (std::uint64_t turns = s.seed() % (n + 10); turns != 0; --turns) (void)s.multiplexer().complete_io();
  for (auto& op : ops) op.cancel();
  EXPECT_TRUE(run_until(s, [&] { return all_ended(ops); }));
  for (tally const& one : ops) {
    expect_ended_once(one);
    EXPECT_EQ(one.error, condition::canceled);
  }
}

// A multishot whose value comes while its cancellation waits for that place.
SEEDED_TEST(simulated_cancel, of_many_accepts_ends_them_although_a_value_comes_first, 2000,
            with<&simulation_options::queue_entries, 1>) {
  auto listener = s.listener();
  started accept{unio::async_accept_many(listener)};
  constexpr int n = 8;
  unio::anonymous_pipe pipes[n];
  std::array<char, 4> buffers[n];
  std::deque<started<async_read>> ops;
  for (int i = 0; i != n; ++i) {
    pipes[i] = s.pipe();
    ops.emplace_back(async_read(pipes[i].reader, unio::mutable_buffer(buffers[i])));
  }
  for (std::uint64_t turns = 2 * n; turns != 0; --turns) (void)s.multiplexer().complete_io();
  auto client = s.connect_to(listener);
  for (auto& op : ops) op.cancel();
  accept.cancel();
  EXPECT_TRUE(run_until(s, [&] { return all_ended(ops) && accept.ended(); }));
  EXPECT_EQ(accept.ends, 1);
  EXPECT_EQ(accept.error, condition::canceled);
}

// Case 4
SEEDED_TEST(simulated_cancel, of_a_write_reports_what_the_peer_will_read, 2000,
            with<&simulation_options::stream_capacity, 256>) {
  auto [a, b] = s.stream_pair();
  dice d(s.seed());
  std::vector<char> const data(1 + d.below(400));
  started op{async_write(a, unio::const_buffer(data))};
  for (std::uint64_t turns = d.below(8); turns != 0; --turns) (void)s.multiplexer().complete_io();
  op.cancel();
  EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
  expect_ended_once(op);
  EXPECT_EQ(drain(s, b, a), op.bytes);
}

// Case 6
TEST(simulated_cancel, of_an_accept_that_succeeded_all_the_same_leaks_nothing) {
  int accepted = 0;
  int canceled = 0;
  for_seeds(2000, [&](simulation& s) {
    auto listener = s.listener();
    dice d(s.seed());
    auto client = s.connect_to(listener);
    tally t;
    bool const destroys = d.below(2) == 0;
    {
      auto op = connect(async_accept(listener), tell{&t});
      op.start();
      for (std::uint64_t turns = d.below(6); turns != 0; --turns) (void)s.multiplexer().complete_io(0);
      if (!destroys) {
        op.cancel();
        EXPECT_TRUE(run_until(s, [&] { return t.ended(); }));
      }
    }
    if (!destroys) expect_ended_once(t);
    t.error ? ++canceled : ++accepted;
    if (!t.accepted.empty()) return;
    EXPECT_LE(s.open_descriptors(), 2u); // the listener and the client
  });
  if (std::getenv("UNIO_SEED") != nullptr) return;
  EXPECT_GT(accepted, 100);
  EXPECT_GT(canceled, 100);
}

// Case 7
TEST(simulated_deadline, in_the_same_tick_as_the_completion_is_one_or_the_other) {
  int bytes = 0;
  int timeouts = 0;
  for_seeds(3000, [&](simulation& s) {
    auto [reader, writer] = s.pipe();
    std::array<char, 4> buffer{};
    bool written = false;
    auto write = [&, &out = writer] { written = out.write(unio::const_buffer("x", 1)).has_value(); };
    bool const before = s.seed() % 2 == 0;
    watched op{async_read(reader, unio::mutable_buffer(buffer), 5ms)};
    if (before) s.after(5ms, write);
    op.start();
    if (!before) s.after(5ms, write);
    EXPECT_TRUE(run_until(s, [&] { return op.ended(); }));
    expect_ended_once(op);
    for (int i = 0; i != 16 && !written; ++i) (void)s.multiplexer().try_run();
    EXPECT_TRUE(written);
    EXPECT_TRUE(!op.error || op.error == condition::timed_out);
    op.error ? ++timeouts : ++bytes;
    EXPECT_EQ(op.bytes + drain(s, reader, writer), 1u);
  });
  if (std::getenv("UNIO_SEED") != nullptr) return;
  EXPECT_GT(bytes, 100);
  EXPECT_GT(timeouts, 100);
}

// Case 7
SEEDED_TEST(simulated_deadline, of_zero_or_in_the_past_does_not_let_time_pass, 1000) {
  auto [reader, writer] = s.pipe();
  std::array<char, 4> buffer{};
  auto const begun = s.now();
  EXPECT_EQ(reader.try_read(unio::mutable_buffer(buffer)).error(), condition::would_block);
  EXPECT_EQ(reader.read(unio::mutable_buffer(buffer), -5s).error(), condition::would_block);
  EXPECT_EQ(s.now(), begun);
  EXPECT_EQ(reader.read(unio::mutable_buffer(buffer), s.now() - 1s).error(), condition::timed_out);
  EXPECT_LT(s.now() - begun, 100us) << "at most the time that the kernel needs";
}

// Case 7
SEEDED_TEST(simulated_deadline, too_far_away_to_count_is_no_deadline, 1000) {
  auto [reader, writer] = s.pipe();
  std::array<char, 4> buffer{};
  deadline const far[] = {std::chrono::nanoseconds::max(), std::chrono::hours::max(),
                          std::chrono::steady_clock::time_point::max(),
                          std::chrono::nanoseconds(std::numeric_limits<std::int64_t>::max() - 1)};
  for (deadline const d : far) {
    s.after(24h, [&out = writer] { (void)out.write(unio::const_buffer("x", 1)); });
    EXPECT_EQ(reader.read(unio::mutable_buffer(buffer), d).bytes_transferred(), 1u);
  }
}

// Case 7
SEEDED_TEST(simulated_deadline, is_never_early, 1000) {
  auto [reader, writer] = s.pipe();
  std::array<char, 4> buffer{};
  auto const begun = s.now();
  EXPECT_EQ(reader.read(unio::mutable_buffer(buffer), 7ms).error(), condition::timed_out);
  EXPECT_GE(s.now() - begun, 7ms);
  EXPECT_LT(s.now() - begun, 7ms + 100us);
  reader.set_multiplexer(nullptr); // the same without a multiplexer
  EXPECT_EQ(reader.read(unio::mutable_buffer(buffer), 7ms).error(), condition::timed_out);
  EXPECT_GE(s.now() - begun, 14ms);
}

// Case 9
SEEDED_TEST(simulated_destruction, of_an_operation_in_flight_waits_for_its_end_at_every_moment, 4000) {
  auto [a, b] = s.stream_pair();
  dice d(s.seed());
  std::uint64_t const turns = d.below(8);
  std::uint64_t const written = d.below(8);
  auto memory = std::make_unique<std::array<char, 64>>();
  tally t;
  {
    auto read = unio::connect(
        async_read(a, unio::mutable_buffer(*memory), d.below(2) == 0 ? deadline() : deadline(1us)), tell{&t});
    read.start();
    for (std::uint64_t i = 0; i != turns; ++i) {
      if (i == written) (void)b.try_write(unio::const_buffer("x", 1));
      (void)s.multiplexer().complete_io(d.below(2) == 0 ? -1 : 0);
    }
  }
  memory.reset(); // AddressSanitizer sees a write to it from here on
  int const values = t.values;
  (void)b.try_write(unio::const_buffer("y", 1));
  for (int i = 0; i != 20; ++i) (void)s.multiplexer().try_run();
  EXPECT_EQ(t.values, values) << "a receiver that has gone was told";
  EXPECT_LE(t.values, 1);
}

// Case 9: what had completed is delivered before the handle is gone
SEEDED_TEST(simulated_destruction, of_a_handle_ends_all_that_was_in_flight_on_it, 1000) {
  std::array<char, 8> buffer{};
  std::optional<started<async_read>> read;
  std::optional<started<async_write>> write;
  std::vector<char> const data(1000);
  {
    auto [a, b] = s.stream_pair();
    read.emplace(async_read(a, unio::mutable_buffer(buffer)));
    write.emplace(async_write(a, unio::const_buffer(data)));
    for (std::uint64_t turns = s.seed() % 7; turns != 0; --turns) (void)s.multiplexer().complete_io(0);
    if (s.seed() % 2 == 0) (void)b.close();
  }
  expect_ended_once(*read);
  expect_ended_once(*write);
}

} // namespace
