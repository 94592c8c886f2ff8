// callback.hpp: where and when handlers are called, chains of them, stops from this thread and others, what
// ends first, and whose block is free when a handler is called; on real drivers and on the simulation.

#include "simulation/support.hpp"
#include "support/descriptors.hpp"
#include "support/other_thread.hpp"
#include "support/stack_extent.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// Runs this thread's multiplexer until `done`.
void run_until(bool const& done, io_multiplexer& m = unio::this_thread::multiplexer()) {
  while (!done) ASSERT_GE(m.run().value(), -1);
}

// ---- happy -----------------------------------------------------------------------------------------------

TEST(start, gives_the_result_to_the_handler_on_the_multiplexers_thread) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 8> room{};
  std::size_t bytes = 0;
  std::thread::id where;
  bool done = false;
  unio::start(unio::async_read(reader, unio::mutable_buffer(room)), [&](io_result<mutable_buffers> r) {
    bytes = r.bytes_transferred();
    where = std::this_thread::get_id();
    done = true;
  });
  EXPECT_FALSE(done);
  writer.write(std::string_view("hello")).value();
  run_until(done);
  EXPECT_EQ(bytes, 5u);
  EXPECT_EQ(std::string_view(room.data(), 5), "hello");
  EXPECT_EQ(where, std::this_thread::get_id());
}

// Copies what it reads to another pipe, one handler after the other.
struct copier {
  unio::pipe_handle from, to;
  std::array<char, 16> room{};
  std::size_t copied = 0;
  bool done = false;

  void read() {
    unio::start(unio::async_read(from, unio::mutable_buffer(room)), [this](io_result<mutable_buffers> r) {
      if (!r.has_value() || r.bytes_transferred() == 0) {
        done = true;
      } else {
        write(r.bytes_transferred());
      }
    });
  }
  void write(std::size_t n) {
    unio::start(unio::async_write(to, unio::const_buffer(room.data(), n)),
                [this](io_result<unio::const_buffers> r) {
                  copied += r.bytes_transferred();
                  read();
                });
  }
};

TEST(start, lets_a_handler_start_the_next_operation) {
  auto first = unio::pipe_handle::anonymous().value();
  auto second = unio::pipe_handle::anonymous().value();
  copier c{std::move(first.reader), std::move(second.writer)};
  first.writer.write(std::string_view("a text of more than sixteen characters")).value();
  (void)first.writer.close();
  c.read();
  run_until(c.done);
  EXPECT_EQ(c.copied, 38u);
  std::array<char, 64> room{};
  EXPECT_EQ(second.reader.read(unio::mutable_buffer(room)).bytes_transferred(), 38u);
}

TEST(start, calls_the_handler_on_the_executor_that_it_was_given) {
  test::other_thread w;
  std::atomic<bool> done{false};
  std::thread::id where;
  unio::timer_handle soon(1ms, &unio::this_thread::multiplexer());
  unio::start(w.executor(), unio::async_wait(soon), [&](io_result<void> r) {
    EXPECT_TRUE(r.has_value());
    where = std::this_thread::get_id();
    done.store(true);
  });
  while (!done.load()) (void)unio::this_thread::multiplexer().try_run();
  EXPECT_EQ(where, w.id());
}

TEST(start, has_an_executors_multiplexer_run_what_has_none_of_its_own) {
  test::other_thread w;
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 8> room{};
  std::thread::id where;
  std::atomic<bool> done{false};
  unio::start(w.multiplexer(), unio::async_read(reader, unio::mutable_buffer(room)),
              [&](io_result<mutable_buffers> r) {
                EXPECT_EQ(r.bytes_transferred(), 1u);
                where = std::this_thread::get_id();
                done.store(true);
              });
  writer.write(std::string_view("x")).value();
  while (!done.load()) std::this_thread::yield(); // this thread runs nothing
  EXPECT_EQ(where, w.id());
}

TEST(start, takes_an_executor_that_is_only_referred_to) {
  unio::multiplexer_executor const mine = unio::this_thread::multiplexer().executor();
  bool done = false;
  unio::start(unio::executor_ref(mine), unio::async_no_op(), [&](io_result<void> r) {
    EXPECT_TRUE(r.has_value());
    done = true;
  });
  run_until(done);
}

// ---- boundary --------------------------------------------------------------------------------------------

