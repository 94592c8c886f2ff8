#include "fs/metadata.hpp"

#include "fs/tree.hpp"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <memory>
#include <new>
#include <string_view>

namespace unio::inline v0_1::fs::trees {
namespace {

constexpr unsigned mask = STATX_BASIC_STATS;
constexpr std::size_t longest_list = std::size_t{64} << 10; // XATTR_LIST_MAX, XATTR_SIZE_MAX

bool is_skipped(std::string_view name) noexcept { return name == "security.selinux"; }
bool is_acl(std::string_view name) noexcept { return name.starts_with("system."); }

// A file whose attributes are read or set: by its descriptor; or, if that gives no access (O_PATH), by the
// path of the descriptor, from where no link is followed.
struct attributed {
  int fd;
  char const* path = nullptr;

  std::int64_t list(char* names, std::size_t n) const noexcept {
    return path != nullptr ? sys::listxattr(path, names, n) : sys::flistxattr(fd, names, n);
  }
  std::int64_t get(char const* name, char* value, std::size_t n) const noexcept {
    return path != nullptr ? sys::getxattr(path, name, value, n) : sys::fgetxattr(fd, name, value, n);
  }
  std::int64_t set(char const* name, char const* value, std::size_t n) const noexcept {
    return path != nullptr ? sys::setxattr(path, name, value, n, 0) : sys::fsetxattr(fd, name, value, n, 0);
  }
};

// This user may not, or the filesystem has no such thing (EINVAL: an ACL of users that it does not know).
bool is_expected(std::int64_t e) noexcept {
  return e == -EPERM || e == -EACCES || e == -EOPNOTSUPP || e == -ENOSYS || e == -EINVAL;
}

// What an ACL gives the owning group, as bits of a mode (linux/posix_acl_xattr.h).
std::uint32_t group_bits(char const* acl, std::int64_t size) noexcept {
  constexpr char group_object[2] = {4, 0};
  for (char const* entry = acl + 4; entry + 8 <= acl + size; entry += 8)
    if (std::memcmp(entry, group_object, sizeof group_object) == 0) return (entry[2] & 7U) << 3;
  return 0;
}

// Calls `set_mode` before the ACLs are copied: it changes those, and they the mode, which must allow writing
// for attributes of users (xattr(7)). Once more, with what is to be left out, where an ACL could not be set:
// with it the mode has what it gives anyone but the owner (acl(5)), and without it the group would get that.
// Returns 0, or why they could not be listed.
int copy_attributes(attributed from, attributed to, refusals& refused, not_kept& lost,
                    auto const& set_mode) noexcept {
  char few[1024];
  char const* names = few;
  std::unique_ptr<char[]> many;
  auto n = from.list(few, sizeof few);
  if (n == -EOPNOTSUPP || n == -ENOSYS) n = 0; // the filesystem has none
  if (n > 0 || n == -ERANGE) {
    many.reset(new (std::nothrow) char[2 * longest_list]);
    if (many == nullptr) {
      lost.attributes.fetch_add(1, std::memory_order_relaxed);
      n = 0;
    } else if (n < 0) {
      n = from.list(many.get(), longest_list);
      names = many.get();
    }
  }
  std::uint32_t left_out = 0;
  auto const copy = [&](bool are_acls) noexcept {
    for (char const* at = names; n > 0 && at < names + n; at += std::strlen(at) + 1) {
      if (is_skipped(at) || is_acl(at) != are_acls) continue;
      char* const value = many.get() + longest_list;
      auto const size = from.get(at, value, longest_list);
      if (size == -ENODATA) continue; // removed by another process
      std::int64_t const e = size < 0 ? size : to.set(at, value, static_cast<std::size_t>(size));
      if (e < 0) lost.attributes.fetch_add(1, std::memory_order_relaxed);
      if (e < 0 && !is_expected(e)) refused.attribute = static_cast<int>(e);
      if (e < 0 && std::string_view(at) == "system.posix_acl_access")
        left_out = 070 & ~(size < 0 ? 0 : group_bits(value, size));
    }
  };
  copy(false);
  set_mode(0);
  copy(true);
  if (left_out != 0) set_mode(left_out);
  return static_cast<int>(std::min<std::int64_t>(n, 0));
}

std::uint32_t umask_of_process() noexcept {
  char text[512];
  int const fd = sys::above_standard(sys::openat(AT_FDCWD, "/proc/self/status", O_RDONLY | O_CLOEXEC, 0));
  if (fd < 0) return 07777;
  auto const n = sys::read(fd, text, sizeof text - 1);
  sys::close(fd);
  if (n <= 0) return 07777;
  text[n] = '\0';
  char const* at = std::strstr(text, "\nUmask:\t");
  if (at == nullptr) return 07777;
  std::uint32_t mask_bits = 0;
  for (at += 8; *at >= '0' && *at <= '7'; ++at)
    mask_bits = mask_bits * 8 + static_cast<std::uint32_t>(*at - '0');
  return mask_bits;
}

} // namespace

int attributes_of(int dir, char const* name, attributes& a) noexcept {
  struct statx s;
  int const flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name == '\0' ? AT_EMPTY_PATH : 0);
  if (auto const e = sys::statx(dir, name, flags, mask, &s); e < 0) return static_cast<int>(e);
  a = {.size = s.stx_size,
       .blocks = s.stx_blocks,
       .id = {std::uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor, s.stx_ino},
       .accessed_s = s.stx_atime.tv_sec,
       .modified_s = s.stx_mtime.tv_sec,
       .changed_s = s.stx_ctime.tv_sec,
       .accessed_ns = s.stx_atime.tv_nsec,
       .modified_ns = s.stx_mtime.tv_nsec,
       .changed_ns = s.stx_ctime.tv_nsec,
       .mode = s.stx_mode,
       .owner = s.stx_uid,
       .group = s.stx_gid,
       .links = s.stx_nlink,
       .device_major = s.stx_rdev_major,
       .device_minor = s.stx_rdev_minor};
  return 0;
}

