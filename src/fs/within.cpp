#include "fs/within.hpp"

#include "fs/metadata.hpp"
#include "fs/tree.hpp"

namespace unio::inline v0_1::fs::trees {
namespace {

using unio::detail::open_at;

/// Ends with -EINVAL where it finds a directory. What cannot be opened cannot be removed either.
class searching final : public crew {
 public:
  searching(crew_settings const& s, inode_id what) noexcept : crew(s), what_(what) {}

 private:
  int visit(worker& w, node& n) noexcept override {
    int const fd = use(w, n);
    if (fd < 0) return 0;
    attributes a{};
    int e = attributes_of(fd, "", a);
    if (e == 0 && a.id == what_) e = -EINVAL;
    while (e == 0 && !must_end()) {
      std::int64_t const got = read(w, fd);
      if (got <= 0) break;
      node_list children;
      for (directory_entry const& entry : directory_entries(w.buffer, static_cast<std::size_t>(got))) {
        if (entry.kind() != entry_kind::directory && entry.kind() != entry_kind::unknown) continue;
        node* const child = make(w, n, entry.name());
        if (child == nullptr) e = -ENOMEM;
        if (child != nullptr) children.push(*child);
      }
      push(children);
    }
    unuse(n);
    return e;
  }

  inode_id what_;
};

// Which mount it is seen through; 0 where the kernel does not say (before Linux 5.8).
std::uint64_t mount_of(int dir, char const* name) noexcept {
  struct statx s{};
  int const flags = AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | (*name == '\0' ? AT_EMPTY_PATH : 0);
  bool const is_known =
      sys::statx(dir, name, flags, STATX_MNT_ID, &s) == 0 && (s.stx_mask & STATX_MNT_ID) != 0;
  return is_known ? s.stx_mnt_id : 0;
}

} // namespace

int is_in(int directory, inode_id what) noexcept {
  descriptor at(open_at(directory, ".", O_PATH | O_DIRECTORY, 0));
  attributes before{};
  for (;;) {
    attributes a;
    if (at.get() < 0) return at.get() == -EACCES ? 0 : at.get(); // this user may not look further up
    if (int const e = attributes_of(at.get(), "", a); e != 0) return e;
    if (a.id == what) return -EINVAL;
    if (a.id == before.id) return 0;
    before = a;
    descriptor up(open_at(at.get(), "..", O_PATH | O_DIRECTORY, 0));
    at.reset(up.release());
  }
}

int holds(int folder, char const* name, int what, crew_settings const& given) noexcept {
  attributes tree;
  attributes wanted;
  if (int const e = attributes_of(folder, name, tree); e != 0) return e == -ENOENT ? 0 : e;
  if (int const e = attributes_of(what, "", wanted); e != 0) return e;
  if (int const e = is_in(what, tree.id); e != 0) return e;
  std::uint64_t const mount = mount_of(folder, name);
  bool const is_same_mount = mount != 0 && mount == mount_of(what, "");
  if (is_same_mount || tree.id.device != wanted.id.device) return 0;
  int const fd = open_at(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0);
  if (fd < 0) return fd == -EACCES || fd == -ENOENT ? 0 : fd;
  crew_settings s = given;
  s.cross_mounts = false;
  s.verify = true;
  s.climb = true;
  searching all(s, wanted.id);
  int const e = all.begin(fd);
  return e == 0 ? all.run() : e;
}

} // namespace unio::fs::trees
