// Lines of "<due> <late>", in ns.

#include "echo/lateness.hpp"

#include "echo/server.h"

#include <istream>
#include <sstream>
#include <stdexcept>
#include <string>

namespace benchmarks {

histogram timer_lateness(std::istream& lines, std::int64_t begin, std::int64_t end) {
  histogram all;
  std::int64_t next = -1; // when the one after the last line is due
  for (std::string line; std::getline(lines, line);) {
    std::istringstream fields(line);
    std::int64_t due = 0;
    std::int64_t late = 0;
    if (!(fields >> due >> late) || late < 0)
      throw std::runtime_error("not understood of what the server's timer wrote: " + line);
    if (due >= begin && due < end) all.add(static_cast<std::uint64_t>(late));
    next = due + late + std::int64_t{echo_timer_ms} * 1'000'000;
  }
  if (next < 0) throw std::runtime_error("the server's timer never fired");
  if (next < end) all.add(static_cast<std::uint64_t>(end - next));
  return all;
}

} // namespace benchmarks
