// Shows     copying a file so that its holes stay holes, by the cheapest way that the filesystem has: shared
//           storage, a copy in the kernel, reads and writes. The result says which way it was. While the copy
//           runs on a thread that may block, the program goes on, and a deadline stops it between steps.
// Run       build/release/examples/example_sparse_copy [FROM TO]
// Read next <unio/file_operations.hpp>, example linked_copy

#include "../support/two_files.hpp"

#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <string>

namespace {

using namespace std::chrono_literals;
using unio::extent_type;
using unio::file_handle;

unio::task<void> show_data(file_handle& f, char const* name) {
  std::array<unio::file_extent, 16> found;
  extent_type data = 0, at = 0;
  for (bool more = true; more;) {
    auto const some = (co_await f.co_extents(found, at)).value();
    for (unio::file_extent const& e : some) data += e.bytes;
    more = some.size() == found.size();
    if (more) at = some.back().offset + some.back().bytes;
  }
  std::printf("%s: %llu bytes, %llu of them data\n", name,
              static_cast<unsigned long long>((co_await f.co_maximum_extent()).value()),
              static_cast<unsigned long long>(data));
}

// Returns the process's exit code.
unio::task<int> copy(file_handle& from, file_handle& to) {
  co_await show_data(from, "source");
  extent_type const length = (co_await from.co_maximum_extent()).value();
  for (extent_type at = 0; at < length;) {
    // A second at a time: what came of it is kept, and the rest goes on from there.
    auto const done = co_await from.co_clone_extents_to(at, length - at, to, at, 1s);
    if (!done && done.error() == unio::condition::timed_out) continue;
    if (!done) {
      std::fprintf(stderr, "sparse_copy: %s\n", done.error().message().c_str());
      co_return 1;
    }
    constexpr char const* ways[] = {"no data", "shared", "copied in the kernel", "read and written"};
    std::printf("%llu bytes: %s\n", static_cast<unsigned long long>(done->bytes),
                ways[static_cast<int>(done->way)]);
    if (done->bytes == 0) break; // it became shorter
    at += done->bytes;
  }
  (co_await to.co_barrier(unio::barrier_kind::wait_all)).value();
  co_await show_data(to, "copy");
  co_return 0;
}

file_handle something_to_copy() {
  auto file = file_handle::temp_inode().value();
  std::string const text = "the only text in a large file";
  (void)file.write({unio::const_buffer(text), 40 << 20}).value();
  (void)file.truncate(64 << 20).value();
  return file;
}

} // namespace

int main(int argc, char** argv) {
  example::two_files files;
  if (int const status = example::open_two_files(argc, argv, "sparse_copy", files, something_to_copy);
      status != 0)
    return status;
  return unio::run(copy(files.from, files.to));
}
