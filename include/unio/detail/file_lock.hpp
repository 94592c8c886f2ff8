// unio/detail/file_lock.hpp: the operations that lock a file.

#pragma once

#include <unio/file_lock.hpp>

namespace unio::inline v0_1 {
namespace detail {

/// What locking a range and locking a file have in common.
class UNIO_API lock_operation : public io_operation {
 public:
  using result_type = io_result<file_lock>;
  [[nodiscard]] result_type result() noexcept {
    int const r = outcome_value();
    if (r < 0) return failed();
    return static_cast<file_lock&&>(held_);
  }

 protected:
  lock_operation() = default;
  lock_operation(driver::operation_faces const& faces, file_handle& h, extent_type offset, extent_type bytes,
                 lock_kind kind, unio::deadline d) noexcept;

 private:
  friend struct operation_access;
  file_lock held_; // until result() is called
  extent_type first_ = 0;
  extent_type last_ = 0;
  int refused_ = 0; // why there is no such range, or 0
  lock_kind kind_ = lock_kind::shared;
};

} // namespace detail

class UNIO_API async_lock_range : public detail::lock_operation,
                                  public detail::standard_sender<async_lock_range> {
 public:
  async_lock_range() = default;
  async_lock_range(file_handle& h, extent_type offset, extent_type bytes, lock_kind kind,
                   unio::deadline d = {}) noexcept
      : lock_operation(detail::lock_range_faces, h, offset, bytes, kind, d) {}
};

class UNIO_API async_lock_file : public detail::lock_operation,
                                 public detail::standard_sender<async_lock_file> {
 public:
  async_lock_file() = default;
  async_lock_file(file_handle& h, lock_kind kind, unio::deadline d = {}) noexcept
      : lock_operation(detail::lock_file_faces, h, 0, extent_type{1} << 63, kind, d) {}
};

UNIO_SENDER_FORMS(async_lock_range, (file_handle&, h), (extent_type, offset), (extent_type, bytes),
                  (lock_kind, kind))
UNIO_SENDER_FORMS(async_lock_file, (file_handle&, h), (lock_kind, kind))

} // namespace unio
