#define FUSE_USE_VERSION 312

#include "fs/fuse/filesystem.hpp"

#include "support/posix.hpp"
#include "support/test.hpp"

#include <fuse_lowlevel.h>
#include <sys/mount.h>
#include <sys/prctl.h>

#include <list>

namespace test::fuse {
namespace {

// ── files and locks ────────────────────────────────────────────────────────────────────────────────────────

// Of whom a lock is: which machine, and which open file or process there.
struct owner {
  int machine;
  std::uint64_t id;
  bool operator==(owner const&) const = default;
};

struct held_lock {
  owner of;
  std::uint64_t open_file; // with which it ends, as an open-file-description lock does
  bool exclusive;
  std::uint64_t first;
  std::uint64_t last;
};

struct node {
  struct stat attributes = {};
  std::string name; // its latest
  std::string content;
  std::map<std::string, fuse_ino_t> names; // of a directory
  std::vector<held_lock> locks;
};

struct waiter {
  fuse_req_t request;
  fuse_ino_t at;
  held_lock wanted;
  bool is_interrupted = false;
};

struct late_answer {
  fuse_req_t request;
  fuse_ino_t about;
  struct stat as_it_was;
};

// All that there is. Nodes are never forgotten: tests make few.
struct store {
  explicit store(switches& s, options o) : faults(s), how(o) {
    make(S_IFDIR | 0755, ::geteuid(), ::getegid());
  }

  fuse_ino_t make(mode_t mode, uid_t uid, gid_t gid) {
    nodes.push_back(std::make_unique<node>());
    struct stat& a = nodes.back()->attributes;
    a.st_ino = nodes.size();
    a.st_mode = mode;
    a.st_nlink = S_ISDIR(mode) ? 2 : 1;
    a.st_uid = uid;
    a.st_gid = gid;
    return nodes.size();
  }
  node& at(fuse_ino_t i) { return *nodes[i - 1]; }
  struct stat attributes(fuse_ino_t i) {
    node const& n = at(i);
    struct stat a = n.attributes;
    a.st_size = static_cast<off_t>(n.content.size());
    a.st_blocks = (a.st_size + 511) / 512;
    return a;
  }
  // 0, or the errno with which this one, about what has that name, fails.
  int asked(std::atomic<int> const* fault = nullptr, std::string_view name = {}) {
    ++faults.requests;
    bool const is_meant = fault != nullptr && (faults.victim[0] == '\0' || name == faults.victim);
    return is_meant ? fault->load() : 0;
  }
  int asked(std::atomic<int> const& fault, fuse_ino_t i) { return asked(&fault, at(i).name); }

