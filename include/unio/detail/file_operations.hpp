// unio/detail/file_operations.hpp: the operations on a file's length and space as classes.

#pragma once

#include <unio/file_operations.hpp>

namespace unio::inline v0_1 {
namespace detail {

extern UNIO_API driver::operation_faces const truncate_faces, maximum_extent_faces, zero_faces,
    allocate_faces, advise_faces, write_back_faces, extents_faces, clone_extents_faces;

struct file_operation_access; // src/op/file_calls.hpp

/// An operation on a range of a file.
class UNIO_API range_operation : public void_operation {
 public:
  [[nodiscard]] extent_type offset() const noexcept { return offset_; }
  [[nodiscard]] extent_type bytes() const noexcept { return bytes_; }

 protected:
  range_operation() = default;
  range_operation(driver::operation_faces const& faces, io_handle& h, extent_type offset, extent_type bytes,
                  unio::deadline d) noexcept
      : void_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
        offset_(offset),
        bytes_(bytes) {}

 private:
  extent_type offset_ = 0;
  extent_type bytes_ = 0;
};

/// An operation that yields a length.
class UNIO_API length_operation : public io_operation {
 public:
  using result_type = io_result<extent_type>;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return length_;
  }

 protected:
  length_operation() = default;
  length_operation(driver::operation_faces const& faces, io_handle& h, extent_type length,
                   unio::deadline d) noexcept
      : io_operation(faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
        file_(&h),
        length_(length) {}

 private:
  friend struct file_operation_access;
  io_handle* file_ = nullptr;
  extent_type length_ = 0;
};

} // namespace detail

class UNIO_API async_truncate : public detail::length_operation,
                                public detail::standard_sender<async_truncate> {
 public:
  async_truncate() = default;
  async_truncate(io_handle& h, extent_type size, unio::deadline d = {}) noexcept
      : length_operation(detail::truncate_faces, h, size, d) {}
};

class UNIO_API async_maximum_extent : public detail::length_operation,
                                      public detail::standard_sender<async_maximum_extent> {
 public:
  async_maximum_extent() = default;
  explicit async_maximum_extent(io_handle& h, unio::deadline d = {}) noexcept
      : length_operation(detail::maximum_extent_faces, h, 0, d) {}
};

class UNIO_API async_zero : public detail::range_operation, public detail::standard_sender<async_zero> {
 public:
  async_zero() = default;
  async_zero(io_handle& h, extent_type offset, extent_type bytes, unio::deadline d = {}) noexcept
      : range_operation(detail::zero_faces, h, offset, bytes, d) {}
};

class UNIO_API async_allocate : public detail::range_operation,
                                public detail::standard_sender<async_allocate> {
 public:
  async_allocate() = default;
  async_allocate(io_handle& h, extent_type offset, extent_type bytes, allocation how,
                 unio::deadline d = {}) noexcept
      : range_operation(detail::allocate_faces, h, offset, bytes, d), how_(how) {}
  [[nodiscard]] allocation how() const noexcept { return how_; }

 private:
  allocation how_ = allocation::grow;
};

class UNIO_API async_advise : public detail::range_operation, public detail::standard_sender<async_advise> {
 public:
  async_advise() = default;
  async_advise(io_handle& h, extent_type offset, extent_type bytes, access_advice what,
               unio::deadline d = {}) noexcept
      : range_operation(detail::advise_faces, h, offset, bytes, d), what_(what) {}
  [[nodiscard]] access_advice what() const noexcept { return what_; }

 private:
  access_advice what_ = access_advice::normal;
};

class UNIO_API async_write_back : public detail::range_operation,
                                  public detail::standard_sender<async_write_back> {
 public:
  async_write_back() = default;
  async_write_back(io_handle& h, extent_type offset, extent_type bytes, unio::deadline d = {}) noexcept
      : range_operation(detail::write_back_faces, h, offset, bytes, d) {}
};

class UNIO_API async_extents : public io_operation, public detail::standard_sender<async_extents> {
 public:
  using result_type = io_result<std::span<file_extent>>;
  async_extents() = default;
  async_extents(io_handle& h, std::span<file_extent> into, extent_type from, unio::deadline d = {}) noexcept
      : io_operation(detail::extents_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d),
        into_(into),
        from_(from) {}
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return into_.first(static_cast<std::size_t>(outcome_value()));
  }

 private:
  friend struct detail::file_operation_access;
  std::span<file_extent> into_;
  extent_type from_ = 0;
};

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

// In every style, beside the members of file_handle.
UNIO_SENDER_FORMS(async_truncate, (io_handle&, h), (extent_type, size))
UNIO_SENDER_FORMS(async_maximum_extent, (io_handle&, h))
UNIO_SENDER_FORMS(async_zero, (io_handle&, h), (extent_type, offset), (extent_type, bytes))
UNIO_SENDER_FORMS(async_allocate, (io_handle&, h), (extent_type, offset), (extent_type, bytes),
                  (allocation, how))
UNIO_SENDER_FORMS(async_advise, (io_handle&, h), (extent_type, offset), (extent_type, bytes),
                  (access_advice, what))
UNIO_SENDER_FORMS(async_write_back, (io_handle&, h), (extent_type, offset), (extent_type, bytes))
UNIO_SENDER_FORMS(async_extents, (io_handle&, h), (std::span<file_extent>, into), (extent_type, from))
UNIO_SENDER_FORMS(async_clone_extents, (io_handle&, from), (extent_type, offset), (extent_type, bytes),
                  (io_handle&, to), (extent_type, to_offset))

} // namespace unio
