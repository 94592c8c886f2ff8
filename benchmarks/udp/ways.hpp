// The ways in which datagrams are exchanged, as a parameter of the cases.
#pragma once

#include "udp/exchange.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

namespace udp_bench {

struct named_way {
  udp_way way;
  char const* name;
};
inline constexpr std::array<named_way, 3> all_ways = {
    {{udp_one_by_one, "one by one"}, {udp_batches, "batches"}, {udp_segments, "segments"}}};

[[noreturn]] inline void fail(std::string const& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

} // namespace udp_bench
