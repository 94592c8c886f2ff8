// Lock files under libFuzzer: one that was good, with any bytes at any place of it, is refused or can be
// locked, at once, and is not made longer than it has to be. The first byte says by which algorithm, the next
// two where. With CANARY the file's first word is taken for an index, which must be found.

#include "support/temporary_directory.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/memory_map.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <string>

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

// The file is put in place by its owner, whom alone it may be read and written by.
void put(std::string const& path, std::string const& bytes) {
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  expect(fd >= 0 && ::write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  ::close(fd);
}

template <class Mutex> void open_and_lock(std::string_view change, std::size_t at) {
  static test::temporary_directory const directory;
  std::string const path = directory / "lock";
  static std::string const good = [&] {
    (void)Mutex::open(path).value();
    return directory.read("lock");
  }();
  std::string bytes = good;
  at = std::min(at, bytes.size());
  bytes.resize(std::max(bytes.size(), at + change.size()));
  std::copy(change.begin(), change.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  put(path, bytes);
#ifdef CANARY
  char const table[256] = {};
  std::uint32_t first = 0;
  if (bytes.size() >= sizeof first) std::memcpy(&first, bytes.data(), sizeof first);
  std::uint32_t expected = 0;
  if (good.size() >= sizeof expected) std::memcpy(&expected, good.data(), sizeof expected);
  if (first != expected) {
    char volatile const found = table[first % 1024];
    (void)found;
  }
#endif
  if (auto m = Mutex::open(path)) {
    unio::fs::entity const wanted{1, true};
    for (int i = 0; i != 2; ++i) {
      if (auto const held = m->try_lock(wanted)) expect(!m->try_lock(wanted));
    }
  }
  expect(std::filesystem::file_size(path) <= bytes.size() + (1u << 20));
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 3) return 0;
  std::size_t const at = data[1] + 256u * data[2];
  std::string_view const change(reinterpret_cast<char const*>(data) + 3, size - 3);
  switch (data[0] % 3) {
    case 0:
      open_and_lock<unio::fs::atomic_append>(change, at);
      break;
    case 1:
      open_and_lock<unio::fs::byte_ranges>(change, at);
      break;
    default:
      open_and_lock<unio::fs::memory_map<>>(change, at);
      break;
  }
  return 0;
}
