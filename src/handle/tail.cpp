// Following a file that grows: opening it and its watch.

#include "handle/names.hpp"
#include "sys/descriptors.hpp"
#include "sys/remote.hpp"

#include <unio/tail_handle.hpp>

#include <fcntl.h>
#include <sys/inotify.h>

namespace unio::inline v0_1 {

static_assert(sizeof(tail_handle) == 24);

namespace {

// A watch on the file, or a negative code.
int watch(int file) noexcept {
  if (sys::lies_remote(file) == 1) return -EOPNOTSUPP; // a watch would not notice what others write
  int const fd = sys::above_standard(sys::inotify_init(IN_CLOEXEC | IN_NONBLOCK));
  if (fd < 0) return fd;
  detail::path_buffer name;
  detail::put_name_of(file, name);
  std::int64_t const r = sys::inotify_add_watch(fd, name.text, IN_MODIFY);
  if (r >= 0) return fd;
  sys::close(fd);
  return static_cast<int>(r);
}

} // namespace

result<tail_handle> tail_handle::follow(path_handle const& base, path_view name, tail_from where) noexcept {
  if (int const e = name.check(); e != 0) return detail::failed_on(e, "follow", name.c_str(), name.size());
  int const file = detail::open_to_read(detail::directory_of(base), name.c_str());
  if (file < 0) return detail::failed_on(file, "follow", name.c_str(), name.size());
  struct stat s;
  std::int64_t failed = sys::fstat(file, &s);
  if (failed >= 0 && !S_ISREG(s.st_mode)) failed = -EINVAL;
  if (failed >= 0 && where == tail_from::end) failed = sys::lseek(file, 0, SEEK_END);
  if (failed < 0) {
    sys::close(file);
    return detail::failed_on(failed, "follow", name.c_str(), name.size());
  }
  int const watched = watch(file);
  return watched < 0 ? tail_handle(file, -1) : tail_handle(watched, file);
}

tail_handle& tail_handle::operator=(tail_handle&& other) noexcept {
  if (this != &other) {
    (void)close();
    handle::operator=(static_cast<handle&&>(other));
    file_ = std::exchange(other.file_, -1);
  }
  return *this;
}

result<void> tail_handle::close() noexcept {
  int const file = std::exchange(file_, -1);
  result<void> const r = handle::close(); // after which no read uses the file
  if (file >= 0) sys::close(file);
  return r;
}

} // namespace unio
