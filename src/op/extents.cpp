// async_extents: the parts of a file that hold data.

#include "op/file_calls.hpp"
#include "sys/clone_extents.hpp"

#include <sys/stat.h>

namespace unio::inline v0_1 {
namespace {

int find(async_extents& op) noexcept {
  std::span<file_extent> const into = op::file_access::into(op);
  struct stat s;
  if (int const r = op::uninterrupted([&] { return sys::fstat(op.fd(), &s); }); r < 0) return r;
  int const afresh = op::read_afresh(op.fd());
  auto const length = static_cast<extent_type>(s.st_size);
  int found = 0;
  for (extent_type at = op::file_access::from(op);
       at < length && static_cast<std::size_t>(found) != into.size();) {
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
int find_at_once(async_extents& op) noexcept { return op::file_access::into(op).empty() ? 0 : -EAGAIN; }

} // namespace

constinit operation_faces const detail::extents_faces =
    op::call_faces<async_extents, find, find_at_once>("extents");

} // namespace unio
