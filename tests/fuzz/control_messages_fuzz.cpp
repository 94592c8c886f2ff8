// Control messages under libFuzzer: any bytes are read within these bytes. With CANARY the reader trusts the
// lengths in them, which must be found.

#include "op/control_messages.hpp"
#include "op/datagram.hpp"

#include <cstdint>
#include <cstring>
#include <memory>

namespace {

#ifdef CANARY
// Adds the data of all messages up, as far as their lengths say.
unsigned sum_of(std::byte const* bytes, std::size_t size) {
  unsigned sum = 0;
  for (std::size_t at = 0; at + sizeof(cmsghdr) <= size;) {
    cmsghdr c;
    std::memcpy(&c, bytes + at, sizeof(c));
    if (c.cmsg_len < sizeof(c)) break;
    for (std::size_t i = sizeof(c); i < c.cmsg_len; ++i) sum += static_cast<unsigned>(bytes[at + i]);
    at += CMSG_ALIGN(c.cmsg_len);
  }
  return sum;
}
#else
unsigned sum_of(std::byte const* bytes, std::size_t size) {
  unsigned sum = 0;
  unio::op::control_messages all({bytes, size});
  for (unio::op::control_message c; all.next(c);)
    for (std::byte const b : c.data) sum += static_cast<unsigned>(b);
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
  msghdr m{};
  m.msg_control = exact.get();
  m.msg_controllen = size;
  unio::datagram_info info;
  unio::op::decode_info(m, info);
  return static_cast<unsigned>(info.ecn) <= 3 ? 0 : -1;
}
