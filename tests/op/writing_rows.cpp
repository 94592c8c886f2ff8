// The rows of the table of operations about writing, with and without a copy, and barriers.

#include "op/rows.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/posix.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/tcp.h> // what <netinet/tcp.h> has of tcp_info is older

namespace {

using namespace test;

template <class Ends> struct write_to : test::fixture {
  static ending value() { return {std::string(text), text.size()}; }
  static ending at_end() { return test::failure(EPIPE); }
  Ends ends;
  std::size_t filled;

  write_to(io_multiplexer* m, script) {
    ends.sink.set_multiplexer(m);
    filled = fill(ends.sink, ends.source);
  }
  UNIO_SPELLINGS(async_write, ends.sink, write, unio::const_buffer(text))
  void make_ready() {
    EXPECT_EQ(take(ends.source, filled).size(), filled);
    is_ready(ends.sink, POLLOUT, 10'000); // a TCP peer says so a little later
    filled = 0;
  }
  void end() { ASSERT_TRUE(ends.source.close()); }
  void close() { ASSERT_TRUE(ends.sink.close()); }
  ending reduce(unio::io_result<unio::const_buffers> r) {
    ending e = reduced(r);
    if (r.has_value()) {
      EXPECT_EQ(take(ends.source, r.bytes_transferred()), e.text) << "what arrived";
    }
    return e;
  }
};

template <class Ends> struct write_to_tcp : write_to<Ends> {
  static ending at_end() { return test::failure(ECONNRESET); } // for there was something that it had not read
  using write_to<Ends>::write_to;
};

template <class Write> struct write_registered : with_registered_buffer, Write {
  using Write::Write;
  UNIO_SPELLINGS(async_write, this->ends.sink, write, this->contents())
};

template <class Write> struct zero_copy_registered : with_registered_buffer, Write {
  using Write::Write;
  UNIO_SPELLINGS(async_send_zero_copy, this->ends.sink, send_zero_copy, this->contents())
};

template <class Ends> struct gather_to : write_to<Ends> {
  using write_to<Ends>::write_to;
  unio::const_buffer parts[3] = {{text.data(), 2}, {text.data(), 0}, {text.data() + 2, 3}};
  UNIO_SPELLINGS(async_write, this->ends.sink, write, std::span<unio::const_buffer const>(parts))
};

// Without copying; a Unix socket cannot do that, and copies.
template <class Write> struct zero_copy : Write {
  using Write::Write;
  UNIO_SPELLINGS(async_send_zero_copy, this->ends.sink, send_zero_copy, unio::const_buffer(text))
};

template <class Write> struct gather_zero_copy : Write {
  using Write::Write;
  unio::const_buffer parts[3] = {{text.data(), 2}, {text.data(), 0}, {text.data() + 2, 3}};
  UNIO_SPELLINGS(async_send_zero_copy, this->ends.sink, send_zero_copy,
                 std::span<unio::const_buffer const>(parts))
};

struct write_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // not every filesystem can say that a write would not wait
  static ending value() { return {std::string(text), text.size()}; }
  unio::file_handle file;

  write_file(io_multiplexer* m, script) {
    directory().write("written", "say nothing");
    file = unio::file_handle::file(directory().handle(), "written", unio::handle::mode::write).value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::const_buffers> request() { return {unio::const_buffer(text), 4}; }
  UNIO_SPELLINGS(async_write, file, write, request())
  ending reduce(sender::result_type r) {
    if (r.has_value()) {
      EXPECT_EQ(directory().read("written"), "say hellong");
    }
    return reduced(r);
  }
};

struct write_registered_file : with_registered_buffer, write_file {
  using write_file::write_file;
  unio::io_request<unio::const_buffers> request() { return {contents(), 4}; }
  UNIO_SPELLINGS(async_write, file, write, request())
};

struct write_mapped_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false;
  static ending value() { return {std::string(text), text.size()}; }
  unio::mapped_file_handle file;

  write_mapped_file(io_multiplexer* m, script) {
    directory().write("map", "say nothing");
    file =
        unio::mapped_file_handle::mapped_file(directory().handle(), "map", unio::handle::mode::write).value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::const_buffers> request() { return {unio::const_buffer(text), 4}; }
  UNIO_SPELLINGS(async_write, file, write, request())
  ending reduce(sender::result_type r) {
    if (r.has_value()) {
      EXPECT_EQ(std::string_view(reinterpret_cast<char const*>(file.address()), file.length()),
                "say hellong");
    }
    return reduced(r);
  }
};

// ---- barriers --------------------------------------------------------------------------------------------

template <unio::barrier_kind Kind> struct barrier_on_file : test::fixture {
  static constexpr bool can_wait = false;
  static constexpr bool zero_is_enough = false; // it may wait for the device
  unio::file_handle file;

  barrier_on_file(io_multiplexer* m, script) {
    file = unio::file_handle::file(directory().handle(), "durable", unio::handle::mode::write,
                                   unio::handle::creation::if_needed)
               .value();
    (void)file.write(unio::const_buffer(text));
    file.set_multiplexer(m);
  }
  UNIO_SPELLINGS(async_barrier, file, barrier, Kind)
};

// Nothing that could be made durable.
struct barrier_on_pipe : test::fixture {
  static constexpr bool can_wait = false;
  pipe_ends ends;
  static constexpr auto kind = unio::barrier_kind::wait_all;

  barrier_on_pipe(io_multiplexer* m, script) { ends.sink.set_multiplexer(m); }
  UNIO_SPELLINGS(async_barrier, ends.sink, barrier, kind)
};

} // namespace

// TCP keeps what is under way until that is acknowledged, and sends when a timer says so what the other side
// (`reader`) has still room for. So it is full when nothing is under way and the window is shut. Single bytes
// it would keep in far more memory than it had promised to have, and then drop them, again and again.
std::size_t test::fill(unio::handle const& h, unio::handle const& reader) {
  int const fd = h.native_handle();
  std::string const block(16384, 'x');
  std::size_t n = 0;
  auto const write_all = [&](std::size_t bytes) {
    for (ssize_t r; (r = ::write(fd, block.data(), bytes)) > 0;) n += static_cast<std::size_t>(r);
  };
  for (int round = 0; round != 400; ++round) {
    write_all(block.size());
    tcp_info now = {};
    socklen_t size = sizeof now;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &now, &size) != 0) {
      write_all(1);
      return n;
    }
    if (now.tcpi_unacked == 0 && now.tcpi_snd_wnd == 0 && !is_ready(h, POLLOUT, 0)) return n;
    int const on = 1;
    (void)::setsockopt(reader.native_handle(), IPPROTO_TCP, TCP_QUICKACK, &on,
                       sizeof on); // puts no acknowledgement off: tcp(7)
    (void)is_ready(h, POLLOUT, 5);
  }
  ADD_FAILURE() << "a TCP connection does not get full";
  return n;
}