TEST(start, may_call_the_handler_before_it_returns_and_never_inside_of_another) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 1> room{};
  int depth = 0, deepest = 0, calls = 0;
  bool done = false;
  std::function<void(io_result<unio::const_buffers>)> next = [&](io_result<unio::const_buffers>) {
    deepest = std::max(deepest, ++depth);
    if (++calls == 100) {
      done = true;
    } else {
      unio::start(unio::async_write(writer, unio::const_buffer(room.data(), 1)), std::ref(next));
    }
    --depth;
  };
  unio::start(unio::async_write(writer, unio::const_buffer(room.data(), 1)), std::ref(next));
  run_until(done);
  EXPECT_EQ(calls, 100);
  EXPECT_EQ(deepest, 1);
}

struct chained {
  int left = 200'000;
  bool done = false;
  unio::stop_token stop;
  test::stack_extent stack{};
  void next() {
    unio::start(
        unio::async_no_op(),
        [this](io_result<void>) {
          if (left % 1024 == 0) stack.look();
          --left == 0 ? void(done = true) : next();
        },
        stop);
  }
};

TEST(start, two_hundred_thousand_times_from_its_handler_uses_constant_stack) {
  chained c;
  c.next();
  run_until(c.done);
  EXPECT_LT(c.stack.bytes(), 65536u);
}

TEST(start, a_hundred_thousand_times_after_a_stop_uses_constant_stack) {
  unio::stop_source source;
  source.request_stop();
  chained c{.left = 100'000, .stop = source.get_token()};
  c.next();
  run_until(c.done);
  EXPECT_LT(c.stack.bytes(), 65536u);
}

TEST(start, takes_handlers_that_can_only_be_moved_and_results_that_own_something) {
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  bool done = false;
  std::optional<unio::socket_handle> accepted;
  unio::start(unio::async_accept(listener),
              [&, token = std::make_unique<int>(7)](unio::async_accept::result_type r) {
                EXPECT_EQ(*token, 7);
                accepted.emplace(std::move(r).value());
                done = true;
              });
  auto client = unio::socket_handle::connected_to(listener.local_endpoint().value()).value();
  run_until(done);
  client.write(std::string_view("x")).value();
  std::array<char, 1> room{};
  EXPECT_EQ(accepted->read(unio::mutable_buffer(room)).bytes_transferred(), 1u);
}

TEST(start, obeys_the_operations_deadline) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::array<char, 1> room{};
  std::error_code why;
  bool done = false;
  unio::start(unio::try_async_read_for(reader, unio::mutable_buffer(room), 1ms),
              [&](io_result<mutable_buffers> r) { why = r.error(), done = true; });
  run_until(done);
  EXPECT_EQ(why, condition::timed_out);
}

TEST(start_death_test, of_an_operation_with_many_values_ends_the_program) {
  auto listener = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  EXPECT_DEATH(unio::start(unio::async_accept_many(listener), [](unio::async_accept::result_type) {}),
               "needs a receiver");
}

// ---- error -----------------------------------------------------------------------------------------------

TEST(start, tells_an_error_in_the_result) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  (void)reader.close();
  std::error_code why;
  bool done = false;
  unio::start(unio::async_write(writer, unio::const_buffer("x", 1)),
              [&](io_result<unio::const_buffers> r) { why = r.error(), done = true; });
  run_until(done);
  EXPECT_EQ(why, std::errc::broken_pipe);
}

// ---- cancel ----------------------------------------------------------------------------------------------

TEST(start, after_a_stop_does_nothing_and_says_so_later) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  writer.write(std::string_view("x")).value();
  unio::stop_source source;
  source.request_stop();
  std::array<char, 1> room{};
  std::error_code why;
  bool done = false;
  unio::start(
      unio::async_read(reader, unio::mutable_buffer(room)),
      [&](io_result<mutable_buffers> r) { why = r.error(), done = true; }, source.get_token());
  EXPECT_FALSE(done);
  run_until(done);
  EXPECT_EQ(why, condition::canceled);
  EXPECT_EQ(reader.read(unio::mutable_buffer(room)).bytes_transferred(), 1u) << "the byte is still there";
}

TEST(start, ends_by_a_stop_and_not_by_one_that_comes_too_late) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  unio::stop_source source;
  std::array<char, 1> room{};
  std::error_code why;
  bool done = false;
  auto const handler = [&](io_result<mutable_buffers> r) { why = r.error(), done = true; };
  unio::start(unio::async_read(reader, unio::mutable_buffer(room)), handler, source.get_token());
  (void)unio::this_thread::multiplexer().try_run();
  source.request_stop();
  EXPECT_FALSE(done) << "a stop calls no handler";
  run_until(done);
  EXPECT_EQ(why, condition::canceled);

  unio::stop_source late;
  done = false;
  writer.write(std::string_view("x")).value();
  unio::start(unio::async_read(reader, unio::mutable_buffer(room)), handler, late.get_token());
  run_until(done);
  late.request_stop();
  EXPECT_FALSE(why) << why.message();
}

