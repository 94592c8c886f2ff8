// A row of the tour: one file, moved through one kind of handle in one style on one driver.

#pragma once

#include "styles.hpp"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace tour {

enum class handle_choice { file, mapped_file, pipe, unix_socket, tcp, udp, tls };

/// A driver, as UNIO_DRIVER and --driver call it.
enum class driver { uring, epoll };

struct row_kind {
  handle_choice handle;
  style how;
  std::optional<driver> on; ///< none: the blocking style uses no driver
};

[[nodiscard]] char const* name(handle_choice h) noexcept;
[[nodiscard]] char const* name(style s) noexcept;
[[nodiscard]] char const* name(driver d) noexcept;    ///< for people: io_uring, epoll
[[nodiscard]] char const* setting(driver d) noexcept; ///< for UNIO_DRIVER: uring, epoll

/// Every kind of handle in every style that it has on these drivers, in the order they are shown in.
[[nodiscard]] std::vector<row_kind> all_rows(std::vector<driver> const& drivers);

/// The bytes to move.
struct source {
  std::string path;
  bytes_view bytes;      ///< all of it, mapped
  std::uint64_t sum = 0; ///< its checksum
};

struct row_result {
  row_kind kind;
  std::uint64_t bytes = 0;
  double seconds = 0;
  std::uint64_t allocations = 0;                  ///< between the first start and the last end
  std::optional<double> system_calls_per_mb = {}; ///< none: they could not be counted
  std::string failure = {};                       ///< empty: everything arrived unchanged

  [[nodiscard]] bool is_ok() const noexcept { return failure.empty() && allocations == 0; }
  [[nodiscard]] double mb_per_s() const noexcept {
    return seconds > 0 ? static_cast<double>(bytes) / 1e6 / seconds : 0;
  }
};

/// Moves `from` (at most `limit` bytes through handles that can seek, the first bytes of `from.bytes`
/// otherwise) and compares.
[[nodiscard]] row_result run_row(row_kind kind, source const& from);

/// The same, with the first part of `from` only, counting system calls. None where that is not possible.
[[nodiscard]] std::optional<double> count_system_calls(row_kind kind, source const& from);

/// A multiplexer for one thread on that driver.
[[nodiscard]] unio::result<std::unique_ptr<unio::io_multiplexer>> make_multiplexer(driver d);

} // namespace tour
