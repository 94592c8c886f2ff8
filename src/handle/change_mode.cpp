#include "handle/names.hpp"
#include "sys/calls.hpp"

#include <fcntl.h>
#include <sys/stat.h>

namespace unio::inline v0_1::detail {

int change_mode(int directory, char const* name, unsigned mode) noexcept {
  auto const r = static_cast<int>(sys::fchmodat2(directory, name, mode, AT_SYMLINK_NOFOLLOW));
  if (r != -ENOSYS && r != -EPERM) return r;
  // Linux before 6.6 has no call that does not follow the last link; EPERM: perhaps of a filter that does not
  // know it.
  descriptor const there(open_at(directory, name, O_PATH | O_NOFOLLOW, 0));
  if (there.get() < 0) return there.get();
  struct statx s;
  if (auto const e = sys::statx(there.get(), "", AT_EMPTY_PATH, STATX_TYPE, &s); e < 0)
    return static_cast<int>(e);
  if (S_ISLNK(s.stx_mode)) return -EOPNOTSUPP;
  return static_cast<int>(sys::fchmodat2(AT_FDCWD, descriptor_path(there.get()).text, mode, 0));
}

} // namespace unio::detail
