// unio/detail/event_operation.hpp: waiting for an event; unio/event_handle.hpp says what it does.

#pragma once

#include <unio/handle.hpp>

namespace unio {

class event_handle;

class UNIO_API async_wait_event : public io_operation, public detail::standard_sender<async_wait_event> {
 public:
  using result_type = io_result<std::uint64_t>;
  async_wait_event() = default;
  explicit async_wait_event(event_handle& h, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return detail::to_error_code(r);
    return count_;
  }

 private:
  friend struct detail::operation_access;
  std::uint64_t count_ = 0;
};

} // namespace unio
