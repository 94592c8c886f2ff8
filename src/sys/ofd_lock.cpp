#include "sys/ofd_lock.hpp"

#include "sys/descriptors.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::sys {
namespace {

int ask(int fd, int command, struct flock& l, std::uint64_t at, std::uint64_t bytes, short type) noexcept {
  l = {}; // l_pid has to be 0
  l.l_type = type;
  l.l_whence = SEEK_SET;
  l.l_start = static_cast<off_t>(at);
  l.l_len = static_cast<off_t>(bytes);
  return static_cast<int>(uninterrupted([&] { return fcntl(fd, command, reinterpret_cast<long>(&l)); }));
}

// All that are open, by their number. A child closes them before it does anything else: it would hold its
// parent's locks.
class unshared_descriptors {
 public:
  process_lock mutex{guarded::lock_descriptors}; // of the calls below

  /// False: no memory.
  bool add(int fd) noexcept {
    auto const at = static_cast<std::size_t>(fd);
    if (at >= size_) {
      std::size_t const size = std::max(2 * size_, at + 64);
      auto* const more = new (std::nothrow) bool[size]();
      if (more == nullptr) return false;
      std::copy_n(are_ours_, size_, more);
      delete[] std::exchange(are_ours_, more);
      size_ = size;
    }
    are_ours_[at] = true;
    return true;
  }
  void remove(int fd) noexcept {
    if (auto const at = static_cast<std::size_t>(fd); at < size_) are_ours_[at] = false;
  }
  void close_all() noexcept {
    for (std::size_t fd = 0; fd != size_; ++fd)
      if (std::exchange(are_ours_[fd], false)) ::close(static_cast<int>(fd));
  }

 private:
  bool* are_ours_ = nullptr;
  std::size_t size_ = 0;
};

// Without a destructor: it must outlive every static object that has a mutex.
constinit unshared_descriptors all_unshared;
static_assert(std::is_trivially_destructible_v<unshared_descriptors>);

} // namespace

int ofd_lock(int fd, std::uint64_t at, std::uint64_t bytes, bool exclusive, bool sleeps) noexcept {
  struct flock l;
  short const type = exclusive ? F_WRLCK : F_RDLCK;
  int const r = ask(fd, sleeps ? F_OFD_SETLKW : F_OFD_SETLK, l, at, bytes, type);
  // Contention is either errno. A caller that sleeps meets none, so EACCES then means a security module's
  // denial.
  return r == -EACCES && !sleeps ? -EAGAIN : r;
}

int ofd_unlock(int fd, std::uint64_t at, std::uint64_t bytes) noexcept {
  struct flock l;
  return ask(fd, F_OFD_SETLK, l, at, bytes, F_UNLCK);
}

int ofd_is_locked(int fd, std::uint64_t at, std::uint64_t bytes) noexcept {
  struct flock l;
  int const r = ask(fd, F_OFD_GETLK, l, at, bytes, F_WRLCK);
  return r < 0 ? r : l.l_type != F_UNLCK;
}

int open_unshared(int directory, char const* name, int flags, unsigned mode) noexcept {
  std::lock_guard const alone(all_unshared.mutex); // no fork between the call and the entry
  all_unshared.mutex.in_child([]() noexcept { all_unshared.close_all(); });
  int const fd =
      above_standard(uninterrupted([&] { return openat(directory, name, flags | O_CLOEXEC, mode); }));
  if (fd < 0 || all_unshared.add(fd)) return fd;
  close(fd);
  return -ENOMEM;
}

void close_unshared(int fd) noexcept {
  if (fd < 0) return;
  std::lock_guard const alone(all_unshared.mutex);
  all_unshared.remove(fd);
  close(fd);
}

} // namespace unio::sys
