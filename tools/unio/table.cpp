#include "complain.hpp"
#include "report.hpp"
#include "tools/support/machine.hpp"

#include <fmt/format.h>

#include <thread>

namespace tour {
namespace {

constexpr char const* green = "\033[32m";
constexpr char const* red = "\033[31m";
constexpr char const* faint = "\033[2m";
constexpr char const* plain = "\033[0m";

// The cells before the result, aligned.
std::string cells(row_kind const& k, std::string_view bytes, std::string_view speed, std::string_view calls,
                  std::string_view allocated) {
  return fmt::format("{:<12} {:<12} {:<9} {:>12} {:>8} {:>10} {:>7}  ", name(k.handle), name(k.how),
                     k.on ? name(*k.on) : "-", bytes, speed, calls, allocated);
}

std::string features(unio::capabilities const& c) {
  std::string text = c.threads == 1 ? "one thread" : fmt::format("{} threads", c.threads);
  if (c.ring_entries != 0) text += fmt::format(", {} ring entries", c.ring_entries);
  auto const flag = [&](bool on, char const* what) {
    if (on) text += fmt::format(", {}", what);
  };
  flag(c.single_issuer, "single issuer");
  flag(c.defer_taskrun, "deferred task work");
  flag(c.multishot_accept, "multishot accept");
  flag(c.zero_copy_send, "zero-copy send");
  return text;
}

} // namespace

machine this_machine(unio::capabilities chosen) {
  return {tools::kernel_name(), tools::processor_name(), std::thread::hardware_concurrency(),
          std::move(chosen)};
}

std::string heading(machine const& on, source const& from) {
  std::string text =
      fmt::format("unio {} on {}, {} x {}\n", unio::version_string(), on.kernel, on.processors, on.processor);
  text += fmt::format("driver {}: {}\n", on.chosen.driver, features(on.chosen));
  if (!on.chosen.why.empty()) text += fmt::format("       {}\n", on.chosen.why);
  return text + fmt::format("file {}: {} bytes\n\n", escaped(from.path), from.bytes.size());
}

std::string table::paint(std::string_view text, char const* colour) const {
  return in_colour_ ? fmt::format("{}{}{}", colour, text, plain) : std::string(text);
}

std::string table::head() const {
  return fmt::format("{:<12} {:<12} {:<9} {:>12} {:>8} {:>10} {:>7}  {}\n", "handle", "style", "driver",
                     "bytes", "MB/s", "calls/MB", "allocs", "result");
}

std::string table::line(row_result const& row) const {
  auto const calls = row.system_calls_per_mb ? fmt::format("{:.1f}", *row.system_calls_per_mb) : "n/a";
  auto const speed = row.bytes != 0 ? fmt::format("{:.0f}", row.mb_per_s()) : "n/a";
  std::string const why = row.failure.empty() ? "it allocated" : row.failure;
  return cells(row.kind, std::to_string(row.bytes), speed, calls, std::to_string(row.allocations)) +
         (row.is_ok() ? paint("ok", green) : paint("failed: " + why, red)) + "\n";
}

std::string table::skipped(row_kind const& k, std::string_view why) const {
  return cells(k, "-", "-", "-", "-") + paint(fmt::format("skipped: {}", why), faint) + "\n";
}

} // namespace tour
