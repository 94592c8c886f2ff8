#include "variables.hpp"

#include "complain.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace {

constexpr unsigned most_ring_entries = 32768; // the kernel's IORING_MAX_ENTRIES

std::string_view value_of(char const* variable) {
  char const* const value = std::getenv(variable);
  return value != nullptr ? value : "";
}

} // namespace

std::string wrong_variable(bool has_driver_option) {
  std::string_view const driver = value_of("UNIO_DRIVER");
  if (!has_driver_option && driver != "" && driver != "uring" && driver != "epoll")
    return fmt::format("UNIO_DRIVER={}: no driver; the choices are uring and epoll", escaped(driver));
  std::string_view const entries = value_of("UNIO_RING_ENTRIES");
  unsigned n = 0;
  auto const [end, error] = std::from_chars(entries.data(), entries.data() + entries.size(), n);
  bool const is_number = error == std::errc() && end == entries.data() + entries.size();
  if (entries != "" && (!is_number || n == 0 || n > most_ring_entries))
    return fmt::format("UNIO_RING_ENTRIES={}: not a whole number from 1 to {}", escaped(entries),
                       most_ring_entries);
  return {};
}
