// unio/mapped_file_handle.hpp: a regular file whose reads are views of memory.

#pragma once

#include <unio/file_handle.hpp>

namespace unio {

/// A file mapped into memory. read() copies nothing: it returns where the bytes are in the map; the buffers
/// passed to it only say how many bytes are wanted. write() goes through the kernel, so that a full disk is
/// an error and not a signal; its bytes appear in the map at once. The map is read-only.
///
/// The view that read() returns stays valid until the handle is closed or update_map() moves the map. If
/// another process shortens the file, touching a view beyond the new end raises SIGBUS: use read_copy().
///
/// Thread safety  as file_handle; several threads may read views while none calls truncate() or update_map()
/// Size           48 bytes
class UNIO_API mapped_file_handle : public file_handle {
 public:
  mapped_file_handle() = default;
  /// Opens and maps a file. `reserve_bytes` of address space are kept for it to grow into (0: the length,
  /// rounded up to 1 MiB, twice). Errors: as file_handle::file and mmap(2): EACCES for mode::append, ENODEV
  /// for what is not a regular file, ENOMEM where the address space is limited.
  static result<mapped_file_handle> mapped_file(path_handle const& base, path_view name, mode m = mode::read,
                                                creation c = creation::open_existing,
                                                extent_type reserve_bytes = 0, caching k = caching::all,
                                                flag f = flag::none) noexcept;

  mapped_file_handle(mapped_file_handle&& other) noexcept;
  mapped_file_handle& operator=(mapped_file_handle&& other) noexcept;
  ~mapped_file_handle();

  /// The start of the map, or null if the file is empty.
  [[nodiscard]] std::byte* address() const noexcept { return length_ != 0 ? map_ : nullptr; }
  /// The length of the file, as this handle last saw it.
  [[nodiscard]] extent_type length() const noexcept { return length_; }
  /// Looks up the file's current length and returns it. Moves the map, which invalidates views, only if the
  /// file outgrew the reservation.
  result<extent_type> update_map() noexcept;
  /// Sets the length of file and map. Views as with update_map().
  result<extent_type> truncate(extent_type size) noexcept;
  /// Copies into the request's buffers through the kernel. Never raises SIGBUS.
  io_result<mutable_buffers> read_copy(io_request<mutable_buffers> request) noexcept;
  result<void> close() noexcept;

 private:
  friend struct detail::operation_access;
  // For async_read: finds the wanted bytes. Returns how many there are, or a negative native code.
  std::int64_t view(extent_type offset, std::size_t bytes, std::byte*& where) noexcept;
  explicit mapped_file_handle(file_handle&& f) noexcept;
  result<void> map(extent_type length, extent_type reserve) noexcept;
  void unmap() noexcept;

  std::byte* map_ = nullptr;
  extent_type length_ = 0;      // of the file when last looked at
  extent_type reservation_ = 0; // address space kept; all of it is mapped, also beyond the end of the file
  extent_type position_ = 0;    // for requests without an offset
};

} // namespace unio
