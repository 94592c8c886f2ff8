// src/fs/file_copier.hpp: one file, link, FIFO, socket or device of a copy, from one open file to another.

#pragma once

#include "fs/copied.hpp"
#include "fs/reporting.hpp"
#include "fs/tree.hpp"
#include "sys/clone_extents.hpp"

#include <unio/fs/copy.hpp>

#include <algorithm>
#include <atomic>

namespace unio::inline v0_1::fs::trees {

inline constexpr std::size_t copy_buffer = std::size_t{256} << 10;

inline int open_at(int dir, char const* name, int flags, unsigned mode = 0) noexcept {
  return unio::detail::open_at(dir, name, flags, mode);
}
inline int to_int(std::int64_t e) noexcept { return static_cast<int>(std::min<std::int64_t>(e, 0)); }

/// Closes what was written. NFS and FUSE may say only now that there is no room for it. Returns 0 or -errno.
inline int close_written(descriptor& to) noexcept {
  auto const e = sys::close(to.release());
  return e == -EINTR ? 0 : to_int(e);
}
/// The same of what has to stay open: they say it to each descriptor that is closed.
inline int close_another(int written) noexcept {
  descriptor to(sys::fcntl(written, F_DUPFD_CLOEXEC, 3));
  return to.get() < 0 ? to.get() : close_written(to);
}

/// Copying files, with what several of them share.
class file_copier {
 public:
  using asked_whether_to_end = bool (*)(void* asked) noexcept;

  file_copier(copy_options const& o, reporting& r, copied* c) noexcept : options(o), report(r), noted(c) {}

  copy_options const& options;
  reporting& report;
  copied* noted; ///< where the names that were copied are noted, or null
  not_kept lost;
  defaults known;
  sys::copy_hints hints;
  std::atomic<std::uint64_t> unchanged{0};
  std::atomic<std::uint64_t> links_not_kept{0};
  std::atomic<std::uint64_t> missing{0};
  std::atomic<int> why_missing{0}; // of the first
  std::atomic<std::uint64_t> verified_in_cache{0};
  std::atomic<copy_method> method{copy_method::none};

  /// Before a file is copied that will be removed: waits until what others write to it gets it another time
  /// of modification than `a` says. 0 or -ECANCELED.
  int await_next_time(attributes const& a, void* asked, asked_whether_to_end must_end) noexcept;

  /// Contents, from one open file to an empty one. `must_end` is asked now and then. `buffer`: copy_buffer
  /// bytes, or null.
  int contents(int from, int to, attributes const& a, std::byte* buffer, void* asked,
               asked_whether_to_end must_end) noexcept;

  /// Whether the storage has what the source has, and not only the page cache: 0, -EIO, or why that is not
  /// known. `to` is opened for reading and writing, or for reading if it was written long ago.
  int verify(int from, int to, std::byte* buffer, void* asked, asked_whether_to_end must_end) noexcept;

  /// What was refused is reported; the copy is as good as it can be without.
  void report_refusals(std::string_view path, refusals const& r) noexcept;

  /// Makes what has no contents: a link, a FIFO, a socket, a device; in a directory that no other user can
  /// change.
  int make_special(int in, char const* from, int out, char const* to, attributes const& a,
                   refusals& refused) noexcept;
};

} // namespace unio::fs::trees
