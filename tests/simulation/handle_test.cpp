// Handles and their operations on the simulation: closing, moving, inline completion, fairness, short
// transfers.

#include "support.hpp"
#include "support/stack_extent.hpp"
#include "support/test.hpp"

#include <coroutine>
#include <numeric>

namespace {

using namespace test;

// Case 11
SEEDED_TEST(simulated_close, of_one_handle_leaves_what_is_in_flight_on_others_alone, 1000) {
  auto first = s.listener();
  auto second = s.listener();
  auto [a, b] = s.stream_pair();
  std::array<char, 4> buffer{};
  started accept_first{async_accept(first)};
  started accept_second{async_accept(second)};
  started read{async_read(a, unio::mutable_buffer(buffer))};
  for (std::uint64_t turns = s.seed() % 5; turns != 0; --turns) (void)s.multiplexer().complete_io();
  auto client = s.connect_to(second);
  ASSERT_TRUE(b.write(unio::const_buffer("abcd", 4)).has_value());
  ASSERT_TRUE(first.close().has_value());
  expect_ended_once(accept_first);
  EXPECT_EQ(accept_first.error, condition::canceled);
  EXPECT_TRUE(run_until(s, [&] { return accept_second.ended() && read.ended(); }));
  expect_ended_once(accept_second);
  expect_ended_once(read);
  EXPECT_FALSE(accept_second.error);
  EXPECT_GT(read.bytes, 0u);
}

// Case 13
TEST(simulated_completions, that_come_twice_or_late_reach_nobody_and_are_counted) {
  std::uint64_t late = 0;
  for_seeds(1000, [&](simulation& s) {
    auto [reader, writer] = s.pipe();
    std::array<char, 1> buffer{};
    for (int i = 0; i != 20; ++i) { // each takes the slot, and often the memory, of the one before
      started read{async_read(reader, unio::mutable_buffer(buffer), i % 5 == 0 ? 1us : 1h)};
      if (i % 3 == 0) (void)s.multiplexer().complete_io();
      if (i % 5 != 0) {
        EXPECT_EQ(writer.write(unio::const_buffer("x", 1)).bytes_transferred(), 1u);
      }
      EXPECT_TRUE(run_until(s, [&] { return read.ended(); }));
      expect_ended_once(read);
      EXPECT_EQ(read.bytes, i % 5 == 0 ? 0u : 1u);
    }
    late += s.multiplexer().counters().late_completions;
  });
  EXPECT_TRUE(late > 100 || std::getenv("UNIO_SEED") != nullptr) << late;
}

simulation_options ready_at_once(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::orderly(seed);
  o.inline_attempts = true;
  return o;
}

constexpr int a_million = 1'000'000;

// Case 16
SEEDED_TEST(simulated_inline_completion, a_million_times_in_a_row_takes_constant_stack_with_receivers, 1,
            ready_at_once) {
  struct repeating {
    unio::io_operation_connection<async_read, repeating>* op = nullptr;
    int* left = nullptr;
    stack_extent* stack = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers> r) { EXPECT_EQ(r.bytes_transferred(), 1u); }
    void set_done() {
      stack->look();
      if (--*left == 0) return;
      op->reset();
      op->start();
    }
  };
  std::byte const one{1};
  auto file = s.file({&one, 1});
  char byte = 0;
  int left = a_million;
  stack_extent stack;
  unio::io_operation_connection<async_read, repeating> op;
  op = connect(async_read(file, {unio::mutable_buffer(&byte, 1), 0}), repeating{&op, &left, &stack});
  op.start();
  EXPECT_TRUE(run_until(s, [&] { return left == 0; }));
  EXPECT_LT(stack.bytes(), 16u * 1024);
  EXPECT_GT(s.multiplexer().counters().inline_hits, 900'000u);
}

// A coroutine that runs by itself.
struct detached {
  struct promise_type {
    detached get_return_object() { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() { std::abort(); }
  };
};

detached read_a_million(unio::file_handle& file, int& left, stack_extent& stack) {
  char byte = 0;
  for (; left != 0; --left) {
    auto const r = co_await file.co_read({unio::mutable_buffer(&byte, 1), 0});
    EXPECT_EQ(r.bytes_transferred(), 1u);
    stack.look();
  }
}

// Case 16
SEEDED_TEST(simulated_inline_completion, a_million_times_in_a_row_takes_constant_stack_with_coroutines, 1,
            ready_at_once) {
  std::byte const one{1};
  auto file = s.file({&one, 1});
  int left = a_million;
  stack_extent stack;
  read_a_million(file, left, stack);
  EXPECT_TRUE(run_until(s, [&] { return left == 0; }));
  EXPECT_LT(stack.bytes(), 16u * 1024);
}

// Case 21
TEST(simulated_close, twice_or_inside_its_own_receiver_is_harmless) {
  struct closing : tell {
    unio::io_handle* handle = nullptr;
    bool at_done = false;
    void set_value(unio::io_result<unio::mutable_buffers> r) {
      tell::set_value(std::move(r));
      EXPECT_TRUE(at_done || handle->close().has_value());
    }
    void set_done() {
      tell::set_done();
      EXPECT_TRUE(handle->close().has_value());
    }
  };
  for_seeds(1000, [](simulation& s) {
    auto [a, b] = s.stream_pair();
    tally of_read;
    std::array<char, 4> buffer{};
    std::vector<char> const data(100);
    auto read =
        connect(async_read(a, unio::mutable_buffer(buffer)), closing{{&of_read}, &a, s.seed() % 2 == 0});
    // The write ends with the handle, whether it moved bytes or not.
    watched write{async_write(a, unio::const_buffer(data))};
    read.start();
    write.start();
    (void)b.try_write(unio::const_buffer("x", 1));
    if (!of_read.ended()) (void)b.close(); // so that it ends at the latest then
    EXPECT_TRUE(run_until(s, [&] { return of_read.ended() && write.ended(); }));
    expect_ended_once(of_read);
    expect_ended_once(write);
    EXPECT_FALSE(a.is_open());
    EXPECT_TRUE(a.close().has_value());
  });
}

// Case 18: the lowest number is given out again at once
SEEDED_TEST(simulated_close, ends_what_is_in_flight_before_the_number_has_its_next_owner, 2000) {
  auto old = s.pipe();
  std::array<char, 8> old_buffer{};
  started read{async_read(old.reader, unio::mutable_buffer(old_buffer))};
  for (std::uint64_t turns = s.seed() % 6; turns != 0; --turns) (void)s.multiplexer().complete_io();
  int const number = old.reader.native_handle();
  ASSERT_TRUE(old.reader.close().has_value());
  expect_ended_once(read);
  auto next = s.pipe();
  EXPECT_EQ(next.reader.native_handle(), number);
  EXPECT_EQ(next.writer.write(unio::const_buffer("x", 1)).bytes_transferred(), 1u);
  for (int i = 0; i != 20; ++i) (void)s.multiplexer().try_run();
  std::array<char, 8> buffer{};
  EXPECT_EQ(next.reader.read(unio::mutable_buffer(buffer)).bytes_transferred(), 1u)
      << "the old operation took it";
}

// Case 22
SEEDED_TEST(simulated_handle, may_be_moved_while_an_operation_is_in_flight_on_it, 1000) {
  auto first = s.pipe();
  auto second = s.pipe();
  std::array<char, 4> buffers[2]{};
  started on_first{async_read(first.reader, unio::mutable_buffer(buffers[0]))};
  started on_second{async_read(second.reader, unio::mutable_buffer(buffers[1]))};
  for (std::uint64_t turns = s.seed() % 4; turns != 0; --turns) (void)s.multiplexer().complete_io();
  unio::pipe_handle moved = std::move(first.reader);
  unio::pipe_handle& same = moved;
  moved = std::move(same);
  EXPECT_TRUE(moved.is_open());
  EXPECT_FALSE(on_first.ended());
  EXPECT_EQ(first.writer.write(unio::const_buffer("x", 1)).bytes_transferred(), 1u);
  moved = std::move(second.reader); // closes what it had
  (void)s.multiplexer().try_run();
  expect_ended_once(on_first);
  EXPECT_FALSE(on_second.ended());
  EXPECT_EQ(second.writer.write(unio::const_buffer("y", 1)).bytes_transferred(), 1u);
  EXPECT_TRUE(run_until(s, [&] { return on_second.ended(); }));
  EXPECT_EQ(on_second.bytes, 1u);
}

// Case 38
TEST(simulated_fairness, ready_io_does_not_starve_timers) {
  struct busy {
    simulation* s = nullptr;
    unio::io_operation_connection<async_read, busy>* op = nullptr;
    bool* stop = nullptr;
    int* reads = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>) {}
    void set_done() {
      ++*reads;
      s->advance(1us);
      if (*stop || *reads == 100'000) return;
      op->reset();
      op->start();
    }
  };
  for_seeds(1000, [](simulation& s) {
    std::byte const one{1};
    auto file = s.file({&one, 1});
    char byte = 0;
    int reads = 0;
    bool stop = false;
    unio::timer_handle timer(unio::deadline(50us), &s.multiplexer());
    watched wait{async_wait(timer)};
    unio::io_operation_connection<async_read, busy> op;
    op = connect(async_read(file, {unio::mutable_buffer(&byte, 1), 0}), busy{&s, &op, &stop, &reads});
    op.start();
    wait.start();
    EXPECT_TRUE(run_until(s, [&] { return wait.ended(); }));
    EXPECT_LT(reads, 400) << "reads of 1 us each until a timer of 50 us fired";
    stop = true;
    EXPECT_TRUE(run_until(s, [&] { return op.finished(); }));
  });
}

// Case 38
TEST(simulated_fairness, timers_that_are_due_do_not_starve_ready_io) {
  struct endless {
    unio::io_operation_connection<async_wait, endless>* op = nullptr;
    bool const* stop = nullptr;
    int* fired = nullptr;
    void set_value(unio::io_result<void>) {}
    void set_done() {
      ++*fired;
      if (*stop || *fired == 100'000) return;
      op->reset();
      op->start();
    }
  };
  for_seeds(1000, [](simulation& s) {
    auto [reader, writer] = s.pipe();
    char byte = 0;
    int fired = 0;
    bool stop = false;
    unio::timer_handle timer(unio::deadline(0ns), &s.multiplexer());
    unio::io_operation_connection<async_wait, endless> wait;
    wait = connect(async_wait(timer), endless{&wait, &stop, &fired});
    started read{async_read(reader, unio::mutable_buffer(&byte, 1))};
    wait.start();
    (void)s.multiplexer().post([&out = writer] { (void)out.write(unio::const_buffer("x", 1)); });
    EXPECT_TRUE(run_until(s, [&] { return read.ended(); }));
    EXPECT_EQ(read.bytes, 1u);
    EXPECT_LT(fired, 20'000);
    stop = true;
    EXPECT_TRUE(run_until(s, [&] { return wait.finished(); }));
  });
}

// Readers of one byte each, of pipes that hold many; each byte takes a microsecond. Case 38
struct busy_readers {
  struct reader {
    unio::pipe_handle from;
    unio::pipe_handle to;
    int bytes = 0;
  };
  busy_readers(simulation& s, std::size_t n, int bytes_each) : all(n) {
    std::string const text(static_cast<std::size_t>(bytes_each), 'x');
    for (reader& r : all) {
      auto [from, to] = s.pipe();
      r.from = std::move(from);
      r.to = std::move(to);
      EXPECT_EQ(r.to.write(unio::const_buffer(text.data(), text.size())).bytes_transferred(), text.size());
      r.to = {};
    }
    for (reader& r : all) unio::async_run(s.multiplexer(), read(s, r)); // a blocking write would run them
  }
  static unio::task<> read(simulation& s, reader& r) {
    for (char byte;;) {
      auto const got = co_await r.from.co_read(unio::mutable_buffer(&byte, 1));
      if (!got || got->empty()) co_return;
      ++r.bytes;
      s.advance(1us);
    }
  }
  [[nodiscard]] int sum() const {
    int n = 0;
    for (reader const& r : all) n += r.bytes;
    return n;
  }
  [[nodiscard]] std::pair<int, int> fewest_and_most() const {
    auto const [fewest, most] = std::ranges::minmax_element(all, {}, &reader::bytes);
    return {fewest->bytes, most->bytes};
  }
  std::vector<reader> all;
};

SEEDED_TEST(simulated_fairness, none_of_many_is_served_twice_before_all_are_served_once, 50,
            simulation_options::orderly) {
  for (std::size_t const n : {std::size_t{2}, std::size_t{64}, std::size_t{150}}) {
    busy_readers readers(s, n, 40);
    // A reader that was resumed may read one more byte on the spot: so it is ahead by no more than two.
    for (int turn = 0; s.multiplexer().try_run().value_or(0) != 0; ++turn) {
      auto const [fewest, most] = readers.fewest_and_most();
      EXPECT_LE(most - fewest, 2) << n << " readers, turn " << turn;
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_EQ(readers.sum(), static_cast<int>(n) * 40);
  }
}

TEST(simulated_fairness, a_timer_that_is_due_fires_within_64_completions_however_many_are_ready) {
  struct looks {
    busy_readers const* readers = nullptr;
    int* then = nullptr;
    void set_value(unio::io_result<void>) const { *then = readers->sum(); }
    void set_done() {}
  };
  for_seeds<simulation_options::orderly>(20, [](simulation& s) {
    busy_readers readers(s, 1000, 10);
    int then = -1;
    unio::timer_handle timer(unio::deadline(500us), &s.multiplexer());
    auto wait = unio::connect(async_wait(timer), looks{&readers, &then});
    wait.start();
    EXPECT_TRUE(run_until(s, [&] { return wait.finished(); }));
    EXPECT_GE(then, 500);
    EXPECT_LE(then, 500 + 2 * 64) << "it fired only after many others had been served";
    while (s.multiplexer().try_run().value_or(0) != 0) continue;
  });
}

template <class Handle> void write_all(Handle& h, std::vector<char> const& data) {
  for (std::size_t at = 0; at != data.size();) {
    std::size_t const half = (data.size() - at) / 2;
    std::array<unio::const_buffer, 2> const pieces{
        unio::const_buffer(data.data() + at, half),
        unio::const_buffer(data.data() + at + half, data.size() - at - half)};
    auto const r = h.write(unio::const_buffers(pieces));
    ASSERT_TRUE(r.has_value());
    ASSERT_GT(r.bytes_transferred(), 0u);
    at += r.bytes_transferred();
  }
}

template <class Handle> std::vector<char> read_to_the_end(Handle& h) {
  std::vector<char> all;
  for (;;) {
    std::array<char, 7> head{};
    std::array<char, 50> tail{};
    std::array<unio::mutable_buffer, 2> const pieces{unio::mutable_buffer(head), unio::mutable_buffer(tail)};
    auto const r = h.read(unio::mutable_buffers(pieces));
    EXPECT_TRUE(r.has_value());
    if (!r.has_value() || r.bytes_transferred() == 0) return all;
    std::size_t seen = 0;
    for (unio::mutable_buffer const b : *r) {
      all.insert(all.end(), reinterpret_cast<char*>(b.begin()), reinterpret_cast<char*>(b.end()));
      seen += b.size();
    }
    EXPECT_EQ(seen, r.bytes_transferred());
  }
}

// Case 46
TEST(simulated_transfer, may_be_short_at_every_boundary) {
  std::vector<char> message(100);
  std::iota(message.begin(), message.end(), char{0});
  for (std::size_t most = 1; most <= message.size(); ++most) {
    SCOPED_TRACE(most);
    simulation_options o = simulation_options::orderly();
    o.max_transfer_bytes = most;
    simulation s(o);
    {
      auto [reader, writer] = s.pipe();
      write_all(writer, message);
      ASSERT_TRUE(writer.close().has_value());
      EXPECT_EQ(read_to_the_end(reader), message);
      auto [a, b] = s.stream_pair();
      write_all(a, message);
      ASSERT_TRUE(a.shutdown(unio::socket_handle::side::send).has_value());
      EXPECT_EQ(read_to_the_end(b), message);
      write_all(b, message);
      ASSERT_TRUE(b.close().has_value());
      EXPECT_EQ(read_to_the_end(a), message);
    }
    expect_at_rest(s);
  }
}

// Case 46
TEST(simulated_transfer, may_be_short_anywhere) {
  std::vector<char> message(300);
  std::iota(message.begin(), message.end(), char{0});
  for_seeds(1000, [&](simulation& s) {
    auto [reader, writer] = s.pipe();
    write_all(writer, message);
    ASSERT_TRUE(writer.close().has_value());
    EXPECT_EQ(read_to_the_end(reader), message);
    auto file = s.file();
    write_all(file, message);
    EXPECT_EQ(file.maximum_extent().value(), message.size());
    std::array<char, 10> buffer{};
    auto const r = file.read({unio::mutable_buffer(buffer), 290});
    EXPECT_EQ(buffer[0], message[290]);
    EXPECT_LE(r.bytes_transferred(), 10u);
    EXPECT_GE(r.bytes_transferred(), 1u);
    EXPECT_EQ(file.truncate(5).value(), 5u);
    EXPECT_EQ(file.maximum_extent().value(), 5u);
    EXPECT_TRUE(file.barrier(unio::barrier_kind::wait_all).has_value());
  });
}

} // namespace
