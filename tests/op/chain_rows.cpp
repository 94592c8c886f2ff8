// The rows of the table of operations about chains of operations.

#include "op/rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// What both members came to.
template <class Result> ending both(Result r) {
  if (r.error() && r.error() != unio::error::truncated) return test::failure(r.error());
  ending e = reduced(r.template get<0>());
  ending const second = reduced(r.template get<1>());
  e.text += "+" + second.text;
  e.bytes += second.bytes;
  return e;
}

// A read that may wait, and a write that follows it.
template <class From, class To> struct link_read_to_write : test::fixture {
  using sender = unio::async_link<unio::async_read, unio::async_write>;
  static ending value() { return {"hello+hello", 2 * text.size()}; }
  static ending at_end() { return {"+" + test::failure(unio::condition::canceled).text, 0}; }
  From from;
  To to;
  char memory[text.size()];

  link_read_to_write(io_multiplexer* m, script) {
    from.source.set_multiplexer(m);
    to.sink.set_multiplexer(m);
  }
  unio::async_read read() { return {from.source, unio::mutable_buffer(memory)}; }
  unio::async_write write() { return {to.sink, unio::const_buffer(memory, text.size())}; }
  UNIO_CHAIN_SPELLINGS(read(), write())
  void make_ready() { put(from.sink, text); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
  // Where another thread runs it, a request to end it may find that it has read, and not yet written.
  static ending halfway() {
    return {std::string(text) + "+" + test::failure(unio::condition::canceled).text, text.size()};
  }
  ending reduce(sender::result_type r) {
    bool const has_read = r.completed() == 1 && r.error() == unio::condition::canceled;
    return has_read ? halfway() : both(std::move(r));
  }
};

// One that need not wait, and one that may; and the handle that is closed is that of the second.
struct link_write_to_read : test::fixture {
  using sender = unio::async_link<unio::async_write, unio::async_read>;
  static ending value() { return {"ping+hello", 4 + text.size()}; }
  static ending at_end() { return {"ping+", 4}; }
  unix_ends to;
  tcp_ends from;
  char memory[text.size()];

  link_write_to_read(io_multiplexer* m, script) {
    from.source.set_multiplexer(m);
    to.sink.set_multiplexer(m);
  }
  unio::async_write write() { return {to.sink, unio::const_buffer("ping", 4)}; }
  unio::async_read read() { return {from.source, unio::mutable_buffer(memory)}; }
  UNIO_CHAIN_SPELLINGS(write(), read())
  void make_ready() { put(from.sink, text); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
  ending reduce(sender::result_type r) {
    EXPECT_EQ(r.get<0>().bytes_transferred(), 4U) << "bytes of a member are hidden by the stop of the next";
    return both(std::move(r));
  }
};

struct link_file_to_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // some filesystems cannot say whether writing would wait
  using sender = unio::async_link<unio::async_read, unio::async_write>;
  static ending value() { return {"hello+hello", 2 * text.size()}; }
  unio::file_handle from, to = unio::file_handle::temp_inode().value();
  char memory[text.size()];

  link_file_to_file(io_multiplexer* m, script) {
    directory().write("linked", "say hello");
    from = unio::file_handle::file(directory().handle(), "linked").value();
    from.set_multiplexer(m);
    to.set_multiplexer(m);
  }
  unio::async_read read() { return {from, {unio::mutable_buffer(memory), 4}}; }
  unio::async_write write() { return {to, {unio::const_buffer(memory, text.size()), 0}}; }
  UNIO_CHAIN_SPELLINGS(read(), write())
  ending reduce(sender::result_type r) { return both(std::move(r)); }
};

// The first moves less than it is asked to.
struct link_beyond_the_end : link_file_to_file {
  static ending value() { return {"lo+" + test::failure(unio::condition::canceled).text, 2}; }
  using link_file_to_file::link_file_to_file;
  unio::async_read read() { return {from, {unio::mutable_buffer(memory), 7}}; }
  UNIO_CHAIN_SPELLINGS(read(), write())
};

// A failure between two that would succeed.
struct link_that_fails : test::fixture {
  static constexpr bool can_wait = false;
  using sender = unio::async_link<unio::async_no_op, unio::async_write, unio::async_no_op>;
  static ending value() {
    return {"done, " + test::failure(EPIPE).text + ", " + test::failure(unio::condition::canceled).text};
  }
  pipe_ends ends;
  io_multiplexer* const m;

  link_that_fails(io_multiplexer* on, script) : m(on) {
    ends.sink.set_multiplexer(m);
    EXPECT_TRUE(ends.source.close());
  }
  unio::async_write write() { return {ends.sink, unio::const_buffer(text)}; }
  UNIO_CHAIN_SPELLINGS(unio::async_no_op(m), write(), unio::async_no_op(m))
  ending reduce(sender::result_type r) {
    EXPECT_EQ(r.completed(), 1U);
    auto const& [first, second, third] = r;
    return {reduced(first).text + ", " + reduced(second).text + ", " + reduced(third).text};
  }
};

} // namespace

std::vector<test::row> test::chain_rows() {
  return {
      row_of<link_read_to_write<pipe_ends, unix_ends>>("link_pipe_to_socket"),
      row_of<link_read_to_write<tcp_ends, pipe_ends>>("link_socket_to_pipe"),
      row_of<link_write_to_read>("link_write_to_read"),
      row_of<link_file_to_file>("link_file_to_file"),
      row_of<link_beyond_the_end>("link_beyond_the_end_of_a_file"),
      row_of<link_that_fails>("link_that_fails"),
  };
}
