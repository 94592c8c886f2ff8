// file: random reads, with fio beside the programs of this folder where it is installed.

#include "runner/table.hpp"

#include "data.hpp"
#include "runner/program.hpp"

#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <stdexcept>

namespace benchmarks {
namespace {

// The number that follows `name` in `text` from `from` on, in what fio prints as JSON.
double number_after(std::string const& text, std::string const& name, std::size_t from) {
  const std::size_t at = text.find('"' + name + '"', from);
  const std::size_t colon = text.find(':', at);
  if (at == std::string::npos || colon == std::string::npos) throw std::runtime_error("fio says no " + name);
  return std::strtod(text.c_str() + colon + 1, nullptr);
}

child_program start_fio(std::vector<std::string> arguments, int cpu) {
  try {
    return child_program(std::move(arguments), cpu);
  } catch (std::system_error const& e) {
    throw std::runtime_error(e.code() == std::errc::no_such_file_or_directory ? "fio is not installed"
                                                                              : e.what());
  }
}

// fio chooses its own random blocks, looks at no data, and starts anew for each run: only its own clock
// counts.
sample run_fio(bool direct, unsigned depth, int cpu, std::uint64_t operations) {
  const data_file d = the_data();
  child_program fio =
      start_fio({"fio", "--name=random", "--filename=" + d.path, "--readonly", "--rw=randread", "--bs=4k",
                 "--ioengine=io_uring", fmt::format("--iodepth={}", depth),
                 fmt::format("--direct={}", direct ? 1 : 0), "--invalidate=0", "--norandommap",
                 "--randrepeat=1", "--gtod_reduce=1", "--thread", fmt::format("--number_ios={}", operations),
                 fmt::format("--io_size={}", operations * BLOCK_BYTES), "--output-format=json"},
                cpu);
  const child_program::ending e = fio.wait(std::chrono::seconds(60));
  if (e.status != 0) throw std::runtime_error(fmt::format("fio ended with status {}", e.status));
  const std::size_t read = e.output.find("\"read\"");
  if (read == std::string::npos) throw std::runtime_error("fio says nothing of reads");
  const double iops = number_after(e.output, "iops", read);
  if (iops <= 0) throw std::runtime_error("fio read nothing");
  return {.elapsed_ns = 1e9 / iops * static_cast<double>(operations), .value = 1e9 / iops};
}

benchmark_case fio_case(settings const& s, bool direct, unsigned depth) {
  // It measures in milliseconds, so that a run must be long.
  const std::uint64_t operations = (direct ? 100u * (depth == 1 ? 20 : 200) : 200'000u) / (s.quick ? 10 : 1);
  return {.subject = "fio, io_uring",
          .parameters = {{"cache", direct ? "direct" : "cached"}, {"depth", std::to_string(depth)}},
          .run = [=, cpu = s.subject_cpu](std::uint64_t n) { return run_fio(direct, depth, cpu, n); },
          .operations = operations};
}

} // namespace

table file_table(settings const& s) {
  table t{
      .name = "file",
      .title = fmt::format("random reads of 4 KiB from a file of {} MiB; depth: reads in flight",
                           s.quick ? 16 : 256),
      .unit = "ns per read",
      .reference = "liburing, C",
      .counted = {counting::system_calls},
      .run_ms = 60,
      .notes =
          {"registered: the kernel keeps file and memory pinned; registered memory: only that.",
           "pread(2) has one read in flight.",
           "fio looks at no data and chooses its own blocks; its clock has milliseconds.",
           "epoll cannot wait for files: there worker threads read what is not in memory, and the kernel by "
           "itself (io_submit) what is direct."},
  };
  ::setenv(data_size_variable, s.quick ? "16" : "256", 1); // for the programs
  for (char const* const program : {"file_posix", "file_uring", "file_asio_uring", "file_unio"})
    t.cases += program_cases(s, program);
  for (const bool direct : {false, true})
    for (const unsigned depth : {1u, 32u}) t.cases.push_back(fio_case(s, direct, depth));
  return t;
}

} // namespace benchmarks
