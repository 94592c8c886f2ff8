// The table asio: its kinds of work, and what is wanted of each.
#pragma once

#include "runner/table.hpp"

namespace benchmarks {

inline constexpr char const work_callbacks[] = "echo, callbacks";
inline constexpr char const work_coroutines[] = "echo, coroutines";
inline constexpr char const work_on_strands[] = "echo, strands";
inline constexpr char const work_http[] = "http";

/// On epoll and of the adapter: what Asio achieves on epoll. On a ring: more than Asio's better reactor.
std::optional<budget> wanted_of_asio(std::string const& subject, std::vector<parameter> const& parameters);

} // namespace benchmarks