std::vector<test::row> test::writing_rows() {
  return {
      row_of<write_to_tcp<tcp_ipv6_ends>>("write_tcp_socket_on_ipv6"),
      row_of<write_to<pipe_ends>>("write_pipe"),
      row_of<write_to<named_pipe_ends>>("write_named_pipe"),
      row_of<write_to<unix_ends>>("write_unix_socket"),
      row_of<write_to_tcp<tcp_ends>>("write_tcp_socket"),
      row_of<gather_to<pipe_ends>>("gather_to_pipe"),
      row_of<gather_to<unix_ends>>("gather_to_unix_socket"),
      row_of<write_file>("write_file"),
      row_of<write_mapped_file>("write_mapped_file"),
      row_of<write_registered<write_to<pipe_ends>>>("write_pipe_from_registered_memory"),
      row_of<write_registered<write_to_tcp<tcp_ends>>>("write_tcp_socket_from_registered_memory"),
      row_of<write_registered_file>("write_file_from_registered_memory"),
      row_of<zero_copy_registered<write_to<unix_ends>>>("zero_copy_unix_from_registered_memory"),
      row_of<zero_copy_registered<write_to_tcp<tcp_ends>>>("zero_copy_tcp_from_registered_memory"),
      row_of<barrier_on_file<unio::barrier_kind::nowait_data_only>>("barrier_nowait_data_only"),
      row_of<barrier_on_file<unio::barrier_kind::wait_data_only>>("barrier_wait_data_only"),
      row_of<barrier_on_file<unio::barrier_kind::nowait_all>>("barrier_nowait_all"),
      row_of<barrier_on_file<unio::barrier_kind::wait_all>>("barrier_wait_all"),
      row_of<barrier_on_pipe>("barrier_on_pipe"),
      row_of<zero_copy<write_to_tcp<tcp_ends>>>("send_zero_copy_tcp"),
      row_of<zero_copy<write_to<unix_ends>>>("send_zero_copy_unix"),
      row_of<gather_zero_copy<write_to_tcp<tcp_ends>>>("gather_zero_copy_tcp"),
      row_of<gather_zero_copy<write_to_tcp<tcp_ipv6_ends>>>("gather_zero_copy_tcp_on_ipv6"),
      row_of<gather_zero_copy<write_to<unix_ends>>>("gather_zero_copy_unix"),
  };
}
