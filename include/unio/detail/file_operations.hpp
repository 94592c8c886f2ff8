// unio/detail/file_operations.hpp: the operations on a file's length and space as classes.

#pragma once

#include <unio/file_operations.hpp>

namespace unio::inline v0_1 {
namespace detail {

extern UNIO_API driver::operation_faces const clone_extents_faces;

struct file_operation_access; // src/op/file_calls.hpp

} // namespace detail

/// Not UNIO_OPERATION: it is done in steps, and tells how far it came.
class UNIO_API async_clone_extents : public io_operation,
                                     public detail::standard_sender<async_clone_extents> {
 public:
  using result_type = io_result<clone_result>;
  async_clone_extents() = default;
  async_clone_extents(io_handle& from, extent_type offset, extent_type bytes, io_handle& to,
                      extent_type to_offset, unio::deadline d = {}) noexcept
      : io_operation(detail::clone_extents_faces, from.kind(), from.native_handle(),
                     from.own_multiplexer() != nullptr ? from.own_multiplexer() : to.own_multiplexer(), d),
        offset_(offset),
        bytes_(bytes),
        to_offset_(to_offset),
        from_(from.native_handle()),
        to_(to.native_handle()) {}
  [[nodiscard]] result_type result() const noexcept;

 private:
  friend struct detail::file_operation_access;
  extent_type offset_ = 0;
  extent_type bytes_ = 0;
  extent_type to_offset_ = 0;
  clone_result done_;
  int from_ = -1;
  int to_ = -1;
  clone_way tries_ = clone_way::shared; // the next step
};

// In every style; file_handle has the members.
UNIO_SENDER_FORMS(async_clone_extents, (io_handle&, from), (extent_type, offset), (extent_type, bytes),
                  (io_handle&, to), (extent_type, to_offset))

} // namespace unio
