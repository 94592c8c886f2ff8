// poll_any.hpp: waiting for whichever of several handles is ready. How many there may be, what each is waited
// for and what is found, on each driver; blocking calls that drive the thread's own multiplexer; ends in the
// middle.
//
// That every style gives the same result is in op/operations_test.cpp (poll_any_…), chance in
// simulation/poll_any_sim_test.cpp, threads that end in threads/handover_test.cpp.

#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

#include <unistd.h>

namespace {

using namespace test;

constexpr auto readable = readiness_set::readable;
constexpr auto writable = readiness_set::writable;

class poll_any : public test::nothing_pending_on_each_driver {};

UNIO_ON_BOTH_DRIVERS(poll_any);

// ---- what is found ----------------------------------------------------------------------------------------

TEST_P(poll_any, finds_all_that_are_ready) {
  auto a = make_pipe(), b = make_pipe(), c = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}, {c.reader, readable}};
  put(a.writer, "x");
  put(c.writer, "x");
  EXPECT_EQ(unio::poll_any(each).value(), 2u);
  EXPECT_TRUE(each[0].is_ready());
  EXPECT_FALSE(each[1].is_ready());
  EXPECT_TRUE(each[2].is_ready());
}

TEST_P(poll_any, finds_those_too_that_became_ready_behind_the_first) {
  auto a = make_pipe(), b = make_pipe(), c = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}, {c.reader, readable}};
  started op{async_poll_any(each)};
  (void)m_->try_run();
  EXPECT_FALSE(op.completed());
  put(c.writer, "x");
  put(b.writer, "x");
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().value(), 2u);
  EXPECT_FALSE(each[0].is_ready());
}

TEST_P(poll_any, says_what_of_a_set_each_is_ready_for) {
  auto ends = unio::socket_handle::pair().value();
  for (unio::socket_handle* s : {&ends.first, &ends.second}) s->set_multiplexer(m_.get());
  poll_entry each[] = {{ends.first, readable | writable}, {ends.second, readable}};
  EXPECT_EQ(unio::poll_any(each).value(), 1u);
  EXPECT_EQ(each[0].found(), writable);
  put(ends.second, "x");
  EXPECT_EQ(unio::poll_any(each).value(), 1u);
  EXPECT_EQ(each[0].found(), readable | writable);
  EXPECT_EQ(each[1].found(), readiness_set::none);
}

TEST_P(poll_any, finds_errors_and_hang_ups_that_were_not_asked_for) {
  auto a = make_pipe(), b = make_pipe();
  poll_entry each[] = {{a.reader, readiness_set::none}, {b.writer, readiness_set::none}};
  started op{async_poll_any(each)};
  (void)m_->try_run();
  put(a.writer, "x"); // which nobody asked for either
  for (int turns = 0; turns != 4; ++turns) (void)m_->try_run();
  EXPECT_FALSE(op.completed());
  ASSERT_TRUE(b.reader.close());
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().value(), 1u);
  EXPECT_EQ(each[1].found(), readiness_set::error);
}

TEST_P(poll_any, waits_again_with_the_same_entries) {
  auto a = make_pipe(), b = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}};
  std::string got;
  auto const reads = [&]() -> test::coroutine {
    while (got.size() < 6) {
      (co_await unio::co_poll_any(each)).value();
      if (each[0].is_ready()) got += take(a.reader, 1);
      if (each[1].is_ready()) got += take(b.reader, 1);
    }
  };
  test::coroutine c = reads();
  for (int i = 0; i != 3; ++i) {
    put(a.writer, "a");
    drive([&] { return got.size() == 2 * static_cast<std::size_t>(i) + 1; });
    put(b.writer, "b");
    drive([&] { return got.size() == 2 * static_cast<std::size_t>(i) + 2; });
  }
  EXPECT_EQ(got, "ababab");
  EXPECT_TRUE(c.done());
}

TEST_P(poll_any, may_want_something_else_the_next_time) {
  auto ends = unio::socket_handle::pair().value();
  poll_entry one[] = {{ends.first, readable}};
  EXPECT_EQ(unio::try_poll_any(one).error(), condition::would_block);
  one[0].set_wanted(writable);
  EXPECT_EQ(one[0].wanted(), writable);
  EXPECT_EQ(unio::try_poll_any(one).value(), 1u);
}

TEST_P(poll_any, counts_as_one_operation_for_those_who_run_it) {
  auto a = make_pipe(), b = make_pipe(), c = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}, {c.reader, readable}};
  started op{async_poll_any(each)};
  (void)m_->try_run();
  put(b.writer, "x");
  int delivered = 0;
  drive([&] {
    delivered += std::max(0, m_->try_run().value());
    return op.finished();
  });
  EXPECT_EQ(op.values, 1);
  EXPECT_LE(delivered, 1) << "a value for the wait, and none for its entries";
}

TEST_P(poll_any, may_be_a_member_of_a_chain) {
  auto a = make_pipe(), b = make_pipe();
  char room[1];
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}};
  started op{unio::async_link(async_poll_any(each), unio::async_read(b.reader, unio::mutable_buffer(room)))};
  (void)m_->try_run();
  put(b.writer, "x");
  drive([&] { return op.finished(); });
  EXPECT_TRUE(op.result().has_value());
  EXPECT_EQ(op.result().get<0>().value(), 1u);
  EXPECT_EQ(op.result().get<1>().bytes_transferred(), 1u);
}

// ---- how many ---------------------------------------------------------------------------------------------