TEST(start, is_refused_on_the_executor_after_a_stop) {
  test::other_thread w;
  unio::stop_source source;
  source.request_stop();
  std::atomic<bool> done{false};
  std::thread::id where;
  std::error_code why;
  unio::start(
      w.executor(), unio::async_no_op(),
      [&](io_result<void> r) {
        why = r.error();
        where = std::this_thread::get_id();
        done.store(true);
      },
      source.get_token());
  while (!done.load()) std::this_thread::yield();
  EXPECT_EQ(why, condition::canceled);
  EXPECT_EQ(where, w.id());
}

// A stop from one thread, a byte from another, and a third that runs the operation: each byte is read once or
// still there.
TEST(start, stopped_by_another_thread_loses_no_byte) {
  for (bool const elsewhere : {false, true}) {
    test::other_thread w;
    std::unique_ptr<io_multiplexer> const mine = io_multiplexer::best_available(1).value();
    auto [reader, writer] = unio::pipe_handle::anonymous().value();
    reader.set_multiplexer(elsewhere ? &w.multiplexer() : mine.get());
    int read = 0, canceled = 0;
    constexpr int rounds = 100;
    for (int i = 0; i != rounds; ++i) {
      unio::stop_source source;
      std::atomic<int> go{0};
      std::atomic<bool> done{false};
      char room = 0;
      std::error_code why;
      std::size_t bytes = 0;
      std::thread stopper([&] {
        go.fetch_add(1);
        while (go.load() < 2) std::this_thread::yield();
        source.request_stop();
      });
      unio::start(
          unio::async_read(reader, unio::mutable_buffer(&room, 1)),
          [&](io_result<mutable_buffers> r) {
            EXPECT_EQ(std::this_thread::get_id(), elsewhere ? w.id() : std::this_thread::get_id());
            why = r.error();
            bytes = r.bytes_transferred();
            done.store(true);
          },
          source.get_token());
      while (go.load() < 1) std::this_thread::yield();
      go.fetch_add(1);
      writer.write(unio::const_buffer("x", 1)).value();
      while (!done.load()) elsewhere ? std::this_thread::yield() : void(mine->try_run());
      stopper.join();
      if (why) {
        EXPECT_EQ(why, condition::canceled);
        EXPECT_EQ(bytes, 0u);
        ++canceled;
        char rest = 0;
        reader.set_multiplexer(nullptr);
        EXPECT_EQ(reader.read(unio::mutable_buffer(&rest, 1)).bytes_transferred(), 1u);
        reader.set_multiplexer(elsewhere ? &w.multiplexer() : mine.get());
      } else {
        EXPECT_EQ(bytes, 1u);
        ++read;
      }
    }
    EXPECT_EQ(read + canceled, rounds);
  }
}

// ---- lifetime --------------------------------------------------------------------------------------------

TEST(start, has_given_its_block_back_when_the_handler_is_called) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees every block come from the heap";
  std::size_t before = 0, during = 0, inside = 0;
  bool done = false;
  auto const handler = [&](io_result<void>) {
    inside = unio::frame_pool::held().this_thread_bytes;
    done = true;
  };
  auto const one = [&] {
    done = false;
    unio::timer_handle soon(1us, &unio::this_thread::multiplexer());
    before = unio::frame_pool::held().this_thread_bytes;
    unio::start(unio::async_wait(soon), handler);
    during = unio::frame_pool::held().this_thread_bytes;
    run_until(done);
  };
  one(); // the first takes its block from the heap
  one();
  EXPECT_LT(during, before);
  EXPECT_EQ(inside, before);
}

// Counts how often it is called and destroyed.
struct counted_handler {
  int* calls;
  std::shared_ptr<int> alive;
  template <class Result> void operator()(Result&& r) {
    EXPECT_FALSE(r.has_value());
    ++*calls;
  }
};

