#include "fs/tree.hpp"

#include "fs/reporting.hpp"

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
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

int trees::same_contents(int a, int b, std::byte* buffer, std::size_t bytes, void* asked,
                         bool (*must_end)(void* asked) noexcept) noexcept {
  std::size_t const half = bytes / 2;
  auto const fill = [&](int fd, std::byte* to, std::int64_t at) noexcept {
    std::size_t have = 0;
    while (have < half) {
      iovec const v{to + have, half - have};
      auto const n = sys::uninterrupted(
          [&] { return sys::preadv2(fd, &v, 1, at + static_cast<std::int64_t>(have), 0); });
      if (n < 0) return n;
      if (n == 0) break;
      have += static_cast<std::size_t>(n);
    }
    return static_cast<std::int64_t>(have);
  };
  for (std::int64_t at = 0; !must_end(asked);) {
    std::int64_t const n = fill(a, buffer, at);
    if (n < 0) return static_cast<int>(n);
    std::int64_t const m = fill(b, buffer + half, at);
    if (m < 0) return static_cast<int>(m);
    if (n != m || std::memcmp(buffer, buffer + half, static_cast<std::size_t>(n)) != 0) return 0;
    if (n < static_cast<std::int64_t>(half)) return 1;
    at += n;
  }
  return -ECANCELED;
}

} // namespace unio::fs
