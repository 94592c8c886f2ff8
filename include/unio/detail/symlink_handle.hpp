// unio/detail/symlink_handle.hpp: how symbolic links are opened.

#pragma once

#include <unio/detail/opening.hpp>
#include <unio/symlink_handle.hpp>

namespace unio::inline v0_1 {

class UNIO_API async_open_symlink : public detail::open_operation,
                                    public detail::standard_sender<async_open_symlink> {
 public:
  using result_type = io_result<symlink_handle>;
  async_open_symlink() = default;
  async_open_symlink(path_handle const& base, path_view name, handle::flag f = handle::flag::none,
                     unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;
};

inline io_awaitable<async_open_symlink> co_open_symlink(path_handle const& base, path_view name,
                                                        handle::flag f, deadline d) noexcept {
  return io_awaitable<async_open_symlink>(std::in_place, base, name, f, d);
}

} // namespace unio
