// tests/op/rows.hpp: the rows of the table of operations, by what they are about, and what several of these
// files use. NAME_rows() is in NAME_rows.cpp. What a row is stands in support/operation_table.hpp.

#pragma once

#include "support/ends.hpp"
#include "support/operation_table.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace test {

std::vector<row> reading_rows();
std::vector<row> writing_rows();
std::vector<row> connection_rows();
std::vector<row> waiting_rows();
std::vector<row> moving_rows();
std::vector<row> chain_rows();
std::vector<row> datagram_rows();
std::vector<row> process_rows();
std::vector<row> file_rows();
std::vector<row> name_rows();

inline constexpr std::string_view text = "hello";

// The directory is shared by all rows: making one for each cell takes longer than the cell.
inline temporary_directory& directory() {
  static temporary_directory d;
  return d;
}

struct named_pipe_ends {
  temporary_directory directory;
  unio::pipe_handle source, sink;
  named_pipe_ends() {
    source = unio::pipe_handle::create(directory.handle(), "fifo").value();
    sink = unio::pipe_handle::open(directory.handle(), "fifo", unio::handle::mode::write).value();
  }
};
/// Writes until there is no room and none will appear unless the peer reads. Returns how many bytes that was.
std::size_t fill(unio::handle const& h, unio::handle const& reader);

template <class Ends> struct read_from : fixture {
  static ending value() { return {std::string(text), text.size()}; }
  static ending at_end() { return {}; }
  Ends ends;
  char memory[16];

  read_from(unio::io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(memory))
  void make_ready() { put(ends.sink, text); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

/// A buffer of a pool, of which the ring knows the pages.
struct with_registered_buffer {
  unio::buffer_pool pool{2, 4096, unio::pool_memory::registered};
  unio::lent_buffer buffer = pool.try_take();
  [[nodiscard]] unio::mutable_buffer to_fill() const { return {buffer.data(), 16}; }
  [[nodiscard]] unio::const_buffer contents() const {
    std::ranges::copy(std::as_bytes(std::span(text)), buffer.data() + 5);
    return {buffer.data() + 5, text.size()};
  }
};

} // namespace test
