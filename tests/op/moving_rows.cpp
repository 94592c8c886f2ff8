// The rows of the table of operations about splicing, opening, locking and closing.

#include "op/rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/posix.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// From one to another: at first there is nothing to move.
template <class From, class To> struct splice_between : test::fixture {
  static ending value() { return {"moved", text.size()}; }
  static ending at_end() { return {"moved", 0}; }
  From from;
  To to;
  unio::splice_request request{.bytes = 100};

  splice_between(io_multiplexer* m, script) { from.source.set_multiplexer(m); }
  UNIO_FREE_SPELLINGS(async_splice, splice, from.source, to.sink, request)
  void make_ready() { put(from.sink, text); }
  void end() { ASSERT_TRUE(from.sink.close()); }
  void close() { ASSERT_TRUE(to.sink.close()); } // the one that it does not wait for
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    EXPECT_EQ(take(to.source, *r), text.substr(0, *r));
    return {"moved", r.bytes_transferred()};
  }
};

// The destination is full.
struct splice_to_full_pipe : splice_between<pipe_ends, pipe_ends> {
  static ending at_end() { return test::failure(EPIPE); }
  std::size_t filled;
  splice_to_full_pipe(io_multiplexer* m, script s) : splice_between(m, s) {
    filled = fill(to.sink, to.source);
    put(from.sink, text);
  }
  void make_ready() {
    EXPECT_EQ(take(to.source, filled).size(), filled);
    filled = 0;
  }
  void end() { ASSERT_TRUE(to.source.close()); }
  void close() { ASSERT_TRUE(from.source.close()); }
};

struct splice_from_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // a file has to be read first
  static ending value() { return {"moved", text.size()}; }
  unio::file_handle file;
  pipe_ends to;
  unio::splice_request request{.bytes = 100, .from_offset = 4};

  splice_from_file(io_multiplexer* m, script) {
    directory().write("spliced", "say hello");
    file = unio::file_handle::file(directory().handle(), "spliced").value();
    file.set_multiplexer(m);
  }
  UNIO_FREE_SPELLINGS(async_splice, splice, file, to.sink, request)
  void again() { // what was abandoned may have moved its bytes
    if (is_ready(to.source, POLLIN, 0)) take(to.source, text.size());
  }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    EXPECT_EQ(take(to.source, *r), text.substr(0, *r));
    return {"moved", r.bytes_transferred()};
  }
};

struct splice_between_sockets : splice_between<unix_ends, unix_ends> {
  static constexpr bool can_wait = false;
  static ending value() { return test::failure(EINVAL); }
  static ending at_end() { return test::failure(EINVAL); }
  using splice_between::splice_between;
};

template <bool Exists> struct open_file : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return Exists ? ending{"a file of 9 bytes"} : test::failure(ENOENT); }
  unio::path_handle base = unio::path_handle::path(directory().path()).value();
  static constexpr char const* name = Exists ? "opened" : "missing";

  open_file(io_multiplexer* m, script) {
    directory().write("opened", "say hello");
    base.set_multiplexer(m);
  }
  // Without waiting it is opened only by what the kernel knows of the name.
  void make_ready() { (void)unio::open(base, name, mode, creation, caching, flag); }
  static constexpr auto mode = unio::handle::mode::read;
  static constexpr auto creation = unio::handle::creation::open_existing;
  static constexpr auto caching = unio::handle::caching::all;
  static constexpr auto flag = unio::handle::flag::none;
  UNIO_FREE_SPELLINGS(async_open, open, base, name, mode, creation, caching, flag)
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {"a file of " + std::to_string(r->maximum_extent().value()) + " bytes"};
  }
};

// Somebody else has locked the same bytes.
struct lock_range_of_file : test::fixture {
  static ending value() { return {"locked"}; }
  unio::file_handle file, theirs;
  unio::file_lock their_lock;
  static constexpr auto kind = unio::lock_kind::exclusive;

  lock_range_of_file(io_multiplexer* m, script) {
    directory().write("locked", "say hello");
    auto const open = [] {
      return unio::file_handle::file(directory().handle(), "locked", unio::handle::mode::write).value();
    };
    file = open();
    theirs = open();
    their_lock = theirs.lock_range(4, 8, kind).value();
    file.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_lock_range, file, lock_range, 4, 5, kind)
  void make_ready() { ASSERT_TRUE(their_lock.unlock()); }
  void close() { ASSERT_TRUE(file.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    EXPECT_EQ(theirs.try_lock_range(8, 1, kind).error(), unio::condition::would_block);
    EXPECT_TRUE(r->unlock());
    EXPECT_TRUE(theirs.try_lock_range(8, 1, kind).has_value());
    return {"locked"};
  }
};

struct lock_whole_file : lock_range_of_file {
  using lock_range_of_file::lock_range_of_file;
  UNIO_SPELLINGS(async_lock_file, file, lock_file, kind)
};

// Both read: they are not in each other's way.
struct lock_range_shared : lock_range_of_file {
  static constexpr bool can_wait = false;
  static constexpr auto shared = unio::lock_kind::shared;
  lock_range_shared(io_multiplexer* m, script s) : lock_range_of_file(m, s) {
    EXPECT_TRUE(their_lock.unlock());
    their_lock = theirs.lock_range(0, 100, shared).value();
  }
  UNIO_SPELLINGS(async_lock_range, file, lock_range, 4, 5, shared)
  void make_ready() {}
  ending reduce(sender::result_type r) { return r.has_value() ? ending{"locked"} : test::failure(r.error()); }
};

template <class Ends> struct close_one : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool repeatable = false;
  using sender = unio::async_close;
  static ending value() { return {"closed"}; }
  Ends ends;
  int fd;

  close_one(io_multiplexer* m, script) : fd(ends.sink.native_handle()) { ends.sink.set_multiplexer(m); }
  template <class S> S describe(deadline d) { return S(std::move(ends.sink), d); }
  unio::io_result<void> block(deadline) { return ends.sink.close(); }
  auto await(deadline) { return std::move(ends.sink).co_close(); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {::fcntl(fd, F_GETFD) == -1 && errno == EBADF ? "closed" : "still open"};
  }
};

struct file_end {
  unio::file_handle sink = unio::file_handle::temp_inode().value();
};

} // namespace

std::vector<test::row> test::moving_rows() {
  return {
      row_of<splice_between<pipe_ends, pipe_ends>>("splice_pipe_to_pipe"),
      row_of<splice_between<unix_ends, pipe_ends>>("splice_socket_to_pipe"),
      row_of<splice_between<pipe_ends, tcp_ends>>("splice_pipe_to_tcp_socket"),
      row_of<splice_to_full_pipe>("splice_to_full_pipe"),
      row_of<splice_from_file>("splice_from_file"),
      row_of<splice_between_sockets>("splice_between_sockets"),
      row_of<open_file<true>>("open"),
      row_of<open_file<false>>("open_what_does_not_exist"),
      row_of<lock_range_of_file>("lock_range"),
      row_of<lock_range_shared>("lock_range_shared"),
      row_of<lock_whole_file>("lock_file"),
      row_of<close_one<pipe_ends>>("close_pipe"),
      row_of<close_one<tcp_ends>>("close_socket"),
      row_of<close_one<file_end>>("close_file"),
  };
}