TEST(start, tells_the_handler_when_the_multiplexer_ends_first) {
  int calls = 0;
  auto alive = std::make_shared<int>(0);
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  char room = 0;
  {
    auto const m = io_multiplexer::best_available(1).value();
    reader.set_multiplexer(m.get());
    unio::start(unio::async_read(reader, unio::mutable_buffer(&room, 1)), counted_handler{&calls, alive});
    (void)m->try_run();
    EXPECT_EQ(alive.use_count(), 2);
  }
  reader.set_multiplexer(nullptr);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(start, destroys_the_handler_when_its_executor_ends_before_its_turn) {
  int calls = 0;
  auto alive = std::make_shared<int>(0);
  unio::stop_source source;
  source.request_stop();
  {
    auto const other = io_multiplexer::best_available(1).value();
    unio::start(*other, unio::async_no_op(), counted_handler{&calls, alive}, source.get_token());
    EXPECT_EQ(alive.use_count(), 2);
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(alive.use_count(), 1);
}

TEST(start, closes_what_was_obtained_for_a_handler_whose_executor_ends_before_its_turn) {
  int calls = 0;
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto const m = a_multiplexer();
  listening.set_multiplexer(m.get());
  (void)m->try_run();
  std::ptrdiff_t const before = count_descriptors();
  {
    auto const other = a_multiplexer();
    unio::start(*other, unio::async_accept(listening), [&](io_result<unio::socket_handle>) { ++calls; });
    auto const client = unio::socket_handle::connected_to(listening.local_endpoint().value()).value();
    EXPECT_GT(m->try_run_for(long_time).value(), 0);
  }
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(count_descriptors(), before);
}

TEST(start, tells_the_handler_when_its_handle_is_closed) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  char room = 0;
  std::error_code why;
  bool done = false;
  unio::start(unio::async_read(reader, unio::mutable_buffer(&room, 1)),
              [&](io_result<mutable_buffers> r) { why = r.error(), done = true; });
  (void)unio::this_thread::multiplexer().try_run();
  (void)reader.close();
  run_until(done);
  EXPECT_EQ(why, condition::canceled);
}

// ---- simulation ------------------------------------------------------------------------------------------

// Reads until the end, an error or a stop; each handler starts the next.
struct simulated_reader {
  unio::pipe_handle from;
  unio::stop_token stop;
  std::array<std::byte, 5> room{};
  std::uint64_t seen = 0;
  std::error_code why;
  int handlers = 0, started = 0;
  bool done = false;

  void next() {
    ++started;
    unio::start(
        unio::async_read(from, unio::mutable_buffer(room)),
        [this](io_result<mutable_buffers> r) {
          ++handlers;
          for (std::size_t i = 0; i != r.bytes_transferred(); ++i)
            EXPECT_EQ(room[i], test::byte_at(seen + i));
          seen += r.bytes_transferred();
          why = r.error();
          if (r.has_value() && r.bytes_transferred() != 0) return next();
          done = true;
          (void)from.close();
        },
        stop);
  }
};

struct simulated_writer {
  unio::pipe_handle to;
  std::uint64_t left;
  std::uint64_t sent = 0;
  std::array<std::byte, 11> room{};
  void next() {
    if (left == 0) return (void)to.close();
    std::size_t const n = std::min<std::uint64_t>(left, room.size());
    for (std::size_t i = 0; i != n; ++i) room[i] = test::byte_at(sent + i);
    unio::start(unio::async_write(to, unio::const_buffer(room.data(), n)),
                [this](io_result<unio::const_buffers> r) {
                  sent += r.bytes_transferred();
                  left = r.has_value() ? left - r.bytes_transferred() : 0;
                  next();
                });
  }
};

TEST(simulated_start, calls_every_handler_once_whatever_the_order_and_the_moment_of_a_stop) {
  std::uint64_t stopped = 0, whole = 0;
  test::for_seeds(2000, [&](test::simulation& s) {
    test::dice d(s.seed());
    auto p = s.pipe();
    unio::stop_source source;
    std::uint64_t const total = d.below(120);
    bool const can_stop = d.below(3) != 0;
    simulated_reader r{std::move(p.reader), can_stop ? source.get_token() : unio::stop_token()};
    simulated_writer w{std::move(p.writer), total};
    r.next();
    w.next();
    for (std::uint64_t turns = d.below(25); turns != 0; --turns) (void)s.multiplexer().try_run();
    if (d.below(2) == 0) (void)source.request_stop();
    EXPECT_TRUE(test::run_until(s, [&] { return r.done && !w.to.is_open(); }));
    EXPECT_EQ(r.handlers, r.started);
    if (r.why == condition::canceled) {
      EXPECT_TRUE(source.stop_requested() && can_stop);
      EXPECT_LE(r.seen, w.sent);
      ++stopped;
    } else {
      EXPECT_FALSE(r.why) << r.why.message();
      EXPECT_EQ(r.seen, total);
      ++whole;
    }
  });
  if (std::getenv("UNIO_SEED") == nullptr) {
    EXPECT_GT(stopped, 100u);
    EXPECT_GT(whole, 100u);
  }
}

} // namespace
