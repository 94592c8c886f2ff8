// unio/detail/path_handle.hpp: how anchors are opened.

#pragma once

#include <unio/detail/opening.hpp>
#include <unio/path_handle.hpp>

namespace unio::inline v0_1 {

class UNIO_API async_open_path : public detail::open_operation,
                                 public detail::standard_sender<async_open_path> {
 public:
  using result_type = io_result<path_handle>;
  async_open_path() = default;
  async_open_path(path_handle const& base, path_view name, handle::flag f = handle::flag::none,
                  unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;
};

inline io_awaitable<async_open_path> co_open_path(path_handle const& base, path_view name, handle::flag f,
                                                  deadline d) noexcept {
  return io_awaitable<async_open_path>(std::in_place, base, name, f, d);
}

inline result<path_handle> handle::parent_path_handle() const noexcept { return parent_of(*this); }

} // namespace unio
