// unio/detail/map_handle.hpp: the operations of maps as classes.

#pragma once

#include <unio/file_handle.hpp>

namespace unio::inline v0_1 {

class map_handle;

namespace detail {

extern UNIO_API driver::operation_faces const map_barrier_faces, map_advise_faces;

struct map_access_to; // src/op/map.cpp

/// An operation on a range of a map.
class UNIO_API map_operation : public void_operation {
 protected:
  map_operation() = default;
  map_operation(driver::operation_faces const& faces, map_handle& m, extent_type offset, extent_type bytes,
                unio::deadline d) noexcept;

 private:
  friend struct map_access_to;
  map_handle* map_ = nullptr;
  extent_type offset_ = 0;
  extent_type bytes_ = 0;
};

} // namespace detail

class UNIO_API async_map_barrier : public detail::map_operation,
                                   public detail::standard_sender<async_map_barrier> {
 public:
  async_map_barrier() = default;
  async_map_barrier(map_handle& m, extent_type offset, extent_type bytes, unio::deadline d = {}) noexcept
      : map_operation(detail::map_barrier_faces, m, offset, bytes, d) {}
};

class UNIO_API async_map_advise : public detail::map_operation,
                                  public detail::standard_sender<async_map_advise> {
 public:
  async_map_advise() = default;
  async_map_advise(map_handle& m, extent_type offset, extent_type bytes, access_advice what,
                   unio::deadline d = {}) noexcept
      : map_operation(detail::map_advise_faces, m, offset, bytes, d), what_(what) {}
  [[nodiscard]] access_advice what() const noexcept { return what_; }

 private:
  access_advice what_ = access_advice::normal;
};

} // namespace unio
