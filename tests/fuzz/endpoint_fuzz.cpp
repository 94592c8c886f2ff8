// Addresses as text under libFuzzer: what is one reads its own text back, and what is none is said why. With
// CANARY the name of a Unix socket is copied into an array of four bytes, which must be found.

#include <unio/endpoint.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

#ifdef CANARY
unsigned copied(std::string_view text) {
  char name[4] = {};
  std::size_t const colon = text.find(':');
  if (colon == text.npos) return 0;
  auto const* const from = text.data() + colon + 1;
  for (std::size_t i = 0; i != text.size() - colon - 1; ++i) name[i] = from[i];
  return static_cast<unsigned char>(name[0]);
}
#endif

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  auto const exact = std::make_unique<char[]>(size); // so that a byte beyond it is not readable
  if (size != 0) std::memcpy(exact.get(), data, size);
  std::string_view const text(exact.get(), size);
#ifdef CANARY
  unsigned volatile const sum = copied(text);
  (void)sum;
#endif
  std::string why;
  unio::result<unio::endpoint> const read = unio::parse_endpoint(text, &why);
  expect(read.has_value() == why.empty());
  if (!read) return 0;
  std::string const shown = to_string(*read);
  unio::result<unio::endpoint> const again = unio::parse_endpoint(shown);
  expect(again.has_value() && *again == *read && to_string(*again) == shown);
  return 0;
}
