// unio/map_handle.hpp: memory of one's own that can grow, and sections of files as memory.
//
//   map_handle           memory: anonymous, or a section of a file
//   mapped<T>            the same as an array of T
//   async_map_barrier    map_handle::barrier, co_barrier, …: makes a range durable
//   async_map_advise     map_handle::advise, co_advise, …: how a range will be used
//
// What becomes of an access to memory whose file was cut short is in mapped_file_handle.hpp. unio.hpp does
// not include this header.

#pragma once

#include <unio/mapped_file_handle.hpp>

#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1 {

class map_handle;
namespace detail {
struct map_access_to; // src/op/map.cpp
}

/// Makes a range of a map durable: what was written to the memory is then on the device.
///
/// Returns       nothing; at once for memory that is no file's, or not shared
/// Errors        EIO, ENOSPC as msync(2); ENOMEM if the range was decommitted; EINVAL beyond the map
/// Preconditions the map is open, and outlives it
/// Cancellation  none once it has begun; the deadline bounds the wait before that
/// Runs as       msync(2) with MS_SYNC on a thread that may block (rings have no operation for it)
/// Source        docs/features.md H-10; msync(2)
UNIO_OPERATION(map_barrier, detail::with<detail::referred<map_handle>>::yields<void>, (map_handle&, m),
               (extent_type, offset), (extent_type, bytes))

/// Tells the kernel how a range of a map will be used. will_need reads it in; dont_need drops it: of
/// anonymous memory the contents are lost (it reads as zero).
///
/// Returns       nothing
/// Errors        as madvise(2); EINVAL beyond the map
/// Preconditions the map is open, and outlives it
/// Runs as       madvise(2), at once unless it does I/O (will_need, dont_need): then on a worker
/// Source        docs/features.md H-10, L-02; madvise(2)
UNIO_OPERATION(map_advise, detail::with<detail::referred<map_handle>>::yields<void>, (map_handle&, m),
               (extent_type, offset), (extent_type, bytes), (access_advice, what))

/// Owns memory of the process, in whole pages of 4096 bytes or what the system has.
///
/// Thread safety  as memory; shared: resize(), update() and close() alone
/// Moved-from     closed
/// Lifetime       closing it takes the memory away. It needs no file_handle: it has a descriptor of its own
/// Cost           where nothing else is said: up to two system calls; no allocation
/// Size           64 bytes
class UNIO_API map_handle {
 public:
  map_handle() = default;
  /// Anonymous memory of `bytes`, that reads as zero, with address space for `reserve` bytes (0: no more than
  /// `bytes`). Takes storage only where it is touched. Errors: ENOMEM, EINVAL for no bytes.
  static result<map_handle> anonymous(extent_type bytes, extent_type reserve = 0) noexcept;
  /// `bytes` of `file` from `offset` on, which is a multiple of the size of a page; 0 bytes: to its end. They
  /// need not exist yet: resize() does not move the memory while there is address space for `reserve`.
  ///
  /// Errors   EACCES if the file is not open for what `access` needs; EINVAL for another offset, or if there
  ///          is nothing to map; ENODEV for what is not a regular file; ENOMEM; EMFILE
  /// Cost     three system calls
  static result<map_handle> section(file_handle const& file, extent_type offset, extent_type bytes,
                                    map_access access = map_access::read, extent_type reserve = 0) noexcept;

  map_handle(map_handle&& other) noexcept { swap(other); }
  map_handle& operator=(map_handle&& other) noexcept {
    map_handle gone(std::move(other));
    swap(gone);
    return *this;
  }
  ~map_handle() { close(); }
  /// Gives the memory back. Changes of a shared map reach the file some time later: see barrier().
  void close() noexcept;

  [[nodiscard]] bool is_open() const noexcept { return at_ != nullptr; }
  explicit operator bool() const noexcept { return is_open(); }
  [[nodiscard]] std::byte* address() const noexcept { return at_; }
  /// In bytes: what may be touched. Of a section: as far as the file reached when this was last looked at, or
  /// what was asked for, whichever is less.
  [[nodiscard]] extent_type length() const noexcept { return length_; }
  [[nodiscard]] std::span<std::byte> bytes() const noexcept {
    return {at_, static_cast<std::size_t>(length_)};
  }
  [[nodiscard]] map_access access() const noexcept { return access_; }
  [[nodiscard]] bool has_file() const noexcept { return fd_ >= 0; }

  /// Changes the length: of anonymous memory, or of the file that it is a section of (never makes that
  /// shorter). In place as long as the reservation suffices, otherwise the memory moves. Returns the length.
  ///
  /// Errors  ENOMEM; EACCES for a section that is not writable; as fallocate(2), ftruncate(2)
  /// Cost    up to four system calls
  result<extent_type> resize(extent_type bytes) noexcept;
  /// Of a section: takes in what another process has added or cut off, up to what was asked for, and puts the
  /// file back where guard_maps() had put zeros (of copy_on_write memory: without its changes). Returns the
  /// length. Errors: ENOMEM; as fstat(2).
  result<extent_type> update() noexcept;
  /// With guard_maps(): something was touched since update() that was no more a part of the file. Cost: none.
  [[nodiscard]] bool was_cut() const noexcept;

