#include "fs/tree.hpp"

#include "fs/reporting.hpp"
#include "sys/clone_extents.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>
#include <new>

namespace unio::inline v0_1::fs {

tree_failure tree_failures::operator[](std::size_t i) const noexcept {
  one const& f = all_[i];
  return {{f.path.get(), f.path_size}, f.what, f.why, f.reason};
}

void tree_failures::add(tree_failure const& f) noexcept {
  ++count_;
  if (kept_ == most_kept) return;
  if (all_ == nullptr) all_.reset(new (std::nothrow) one[most_kept]);
  if (all_ == nullptr) return;
  one& o = all_[kept_];
  o.path.reset(new (std::nothrow) char[f.path.size() + 1]);
  if (o.path == nullptr) return;
  if (!f.path.empty()) std::memcpy(o.path.get(), f.path.data(), f.path.size());
  o.path[f.path.size()] = '\0';
  o.path_size = f.path.size();
  o.what = f.what;
  o.reason = f.reason;
  o.why = f.why;
  ++kept_;
}

int trees::open_to_read(int dir, char const* name, void* asked,
                        bool (*must_end)(void* asked) noexcept) noexcept {
  for (;;) {
    constexpr int flags = O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    if (int const fd = unio::detail::open_at(dir, name, flags, 0); fd != -EAGAIN) return fd;
    if (must_end(asked)) return -ECANCELED;
    constexpr timespec a_moment{.tv_sec = 0, .tv_nsec = 1'000'000};
    sys::poll(nullptr, 0, &a_moment);
  }
}

int trees::same_contents(int a, int b, std::byte* buffer, std::size_t bytes, void* asked,
                         bool (*must_end)(void* asked) noexcept) noexcept {
  // Direct I/O wants whole blocks: all pieces begin and end at multiples of it, but for the end of a file.
  constexpr std::int64_t block = 4096;
  auto const half = static_cast<std::int64_t>(bytes / 2);
  struct stat s;
  struct stat t;
  if (auto const e = sys::fstat(a, &s); e < 0) return static_cast<int>(e);
  if (auto const e = sys::fstat(b, &t); e < 0) return static_cast<int>(e);
  // Files of procfs say that they have no bytes, those of sysfs that they have a page: they are read to their
  // end.
  constexpr std::int64_t largest_page = 64 << 10;
  auto const may_be_shorter = [](struct stat const& x) {
    return x.st_blocks == 0 && x.st_size <= largest_page;
  };
  bool has_size = S_ISREG(s.st_mode) && S_ISREG(t.st_mode) && s.st_size != 0 && t.st_size != 0;
  if (has_size && s.st_size != t.st_size) {
    if (!may_be_shorter(s) && !may_be_shorter(t)) return 0;
    has_size = false;
  }
  std::int64_t const size = has_size ? std::int64_t{s.st_size} : std::numeric_limits<std::int64_t>::max() / 2;
  auto const is_sparse = [](struct stat const& x) { return x.st_blocks * 512 < x.st_size; };
  bool has_holes = has_size && is_sparse(s) && is_sparse(t);
  std::int64_t data_end = has_holes ? 0 : size;

  auto const fill = [&](int fd, std::byte* to, std::int64_t at, std::int64_t n) noexcept {
    std::int64_t have = 0;
    while (have < n && at + have < size) {
      iovec const v{to + have, static_cast<std::size_t>(n - have)};
      auto const got = sys::uninterrupted([&] { return sys::preadv2(fd, &v, 1, at + have, 0); });
      if (got < 0) return got;
      if (got == 0) break;
      have += got;
    }
    return have;
  };
  for (std::int64_t at = 0; !must_end(asked);) {
    if (at >= data_end) { // what neither has storage for reads as zero in both
      std::int64_t first[2];
      std::int64_t last[2];
      int const e = at >= size ? 0 : sys::next_data(a, at, size, first[0], last[0]);
      int const f = at >= size ? 0 : sys::next_data(b, at, size, first[1], last[1]);
      if (e < 0 || f < 0) return std::min(e, f);
      int const nearest = at >= size || first[0] <= first[1] ? 0 : 1;
      if (at >= size || first[nearest] >= size) return 1;
      at = std::max(at, first[nearest] / block * block);
      data_end = std::min(size, (last[nearest] + block - 1) / block * block);
    }
    std::int64_t const piece = std::min(half, (data_end - at) / block * block + block);
    std::int64_t const n = fill(a, buffer, at, piece);
    if (n < 0) return static_cast<int>(n);
    std::int64_t const m = fill(b, buffer + half, at, piece);
    if (m < 0) return static_cast<int>(m);
    if (n != m || std::memcmp(buffer, buffer + half, static_cast<std::size_t>(n)) != 0) return 0;
    if (n < piece) return 1; // the end of both
    at += n;
  }
  return -ECANCELED;
}

int trees::same_links(int a, char const* name_a, int b, char const* name_b) noexcept {
  char text[2][unio::detail::longest_path + 1];
  auto const n = sys::readlinkat(a, name_a, text[0], sizeof text[0]);
  auto const m = sys::readlinkat(b, name_b, text[1], sizeof text[1]);
  if (n < 0 || m < 0) return static_cast<int>(std::min(n, m));
  return n == m && std::memcmp(text[0], text[1], static_cast<std::size_t>(n)) == 0 ? 1 : 0;
}

} // namespace unio::fs
