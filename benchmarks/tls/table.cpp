// tls: a server's handshakes and bulk transfers.

#include "runner/table.hpp"

namespace benchmarks {

table tls_table(settings const& s) {
  table t{
      .name = "tls",
      .title = "TLS 1.3: a server's processor time for a handshake, for a MiB received and sent",
      .unit = "µs of processor time",
      .reference = "openssl, blocking",
      .counted = {counting::system_calls, counting::allocations},
      .run_ms = 100,
      .rounds = 9,
      .notes =
          {"The client is OpenSSL on a socket that blocks, in a process of its own. Certificates are P-256; "
           "nothing is resumed.",
           "Handshakes include accepting, one byte written, and closing. Subjects read and write 64 KiB at "
           "a time."},
  };
  for (char const* const program : {"tls_openssl", "tls_asio", "tls_unio"})
    t.cases += program_cases(s, program);
  return t;
}

} // namespace benchmarks