TEST_P(poll_any, of_no_handle_says_so) {
  auto const r = unio::poll_any({});
  EXPECT_EQ(r.error(), unio::error::no_handles);
  EXPECT_EQ(r.error(), std::errc::invalid_argument);
  EXPECT_EQ(r.error().message(), "poll_any: there is no handle to wait for");
  started op{async_poll_any(std::span<poll_entry>()), m_.get()};
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().error(), unio::error::no_handles);
}

TEST_P(poll_any, waits_for_as_many_as_it_may) {
  auto silent = make_pipe(), last = make_pipe();
  std::vector<poll_entry> each;
  while (each.size() != async_poll_any::most - 1) each.emplace_back(silent.reader, readable);
  each.emplace_back(last.reader, readable);
  started op{async_poll_any(each)};
  (void)m_->try_run();
  EXPECT_FALSE(op.completed());
  put(last.writer, "x");
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().value(), 1u);
  EXPECT_TRUE(each.back().is_ready());
  each.emplace_back(last.reader, readable);
  EXPECT_EQ(unio::poll_any(each).error(), unio::error::too_many_handles);
}

TEST_P(poll_any, of_a_handle_without_a_descriptor_is_an_error) {
  auto a = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {}};
  EXPECT_EQ(unio::poll_any(each).error(), std::errc::bad_file_descriptor);
}

TEST_P(poll_any, of_a_number_that_was_closed_behind_its_back_is_an_error) {
  auto a = make_pipe();
  poll_entry each[] = {{a.reader, readable}};
  int const number = a.reader.release();
  ASSERT_EQ(::close(number), 0);
  EXPECT_EQ(unio::poll_any(each).error(), std::errc::bad_file_descriptor);
}

// ---- its end ----------------------------------------------------------------------------------------------

TEST_P(poll_any, ends_with_its_deadline_and_finds_nothing) {
  auto a = make_pipe(), b = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}};
  started op{async_poll_any(each, 5ms)};
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().error(), condition::timed_out);
  EXPECT_FALSE(each[0].is_ready() || each[1].is_ready());
}

TEST_P(poll_any, what_is_ready_when_the_deadline_passes_counts) {
  auto a = make_pipe(), b = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}};
  started op{async_poll_any(each, 5ms)};
  (void)m_->try_run();
  std::this_thread::sleep_for(10ms);
  put(b.writer, "x");
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().value(), 1u);
  EXPECT_TRUE(each[1].is_ready());
}

TEST_P(poll_any, has_ended_when_the_close_of_one_of_its_handles_returns) {
  auto a = make_pipe(), b = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}};
  started op{async_poll_any(each)};
  (void)m_->try_run();
  ASSERT_TRUE(b.reader.close());
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(op.error, condition::canceled);
}

TEST_P(poll_any, is_stopped_with_its_coroutine) {
  auto a = make_pipe(), b = make_pipe();
  poll_entry each[] = {{a.reader, readable}, {b.reader, readable}};
  auto const waits = [&]() -> unio::task<std::error_code> {
    co_return (co_await unio::co_poll_any(each)).error().code();
  };
  auto const both = [&]() -> unio::task<> {
    auto const r = co_await unio::timeout(5ms, waits());
    EXPECT_EQ(r.value(), condition::canceled);
  };
  unio::run(*m_, both());
}

TEST_P(poll_any, may_be_destroyed_in_flight) {
  auto a = make_pipe(), b = make_pipe();
  std::vector<poll_entry> each;
  each.emplace_back(a.reader, readable);
  each.emplace_back(b.reader, readable);
  {
    started op{async_poll_any(each)};
    (void)m_->try_run();
  }
  each.clear(); // none is in flight
  put(a.writer, "x");
  EXPECT_EQ(m_->try_run().value(), 0);
}

// ---- blocking calls ---------------------------------------------------------------------------------------

// What it waits for is brought by a receiver of the thread's own multiplexer, or of the one that was set.
TEST_P(poll_any, called_runs_the_multiplexer_while_it_waits) {
  for (bool const is_set : {false, true}) {
    test::environment_variable const chosen("UNIO_DRIVER", GetParam().c_str());
    std::thread([&] {
      pipe_ends a, b;
      unio::io_multiplexer& m = unio::this_thread::multiplexer();
      if (is_set) a.source.set_multiplexer(&m);
      unio::timer_handle timer(5ms, &m);
      auto soon = unio::connect(unio::async_wait(timer), test::calls{[&] { put(b.sink, "x"); }});
      soon.start();
      poll_entry each[] = {{a.source, readable}, {b.source, readable}};
      EXPECT_EQ(unio::poll_any(each, 10s).value(), 1u);
      EXPECT_TRUE(each[1].is_ready());
      EXPECT_TRUE(soon.finished());
    }).join();
  }
}

TEST_P(poll_any, called_delivers_nothing_if_it_need_not_wait) {
  test::environment_variable const chosen("UNIO_DRIVER", GetParam().c_str());
  std::thread([&] {
    pipe_ends a, b;
    unio::io_multiplexer& m = unio::this_thread::multiplexer();
    unio::timer_handle timer(unio::deadline(1ms), &m);
    bool rang = false;
    auto soon = unio::connect(unio::async_wait(timer), test::calls{[&] { rang = true; }});
    soon.start();
    std::this_thread::sleep_for(3ms);
    put(b.sink, "x");
    poll_entry each[] = {{a.source, readable}, {b.source, readable}};
    EXPECT_EQ(unio::poll_any(each, 10s).value(), 1u);
    EXPECT_FALSE(rang);
    EXPECT_EQ(unio::try_poll_any(std::span(each).first(1)).error(), condition::would_block);
    EXPECT_FALSE(rang);
    while (!soon.finished()) (void)m.run();
  }).join();
}

} // namespace
