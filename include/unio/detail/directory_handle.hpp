// unio/detail/directory_handle.hpp: how directories are opened.

#pragma once

#include <unio/detail/opening.hpp>
#include <unio/directory_handle.hpp>

namespace unio::inline v0_1 {

class UNIO_API async_open_directory : public detail::open_operation,
                                      public detail::standard_sender<async_open_directory> {
 public:
  using result_type = io_result<directory_handle>;
  async_open_directory() = default;
  async_open_directory(path_handle const& base, path_view name,
                       handle::creation c = handle::creation::open_existing,
                       handle::flag f = handle::flag::none, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;
};

inline io_awaitable<async_open_directory> co_open_directory(path_handle const& base, path_view name,
                                                            handle::creation c, handle::flag f,
                                                            deadline d) noexcept {
  return io_awaitable<async_open_directory>(std::in_place, base, name, c, f, d);
}

} // namespace unio
