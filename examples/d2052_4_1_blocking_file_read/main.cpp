// Shows     D2052R0 §4.1: a whole file read into a vector by one blocking call.
// Run       build/release/examples/example_d2052_4_1_blocking_file_read [FILE]
// Read next ../d2052_4_2_coroutine_pipe_read/main.cpp

#include <unio/unio.hpp>

#include <cstddef>
#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  // An existing file, for reading, cached as the system likes: these are the defaults.
  unio::file_handle fh = unio::file({}, argc > 1 ? argv[1] : "/etc/passwd").value();

  // Room for all of it, at its current length.
  std::vector<std::byte> buffer(fh.maximum_extent().value());
  unio::file_handle::buffer_type const b{buffer.data(), buffer.size()};

  // Where to put the bytes, and the offset to read them from.
  unio::io_request<unio::file_handle::buffers_type> const req{{b}, 0};

  unio::io_result<unio::file_handle::buffers_type> const read = fh.read(req);
  if (!read) {
    std::fprintf(stderr, "%s\n", read.error().message().c_str());
    return 1;
  }
  buffer.resize(read.bytes_transferred()); // it may have become shorter meanwhile
  std::printf("%zu bytes\n", buffer.size());
}
