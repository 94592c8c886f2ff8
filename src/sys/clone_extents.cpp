#include "sys/clone_extents.hpp"

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/sigpipe.hpp"

#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

namespace unio::inline v0_1::sys {
namespace {

constexpr std::int64_t in_kernel_at_once = std::int64_t{64} << 20; // so that it can be stopped
constexpr std::size_t mapped_buffer = std::size_t{512} << 10;

// These say that the rung is not for these files, never that the data is bad or that there is no room.
// EACCES: fuse-overlayfs with a target that it has opened read-only; EPERM: a policy, or an old NFS server;
// EINVAL: not aligned, not a regular file; ETXTBSY: a file that is swapped to.
bool leads_down(std::int64_t e) noexcept {
  switch (-e) {
    case EOPNOTSUPP:
    case ENOTTY:
    case EXDEV:
    case EINVAL:
    case EPERM:
    case EACCES:
    case ENOSYS:
    case EBADF: // opened for appending
    case ETXTBSY:
      return true;
    default:
      return false;
  }
}

std::int64_t punch_hole(int fd, std::int64_t at, std::int64_t n) noexcept {
  return sys::uninterrupted(
      [&] { return sys::fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at, n); });
}

class copier {
 public:
  explicit copier(extents_copy& c) noexcept : c_(c) {}
  copier(copier const&) = delete;
  copier& operator=(copier const&) = delete;
  ~copier() {
    if (mapped_ != nullptr) sys::munmap(mapped_, mapped_buffer);
  }

  int run() noexcept {
    struct stat from{};
    std::int64_t size = c_.size;
    if (size < 0 || !c_.to_is_empty) {
      if (auto const e = sys::fstat(c_.from, &from); e < 0) return static_cast<int>(e);
      is_regular_ = S_ISREG(from.st_mode);
      size = is_regular_ ? std::int64_t{from.st_size} : 0;
    }
    if (c_.bytes <= 0) return 0;
    // Files of procfs say that they have no bytes; what is no file has no length. They are read to their end.
    if (!is_regular_ || size == 0) return read_to_end();
    end_ = c_.bytes > size - c_.from_at ? size : c_.from_at + c_.bytes;
    if (end_ <= c_.from_at) return 0;
    if (!c_.to_is_empty) {
      struct stat to;
      if (auto const e = sys::fstat(c_.to, &to); e < 0) return static_cast<int>(e);
      to_size_ = S_ISREG(to.st_mode) ? std::int64_t{to.st_size} : extents_copy::all;
      std::int64_t const n = end_ - c_.from_at;
      if (to.st_dev == from.st_dev && to.st_ino == from.st_ino && c_.from_at < c_.to_at + n &&
          c_.to_at < end_)
        return overlapping(n);
    }
    if (int const e = clone(); e <= 0) return e;
    return extents();
  }

 private:
  [[nodiscard]] std::int64_t to_at(std::int64_t from_at) const noexcept {
    return c_.to_at + (from_at - c_.from_at);
  }
  int advance(std::int64_t n, copy_rung by) noexcept {
    c_.copied += n;
    if (by > c_.rung) c_.rung = by;
    return c_.progress != nullptr ? c_.progress(c_.context, n) : 0;
  }

  // 0: done; 1: another rung has to.
  int clone() noexcept {
    if (c_.hints != nullptr && c_.hints->no_clone.load(std::memory_order_relaxed)) return 1;
    bool const whole = c_.from_at == 0 && c_.to_is_empty && c_.bytes == extents_copy::all;
    file_clone_range range{};
    range.src_fd = c_.from;
    range.src_offset = static_cast<std::uint64_t>(c_.from_at);
    range.src_length = whole ? 0 : static_cast<std::uint64_t>(end_ - c_.from_at);
    range.dest_offset = static_cast<std::uint64_t>(c_.to_at);
    auto const ask = [&] { return sys::ioctl(c_.to, FICLONERANGE, &range); };
    auto const e =
        sys::uninterrupted([&] { return file_size_is_limited_now() ? without_signals(ask) : ask(); });
    if (e < 0) {
      if (!leads_down(e)) return static_cast<int>(e);
      if (c_.hints != nullptr && (e == -EOPNOTSUPP || e == -ENOTTY || e == -EXDEV || e == -ENOSYS))
        c_.hints->no_clone.store(true, std::memory_order_relaxed);
      return 1;
    }
    c_.shared += end_ - c_.from_at;
    return advance(end_ - c_.from_at, copy_rung::cloned);
  }

  int extents() noexcept {
    std::int64_t at = c_.from_at;
    while (at < end_) {
      std::int64_t data = at;
      std::int64_t hole = end_;
      if (c_.may_have_holes) {
        int const e = next_data(c_.from, at, end_, data, hole);
        if (e < 0) return e;
        c_.may_have_holes = e == 0;
      }
      if (data > at) {
        if (int const e = clear(to_at(at), data - at); e != 0) return e;
        c_.holes += data - at;
        if (int const e = advance(data - at, c_.rung); e != 0) return e;
      }
      if (data < hole) {
        if (int const e = copy_data(data, hole); e != 0) return e;
        if (truncated_) return 0;
      }
      at = hole;
    }
    return 0;
  }

