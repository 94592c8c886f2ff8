#include "sys/ofd_lock.hpp"

#include "sys/descriptors.hpp"

#include <fcntl.h>

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

} // namespace unio::sys
