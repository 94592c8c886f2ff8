// unio/mapped_file_handle.hpp: a regular file whose reads are views of memory, and what becomes of a program
// that touches memory of a file that was cut short.
//
// A file that is mapped can be truncated by anybody who may write it. Memory of the map beyond the new end
// raises SIGBUS when it is touched, which ends the process. Nothing but a signal handler can prevent that for
// a plain load; asking before each access (mincore, MADV_POPULATE_READ) is no protection, because the file
// may be cut between the question and the access. So:
//
//   * by default the library touches no signal handler. What may have been cut is read and written through
//     the kernel, which reports an error: read_copy, write_copy, async_write
//   * a program that wants plain loads to survive calls guard_maps() once
//
// The handler puts a page of zeros where the access failed, notes that the map was cut, and returns: the load
// yields zeros, no stack is unwound, and views stay valid. A store is lost, as is one that finds the disk
// full, which is the same signal. was_cut() says so afterwards, and update puts the file back in place.

#pragma once

#include <unio/file_handle.hpp>
#include <unio/result.hpp>

#include <cstdint>

namespace unio::inline v0_1 {

/// What the memory of a map may be used for, and whether changes reach the file.
enum class map_access : std::uint8_t {
  read,          ///< only read: writing raises SIGSEGV
  write,         ///< changes are the file's
  copy_on_write, ///< changes are this map's, and are lost with it
};

/// Has accesses to maps of files that were cut short yield zeros instead of ending the process, from now on
/// and for all maps of the library, of which 1024 at a time are known.
///
/// Effects       installs a handler for SIGBUS, once per process. Signals that are no access beyond the end
///               of such a file go to the handler that was there before: a fault elsewhere, broken memory
///               (BUS_MCEERR_AR), kill(2)
/// Errors        as sigaction(2)
/// Concurrency   a program that installs a handler of its own for SIGBUS later replaces this one. A thread
///               that blocks SIGBUS is not protected
/// Cost          two system calls; none after the first time. A place in a table for each map
/// Source        docs/features.md H-10; sigaction(2), mmap(2)
UNIO_API result<void> guard_maps() noexcept;

/// A file mapped into memory. read() copies nothing: it returns where the bytes are in the map; the buffers
/// passed to it only say how many bytes are wanted. write() goes through the kernel, so that a full disk is
/// an error and not a signal; its bytes appear in the map at once. The map is read-only unless it is asked to
/// be writable: then the program may also write to the file by writing to the memory, where a full disk is
/// SIGBUS (allocate the space first). Without an offset reads go on where the last read ended, and writes
/// where the last write did: the map has a position of its own.
///
/// The view that read() returns stays valid until the handle is closed or update_map() moves the map. If
/// another process shortens the file, touching a view beyond the new end raises SIGBUS: use read_copy(), or
/// guard_maps().
///
/// Thread safety  as file_handle; several threads may read views while none calls truncate() or update_map()
/// Size           56 bytes
class UNIO_API mapped_file_handle : public file_handle {
 public:
  mapped_file_handle() = default;
  /// Opens and maps a file. `reserve_bytes` of address space are kept for it to grow into (0: the length,
  /// rounded up to 1 MiB, twice). Errors: as file_handle::file and mmap(2): EACCES for mode::append, and for
  /// a writable map of what is open to be read; ENODEV for what is no regular file, ENOMEM where the address
  /// space is limited. Cost: as file_handle::file, and two more system calls.
  static result<mapped_file_handle> mapped_file(path_handle const& base, path_view name, mode m = mode::read,
                                                creation c = creation::open_existing,
                                                extent_type reserve_bytes = 0, caching k = caching::all,
                                                flag f = flag::none,
                                                map_access access = map_access::read) noexcept;

  mapped_file_handle(mapped_file_handle&& other) noexcept;
  mapped_file_handle& operator=(mapped_file_handle&& other) noexcept;
  ~mapped_file_handle();

  /// The start of the map, or null if the file is empty.
  [[nodiscard]] std::byte* address() const noexcept { return length_ != 0 ? map_ : nullptr; }
  /// The length of the file, as this handle last saw it.
  [[nodiscard]] extent_type length() const noexcept { return length_; }
  /// Looks up the file's current length, which another process may have changed, and returns it. Moves the
  /// map, which invalidates views, only if the file outgrew the reservation. What guard_maps() had put in the
  /// place of memory beyond the end is the file's again (of a copy_on_write map: without its changes).
  /// Errors: as fstat(2) and mmap(2). Cost: one system call; one more if the map moves.
  result<extent_type> update_map() noexcept;
  /// Sets the length of file and map, and returns it. Views as with update_map(). Errors: as async_truncate
  /// and update_map(). Cost: theirs.
  result<extent_type> truncate(extent_type size) noexcept;
  /// With guard_maps(): since the last update_map() something was touched that was no more a part of the
  /// file, and read as zeros. Cost: none.
  [[nodiscard]] bool was_cut() const noexcept;
  /// Copies into the request's buffers through the kernel, up to 64 of them. Never raises SIGBUS.
  ///
  /// Returns  the buffers filled; none at the end of the file
  /// Errors   EINVAL for an offset beyond 2^63 - 1; as preadv(2)
  io_result<mutable_buffers> read_copy(io_request<mutable_buffers> request) noexcept;
  /// As file_handle::close; then the map is gone, and with it all views. Cost: one more system call.
  result<void> close() noexcept;

 private:
  friend struct detail::operation_access;
  // For async_read: finds the wanted bytes. Returns how many there are, or a negative native code.
  std::int64_t view(extent_type offset, std::size_t bytes, std::byte*& where) noexcept;
  explicit mapped_file_handle(file_handle&& f) noexcept;
  result<void> map(extent_type length, extent_type reserve) noexcept;
  std::int64_t map_anew(std::byte* at, extent_type bytes) noexcept; // as mmap(2), or -errno
  std::int64_t move_map(extent_type bytes) noexcept;
  void unmap() noexcept;

  std::byte* map_ = nullptr;
  extent_type length_ = 0;      // of the file when last looked at
  extent_type reservation_ = 0; // address space kept; all of it is mapped, also beyond the end of the file
  extent_type position_ = 0;    // for requests without an offset
  int guarded_as_ = -1;         // src/handle/guarded_maps.hpp
  map_access access_ = map_access::read;
};

} // namespace unio
