// unio/detail/directory_reading.hpp: listing a directory, and reading a symbolic link, as classes.

#pragma once

#include <unio/buffer.hpp>
#include <unio/detail/metadata.hpp>
#include <unio/directory_entry.hpp>

namespace unio::inline v0_1 {

class directory_handle;
class symlink_handle;

class UNIO_API async_read_directory : public detail::name_operation,
                                      public detail::standard_sender<async_read_directory> {
 public:
  using result_type = io_result<directory_listing>;
  async_read_directory() = default;
  async_read_directory(directory_handle const& h, mutable_buffer buffer, directory_filter filter,
                       unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return failed();
    auto const n = static_cast<std::size_t>(r);
    return {directory_listing({buffer_.data(), n}, at_end_, is_snapshot_), n};
  }

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_read_directory& op) noexcept;
  [[nodiscard]] std::size_t keep_wanted(std::size_t from, std::size_t end) const noexcept;

  mutable_buffer buffer_;
  directory_filter filter_;
  bool at_end_ = false;
  bool is_snapshot_ = false;
};

class UNIO_API async_read_symlink : public detail::name_operation,
                                    public detail::standard_sender<async_read_symlink> {
 public:
  using result_type = io_result<std::string_view>;
  async_read_symlink() = default;
  async_read_symlink(symlink_handle const& h, mutable_buffer buffer, unio::deadline d = {}) noexcept;
  async_read_symlink(path_handle const& base, path_view name, mutable_buffer buffer,
                     unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    int const r = outcome_value();
    if (r < 0) return failed();
    auto const n = static_cast<std::size_t>(r);
    return {std::string_view(reinterpret_cast<char const*>(buffer_.data()), n), n};
  }

 private:
  static driver::operation_faces const& table() noexcept;
  static int call(async_read_symlink& op) noexcept;

  mutable_buffer buffer_;
};

} // namespace unio
