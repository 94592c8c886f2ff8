// Shows     linked operations: a file is copied by pairs of a read and the write of what it read. The write
//           follows the end of the read, without a turn of the program in between; eight pairs are in flight
//           at a time.
// Run       build/release/examples/example_linked_copy [FROM TO]
// Read next <unio/link.hpp>

#include "../support/two_files.hpp"

#include <unio/unio.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>

namespace {

using unio::extent_type;
using unio::file_handle;

constexpr extent_type block_size = 65536;

struct copy {
  file_handle& from;
  file_handle& to;
  extent_type size;
  extent_type next = 0; ///< where the next pair begins
  extent_type written = 0;
  std::error_code failed{};
};

// One pair after the other, each with the next block that no lane has begun.
unio::task<void> lane(copy& c) {
  auto const room = std::make_unique<std::array<std::byte, block_size>>();
  while (c.next < c.size && !c.failed) {
    extent_type const at = std::exchange(c.next, c.next + block_size);
    std::size_t const n = std::min(block_size, c.size - at);
    // A read or a write of less than n bytes ends the pair, as an error does.
    auto const pair =
        co_await unio::co_link(unio::async_read(c.from, {unio::mutable_buffer(room->data(), n), at}),
                               unio::async_write(c.to, {unio::const_buffer(room->data(), n), at}));
    c.written += pair.get<1>().bytes_transferred();
    if (!pair) c.failed = pair.error();
  }
}

unio::task<void> all_lanes(copy& c) {
  co_await unio::when_all(lane(c), lane(c), lane(c), lane(c), lane(c), lane(c), lane(c), lane(c));
}

file_handle something_to_copy() {
  auto file = file_handle::temp_inode().value();
  std::string text;
  while (text.size() < 1'000'000) text += "line " + std::to_string(text.size()) + "\n";
  (void)file.write({unio::const_buffer(text.data(), text.size()), 0}).value();
  return file;
}

} // namespace

int main(int argc, char** argv) {
  example::two_files files;
  if (int const status = example::open_two_files(argc, argv, "linked_copy", files, something_to_copy);
      status != 0)
    return status;

  copy c{.from = files.from, .to = files.to, .size = files.from.maximum_extent().value()};
  unio::run(all_lanes(c));
  if (c.failed) std::fprintf(stderr, "linked_copy: %s\n", c.failed.message().c_str());
  std::printf("%llu of %llu bytes copied\n", static_cast<unsigned long long>(c.written),
              static_cast<unsigned long long>(c.size));
  return c.failed ? 1 : 0;
}
