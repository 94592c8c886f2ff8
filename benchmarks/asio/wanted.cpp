#include "asio/wanted.hpp"

namespace benchmarks {

std::optional<budget> wanted_of_asio(std::string const& subject, std::vector<parameter> const& parameters) {
  if (!is_ours(subject)) return std::nullopt;
  std::string work;
  for (parameter const& p : parameters)
    if (p.name == "work") work = p.value;
  const bool is_on_ring = subject.ends_with("io_uring");
  if (!is_on_ring || subject.starts_with("unio adapter") || work == work_on_strands)
    return budget{.ratio = 1};
  return budget{.ratio = work == work_http ? 1.15 : 1.1, .is_to_best = true};
}

} // namespace benchmarks
