// Where a failure comes from: which operation met it, and on what, survives what composes operations.

#include "coro/streams.hpp"
#include "support/test.hpp"

namespace {

using namespace test;
using unio::failure;

// Of a pipe that can only be written, reads fail; of one that is empty, they wait.
struct origins : ::testing::Test {
  unio::anonymous_pipe p = pipe();
  std::array<char, 16> room{};

  unio::io_awaitable<unio::async_read> fails() { return p.writer.co_read(mutable_buffer(room)); }
  unio::io_awaitable<unio::async_read> waits() { return p.reader.co_read(mutable_buffer(room)); }
  static void expect_read(failure const& why, unio::io_handle const& of, char const* how = "") {
    EXPECT_STREQ(why.operation(), "read");
    EXPECT_EQ(why.object(), "descriptor " + std::to_string(of.native_handle()) + how) << why.message();
  }
  void expect_failed(failure const& why) const {
    EXPECT_EQ(why, std::errc::bad_file_descriptor);
    expect_read(why, p.writer, " (open for writing only)");
  }
  void expect_timed_out(failure const& why) const {
    EXPECT_EQ(why, condition::timed_out);
    expect_read(why, p.reader);
  }
};

TEST_F(origins, of_an_operation_are_known) {
  unio::run([](origins& t) -> task<> { t.expect_failed((co_await t.fails()).error()); }(*this));
}

TEST_F(origins, survive_whole_transfers) {
  unio::run([](origins& t) -> task<> {
    std::string text;
    t.expect_failed((co_await co_read(t.p.writer, mutable_buffer(t.room))).error());
    t.expect_failed((co_await co_read_until(t.p.writer, unio::dynamic_buffer(text), "\n")).error());
    t.expect_failed((co_await co_read_all(t.p.writer, unio::dynamic_buffer(text), 100)).error());
    t.expect_failed((co_await co_copy(t.p.writer, t.p.writer)).error());
  }(*this));
}

TEST_F(origins, survive_buffers) {
  unio::run([](origins& t) -> task<> {
    unio::buffered_reader in(t.p.writer);
    t.expect_failed((co_await in.co_read_line()).error());
    t.expect_failed((co_await in.co_peek(1)).error());
    t.expect_failed((co_await in.co_read(mutable_buffer(t.room))).error());
  }(*this));
}

TEST_F(origins, survive_when_all_succeed) {
  unio::run([](origins& t) -> task<> {
    auto const both = co_await unio::when_all_succeed(unio::co_no_op(), t.fails());
    t.expect_failed(both.error());
    auto const fails = [](origins& of) -> task<io_result<mutable_buffers>> { co_return co_await of.fails(); };
    std::vector<task<io_result<mutable_buffers>>> range;
    range.push_back(fails(t));
    auto const all = co_await unio::when_all_succeed(range);
    t.expect_failed(all.error());
    auto const nothing = [](origins& of) -> task<unio::result<void>> {
      co_return (co_await of.fails()).error();
    };
    auto const ended = co_await unio::when_all_succeed(nothing(t));
    t.expect_failed(ended.error());
  }(*this));
}

TEST_F(origins, survive_a_timeout) {
  unio::run([](origins& t) -> task<> {
    t.expect_failed((co_await unio::timeout(1h, t.fails())).error());
    t.expect_timed_out((co_await unio::timeout(1ms, t.waits())).error());
    auto const nested = [](origins& of) -> task<unio::result<void>> {
      co_return (co_await of.waits()).error();
    };
    t.expect_timed_out((co_await unio::timeout(1ms, nested(t))).error());
  }(*this));
}

TEST_F(origins, survive_a_chain) {
  unio::run([](origins& t) -> task<> {
    auto const r = co_await unio::co_link(
        unio::async_no_op(), unio::async_read(t.p.writer, mutable_buffer(t.room)), unio::async_no_op());
    EXPECT_EQ(r.completed(), 1u);
    t.expect_failed(r.error());
  }(*this));
}

} // namespace
