// tcp_reader: what is sent over loopback, received.

#include "runner/table.hpp"

#include <link.h>

#include <filesystem>
#include <fstream>
#include <string_view>

namespace benchmarks {
namespace {

// The program that does what a subject does and nothing else; empty: there is none.
std::string small_program_of(std::string_view subject) {
  struct form {
    std::string_view subject; // begins so
    char const* program;
  };
  constexpr form forms[] = {
      {"recv(2)", "recv"},
      {"state machine, C", "epoll"},
      {"asio callbacks", "asio_callbacks"},
      {"asio coroutines", "asio_coroutine"},
      {"unio blocking", "blocking"},
      {"unio multiplexed", "state_machine"},
      {"unio callbacks", "callbacks"},
      {"unio awaited", "coroutine"},
  };
  if (subject == "asio callbacks, io_uring" || subject == "asio coroutines, io_uring")
    return {}; // those are built for epoll
  for (form const& f : forms)
    if (subject.starts_with(f.subject)) return std::string("tcp_reader_size_") + f.program;
  return {};
}

// Code and data, without the padding to pages that hides what a file has. Zero: there is no such program.
double loaded_bytes(std::filesystem::path const& program) {
  std::ifstream in(program, std::ios::binary);
  ElfW(Ehdr) header{};
  in.read(reinterpret_cast<char*>(&header), sizeof header);
  in.seekg(static_cast<std::streamoff>(header.e_phoff));
  double bytes = 0;
  for (int i = 0; in && i < header.e_phnum; ++i) {
    ElfW(Phdr) segment{};
    in.read(reinterpret_cast<char*>(&segment), sizeof segment);
    if (in && segment.p_type == PT_LOAD) bytes += static_cast<double>(segment.p_filesz);
  }
  return bytes;
}

void add_size(benchmark_case& c, std::string const& programs) {
  const std::string name = small_program_of(c.subject);
  if (!c.run || name.empty()) return;
  const double kib = loaded_bytes(std::filesystem::path(programs) / name) / 1024;
  if (kib == 0) return;
  c.run = [run = std::move(c.run), kib](std::uint64_t n) {
    sample s = run(n);
    s.extra.push_back({"program KiB", kib});
    return s;
  };
}

} // namespace

table tcp_reader_table(settings const& s) {
  table t{
      .name = "tcp_reader",
      .title = s.quick ? "32 MB over loopback" : "1 GB over loopback",
      .unit = "MB/s",
      .higher_is_better = true,
      .reference = "recv(2)",
      .counted = {counting::allocations},
      .rounds = 7,
      .notes =
          {"The sender, a process that writes blocks of 256 KiB, is often the limit: see the reader's "
           "processor time.",
           "polled: looks again and again, and never waits.",
           "futures, then: a future for each read and its continuation, allocated, as the talk compares; "
           "allocations are for a megabyte.",
           "program KiB: one that does this and nothing else, -O2, stripped, with what it uses of the "
           "library (unio's forms: "
           "examples/tcp_reader) but the C and C++ libraries."},
  };
  for (char const* const program :
       {"tcp_reader_posix", "tcp_reader_asio", "tcp_reader_asio_uring", "tcp_reader_unio"})
    t.cases += program_cases(s, program);
  for (benchmark_case& c : t.cases) {
    if (s.quick) c.operations = 32;
    add_size(c, s.programs);
  }
  return t;
}

} // namespace benchmarks
