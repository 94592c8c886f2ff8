// unio/detail/time_limit.hpp: the deadline of a transfer that consists of several.

#pragma once

#include <unio/deadline.hpp>

#include <cstdint>

namespace unio::inline v0_1::detail {

/// The deadline of a whole transfer: a moment, once it has begun. Zero stays zero: do what can be done
/// without waiting.
class UNIO_API time_limit {
 public:
  explicit time_limit(deadline d) noexcept;
  /// For the next transfer.
  [[nodiscard]] deadline next() const noexcept { return deadline_; }
  /// Checked because a source that always has data would never notice.
  [[nodiscard]] bool has_passed() const noexcept;

 private:
  deadline deadline_;
  std::int64_t due_ns_ = deadline::forever;
};

} // namespace unio::detail
