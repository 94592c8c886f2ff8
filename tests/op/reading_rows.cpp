// The rows of the table of operations about reading, also into lent buffers.

#include "op/rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// Into several buffers, the last of which is not filled.
template <class Ends> struct scatter_from : read_from<Ends> {
  using base = read_from<Ends>;
  using base::base;
  unio::mutable_buffer parts[3] = {{this->memory, 2}, {this->memory + 2, 1}, {this->memory + 3, 13}};
  UNIO_SPELLINGS(async_read, this->ends.source, read, std::span<unio::mutable_buffer const>(parts))
};

struct read_nothing : read_from<pipe_ends> {
  static ending of_closed() { return value(); } // which it does not use
  static constexpr bool can_wait = false;
  static ending value() { return {}; }
  static ending at_end() { return {}; }
  using read_from::read_from;
  UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(memory, 0))
  void make_ready() {}
};

// Into buffers of a pool, which has one; it goes home when the bytes were looked at.
template <class Ends> struct receive_from : test::fixture {
  static ending value() { return {std::string(text), text.size()}; }
  static ending at_end() { return {}; }
  unio::buffer_pool pool{1, 16};
  Ends ends;

  receive_from(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  ~receive_from() { EXPECT_EQ(pool.lent(), 0u); }
  UNIO_SPELLINGS(async_receive, ends.source, receive, pool)
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
  ending reduce(sender::result_type r) {
    if (!r.has_value()) return test::failure(r.error());
    return {std::string(reinterpret_cast<char const*>(r->data()), r->size()), r.bytes_transferred()};
  }
};

template <class Ends> struct receive_many_from : receive_from<Ends> {
  static constexpr bool many = true;
  static constexpr bool has_verbs = false; // a call returns once
  using sender = unio::async_receive_many;
  template <class S = sender> S describe(deadline d) { return S(this->ends.source, this->pool, d); }
  using receive_from<Ends>::receive_from;
};

// The bytes are there, and the buffer is lent: it comes back from another thread.
template <class Receive> struct while_all_are_lent : Receive {
  unio::lent_buffer kept = this->pool.try_take();
  while_all_are_lent(io_multiplexer* m, script s) : Receive(m, s) { Receive::make_ready(); }
  void make_ready() { kept.reset(); }
  void end() = delete; // the bytes are there all the same
};

struct read_file : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return {std::string(text), text.size()}; }
  unio::file_handle file;
  char memory[16];

  read_file(io_multiplexer* m, script) {
    directory().write("read", "say hello");
    file = unio::file_handle::file(directory().handle(), "read").value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 4}; }
  UNIO_SPELLINGS(async_read, file, read, request())
};

struct read_beyond_the_end : read_file {
  static ending value() { return {}; }
  using read_file::read_file;
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 4096}; }
  UNIO_SPELLINGS(async_read, file, read, request())
};

struct read_mapped_file : test::fixture {
  static constexpr bool can_wait = false;
  static ending value() { return {std::string(text) + " in the map", text.size()}; }
  unio::mapped_file_handle file;
  char memory[16];

  read_mapped_file(io_multiplexer* m, script) {
    directory().write("mapped", "say hello");
    file = unio::mapped_file_handle::mapped_file(directory().handle(), "mapped").value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 4}; }
  UNIO_SPELLINGS(async_read, file, read, request())
  ending reduce(sender::result_type r) {
    ending e = reduced(r);
    if (r.has_value() && !r->empty() && r->front().data() == file.address() + 4) e.text += " in the map";
    return e;
  }
};

template <class Ends> struct read_registered : with_registered_buffer, read_from<Ends> {
  using read_from<Ends>::read_from;
  UNIO_SPELLINGS(async_read, this->ends.source, read, this->to_fill())
};

// Past the page cache, so that a ring has to read it.
struct read_registered_file : with_registered_buffer, test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // it has to wait for the disk
  static ending value() { return {std::string(text), text.size()}; }
  unio::file_handle file;

  read_registered_file(io_multiplexer* m, script) {
    directory().write("direct", text);
    using unio::handle;
    file = unio::file_handle::file(directory().handle(), "direct", handle::mode::read,
                                   handle::creation::open_existing, handle::caching::only_metadata)
               .value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() {
    return {unio::mutable_buffer(buffer.data(), buffer.capacity()), 0};
  }
  UNIO_SPELLINGS(async_read, file, read, request())
};

} // namespace

std::vector<test::row> test::reading_rows() {
  return {
      row_of<read_from<pipe_ends>>("read_pipe"),
      row_of<read_from<named_pipe_ends>>("read_named_pipe"),
      row_of<read_from<unix_ends>>("read_unix_socket"),
      row_of<read_from<tcp_ends>>("read_tcp_socket"),
      row_of<scatter_from<pipe_ends>>("scatter_from_pipe"),
      row_of<scatter_from<tcp_ends>>("scatter_from_tcp_socket"),
      row_of<read_from<tcp_ipv6_ends>>("read_tcp_socket_on_ipv6"),
      row_of<scatter_from<tcp_ipv6_ends>>("scatter_from_tcp_socket_on_ipv6"),
      row_of<receive_from<tcp_ipv6_ends>>("receive_tcp_socket_on_ipv6"),
      row_of<read_nothing>("read_nothing"),
      row_of<receive_from<pipe_ends>>("receive_pipe"),
      row_of<receive_from<named_pipe_ends>>("receive_named_pipe"),
      row_of<receive_from<unix_ends>>("receive_unix_socket"),
      row_of<receive_from<tcp_ends>>("receive_tcp_socket"),
      row_of<receive_many_from<pipe_ends>>("receive_many_pipe"),
      row_of<receive_many_from<tcp_ends>>("receive_many_tcp_socket"),
      row_of<while_all_are_lent<receive_from<pipe_ends>>>("receive_while_all_are_lent"),
      row_of<while_all_are_lent<receive_from<tcp_ends>>>("receive_tcp_while_all_are_lent"),
      row_of<while_all_are_lent<receive_many_from<unix_ends>>>("receive_many_while_all_are_lent"),
      row_of<read_file>("read_file"),
      row_of<read_beyond_the_end>("read_file_beyond_its_end"),
      row_of<read_mapped_file>("read_mapped_file"),
      row_of<read_registered<pipe_ends>>("read_pipe_into_registered_memory"),
      row_of<read_registered<tcp_ends>>("read_tcp_socket_into_registered_memory"),
      row_of<read_registered_file>("read_into_registered_memory_past_the_cache"),
  };
}
