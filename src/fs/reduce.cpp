// reduce: see the header, and src/fs/crew.hpp for the threads.
//
//   visit   read the names; unlink the files, without asking for their kind; the directories become tasks
//   left    rmdir by the parent's descriptor; ENOTEMPTY: read it again

#include "fs/on_thread.hpp"
#include "fs/reduce_in.hpp"
#include "fs/reporting.hpp"
#include "fs/tree.hpp"

#include <linux/openat2.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1::fs {
namespace {

using namespace trees;

constexpr std::size_t names_at_once = std::size_t{16} << 20;
constexpr unsigned place_bits = 21; // of a name's place in those, in eight bytes
constexpr std::size_t places = names_at_once / 24 * sizeof(std::uint64_t); // a record has 24 bytes or more
static_assert(names_at_once / 8 == std::size_t{1} << place_bits);
constexpr int checked_every = 256;           // names, between two looks at the deadline
constexpr std::uint32_t most_in_vain = 1000; // filesystems that keep names which they do not list, or list
                                             // names which they say are not there
constexpr char hidden_suffix[] = ".unio-removed";

// What is known beyond the error.
std::string_view reason_of(int dir, char const* name, std::int64_t why) noexcept {
  if (std::string_view(name).starts_with(".nfs")) return "open on another machine";
  struct statx s;
  bool const has_status = sys::statx(dir, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &s) == 0;
  if (has_status && (s.stx_attributes & STATX_ATTR_MOUNT_ROOT) != 0) return "mount point";
  if (has_status && (s.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0) return "immutable";
  struct statx d;
  if (sys::statx(dir, "", AT_EMPTY_PATH, STATX_TYPE, &d) == 0 &&
      (d.stx_attributes & (STATX_ATTR_IMMUTABLE | STATX_ATTR_APPEND)) != 0)
    return "in an immutable directory";
  return why == -EBUSY ? "in use" : "";
}

// The names in w.buffer, each as its inode and its place, in the order in which they are to be removed: that
// of the inodes, which lie together on a disk, while a large directory is in the order of hashes (ext4: rm of
// 50,000 files 1.4 times as fast). How many names there are.
std::size_t by_inode(std::byte const* buffer, std::size_t bytes, std::uint64_t* order) noexcept {
  std::size_t n = 0;
  bool rises = true;
  bool falls = true;
  directory_entries const all(buffer, bytes);
  for (auto i = all.begin(); i != all.end(); ++i) {
    order[n] = (*i).inode() << place_bits | static_cast<std::uint64_t>(i.record() - buffer) / 8;
    if (n != 0) (order[n - 1] < order[n] ? falls : rises) = false;
    ++n;
  }
  if (!rises && !falls) std::sort(order, order + n);
  return n;
}

struct own {
  std::uint64_t key;                    // see copied.hpp
  std::atomic<std::uint32_t> remaining; // names in it that could not be removed
  std::uint32_t rounds;                 // how often it was read
  std::uint32_t in_vain;                // rounds in a row that removed nothing from it and left something
  std::atomic<bool> has_removed;        // something, in this round
};

class remover final : public crew {
 public:
  remover(reduce_options const& o, crew_settings const& s, reporting& r, copied* only) noexcept
      : crew(s), options_(o), report_(r), only_(only) {}

  /// Where the root is, for removing it.
  int parent = -1;
  char const* name = nullptr;
  bool is_gone = false;

  /// Removes what is no directory and has the key `key`. 0; -EISDIR; or why not. 0 without `has_removed`:
  /// somebody else did.
  std::int64_t remove(int dir, char const* entry, std::uint64_t key,
                      std::atomic<bool>* has_removed = nullptr) noexcept;
  /// Allows this user to read and change a directory; `entry` empty: `dir` itself.
  static void allow(int dir, char const* entry) noexcept;

 private:
  int visit(worker& w, node& n) noexcept override;
  int left(worker& w, node& n) noexcept override;
  int clear(worker& w, node& n, int fd) noexcept;
  bool remove_directory(worker& w, node& n, int in) noexcept;

  [[nodiscard]] std::string_view reason(int dir, char const* entry, std::int64_t why) const noexcept {
    return only_ != nullptr && why == -ESTALE ? "not what was copied" : reason_of(dir, entry, why);
  }

  reduce_options const& options_;
  reporting& report_;
  copied* only_;
};

std::int64_t remover::remove(int dir, char const* entry, std::uint64_t key,
                             std::atomic<bool>* has_removed) noexcept {
  if (only_ != nullptr) {
    attributes a;
    int const e = attributes_of(dir, entry, a);
    if (e != 0) return e == -ENOENT ? 0 : e;
    if (S_ISDIR(a.mode)) return -EISDIR;
    if (!only_->has(key, a)) return -ESTALE;
  }
  std::uint64_t bytes = 0;
  if (options_.count_bytes) {
    struct statx s;
    auto const e = sys::statx(dir, entry, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
                              STATX_TYPE | STATX_NLINK | STATX_BLOCKS, &s);
    if (e == 0 && kind_of(s.stx_mode) == entry_kind::directory) return -EISDIR;
    if (e == 0 && s.stx_nlink == 1) bytes = s.stx_blocks * 512;
  }
  auto const e = sys::unlinkat(dir, entry, 0);
  if (e == -ENOENT) return 0;
  if (e == 0) {
    if (has_removed != nullptr) has_removed->store(true, std::memory_order_relaxed);
    report_.entries.fetch_add(1, std::memory_order_relaxed);
    if (bytes != 0) report_.bytes.fetch_add(bytes, std::memory_order_relaxed);
    return 0;
  }
  // EPERM: a directory (POSIX), or a file that must not be removed (Linux).
  if (e != -EPERM) return e;
  struct statx s;
  bool const is_directory = sys::statx(dir, entry, AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC | AT_NO_AUTOMOUNT,
                                       STATX_TYPE, &s) == 0 &&
                            kind_of(s.stx_mode) == entry_kind::directory;
  return is_directory ? -EISDIR : e;
}

// Removes the files in a directory and makes tasks of the directories. An entry that was read may be gone, or
// be something else, by now.
int remover::clear(worker& w, node& n, int fd) noexcept {
  own& mine = n.extra<own>();
  if (mine.rounds++ != 0) {
    if (auto const e = sys::lseek(fd, 0, SEEK_SET); e < 0) return static_cast<int>(e);
  }
  for (;;) {
    if (must_end()) return 0;
    std::int64_t const got = read(w, fd);
    if (got == -ENOENT) return 0; // another has removed it
    if (got < 0) {
      n.extra<own>().remaining.fetch_add(1, std::memory_order_relaxed);
      report_.fail(path(w, n, {}), "read", got);
    }
    if (got <= 0) return 0;
    node_list children;
    auto const bytes = static_cast<std::size_t>(got);
    auto* const order = reinterpret_cast<std::uint64_t*>(w.buffer + names_at_once);
    std::size_t const count = by_inode(w.buffer, bytes, order);
    for (std::size_t i = 0; i != count; ++i) {
      std::size_t const place = (order[i] & ((std::uint64_t{1} << place_bits) - 1)) * 8;
      directory_entry const e = *directory_entries::iterator(w.buffer + place, w.buffer + bytes);
      if ((i + 1) % checked_every == 0) {
        report_.tell();
        if (must_end()) break;
      }
      std::int64_t r = -EISDIR;
      if (e.kind() != entry_kind::directory)
        r = remove(fd, e.c_str(), key_of(mine.key, e.name()), &mine.has_removed);
      if (r == -EISDIR) {
        node* const child = make(w, n, e.name());
        if (child == nullptr) {
          push(children);
          return -ENOMEM;
        }
        new (&child->extra<own>()) own{key_of(mine.key, e.name()), 0, 0, 0, false};
        children.push(*child);
      } else if (r != 0) {
        n.extra<own>().remaining.fetch_add(1, std::memory_order_relaxed);
        report_.fail(path(w, n, e.name()), "remove", r, reason(fd, e.c_str(), r));
      }
    }
    push(children);
    report_.tell();
  }
}

void remover::allow(int dir, char const* entry) noexcept {
  struct statx s;
  bool const is_open = *entry == '\0';
  int const flags = is_open ? AT_EMPTY_PATH : AT_SYMLINK_NOFOLLOW;
  if (sys::statx(dir, entry, flags, STATX_TYPE | STATX_MODE, &s) != 0 || (s.stx_mode & 0700) == 0700) return;
  if (is_open) {
    (void)sys::fchmod(dir, 0700);
  } else if (kind_of(s.stx_mode) == entry_kind::directory) {
    (void)sys::fchmodat2(dir, entry, 0700, AT_SYMLINK_NOFOLLOW); // Linux 6.6; without it the directory stays
  }
}

int remover::visit(worker& w, node& n) noexcept {
  n.extra<own>().has_removed.store(false, std::memory_order_relaxed);
  int fd = use(w, n);
  if (fd == -EACCES && options_.make_writable && n.parent != nullptr) {
    int const dir = use(w, *n.parent);
    if (dir >= 0) {
      allow(dir, n.name);
      unuse(*n.parent);
      fd = use(w, n);
    }
  }
  if (fd >= 0) {
    if (options_.make_writable) allow(fd, "");
    int const e = clear(w, n, fd);
    unuse(n);
    return e;
  }
  if (fd == -ENOENT) return 0;
  node& in = *n.parent; // the root has a descriptor
  int const dir = use(w, in);
  if (dir < 0) {
    report_.fail(path(w, n, {}), "open", dir);
    n.extra<own>().remaining.store(1, std::memory_order_relaxed);
    return 0;
  }
  std::int64_t e = fd;
  if (fd == -ENOTDIR || fd == -ELOOP) { // exchanged for something else
    e = remove(dir, n.name, n.extra<own>().key);
  } else if (fd == -EXDEV) {
    e = -EBUSY;
  } else {
    e = sys::unlinkat(dir, n.name, AT_REMOVEDIR); // what cannot be read may be empty
    if (e == 0) report_.entries.fetch_add(1, std::memory_order_relaxed);
    if (e == -ENOENT) e = 0;
    if (e != 0) e = fd;
  }
  if (e == -EISDIR) e = 0; // exchanged again: left() tries both
  if (e != 0) {
    report_.fail(path(w, n, {}), fd == -EXDEV ? "remove" : "open", e,
                 fd == -EXDEV ? "mount point" : reason(dir, n.name, e));
    n.extra<own>().remaining.store(1, std::memory_order_relaxed);
  }
  unuse(in);
  return 0;
}

// True: it is gone, or the failure was reported.
bool remover::remove_directory(worker& w, node& n, int in) noexcept {
  own& mine = n.extra<own>();
  char const* const entry = n.parent == nullptr ? name : n.name;
  auto e = sys::unlinkat(in, entry, AT_REMOVEDIR);
  if (e == 0) {
    report_.entries.fetch_add(1, std::memory_order_relaxed);
    if (n.parent != nullptr) n.parent->extra<own>().has_removed.store(true, std::memory_order_relaxed);
  }
  if (e == -ENOTDIR) { // exchanged for something else, perhaps back by now
    e = remove(in, entry, mine.key);
    if (e == -EISDIR) e = -ENOTEMPTY;
  }
  if (e == 0 || e == -ENOENT) {
    if (n.parent == nullptr) is_gone = true;
    return true;
  }
  if (e == -ENOTEMPTY || e == -EEXIST) {
    mine.in_vain = mine.has_removed.load(std::memory_order_relaxed) ? 0 : mine.in_vain + 1;
    if (mine.in_vain != most_in_vain) return false;
  }
  mine.remaining.store(1, std::memory_order_relaxed);
  report_.fail(path(w, n, {}), "remove", e, reason(in, entry, e));
  return true;
}

int remover::left(worker& w, node& n) noexcept {
  std::uint32_t const remaining = n.extra<own>().remaining.load(std::memory_order_relaxed);
  int e = 0;
  if (remaining == 0) {
    int const in = n.parent == nullptr ? parent : use(w, *n.parent);
    if (in < 0) {
      n.extra<own>().remaining.store(1, std::memory_order_relaxed);
      report_.fail(path(w, n, {}), "remove", in, in == -ESTALE ? "its directory was moved" : "");
    } else if (!remove_directory(w, n, in)) {
      e = 1;
    }
    if (n.parent != nullptr && in >= 0) unuse(*n.parent);
  }
  w.shown_node = nullptr;
  if (e == 0) {
    if (n.parent != nullptr && n.extra<own>().remaining.load(std::memory_order_relaxed) != 0)
      n.parent->extra<own>().remaining.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  if (!n.extra<own>().has_removed.load(std::memory_order_relaxed)) sys::sched_yield();
  return 1; // others have created something in it
}

/// What rename_first calls a name while it is being removed: ".NAME.unio-removed", so that a later call finds
/// what a killed one has left. Empty for a name that is too long for that, which then keeps its own.
struct hidden_name {
  explicit hidden_name(std::string_view name) noexcept {
    if (name.size() + sizeof hidden_suffix > unio::detail::longest_name) return;
    char* to = text;
    *to++ = '.';
    to = std::copy(name.begin(), name.end(), to);
    std::copy_n(hidden_suffix, sizeof hidden_suffix, to);
  }
  char text[unio::detail::longest_name + 1] = {};
};

// Removes one name of `folder`; `hidden` is its name until it is gone; empty: as it is. Adds to
// `report`, of which `told` has the numbers. An error: nothing was begun.
int remove_name(int folder, char const* name, char const* hidden, bool must_be_directory,
                reduce_options const& o, crew_settings const& s, reporting& told, reduce_report& report,
                copied* only = nullptr) noexcept {
  report.is_gone = false;
  struct statx status;
  auto e = sys::statx(folder, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_TYPE, &status);
  if (e < 0) return static_cast<int>(e);
  bool const is_directory = kind_of(status.stx_mode) == entry_kind::directory;
  if (must_be_directory && !is_directory) return -ENOTDIR;
  remover all(o, s, told, only);
  all.parent = folder;
  all.name = name;
  if (!is_directory) {
    auto const is_copied = [&](char const* now) noexcept {
      attributes a;
      attributes b;
      return attributes_of(folder, now, a) == 0 && attributes_of(only->root.get(), "", b) == 0 &&
             a.id == b.id && only->has(0, a);
    };
    if (only == nullptr) {
      e = all.remove(folder, name, 0);
    } else if (!is_copied(name)) {
      e = -ESTALE; // need not be renamed
    } else {
      e = remove_if(folder, name, report.left_as, is_copied);
    }
    if (e != 0 && report.left_as[0] != '\0') {
      told.fail({}, "remove", e, "not what was copied");
      return 0;
    }
    report.is_gone = e == 0;
    return static_cast<int>(e);
  }
  auto const open = [&]() noexcept {
    return unio::detail::open_resolved(folder, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK, 0,
                                       RESOLVE_NO_SYMLINKS | (o.cross_mounts ? 0U : RESOLVE_NO_XDEV));
  };
  int fd = open();
  if (fd == -EACCES && o.make_writable) {
    remover::allow(folder, name);
    fd = open();
  }
  if (fd == -EXDEV) return -EBUSY;
  if (fd < 0) {
    if (sys::unlinkat(folder, name, AT_REMOVEDIR) != 0) return fd;
    told.entries.fetch_add(1, std::memory_order_relaxed);
    report.is_gone = true;
    return 0;
  }
  constexpr auto never_replaces = relink_mode::no_replace;
  using unio::detail::rename;
  bool const is_hidden = *hidden != '\0' && rename(folder, name, folder, hidden, never_replaces) == 0;
  if (is_hidden) all.name = hidden;
  // The name must be that of the open directory, or another one would be removed at the end; and what was
  // copied that directory.
  inode_id opened;
  inode_id named;
  struct stat now;
  if (identify(fd, opened) == 0 && sys::fstatat(folder, all.name, &now, AT_SYMLINK_NOFOLLOW) == 0)
    named = {now.st_dev, now.st_ino};
  inode_id wanted = opened;
  if (only != nullptr && identify(only->root.get(), wanted) != 0) wanted = {};
  e = opened != named || opened != wanted ? -ESTALE : 0;
  if (e == 0) {
    e = all.begin(fd);
  } else {
    sys::close(fd);
  }
  if (e == 0) {
    new (&all.root().extra<own>()) own{0, 0, 0, 0, false};
    int const ended = all.run();
    if (ended != 0) report.ended = code(ended);
    report.is_gone = all.is_gone;
  }
  if (is_hidden && !report.is_gone) {
    int const back = rename(folder, hidden, folder, name, never_replaces);
    // ENOENT: another call, which has found it hidden, was faster.
    if (back != 0 && back != -ENOENT) std::memcpy(report.left_as, hidden, std::strlen(hidden) + 1);
  }
  if (e == 0 || report.left_as[0] == '\0') return static_cast<int>(e);
  told.fail({}, "remove", e, only != nullptr ? "not what was copied" : "exchanged for something else");
  return 0;
}

crew_settings reduce_settings(reduce_options const& o, deadline d, stop_token second) noexcept {
  crew_settings s = settings_of(o, d, second);
  s.extra = sizeof(own);
  s.buffer = names_at_once;
  s.spare = places;
  s.depth_first = true;
  s.verify = true;
  s.climb = true;
  return s;
}

result<reduce_report> finished(reporting& told, reduce_report& report) noexcept {
  told.tell(true);
  report.removed = told.entries.load(std::memory_order_relaxed);
  report.bytes = told.bytes.load(std::memory_order_relaxed);
  report.failures = std::move(told.failures);
  return std::move(report);
}

} // namespace

result<reduce_report> trees::reduce_in(int folder, char const* name, bool must_be_directory,
                                       reduce_options const& o, deadline d, tree_sink* sink,
                                       stop_token second, copied* only) noexcept {
  reporting told(sink);
  reduce_report report;
  hidden_name hidden(name);
  int e = only != nullptr ? random_name(hidden.text, moved_prefix) : 0;
  if (e == 0)
    e = remove_name(folder, name, o.rename_first ? hidden.text : "", must_be_directory, o,
                    reduce_settings(o, d, second), told, report, only);
  if (e != 0) return code(e);
  return finished(told, report);
}

namespace {

result<reduce_report> reduce_until(path_handle const& base, path_view path, reduce_options const& o,
                                   deadline d, tree_sink* sink, stop_token second) noexcept {
  split_path at;
  if (int const e = at.set(path); e != 0) return code(e);
  descriptor const folder(sys::uninterrupted(
      [&] { return sys::openat(base_of(base), at.folder, O_PATH | O_DIRECTORY | O_CLOEXEC, 0); }));
  if (folder.get() < 0) return code(folder.get());
  crew_settings const s = reduce_settings(o, d, second);
  reporting told(sink);
  reduce_report report;
  hidden_name const hidden(at.name);
  int earlier = 0;        // why what an earlier call has left could not be begun
  bool has_begun = false; // to remove that
  bool remains = false;   // of it
  if (hidden.text[0] != '\0') {
    int const e = remove_name(folder.get(), hidden.text, "", true, o, s, told, report);
    // ESTALE: that call has not been killed, and has given it its name back.
    bool const is_none = e == -ENOENT || e == -ENOTDIR || e == -ESTALE;
    earlier = is_none ? 0 : e;
    if (earlier != 0) told.fail({}, "remove", e, reason_of(folder.get(), hidden.text, e));
    has_begun = e == 0;
    remains = !is_none && !report.is_gone;
    if (remains) std::copy_n(hidden.text, sizeof hidden.text, report.left_as);
  }
  if (!report.ended) {
    int const e = remove_name(folder.get(), at.name, o.rename_first ? hidden.text : "", at.has_slash, o, s,
                              told, report);
    if (e != 0 && !has_begun) return code(e == -ENOENT && earlier != 0 ? earlier : e);
    if (e == -ENOENT) {
      report.is_gone = true;
    } else if (e != 0) {
      told.fail({}, "remove", e, reason_of(folder.get(), at.name, e));
    }
  }
  report.is_gone = report.is_gone && !remains;
  return finished(told, report);
}

} // namespace

result<reduce_report> reduce(path_handle const& base, path_view path, reduce_options const& o, deadline d,
                             tree_sink* sink) noexcept {
  return named(reduce_until(base, path, o, d, sink, {}), "reduce", path);
}

task<result<reduce_report>> co_reduce(path_handle const& base, path_view path, reduce_options o, deadline d,
                                      tree_sink* sink) {
  auto r = co_await on_thread(
      [&](stop_token stop) noexcept { return reduce_until(base, path, o, d, sink, stop); });
  co_return named(std::move(r), "reduce", path);
}

} // namespace unio::fs
