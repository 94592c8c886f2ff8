// Pipes: making them, and opening the ends of named ones.

#include "handle/names.hpp"
#include "sys/descriptors.hpp"
#include "sys/due.hpp"

#include <unio/pipe_handle.hpp>

#include <fcntl.h>

#include <algorithm>
#include <ctime>

namespace unio::inline v0_1 {

static_assert(sizeof(pipe_handle) == 16);

namespace {

using mode = handle::mode;

// A writing end can be opened once there is a reader, of which the kernel does not notify: so it retries,
// often at first.
constexpr std::int64_t first_pause_ns = 100'000;
constexpr std::int64_t longest_pause_ns = 10'000'000;

void pause(std::int64_t ns) noexcept {
  timespec const time{.tv_sec = 0, .tv_nsec = static_cast<long>(ns)};
  sys::poll(nullptr, 0, &time);
}

// Opens one end of the FIFO at `name`, if it is one. Returns the descriptor or a negative code.
int open_end(int directory, char const* name, mode m) noexcept {
  int const access = m == mode::read ? O_RDONLY : O_WRONLY;
  int const fd = detail::open_at(directory, name, access | O_NONBLOCK | O_NOCTTY, 0);
  if (fd < 0) return fd;
  struct stat s;
  int failed = static_cast<int>(sys::fstat(fd, &s));
  if (failed >= 0 && !S_ISFIFO(s.st_mode)) failed = -EINVAL;
  if (failed >= 0) return fd;
  sys::close(fd);
  return failed;
}

// The same, waiting for a reader.
int open_end(int directory, char const* name, mode m, deadline const& d) noexcept {
  std::int64_t const due = sys::due(d);
  for (std::int64_t next_pause = first_pause_ns;; next_pause = std::min(2 * next_pause, longest_pause_ns)) {
    int const fd = open_end(directory, name, m);
    if (fd != -ENXIO || d.is_zero()) return fd;
    std::int64_t const now = sys::steady_now();
    if (due <= now) return -ETIMEDOUT;
    pause(std::min(next_pause, due - now));
  }
}

int create_end(int directory, char const* name, mode m, unsigned permissions, deadline const& d) noexcept {
  std::int64_t const made = sys::mkfifo(directory, name, permissions);
  if (made < 0) return static_cast<int>(made);
  int fd = open_end(directory, name, m);
  if (fd != -ENXIO || d.is_zero()) {
    if (fd < 0) sys::unlinkat(directory, name, 0);
    return fd;
  }
  // While it waits for a reader another process may put something else there.
  detail::descriptor const mine(detail::open_at(directory, name, O_PATH | O_NOFOLLOW, 0));
  fd = mine.get() < 0 ? mine.get() : open_end(directory, name, m, d);
  if (fd < 0 && mine.get() >= 0 && detail::has_name(directory, name, mine.get()))
    sys::unlinkat(directory, name, 0);
  return fd;
}

int refuse(path_view name, mode m) noexcept {
  return m == mode::read || m == mode::write ? name.check() : -EINVAL;
}

handle_kind kind_for(mode m) noexcept {
  // Reading from a pipe that had no writer yet looks like the end of the stream, which it is not.
  return m == mode::read ? handle_kind::named_pipe : handle_kind::pipe;
}

} // namespace

result<anonymous_pipe> pipe_handle::anonymous() noexcept {
  int ends[2];
  std::int64_t const r = sys::pipe(ends, O_CLOEXEC | O_NONBLOCK);
  if (r < 0) return detail::failed(r, "anonymous");
  int const reader = sys::above_standard(ends[0]);
  int const writer = sys::above_standard(ends[1]);
  anonymous_pipe both{pipe_handle(reader, handle_kind::pipe), pipe_handle(writer, handle_kind::pipe)};
  if (reader < 0 || writer < 0) return detail::failed(std::min(reader, writer), "anonymous");
  return both;
}

result<pipe_handle> pipe_handle::open(path_handle const& base, path_view name, mode m, deadline d) noexcept {
  if (int const r = refuse(name, m); r != 0) return detail::failed_on(r, "open", name.c_str(), name.size());
  int const fd = open_end(detail::directory_of(base), name.c_str(), m, d);
  if (fd < 0) return detail::failed_on(fd, "open", name.c_str(), name.size());
  return pipe_handle(fd, kind_for(m));
}

result<pipe_handle> pipe_handle::create(path_handle const& base, path_view name, mode m, unsigned permissions,
                                        deadline d) noexcept {
  if (int const r = refuse(name, m); r != 0) return detail::failed_on(r, "create", name.c_str(), name.size());
  int const fd = create_end(detail::directory_of(base), name.c_str(), m, permissions, d);
  if (fd < 0) return detail::failed_on(fd, "create", name.c_str(), name.size());
  return pipe_handle(fd, kind_for(m));
}

result<pipe_handle> pipe_handle::random(path_handle const& base, path_view prefix, mode m,
                                        deadline d) noexcept {
  if (int const r = refuse(prefix, m); r != 0)
    return detail::failed_on(r, "random", prefix.c_str(), prefix.size());
  detail::path_buffer name;
  int const n = detail::begin_random_name(prefix, name);
  if (n < 0) return detail::failed_on(n, "random", prefix.c_str(), prefix.size());
  int const fd = detail::with_random_name(name, static_cast<std::size_t>(n), [&](char const* candidate) {
    return create_end(detail::directory_of(base), candidate, m, 0600, d);
  });
  if (fd < 0) return detail::failed_on(fd, "random", prefix.c_str(), prefix.size());
  return pipe_handle(fd, kind_for(m));
}

result<std::size_t> pipe_handle::capacity(std::size_t bytes) noexcept {
  if (bytes > static_cast<std::size_t>(std::numeric_limits<int>::max()))
    return detail::failed(-EINVAL, "capacity", fd_);
  std::int64_t const r =
      bytes == 0 ? sys::fcntl(fd_, F_GETPIPE_SZ, 0) : sys::fcntl(fd_, F_SETPIPE_SZ, static_cast<long>(bytes));
  if (r < 0) return detail::failed(r, "capacity", fd_);
  return static_cast<std::size_t>(r);
}

} // namespace unio
