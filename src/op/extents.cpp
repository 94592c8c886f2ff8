// async_extents: the parts of a file that hold data.

#include "op/file_calls.hpp"
#include "sys/clone_extents.hpp"

#include <sys/stat.h>

namespace unio::inline v0_1::op {
namespace {

int extents(int fd, std::span<file_extent> into, extent_type from) noexcept {
  struct stat s;
  if (int const r = uninterrupted([&] { return sys::fstat(fd, &s); }); r < 0) return r;
  int const afresh = read_afresh(fd);
  auto const length = static_cast<extent_type>(s.st_size);
  int found = 0;
  for (extent_type at = from; at < length && static_cast<std::size_t>(found) != into.size();) {
    auto first = static_cast<std::int64_t>(at), last = std::int64_t{s.st_size};
    if (int const r = afresh < 0 ? 1 : sys::next_data(afresh, first, last, first, last); r < 0) {
      found = r;
      break;
    }
    if (first == last) break;
    at = static_cast<extent_type>(last);
    into[static_cast<std::size_t>(found++)] = {static_cast<extent_type>(first),
                                               at - static_cast<extent_type>(first)};
  }
  if (afresh >= 0) sys::close(afresh);
  return found;
}
int extents_at_once(int, std::span<file_extent> into, extent_type) noexcept {
  return into.empty() ? 0 : -EAGAIN;
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_extents::table_ =
    op::call_faces<async_extents, op::extents, op::extents_at_once>("extents");

} // namespace unio