void defaults::find(int dir) noexcept {
  attributes a{};
  char names[1024];
  owner = ::geteuid();
  group = ::getegid();
  umask = umask_of_process();
  auto const n = sys::flistxattr(dir, names, sizeof names);
  bool has_acl = n < 0 && n != -EOPNOTSUPP;
  for (char const* at = names; n > 0 && at < names + n; at += std::strlen(at) + 1)
    if (is_acl(at)) has_acl = true;
  are_known = attributes_of(dir, "", a) == 0 && !has_acl && (a.mode & S_ISGID) == 0 && a.owner == owner &&
              a.group == group;
}

refusals set_metadata(int from, int to, int dir, char const* name, attributes const& a, defaults const& d,
                      bool mode_is_set, not_kept& lost) noexcept {
  refusals refused;
  bool const is_open = to >= 0;
  int const at = is_open ? to : dir;
  char const* const path = is_open ? "" : name;
  int const flags = is_open ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  std::uint32_t mode = a.mode & 07777;
  if (!d.are_known || a.owner != d.owner || a.group != d.group) {
    auto const e = sys::fchownat(at, path, a.owner, a.group, flags);
    mode_is_set = mode_is_set && e == 0 && (mode & 07000) == 0;
    if (e < 0) {
      lost.owners.fetch_add(1, std::memory_order_relaxed);
      // A user who may not change the owner may be allowed to set the group.
      (void)sys::fchownat(at, path, static_cast<unsigned>(-1), a.group, flags);
      // With another owner these bits would give rights that the owner of the source did not give.
      mode &= 01777;
      if (e != -EPERM) refused.owner = static_cast<int>(e);
    }
  }
  auto const set_mode = [&](std::uint32_t left_out) noexcept {
    if ((mode_is_set && left_out == 0) || S_ISLNK(a.mode)) return;
    std::uint32_t const m = mode & ~left_out;
    refused.mode = static_cast<int>(is_open ? sys::fchmod(to, m) : unio::detail::change_mode(dir, name, m));
  };
  if (is_open && from >= 0) {
    refused.attributes = copy_attributes({from}, {to}, refused, lost, set_mode);
  } else {
    set_mode(0);
  }
  timespec const times[2] = {{a.accessed_s, a.accessed_ns}, {a.modified_s, a.modified_ns}};
  refused.times = static_cast<int>(is_open ? sys::utimensat(to, nullptr, times, 0)
                                           : sys::utimensat(dir, name, times, AT_SYMLINK_NOFOLLOW));
  return refused;
}

int copy_attributes_of_special(int in, char const* from, int out, char const* to, std::uint32_t mode,
                               refusals& refused, not_kept& lost) noexcept {
  constexpr int flags = O_PATH | O_NOFOLLOW;
  descriptor const source(unio::detail::open_at(in, from, flags, 0));
  unio::detail::descriptor_path const source_path(source.get());
  char names[1];
  if (source.get() < 0) return source.get();
  auto const n = sys::listxattr(source_path.text, names, sizeof names);
  if (n == 0 || n == -ENOENT || n == -ENOTDIR) return 0; // none, or no /proc
  descriptor const target(unio::detail::open_at(out, to, flags, 0));
  if (target.get() < 0) return target.get();
  unio::detail::descriptor_path const target_path(target.get());
  return copy_attributes({-1, source_path.text}, {-1, target_path.text}, refused, lost,
                         [&](std::uint32_t left_out) noexcept {
                           if (left_out != 0)
                             refused.mode = unio::detail::change_mode(out, to, mode & 07777 & ~left_out);
                         });
}

int drop_inherited_acls(int fd) noexcept {
  for (char const* const name : {"system.posix_acl_default", "system.posix_acl_access"}) {
    auto const e = sys::fremovexattr(fd, name);
    if (e < 0 && e != -ENODATA && e != -EOPNOTSUPP && e != -ENOSYS) return static_cast<int>(e);
  }
  return 0;
}

void drop_attributes(int fd) noexcept {
  std::unique_ptr<char[]> const names(new (std::nothrow) char[longest_list]);
  auto const n = names != nullptr ? sys::flistxattr(fd, names.get(), longest_list) : 0;
  for (char const* at = names.get(); n > 0 && at < names.get() + n; at += std::strlen(at) + 1)
    if (!is_skipped(at)) (void)sys::fremovexattr(fd, at);
}

} // namespace unio::fs::trees
