// The whole program around one of the four forms of examples/tcp_reader: `FORM` names it.

#include "tcp_reader.hpp"

#include <unio/unio.hpp>

#include <cstdlib>

#define AS_BLOCKING 1
#define AS_STARTED 2
#define AS_AWAITED 3

namespace {
#if FORM_IS == AS_STARTED
bool has_ended = false;
bool was_right = false;
#endif
} // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  unio::endpoint const from = unio::endpoint::ipv4_loopback(static_cast<std::uint16_t>(std::atoi(argv[1])));
  auto const wanted = static_cast<std::int64_t>(std::atoll(argv[2]));
#if FORM_IS == AS_BLOCKING
  outcome const left = FORM(from, wanted);
  return left && *left == 0 ? 0 : 1;
#elif FORM_IS == AS_AWAITED
  outcome const left = unio::run(FORM(from, wanted));
  return left && *left == 0 ? 0 : 1;
#else
  FORM(from, wanted, [](outcome left) {
    has_ended = true;
    was_right = left && *left == 0;
  });
  while (!has_ended && unio::this_thread::multiplexer().run().has_value()) {
  }
  return was_right ? 0 : 1;
#endif
}
