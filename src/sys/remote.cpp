#include "sys/remote.hpp"

#include "sys/calls.hpp"

#include <linux/magic.h>
#include <sys/vfs.h>

#include <cstdint>

namespace unio::inline v0_1::sys {
namespace {

bool is_remote(std::int64_t type) noexcept {
  constexpr std::int64_t cifs = 0xff534d42; // fs/smb/client/cifsfs.c
  constexpr std::int64_t fuse = 0x65735546; // fs/fuse/inode.c
  constexpr std::int64_t ceph = 0x00c36400; // include/linux/ceph/super.h
  constexpr std::int64_t lustre = 0x0bd00bd0;
  constexpr std::int64_t gfs2 = 0x01161970; // include/uapi/linux/gfs2_ondisk.h
  constexpr std::int64_t ocfs2 = 0x7461636f;
  for (std::int64_t const t :
       {std::int64_t{NFS_SUPER_MAGIC}, std::int64_t{SMB_SUPER_MAGIC}, std::int64_t{SMB2_SUPER_MAGIC},
        std::int64_t{V9FS_MAGIC}, std::int64_t{AFS_SUPER_MAGIC}, std::int64_t{CODA_SUPER_MAGIC}, cifs, fuse,
        ceph, lustre, gfs2, ocfs2})
    if ((type & 0xffffffff) == t) return true;
  return false;
}

} // namespace

int lies_remote(int fd) noexcept {
  struct statfs s;
  if (auto const e = sys::fstatfs(fd, &s); e < 0) return static_cast<int>(e);
  return is_remote(s.f_type) ? 1 : 0;
}

} // namespace unio::sys
