// Watches: adding and removing them, and events as the kernel writes them.

#include "handle/names.hpp"
#include "sys/descriptors.hpp"

#include <unio/watch_handle.hpp>

#include <sys/inotify.h>

#include <climits>
#include <cstring>

namespace unio::inline v0_1 {

static_assert(sizeof(watch_handle) == 16);
static_assert(watch_handle::largest_event == sizeof(inotify_event) + NAME_MAX + 1);

namespace {

constexpr bool is(watch_kinds k, std::uint32_t bit) noexcept { return static_cast<std::uint32_t>(k) == bit; }
static_assert(is(watch_kinds::accessed, IN_ACCESS) && is(watch_kinds::modified, IN_MODIFY) &&
              is(watch_kinds::attributes, IN_ATTRIB) && is(watch_kinds::closed_written, IN_CLOSE_WRITE) &&
              is(watch_kinds::closed_unwritten, IN_CLOSE_NOWRITE) && is(watch_kinds::opened, IN_OPEN));
static_assert(is(watch_kinds::moved_from, IN_MOVED_FROM) && is(watch_kinds::moved_to, IN_MOVED_TO) &&
              is(watch_kinds::created, IN_CREATE) && is(watch_kinds::removed, IN_DELETE) &&
              is(watch_kinds::self_removed, IN_DELETE_SELF) && is(watch_kinds::self_moved, IN_MOVE_SELF));
static_assert(is(watch_kinds::only_directory, IN_ONLYDIR) && is(watch_kinds::no_follow, IN_DONT_FOLLOW) &&
              is(watch_kinds::only_linked, IN_EXCL_UNLINK) && is(watch_kinds::once, IN_ONESHOT));
static_assert(is(watch_kinds::unmounted, IN_UNMOUNT) && is(watch_kinds::overflow, IN_Q_OVERFLOW) &&
              is(watch_kinds::ended, IN_IGNORED) && is(watch_kinds::of_directory, IN_ISDIR));

// "/proc/self/fd/N/name", which leads on from the directory that N is open on.
int put_path(path_handle const& base, path_view name, detail::path_buffer& out) noexcept {
  std::size_t n = detail::put_name_of(base.native_handle(), out);
  if (name.size() == 0) return 0;
  if (n + 1 + name.size() > detail::longest_path) return -ENAMETOOLONG;
  out.text[n++] = '/';
  std::memcpy(out.text + n, name.c_str(), name.size() + 1);
  return 0;
}

} // namespace

result<watch_handle> watch_handle::create() noexcept {
  int const fd = sys::above_standard(sys::inotify_init(IN_CLOEXEC | IN_NONBLOCK));
  if (fd < 0) return detail::failed(fd, "create");
  return watch_handle(fd);
}

result<int> watch_handle::add(path_handle const& base, path_view name, watch_kinds what) noexcept {
  if (int const e = name.check(); e != 0) return detail::failed_on(e, "add", name.c_str(), name.size());
  detail::path_buffer path;
  char const* text = name.c_str();
  // The name of `base` below /proc is a link, which leads to it.
  auto const kinds =
      static_cast<std::uint32_t>(what) & ~(name.size() == 0 ? std::uint32_t{IN_DONT_FOLLOW} : 0U);
  if (base.is_open() && *text != '/') {
    if (int const e = put_path(base, name, path); e != 0)
      return detail::failed_on(e, "add", name.c_str(), name.size());
    text = path.text;
  }
  std::int64_t const r = sys::inotify_add_watch(fd_, text, kinds);
  if (r < 0) return detail::failed_on(r, "add", name.c_str(), name.size());
  return static_cast<int>(r);
}

result<void> watch_handle::remove(int watch) noexcept {
  std::int64_t const r = sys::inotify_rm_watch(fd_, watch);
  if (r < 0) return detail::failed(r, "remove", fd_);
  return {};
}

void watch_events::iterator::look() noexcept {
  event_ = {};
  next_ = end_;
  // The kernel writes whole events; what is shorter is not looked at.
  if (static_cast<std::size_t>(end_ - at_) < sizeof(inotify_event)) {
    at_ = end_;
    return;
  }
  inotify_event e;
  std::memcpy(&e, at_, sizeof e);
  std::size_t const room = static_cast<std::size_t>(end_ - at_) - sizeof e;
  std::size_t const size = e.len < room ? e.len : room;
  auto const* const name = reinterpret_cast<char const*>(at_ + sizeof e);
  event_.watch = e.wd;
  event_.kinds = static_cast<watch_kinds>(e.mask);
  event_.cookie = e.cookie;
  event_.name = {name, ::strnlen(name, size)}; // filled up with zeros
  next_ = at_ + sizeof e + size;
}

} // namespace unio