  int copy_data(std::int64_t at, std::int64_t end) noexcept {
    bool const tries = c_.hints == nullptr || !c_.hints->no_copy_in_kernel.load(std::memory_order_relaxed);
    while (tries && !reads_ && at < end) {
      std::int64_t in = at;
      std::int64_t out = to_at(at);
      auto const n = static_cast<std::size_t>(std::min(end - at, in_kernel_at_once));
      auto const r =
          sys::uninterrupted([&] { return sys::copy_file_range(c_.from, &in, c_.to, &out, n, 0); });
      // 0 is what some filesystems say whose files have no real length: reading decides.
      if (r == 0 || (r < 0 && leads_down(r))) {
        if (c_.hints != nullptr && (r == -EXDEV || r == -ENOSYS || r == -EOPNOTSUPP))
          c_.hints->no_copy_in_kernel.store(true, std::memory_order_relaxed);
        reads_ = true;
        break;
      }
      if (r < 0) return static_cast<int>(r);
      at += r;
      if (int const e = advance(r, copy_rung::in_kernel); e != 0) return e;
    }
    return at < end ? buffered(at, end) : 0;
  }

  int buffered(std::int64_t at, std::int64_t end) noexcept {
    if (int const e = need_buffer(); e != 0) return e;
    bool const is_long = end - at > static_cast<std::int64_t>(c_.buffer_bytes);
    while (at < end) {
      auto const n = static_cast<std::size_t>(std::min(end - at, static_cast<std::int64_t>(c_.buffer_bytes)));
      std::int64_t const got = read_at(c_.buffer, n, at);
      if (got < 0) return static_cast<int>(got);
      if (got == 0) { // it has become shorter
        truncated_ = true;
        return 0;
      }
      // The kernel reads the next piece while this one is written.
      if (is_long && at + got < end)
        (void)sys::fadvise(c_.from, at + got, std::int64_t(n), POSIX_FADV_WILLNEED);
      if (int const e = write_at(c_.buffer, static_cast<std::size_t>(got), to_at(at)); e != 0) return e;
      at += got;
      if (int const e = advance(got, copy_rung::buffered); e != 0) return e;
    }
    return 0;
  }

  // What has no length that can be trusted.
  int read_to_end() noexcept {
    if (int const e = need_buffer(); e != 0) return e;
    for (std::int64_t at = c_.from_at;;) {
      auto const left = c_.bytes - (at - c_.from_at);
      auto const n = static_cast<std::size_t>(std::min(left, static_cast<std::int64_t>(c_.buffer_bytes)));
      if (n == 0) return 0;
      std::int64_t const got = is_regular_
                                   ? read_at(c_.buffer, n, at)
                                   : sys::uninterrupted([&] { return sys::read(c_.from, c_.buffer, n); });
      if (got <= 0) return static_cast<int>(got);
      if (int const e = write_at(c_.buffer, static_cast<std::size_t>(got), to_at(at)); e != 0) return e;
      at += got;
      if (int const e = advance(got, copy_rung::buffered); e != 0) return e;
    }
  }

  // Backwards where the target is behind the source, so that nothing is overwritten before it was read.
  int overlapping(std::int64_t n) noexcept {
    if (c_.from_at == c_.to_at) return advance(n, copy_rung::none);
    if (int const e = need_buffer(); e != 0) return e;
    auto const piece = static_cast<std::int64_t>(c_.buffer_bytes);
    bool const backwards = c_.to_at > c_.from_at;
    for (std::int64_t done = 0; done < n;) {
      std::int64_t const m = std::min(n - done, piece);
      std::int64_t const at = backwards ? end_ - done - m : c_.from_at + done;
      for (std::int64_t have = 0; have < m;) {
        auto const got = read_at(c_.buffer + have, static_cast<std::size_t>(m - have), at + have);
        if (got < 0) return static_cast<int>(got);
        if (got == 0) return -EIO; // shorter than it was: what remains cannot be told apart
        have += got;
      }
      if (int const e = write_at(c_.buffer, static_cast<std::size_t>(m), to_at(at)); e != 0) return e;
      done += m;
    }
    return advance(n, copy_rung::buffered);
  }

  // Another copy may fill what is beyond the range, and have made the target longer than it was.
  int reach(std::int64_t at, std::int64_t end) noexcept {
    if (c_.to_is_empty)
      return static_cast<int>(sys::uninterrupted([&] { return sys::ftruncate(c_.to, end); }));
    if (int const e = extend(c_.to, static_cast<std::uint64_t>(end)); e < 0) return e;
    (void)punch_hole(c_.to, at, end - at); // extend() has allocated a block
    return 0;
  }

  // What lies there reads as zero, and the target reaches to its end.
  int clear(std::int64_t at, std::int64_t n) noexcept {
    std::int64_t const end = at + n;
    std::int64_t const old_end = std::min(end, to_size_);
    if (to_size_ < end) {
      if (int const e = reach(at, end); e < 0) return e;
      to_size_ = end;
    }
    return at < old_end ? make_hole(c_.to, std::uint64_t(at), std::uint64_t(old_end - at)) : 0;
  }

