// Events of inotify under libFuzzer: any bytes are read within these bytes, and to their end. With CANARY the
// length of a name is trusted, which must be found.

#include <unio/watch_handle.hpp>

#include <sys/inotify.h>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

namespace {

#ifdef CANARY
unsigned sum_of(std::byte const* bytes, std::size_t size) {
  unsigned sum = 0;
  for (std::size_t at = 0; at + sizeof(inotify_event) <= size;) {
    inotify_event e;
    std::memcpy(&e, bytes + at, sizeof e);
    at += sizeof e;
    for (std::size_t i = 0; i != e.len; ++i) sum += static_cast<unsigned>(bytes[at + i]);
    at += e.len;
  }
  return sum;
}
#else
unsigned sum_of(std::byte* bytes, std::size_t size) {
  unsigned sum = 0;
  std::size_t count = 0;
  for (unio::watch_event const& e : unio::watch_events(unio::mutable_buffer(bytes, size))) {
    if (++count > size / sizeof(inotify_event) + 1) std::abort(); // it does not get on
    for (char const c : e.name) {
      if (c == '\0') std::abort();
      sum += static_cast<unsigned char>(c);
    }
    sum += static_cast<unsigned>(e.kinds) + static_cast<unsigned>(e.watch) + e.cookie;
  }
  return sum;
}
#endif

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const exact = std::make_unique<std::byte[]>(size); // so that a byte beyond it is not readable
  if (size != 0) std::memcpy(exact.get(), data, size);
  unsigned volatile const sum = sum_of(exact.get(), size);
  (void)sum;
  return 0;
}
