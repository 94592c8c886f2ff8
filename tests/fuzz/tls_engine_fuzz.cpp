// tls_engine.hpp, fed with bytes of anybody: a script of its two peers and of one that sends what it likes.
//
// The first byte says which side is attacked, and in which version. Then follow pairs: what happens, and how
// much. Whatever it is, memory is bounded, no byte arrives that was not sent, and what has failed stays
// failed. With CANARY nothing may fail at all, which must be found to be wrong.

#include "tls/bytes.hpp"
#include "tls/certificates.hpp"

#include <unio/tls_engine.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

using test::feed;
using test::take;
using unio::tls_engine;
using outcome = unio::tls_engine::outcome;

void check(bool good, char const* what) {
  if (good) return;
  std::fprintf(stderr, "fuzz: %s\n", what);
  std::abort();
}

// Reads and checks what it reads: the peers send nothing but 'x'.
void read(tls_engine& e) {
  char room[300];
  for (;;) {
    tls_engine::progress const p = e.read(room);
    if (p.what != outcome::done) return;
    check(p.bytes != 0 && p.bytes <= sizeof room, "a read of no or of too many bytes");
    check(std::string_view(room, p.bytes).find_first_not_of('x') == std::string_view::npos,
          "bytes nobody sent");
  }
}

void step(tls_engine& e) {
  if (!e.is_connected()) (void)e.handshake();
  if (e.is_connected()) read(e);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static unio::tls_context const of_client = test::client(), of_server = test::server();
  static unio::tls_context const old_client = test::client({.maximum = unio::tls_version::tls_1_2});
  if (size == 0) return 0;
  bool const attacks_server = (*data & 1) != 0;
  tls_engine client((*data & 2) != 0 ? of_client : old_client, "example.test");
  tls_engine server(of_server);
  tls_engine& victim = attacks_server ? server : client;
  tls_engine& other = attacks_server ? client : server;
  if ((*data & 4) != 0) { // the handshake is done
    for (int i = 0; i != 6; ++i) {
      step(client);
      step(server);
      feed(server, take(client, 1 << 16));
      feed(client, take(server, 1 << 16));
    }
    check(client.is_connected() && server.is_connected(), "two engines do not understand each other");
  }
  std::string const text(300, 'x');
  for (++data, --size; size >= 2; data += 2, size -= 2) {
    std::size_t amount = data[1];
    unio::const_buffer const some(text.data(), amount + 1);
    bool const had_failed =
        victim.handshake().what == outcome::failed && victim.error().category() == unio::tls_category();
    switch (data[0] % 10) {
      case 0: // bytes of the attacker, the script's next
        amount = std::min(amount, size - 2);
        feed(victim, std::string_view(reinterpret_cast<char const*>(data + 2), amount));
        data += amount;
        size -= amount;
        break;
      case 1:
        feed(victim, take(other, amount * 8));
        break;
      case 2: { // a byte of the peer's changed
        std::string bytes = take(other, amount + 1);
        if (!bytes.empty()) bytes.back() = static_cast<char>(bytes.back() ^ 1);
        feed(victim, bytes);
        break;
      }
      case 3:
        feed(other, take(victim, amount * 8));
        break;
      case 4:
        (void)victim.write(some);
        break;
      case 5:
        (void)other.write(some);
        break;
      case 6:
        for (; amount != 0; --amount) (void)other.update_keys(amount % 2 == 0);
        break;
      case 7:
        (void)(amount % 2 == 0 ? victim : other).shutdown();
        break;
      case 8:
        (void)victim.update_keys(amount % 2 == 0);
        break;
      default:
        if (amount == 0) victim.input_ended();
        break;
    }
    step(victim);
    step(other);
    check(victim.queued() <= tls_engine::output_limit + 32 * 1024, "the output grows");
#ifdef CANARY
    check(victim.handshake().what != outcome::failed, "the canary");
#endif
    if (had_failed) check(victim.handshake().what == outcome::failed, "what had failed works again");
  }
  return 0;
}
