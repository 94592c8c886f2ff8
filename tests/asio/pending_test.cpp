// unio::dump_pending of a program of Asio's: what waits for descriptors, in which direction; in a program
// that is compiled with handler tracking, since when and from where.

#include "asio/asio.hpp"

#include <unio/pending.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <new>
#include <sstream>
#include <string>
#include <thread>

#if defined(ASIO_ENABLE_HANDLER_TRACKING) || defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
#define TRACKS_HANDLERS true
#include "support/failing_allocations.hpp" // of operations that are recorded
#if defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
#define HERE(name) BOOST_ASIO_HANDLER_LOCATION((__FILE__, __LINE__, name))
#else
#define HERE(name) ASIO_HANDLER_LOCATION((__FILE__, __LINE__, name))
#endif
#else
#define TRACKS_HANDLERS false
#define HERE(name) static_cast<void>(0)
#endif

namespace {

using namespace test;

std::string dumped() {
  std::ostringstream to;
  unio::dump_pending(to);
  return to.str();
}

/// The line of a dump that begins with `what` and the descriptor, and those below that belong to it; or none.
std::string part(std::string const& text, std::string const& what, int fd) {
  std::string const begin = "  " + what + " on descriptor " + std::to_string(fd) + " ";
  std::size_t const at = text.find(begin);
  if (at == text.npos) return "";
  std::size_t end = text.find('\n', at);
  while (text.compare(end + 1, 4, "    ") == 0) end = text.find('\n', end + 1);
  return text.substr(at, end - at);
}

struct asio_pending : ::testing::Test {
  asio::io_context context;
  connection ends{context};
  char byte = 0;
  auto nothing() {
    return [](failure, std::size_t = 0) {};
  }
};

TEST_F(asio_pending, names_descriptor_and_direction) {
  int const fd = ends.here.native_handle();
  EXPECT_EQ(part(dumped(), "read", fd), "");
  ends.here.async_read_some(asio::buffer(&byte, 1), nothing());
  std::string text = dumped();
  EXPECT_NE(text.find("a foreign loop on "), text.npos) << text;
  EXPECT_NE(part(text, "read", fd).find("socket:["), text.npos) << text;
  EXPECT_EQ(part(text, "write or connect", fd), "") << text;

  std::string const much(16 << 20, 'x');
  asio::async_write(ends.here, asio::buffer(much), nothing());
  ends.here.async_wait(tcp::socket::wait_error, nothing());
  context.poll();
  text = dumped();
  EXPECT_NE(part(text, "write or connect", fd), "") << text;
  EXPECT_NE(part(text, "out-of-band data", fd), "") << text;
  ends.here.cancel();
  context.restart();
  context.run();
  EXPECT_EQ(part(dumped(), "read", fd), "");
}

TEST_F(asio_pending, says_nothing_of_what_has_ended) {
  int const fd = ends.here.native_handle();
  ends.here.async_read_some(asio::buffer(&byte, 1), nothing());
  ends.there.write_some(asio::buffer("x", 1));
  context.run();
  EXPECT_EQ(part(dumped(), "read", fd), "");
  {
    asio::io_context other;
    connection c(other);
    c.here.async_read_some(asio::buffer(&byte, 1), nothing());
  }
  EXPECT_EQ(dumped().find("read on descriptor"), std::string::npos) << dumped();
}

template <class Start> void outer(Start start) {
  HERE("outer");
  start();
}

TEST_F(asio_pending, says_since_when_and_from_where_if_handlers_are_tracked) {
  outer([this] {
    HERE("inner");
    ends.here.async_read_some(asio::buffer(&byte, 1), nothing());
  });
  std::this_thread::sleep_for(20ms);
  std::string const text = part(dumped(), "read", ends.here.native_handle());
#if TRACKS_HANDLERS
  EXPECT_NE(text.find(", for "), text.npos) << text;
  std::size_t const inner = text.find("    started by inner at " __FILE__ ":");
  std::size_t const outer = text.find("    called by outer at " __FILE__ ":");
  ASSERT_NE(inner, text.npos) << text;
  ASSERT_NE(outer, text.npos) << text;
  EXPECT_LT(inner, outer);
#elif defined(UNIO_TRACK_PENDING)
  EXPECT_NE(text.find(", for "), text.npos) << text;
#else
  EXPECT_EQ(text.find(", for "), text.npos) << text;
  EXPECT_EQ(text.find(" at "), text.npos) << text;
#endif
}

TEST_F(asio_pending, cancels_one_of_several_by_its_slot) {
  asio::cancellation_signal first, second;
  int ended = 0, aborted = 0;
  auto const handler = [&](failure e, std::size_t) {
    ++ended;
    aborted += e == asio::error::operation_aborted ? 1 : 0;
  };
  ends.here.async_read_some(asio::buffer(&byte, 1), asio::bind_cancellation_slot(first.slot(), handler));
  ends.here.async_read_some(asio::buffer(&byte, 1), asio::bind_cancellation_slot(second.slot(), handler));
  second.emit(asio::cancellation_type::all);
  while (ended == 0) context.run_one();
  EXPECT_EQ(aborted, 1);
  EXPECT_NE(part(dumped(), "read", ends.here.native_handle()), "");
  ends.there.write_some(asio::buffer("x", 1));
  context.restart();
  context.run();
  EXPECT_EQ(ended, 2);
  EXPECT_EQ(aborted, 1);
}

#if TRACKS_HANDLERS
/// Calls `f`, of which the n-th allocation fails. Returns whether it threw.
template <class F> bool fails_at_allocation(long n, F f) {
  may_throw = true;
  failed = 0;
  fails_at = allocations + n;
  bool threw = false;
  try {
    f();
  } catch (std::bad_alloc const&) {
    threw = true;
  }
  fails_at = -1;
  return threw;
}

TEST_F(asio_pending, leaves_out_what_there_was_no_memory_to_record) {
  int started = 0, ended = 0;
  for (long n = 1; n == 1 || failed != 0; ++n) {
    ASSERT_LT(n, 50);
    bool const threw = fails_at_allocation(n, [&] {
      HERE("a place");
      ends.here.async_read_some(asio::buffer(&byte, 1), [&](failure, std::size_t) { ++ended; });
    });
    EXPECT_EQ(threw, failed != 0);
    ASSERT_EQ(threw, part(dumped(), "read", ends.here.native_handle()).empty()) << n;
    started += threw ? 0 : 1;
    ends.here.cancel();
    context.restart();
    context.run();
    EXPECT_EQ(ended, started);
  }
}

TEST_F(asio_pending, cancels_one_of_many_by_its_slot_without_memory) {
  constexpr int many = 40;
  asio::cancellation_signal signal;
  int cancelled = 0, others = 0;
  for (int i = 0; i != many; ++i)
    ends.here.async_read_some(asio::buffer(&byte, 1), [&](failure, std::size_t) { ++others; });
  auto const last = [&](failure e, std::size_t) { cancelled += e == aborted ? 1 : 0; };
  ends.here.async_read_some(asio::buffer(&byte, 1), asio::bind_cancellation_slot(signal.slot(), last));
  EXPECT_FALSE(fails_at_allocation(1, [&] { signal.emit(asio::cancellation_type::terminal); }));
  EXPECT_EQ(failed, 0);
  context.poll();
  EXPECT_EQ(cancelled, 1);
  EXPECT_EQ(others, 0);
  ends.here.cancel();
  context.restart();
  context.run();
  EXPECT_EQ(others, many);
}
#endif

TEST_F(asio_pending, is_asked_while_other_threads_run_and_contexts_end) {
  std::atomic<bool> is_over{false};
  std::thread dumps([&] {
    while (!is_over) (void)dumped();
  });
  for (int i = 0; i != 200; ++i) {
    asio::io_context c;
    connection pair(c);
    pair.here.async_read_some(asio::buffer(&byte, 1), nothing());
    if (i % 2 == 0) pair.there.write_some(asio::buffer("x", 1));
    if (i % 3 != 0) pair.here.cancel();
    c.poll();
  }
  is_over = true;
  dumps.join();
}

TEST_F(asio_pending, leaves_out_a_context_without_locks) {
  asio::io_context c(ASIO_TEST_HINT(UNSAFE));
  connection pair(c);
  pair.here.async_read_some(asio::buffer(&byte, 1), nothing());
  EXPECT_EQ(part(dumped(), "read", pair.here.native_handle()), "");
}

} // namespace