  /// Gives the storage of a range of anonymous memory back: it may not be touched until it is committed
  /// again, and then reads as zero. Of whole pages. Errors: EINVAL for a section, or beyond the map; ENOMEM.
  result<void> decommit(extent_type offset, extent_type bytes) noexcept;
  result<void> commit(extent_type offset, extent_type bytes) noexcept;
  /// Makes a range read as zero, and gives its storage back where that is possible: in the file, too, if it
  /// is shared. Errors: EACCES if it is read-only, EINVAL beyond the map; as fallocate(2).
  result<void> zero(extent_type offset, extent_type bytes) noexcept;

  /// Copies out of the file, or into it, through the kernel: a file that was cut short is fewer bytes, a full
  /// disk an error; never a signal. Of copy_on_write memory they see the file and not this map's changes.
  /// Returns how many bytes. Errors: EBADF without a file, or for write_copy unless the map is writable and
  /// shared; EINVAL beyond the map; as preadv(2), pwritev(2).
  result<std::size_t> read_copy(extent_type offset, std::span<std::byte> into) const noexcept;
  result<std::size_t> write_copy(extent_type offset, std::span<std::byte const> from) noexcept;

  /// barrier, try_barrier, co_barrier, …: see async_map_barrier.
  UNIO_VERB_FORMS(barrier, async_map_barrier, (extent_type, offset), (extent_type, bytes))
  /// advise, try_advise, co_advise, …: see async_map_advise.
  UNIO_VERB_FORMS(advise, async_map_advise, (extent_type, offset), (extent_type, bytes),
                  (access_advice, what))
  /// Who runs these; null: the calling thread's own.
  void set_multiplexer(io_multiplexer* m) noexcept { multiplexer_ = m; }
  [[nodiscard]] io_multiplexer* own_multiplexer() const noexcept { return multiplexer_; }

 private:
  friend struct detail::map_access_to;
  void swap(map_handle& other) noexcept;
  result<void> grow_reservation(extent_type bytes) noexcept;
  [[nodiscard]] bool has(extent_type offset, extent_type bytes) const noexcept {
    return offset <= length_ && bytes <= length_ - offset;
  }

  std::byte* at_ = nullptr;
  extent_type length_ = 0;
  extent_type reservation_ = 0;
  extent_type offset_ = 0; // in the file
  extent_type wanted_ = 0; // of the file, whether it has so much or not
  io_multiplexer* multiplexer_ = nullptr;
  int fd_ = -1; // a duplicate
  int guarded_as_ = -1;
  map_access access_ = map_access::write;
};

/// An array of T in a map. T is trivially copyable: its objects are bytes that a file had, or that are zero.
///
/// Thread safety, lifetime, moved-from, cost  as map_handle
template <class T>
  requires std::is_trivially_copyable_v<T>
class mapped {
 public:
  mapped() = default;
  explicit mapped(map_handle m) noexcept : map_(std::move(m)) {}
  /// `count` objects of anonymous memory, with address space for `reserve`. See map_handle::anonymous.
  static result<mapped> anonymous(std::size_t count, std::size_t reserve = 0) noexcept {
    return made(map_handle::anonymous(bytes_of(count), bytes_of(reserve)));
  }
  /// `count` objects of a file from byte `offset` on; 0: to its end, as many as fit. See map_handle::section.
  static result<mapped> section(file_handle const& file, extent_type offset = 0, std::size_t count = 0,
                                map_access access = map_access::read, std::size_t reserve = 0) noexcept {
    return made(map_handle::section(file, offset, bytes_of(count), access, bytes_of(reserve)));
  }

  [[nodiscard]] T* data() const noexcept { return reinterpret_cast<T*>(map_.address()); }
  [[nodiscard]] std::size_t size() const noexcept {
    return static_cast<std::size_t>(map_.length() / sizeof(T));
  }
  [[nodiscard]] bool empty() const noexcept { return size() == 0; }
  [[nodiscard]] T& operator[](std::size_t i) const noexcept { return data()[i]; }
  [[nodiscard]] T* begin() const noexcept { return data(); }
  [[nodiscard]] T* end() const noexcept { return data() + size(); }
  [[nodiscard]] std::span<T> span() const noexcept { return {data(), size()}; }
  /// See map_handle::resize, in objects.
  result<std::size_t> resize(std::size_t count) noexcept {
    result<extent_type> const r = map_.resize(bytes_of(count));
    if (!r) return r.error();
    return size();
  }
  [[nodiscard]] map_handle& map() noexcept { return map_; }
  [[nodiscard]] map_handle const& map() const noexcept { return map_; }

 private:
  // More than there are bytes: a length that no map has.
  static extent_type bytes_of(std::size_t count) noexcept {
    constexpr extent_type most = std::numeric_limits<extent_type>::max();
    return count > most / sizeof(T) ? most : count * sizeof(T);
  }
  static result<mapped> made(result<map_handle> m) noexcept {
    if (!m) return m.error();
    return mapped(std::move(*m));
  }
  map_handle map_;
};

} // namespace unio
