// unio/detail/file_handle.hpp: short functions of files.

#pragma once

#include <unio/detail/opening.hpp>
#include <unio/file_handle.hpp>

namespace unio::inline v0_1 {

class UNIO_API async_open : public detail::open_operation, public detail::standard_sender<async_open> {
 public:
  using result_type = io_result<file_handle>;
  using mode = handle::mode;
  using creation = handle::creation;
  using caching = handle::caching;
  using flag = handle::flag;
  async_open() = default;
  async_open(path_handle const& base, path_view name, mode m = mode::read,
             creation c = creation::open_existing, caching k = caching::all, flag f = flag::none,
             unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() noexcept;

 private:
  caching caching_ = caching::all;
  flag flags_ = flag::none;
};

inline io_awaitable<async_close> file_handle::co_close() && noexcept {
  (void)before_close();
  return static_cast<handle&&>(*this).co_close();
}

inline io_awaitable<async_open> co_open(path_handle const& base, path_view name, handle::mode m,
                                        handle::creation c, handle::caching k, handle::flag f,
                                        deadline d) noexcept {
  return io_awaitable<async_open>(async_open(base, name, m, c, k, f, d));
}

inline result<file_handle> file(path_handle const& base, path_view name, handle::mode m, handle::creation c,
                                handle::caching k, handle::flag f) noexcept {
  return file_handle::file(base, name, m, c, k, f);
}

} // namespace unio
