// All tables. To add one: a folder with table.cpp and its programs, a line here.

#include "runner/table.hpp"

#include <array>

namespace benchmarks {

table pipe_table(settings const&);
table latency_table(settings const&);
table tail_table(settings const&);
table mock_table(settings const&);
table yield_table(settings const&);
table echo_table(settings const&);
table fairness_table(settings const&);
table tcp_reader_table(settings const&);
table udp_table(settings const&);
table resolve_table(settings const&);
table tls_table(settings const&);
table file_table(settings const&);
table compile_table(settings const&);
table memory_table(settings const&);
table frames_table(settings const&);
table append_table(settings const&);
table growth_table(settings const&);
table locks_table(settings const&);
table trees_table(settings const&);
table process_table(settings const&);
table stat_table(settings const&);
table threads_table(settings const&);
table asio_table(settings const&);

std::span<table_entry const> tables() {
  static const std::array all = {
      table_entry{"pipe", "single bytes from a pipe that is kept full (D2052R0 §5.2)", pipe_table},
      table_entry{"latency", "the tail of a round trip over a pipe, over a Unix socket (D2052R0 §5.3)",
                  latency_table},
      table_entry{"tail", "the same, ten million times, by what never sleeps: p99.9999 (D2052R0 §5.3)",
                  tail_table},
      table_entry{"mock",
                  "composed operations whose I/O costs nothing (Coroutine-first asynchronous I/O §11)",
                  mock_table},
      table_entry{"yield", "a no-op, a yield, a post (liburing4cpp demo/bench)", yield_table},
      table_entry{"echo",
                  "an echo server, requests per second of its processor time (liburing4cpp demo/echo_server)",
                  echo_table},
      table_entry{
          "fairness",
          "the same servers kept busy: requests per connection, and a timer and a slow connection beside",
          fairness_table},
      table_entry{"tcp_reader", "a gigabyte over loopback (CppCon 2015, Coroutines)", tcp_reader_table},
      table_entry{"udp", "datagrams of 1,200 bytes: one by one, in batches, cut and joined by the kernel",
                  udp_table},
      table_entry{"resolve", "names that a name server on loopback has", resolve_table},
      table_entry{"tls", "TLS 1.3: a server's handshakes and bulk transfers", tls_table},
      table_entry{"file", "random reads of 4 KiB, cached and direct", file_table},
      table_entry{"compile", "what including and linking the library costs a small echo server",
                  compile_table},
      table_entry{"memory", "bytes per idle connection and per suspended coroutine", memory_table},
      table_entry{"frames", "a read within a coroutine of its own: where its frame comes from", frames_table},
      table_entry{"append", "a file that grows, read as a pipe without an end, beside a pipe", append_table},
      table_entry{"growth", "an operation while 1 … 1,000,000 others wait", growth_table},
      table_entry{"locks",
                  "mutexes between processes, 1 to 8 entities, 1 to 32 processes (AFIO v2, shared_fs_mutex)",
                  locks_table},
      table_entry{"trees", "walking, removing and copying directory trees, beside find, rm and cp",
                  trees_table},
      table_entry{"process", "a child that ends at once: launched, and waited for", process_table},
      table_entry{"stat", "the metadata of names that are cached, one by one and 64 together", stat_table},
      table_entry{"threads", "two threads together: tasks on a pool, posts from thread to thread",
                  threads_table},
      table_entry{"asio", "programs of Asio's on its own reactors and on unio's; the adapter", asio_table},
  };
  return all;
}

} // namespace benchmarks