  switches& faults;
  options how;
  std::vector<std::unique_ptr<node>> nodes;
  std::list<waiter> waiting;
  std::list<late_answer> late;
  std::uint64_t last_open_file = 0;
};

struct machine {
  store& all;
  int number;
};

store& store_of(fuse_req_t r) { return static_cast<machine*>(fuse_req_userdata(r))->all; }

bool overlap(held_lock const& a, held_lock const& b) { return a.first <= b.last && b.first <= a.last; }

held_lock const* in_the_way(node const& n, held_lock const& wanted) {
  for (held_lock const& l : n.locks)
    if (!(l.of == wanted.of) && (l.exclusive || wanted.exclusive) && overlap(l, wanted)) return &l;
  return nullptr;
}

// What its owner holds of the range is no more; what is left of it on both sides is.
void remove_range(node& n, held_lock const& range) {
  std::vector<held_lock> left;
  for (held_lock const& l : n.locks) {
    if (!(l.of == range.of) || !overlap(l, range)) {
      left.push_back(l);
      continue;
    }
    held_lock part = l;
    if (part.last = range.first - 1; l.first < range.first) left.push_back(part);
    part = l;
    if (part.first = range.last + 1; l.last > range.last) left.push_back(part);
  }
  n.locks = std::move(left);
}

void grant(node& n, held_lock const& l) {
  remove_range(n, l);
  n.locks.push_back(l);
}

// Those that can have theirs now, and those whose process was sent a signal.
void look_after_waiters(store& all) {
  for (auto w = all.waiting.begin(); w != all.waiting.end();) {
    node& n = all.at(w->at);
    bool const can_have_it = in_the_way(n, w->wanted) == nullptr;
    if (!can_have_it && !w->is_interrupted) {
      ++w;
      continue;
    }
    fuse_req_interrupt_func(w->request, nullptr, nullptr);
    if (can_have_it) grant(n, w->wanted);
    fuse_reply_err(w->request, can_have_it ? 0 : EINTR);
    w = all.waiting.erase(w);
  }
}

// ── operations ─────────────────────────────────────────────────────────────────────────────────────────────

using file_info = struct fuse_file_info;

fuse_entry_param entry_of(store& all, fuse_ino_t i) {
  fuse_entry_param e = {};
  e.ino = i;
  e.attr = all.attributes(i);
  e.attr_timeout = e.entry_timeout = all.how.cached_for;
  return e;
}

fuse_ino_t find(store& all, fuse_ino_t parent, char const* name) {
  auto const& names = all.at(parent).names;
  auto const found = names.find(name);
  return found == names.end() ? 0 : found->second;
}

void init(void* user, fuse_conn_info* connection) {
  options const& o = static_cast<machine*>(user)->all.how;
  if (o.locks_here) connection->want &= ~static_cast<unsigned>(FUSE_CAP_POSIX_LOCKS);
  if (o.cached_for > 0) connection->want &= ~static_cast<unsigned>(FUSE_CAP_AUTO_INVAL_DATA);
}

void lookup(fuse_req_t r, fuse_ino_t parent, char const* name) {
  store& all = store_of(r);
  if (int const e = all.asked(&all.faults.lookup_error, name); e != 0) return void(fuse_reply_err(r, e));
  fuse_ino_t const found = find(all, parent, name);
  if (found == 0 && all.how.cached_for == 0) return void(fuse_reply_err(r, ENOENT));
  fuse_entry_param e = {};
  e.entry_timeout = all.how.cached_for; // that there is none may be believed, too
  if (found != 0) e = entry_of(all, found);
  fuse_reply_entry(r, &e);
}

void getattr(fuse_req_t r, fuse_ino_t i, file_info*) {
  store& all = store_of(r);
  if (int const e = all.asked(all.faults.attributes_error, i); e != 0) return void(fuse_reply_err(r, e));
  struct stat const a = all.attributes(i);
  bool const is_first = static_cast<machine*>(fuse_req_userdata(r))->number == 0;
  if (is_first && all.faults.answers_to_keep > 0) {
    --all.faults.answers_to_keep;
    ++all.faults.answers_kept;
    return void(all.late.push_back({.request = r, .about = i, .as_it_was = a}));
  }
  for (auto l = all.late.begin(); is_first && l != all.late.end();) {
    if (l->about != i) {
      ++l;
      continue;
    }
    fuse_reply_attr(l->request, &l->as_it_was, all.how.cached_for);
    ::usleep(20'000); // and is in the kernel's cache
    l = all.late.erase(l);
  }
  fuse_reply_attr(r, &a, all.how.cached_for);
}

void setattr(fuse_req_t r, fuse_ino_t i, struct stat* to, int which, file_info*) {
  store& all = store_of(r);
  all.asked();
  node& n = all.at(i);
  if ((which & FUSE_SET_ATTR_MODE) != 0)
    n.attributes.st_mode = (n.attributes.st_mode & S_IFMT) | (to->st_mode & 07777);
  if ((which & FUSE_SET_ATTR_UID) != 0) n.attributes.st_uid = to->st_uid;
  if ((which & FUSE_SET_ATTR_GID) != 0) n.attributes.st_gid = to->st_gid;
  if ((which & FUSE_SET_ATTR_MTIME) != 0) n.attributes.st_mtim = to->st_mtim;
  if ((which & FUSE_SET_ATTR_SIZE) != 0) n.content.resize(static_cast<std::size_t>(to->st_size));
  struct stat const a = all.attributes(i);
  fuse_reply_attr(r, &a, all.how.cached_for);
}

fuse_ino_t make_named(fuse_req_t r, store& all, fuse_ino_t parent, char const* name, mode_t mode) {
  fuse_ctx const* const who = fuse_req_ctx(r);
  fuse_ino_t const i = all.make(mode, who->uid, who->gid);
  all.at(i).name = name;
  return all.at(parent).names[name] = i;
}

void mkdir(fuse_req_t r, fuse_ino_t parent, char const* name, mode_t mode) {
  store& all = store_of(r);
  if (int const e = all.asked(&all.faults.mkdir_error, name); e != 0) return void(fuse_reply_err(r, e));
  if (find(all, parent, name) != 0) return void(fuse_reply_err(r, EEXIST));
  fuse_entry_param const e = entry_of(all, make_named(r, all, parent, name, S_IFDIR | (mode & 07777)));
  fuse_reply_entry(r, &e);
}

void remove(fuse_req_t r, fuse_ino_t parent, char const* name, std::atomic<int> const& fault) {
  store& all = store_of(r);
  if (int const e = all.asked(&fault, name); e != 0) return void(fuse_reply_err(r, e));
  fuse_ino_t const found = find(all, parent, name);
  if (found == 0) return void(fuse_reply_err(r, ENOENT));
  if (!all.at(found).names.empty()) return void(fuse_reply_err(r, ENOTEMPTY));
  bool const stays = all.how.renames_removed && S_ISREG(all.at(found).attributes.st_mode);
  if (!stays) all.at(found).attributes.st_nlink = 0;
  if (stays) all.at(parent).names[".removed" + std::to_string(found)] = found;
  all.at(parent).names.erase(name);
  fuse_reply_err(r, 0);
}

void unlink(fuse_req_t r, fuse_ino_t parent, char const* name) {
  remove(r, parent, name, store_of(r).faults.unlink_error);
}

void rmdir(fuse_req_t r, fuse_ino_t parent, char const* name) {
  remove(r, parent, name, store_of(r).faults.rmdir_error);
}

// As NFS: without flags.
void rename(fuse_req_t r, fuse_ino_t parent, char const* name, fuse_ino_t to, char const* as,
            unsigned flags) {
  store& all = store_of(r);
  all.asked();
  fuse_ino_t const found = find(all, parent, name);
  fuse_ino_t const before = find(all, to, as);
  if (flags != 0) return void(fuse_reply_err(r, EINVAL));
  if (found == 0) return void(fuse_reply_err(r, ENOENT));
  if (before != 0 && !all.at(before).names.empty()) return void(fuse_reply_err(r, ENOTEMPTY));
  if (before != 0) all.at(before).attributes.st_nlink = 0;
  all.at(parent).names.erase(name);
  all.at(to).names[as] = found;
  all.at(found).name = as;
  fuse_reply_err(r, 0);
}

void describe(store& all, file_info& f) {
  f.fh = ++all.last_open_file;
  f.direct_io = all.how.direct ? 1 : 0;
  f.keep_cache = all.how.cached_for > 0 ? 1 : 0;
}

// A file without a name is of the past: as an NFS server says it.
void open(fuse_req_t r, fuse_ino_t i, file_info* f) {
  store& all = store_of(r);
  int e = all.asked(all.faults.open_error, i);
  if (e == 0 && all.at(i).attributes.st_nlink == 0) e = ESTALE;
  if (e != 0) return void(fuse_reply_err(r, e));
  describe(all, *f);
  fuse_reply_open(r, f);
}

void opendir(fuse_req_t r, fuse_ino_t i, file_info* f) {
  store& all = store_of(r);
  if (int const e = all.asked(all.faults.open_directory_error, i); e != 0) return void(fuse_reply_err(r, e));
  fuse_reply_open(r, f);
}

void create(fuse_req_t r, fuse_ino_t parent, char const* name, mode_t mode, file_info* f) {
  store& all = store_of(r);
  if (int const e = all.asked(&all.faults.open_error, name); e != 0) return void(fuse_reply_err(r, e));
  fuse_ino_t found = find(all, parent, name);
  if (found != 0 && (f->flags & O_EXCL) != 0) return void(fuse_reply_err(r, EEXIST));
  if (found == 0) found = make_named(r, all, parent, name, S_IFREG | (mode & 07777));
  describe(all, *f);
  fuse_entry_param const e = entry_of(all, found);
  fuse_reply_create(r, &e, f);
}

// The locks of an open file end with it. The kernel does not ask for that: it says whose locks to remove for
// POSIX locks only.
void release(fuse_req_t r, fuse_ino_t i, file_info* f) {
  store& all = store_of(r);
  all.asked();
  int const from = static_cast<machine*>(fuse_req_userdata(r))->number;
  std::erase_if(all.at(i).locks, [&](held_lock const& l) {
    return !all.how.keeps_locks && l.of.machine == from && l.open_file == f->fh;
  });
  fuse_reply_err(r, 0);
  look_after_waiters(all);
}

void flush(fuse_req_t r, fuse_ino_t i, file_info*) {
  store& all = store_of(r);
  fuse_reply_err(r, all.asked(all.faults.flush_error, i));
}

void read(fuse_req_t r, fuse_ino_t i, std::size_t n, off_t at, file_info*) {
  store& all = store_of(r);
  if (int const e = all.asked(all.faults.read_error, i); e != 0) return void(fuse_reply_err(r, e));
  std::string const& content = all.at(i).content;
  std::size_t const from = std::min(static_cast<std::size_t>(at), content.size());
  fuse_reply_buf(r, content.data() + from, std::min(n, content.size() - from));
}

void write(fuse_req_t r, fuse_ino_t i, char const* data, std::size_t n, off_t at, file_info*) {
  store& all = store_of(r);
  if (int const e = all.asked(all.faults.write_error, i); e != 0) return void(fuse_reply_err(r, e));
  if (long const room = all.faults.room; room >= 0) {
    if (room == 0) return void(fuse_reply_err(r, ENOSPC));
    n = std::min(n, static_cast<std::size_t>(room));
    all.faults.room = room - static_cast<long>(n);
  }
  std::string& content = all.at(i).content;
  auto const from = static_cast<std::size_t>(at);
  content.resize(std::max(content.size(), from + n));
  std::memcpy(content.data() + from, data, n);
  if (all.faults.spoils_writes && from == 0 && n != 0) content[0] ^= 1;
  fuse_reply_write(r, n);
}

void fallocate(fuse_req_t r, fuse_ino_t i, int mode, off_t at, off_t n, file_info*) {
  store& all = store_of(r);
  int e = all.asked(all.faults.fallocate_error, i);
  if (e == 0 && mode != 0) e = EOPNOTSUPP;
  std::string& content = all.at(i).content;
  if (e == 0) content.resize(std::max(content.size(), static_cast<std::size_t>(at + n)));
  fuse_reply_err(r, e);
}

void readdir(fuse_req_t r, fuse_ino_t i, std::size_t room, off_t at, file_info*) {
  store& all = store_of(r);
  if (int const e = all.asked(all.faults.list_error, i); e != 0) return void(fuse_reply_err(r, e));
  std::string out;
  off_t number = 0;
  for (auto const& [name, child] : all.at(i).names) {
    if (++number <= at) continue;
    struct stat const a = all.attributes(child);
    std::size_t const size = fuse_add_direntry(r, nullptr, 0, name.c_str(), nullptr, 0);
    if (out.size() + size > room) break;
    std::size_t const before = out.size();
    out.resize(before + size);
    fuse_add_direntry(r, out.data() + before, size, name.c_str(), &a, number);
  }
  fuse_reply_buf(r, out.data(), out.size());
}

held_lock lock_of(fuse_req_t r, file_info const* f, struct flock const* l) {
  int const from = static_cast<machine*>(fuse_req_userdata(r))->number;
  auto const first = static_cast<std::uint64_t>(l->l_start);
  std::uint64_t const last =
      l->l_len == 0 ? ~std::uint64_t{0} >> 1 : first + static_cast<std::uint64_t>(l->l_len) - 1;
  return {.of = {from, f->lock_owner},
          .open_file = f->fh,
          .exclusive = l->l_type == F_WRLCK,
          .first = first,
          .last = last};
}

int asked_for_lock(store& all) {
  ++all.faults.lock_requests;
  return all.asked(&all.faults.lock_error);
}

void getlk(fuse_req_t r, fuse_ino_t i, file_info* f, struct flock* l) {
  store& all = store_of(r);
  if (int const e = asked_for_lock(all); e != 0) return void(fuse_reply_err(r, e));
  held_lock const* const other = in_the_way(all.at(i), lock_of(r, f, l));
  l->l_type = F_UNLCK;
  if (other != nullptr) {
    l->l_type = static_cast<short>(other->exclusive ? F_WRLCK : F_RDLCK);
    l->l_start = static_cast<off_t>(other->first);
    l->l_len = static_cast<off_t>(other->last - other->first + 1);
    l->l_pid = 0;
  }
  fuse_reply_lock(r, l);
}

void setlk(fuse_req_t r, fuse_ino_t i, file_info* f, struct flock* l, int sleeps) {
  store& all = store_of(r);
  if (int const e = asked_for_lock(all); e != 0) return void(fuse_reply_err(r, e));
  node& n = all.at(i);
  held_lock const wanted = lock_of(r, f, l);
  if (l->l_type == F_UNLCK) {
    remove_range(n, wanted);
    fuse_reply_err(r, 0);
    return look_after_waiters(all);
  }
  if (in_the_way(n, wanted) == nullptr) {
    grant(n, wanted);
    fuse_reply_err(r, 0);
    return look_after_waiters(all); // an exclusive one may have become a shared one
  }
  if (sleeps == 0) return void(fuse_reply_err(r, EAGAIN));
  waiter& w = all.waiting.emplace_back(waiter{.request = r, .at = i, .wanted = wanted});
  fuse_req_interrupt_func(
      r, [](fuse_req_t, void* which) { static_cast<waiter*>(which)->is_interrupted = true; }, &w);
}

fuse_lowlevel_ops operations(options const& how) {
  fuse_lowlevel_ops o = {};
  o.init = init;
  o.lookup = lookup;
  o.getattr = getattr;
  o.setattr = setattr;
  o.mkdir = mkdir;
  o.unlink = unlink;
  o.rmdir = rmdir;
  o.rename = rename;
  o.open = open;
  o.opendir = opendir;
  o.create = create;
  o.release = release;
  if (how.flushes) o.flush = flush;
  o.read = read;
  o.write = write;
  o.fallocate = fallocate;
  o.readdir = readdir;
  o.getlk = getlk;
  o.setlk = setlk;
  return o;
}

// ── the server ─────────────────────────────────────────────────────────────────────────────────────────────

constexpr int most_machines = 2;

// One thread: requests that wait for a lock are answered later. Returns when the mounts have gone.
int serve(switches& s, options o, std::vector<std::string> const& mountpoints, process::channel& with) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  store all(s, o);
  fuse_lowlevel_ops const ops = operations(o);
  std::array<machine, most_machines> machines{machine{all, 0}, machine{all, 1}};
  std::array<fuse_session*, most_machines> sessions = {};
  std::array<pollfd, most_machines> fds = {};
  std::array<fuse_buf, most_machines> buffers = {};
  std::size_t const n = mountpoints.size();
  for (std::size_t i = 0; i != n; ++i) {
    std::string program = "unio_fuse";
    std::string dash_o = "-o";
    std::string mount_options = "default_permissions,fsname=unio,subtype=unio";
    std::array<char*, 3> words{program.data(), dash_o.data(), mount_options.data()};
    fuse_args arguments = FUSE_ARGS_INIT(words.size(), words.data());
    sessions[i] = fuse_session_new(&arguments, &ops, sizeof ops, &machines[i]);
    fuse_opt_free_args(&arguments);
    if (sessions[i] == nullptr || fuse_session_mount(sessions[i], mountpoints[i].c_str()) != 0) {
      with.say('!');
      return 1;
    }
    fds[i] = {.fd = fuse_session_fd(sessions[i]), .events = POLLIN, .revents = 0};
  }
  with.say('m');
  for (;;) {
    if (::poll(fds.data(), n, -1) < 0 && errno != EINTR) return 2;
    for (std::size_t i = 0; i != n; ++i) {
      if (fds[i].revents == 0) continue;
      int const got = fuse_session_receive_buf(sessions[i], &buffers[i]);
      if (got == -EINTR || got == -EAGAIN) continue;
      if (got <= 0) return 0;
      fuse_session_process_buf(sessions[i], &buffers[i]);
      look_after_waiters(all);
      long held = 0;
      for (auto const& some : all.nodes) held += static_cast<long>(some->locks.size());
      s.locks_held = held;
    }
  }
}

// Mounts are made in a namespace of their own, and go when this process and its children have ended.
std::string namespace_of_our_own() {
  static std::string const why_not = [] {
    if (::access("/dev/fuse", R_OK | W_OK) != 0)
      return std::string("no use of /dev/fuse: ") + std::strerror(errno);
    if (::unshare(CLONE_NEWNS) != 0 || ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0)
      return std::string("may not mount: ") + std::strerror(errno);
    return std::string();
  }();
  return why_not;
}

} // namespace

filesystem::filesystem(options o) : machines_(o.machines), why_not_(namespace_of_our_own()) {
  void* const shared =
      ::mmap(nullptr, sizeof(switches), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  switches_ = new (shared) switches;
  if (!is_mounted()) return;
  std::vector<std::string> mountpoints;
  for (int i = 0; i != machines_; ++i) {
    mountpoints.push_back(path(i));
    std::filesystem::create_directory(path(i));
  }
  server_.emplace([&](process::channel& with) { return serve(*switches_, o, mountpoints, with); });
  if (server_->hear() != 'm') why_not_ = "libfuse could not mount";
}

filesystem::~filesystem() {
  for (int i = 0; i != machines_; ++i) ::umount2(path(i).c_str(), MNT_DETACH);
  server_.reset();
  ::munmap(switches_, sizeof(switches));
}

} // namespace test::fuse