  std::int64_t read_at(std::byte* data, std::size_t n, std::int64_t at) const noexcept {
    iovec const v{data, n};
    return sys::uninterrupted([&] { return sys::preadv2(c_.from, &v, 1, at, 0); });
  }
  int write_at(std::byte const* data, std::size_t n, std::int64_t at) noexcept {
    while (n != 0) {
      iovec const v{const_cast<std::byte*>(data), n};
      auto const r = sys::uninterrupted([&] { return sys::pwritev2(c_.to, &v, 1, at, 0); });
      if (r <= 0) return r < 0 ? static_cast<int>(r) : -EIO;
      data += r;
      n -= static_cast<std::size_t>(r);
      at += r;
    }
    to_size_ = std::max(to_size_, at);
    return 0;
  }
  int need_buffer() noexcept {
    if (c_.buffer != nullptr) return 0;
    auto const p =
        sys::mmap(nullptr, mapped_buffer, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p < 0 && p > -4096) return static_cast<int>(p);
    mapped_ = reinterpret_cast<void*>(p); // NOLINT(performance-no-int-to-ptr): the table returns numbers
    c_.buffer = static_cast<std::byte*>(mapped_);
    c_.buffer_bytes = mapped_buffer;
    return 0;
  }

  extents_copy& c_;
  std::int64_t end_ = 0;     // in `from`
  std::int64_t to_size_ = 0; // as far as it matters for holes
  bool is_regular_ = true;
  bool reads_ = false; // the kernel cannot copy between these two
  bool truncated_ = false;
  void* mapped_ = nullptr;
};

// Overwrites the range with zeros, up to the end of the file.
int write_zeros(int fd, std::int64_t at, std::int64_t end) noexcept {
  // A write to a file in append mode goes to its end, not to its offset.
  std::int64_t const status_flags = sys::fcntl(fd, F_GETFL, 0);
  if (status_flags < 0) return static_cast<int>(status_flags);
  struct stat s;
  if (std::int64_t const r = sys::fstat(fd, &s); r < 0) return static_cast<int>(r);
  if ((status_flags & O_APPEND) != 0 || !S_ISREG(s.st_mode)) return -EOPNOTSUPP;
  end = std::min(end, std::int64_t{s.st_size});

  alignas(4096) static std::byte zeros[64 * 1024]; // never written; aligned for O_DIRECT
  while (at < end) {
    iovec const piece{zeros, static_cast<std::size_t>(std::min<std::int64_t>(end - at, sizeof(zeros)))};
    std::int64_t const n = sys::uninterrupted([&] { return sys::pwritev2(fd, &piece, 1, at, 0); });
    if (n < 0) return static_cast<int>(n);
    if (n == 0) return -EIO;
    at += n;
  }
  return 0;
}

} // namespace

int next_data(int fd, std::int64_t at, std::int64_t end, std::int64_t& first, std::int64_t& last) noexcept {
  first = at;
  last = end;
  std::int64_t const data = sys::lseek(fd, at, SEEK_DATA);
  if (data == -EINVAL || data == -EOPNOTSUPP) return 1;
  if (data < 0 && data != -ENXIO) return static_cast<int>(data);
  if (data < 0 || data >= end) { // a hole up to the end
    first = end;
    return 0;
  }
  first = data;
  std::int64_t const hole = sys::lseek(fd, data, SEEK_HOLE);
  if (hole < 0 && hole != -ENXIO) return static_cast<int>(hole);
  if (hole > data) last = std::min(hole, end); // otherwise it became shorter
  return 0;
}

int make_hole(int fd, std::uint64_t offset, std::uint64_t bytes) noexcept {
  auto const at = static_cast<std::int64_t>(offset);
  auto const n = static_cast<std::int64_t>(
      std::min(bytes, std::uint64_t{std::numeric_limits<std::int64_t>::max()} - offset));
  if (n == 0) return 0;
  std::int64_t r = punch_hole(fd, at, n);
  if (r == -EFBIG) { // the range ends beyond what the filesystem can hold, though the file does not
    struct stat s;
    if (r = sys::fstat(fd, &s); r < 0) return static_cast<int>(r);
    r = at < s.st_size ? punch_hole(fd, at, s.st_size - at) : 0;
  }
  if (r == -EOPNOTSUPP || r == -ENOSYS) r = write_zeros(fd, at, at + n);
  return static_cast<int>(r);
}

int extend(int fd, std::uint64_t length) noexcept {
  auto const end = static_cast<std::int64_t>(length);
  std::int64_t r = sys::uninterrupted([&] { return sys::fallocate(fd, 0, end - 1, 1); });
  if (r == -EOPNOTSUPP || r == -ENOSYS) r = sys::uninterrupted([&] { return sys::ftruncate(fd, end); });
  return static_cast<int>(r);
}

int copy_extents(extents_copy& c) noexcept {
  std::byte* const given = c.buffer;
  std::size_t const given_bytes = c.buffer_bytes;
  int const e = copier(c).run();
  c.buffer = given;
  c.buffer_bytes = given_bytes;
  return e;
}

} // namespace unio::sys
