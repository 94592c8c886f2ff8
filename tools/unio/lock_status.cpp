// unio lock --status: the owners, according to the kernel and the lock file. Nothing is opened for writing,
// nothing is locked.
//
// The kernel's locks are listed in /proc/PID/fdinfo/N (proc(5)), for the processes that this user may
// inspect. For other locks the kernel is asked piece by piece (F_OFD_GETLK, fcntl_locking(2)), and does not
// name the owner. A thread that sleeps for a lock is found by its system call (/proc/PID/task/TID/syscall);
// one with a deadline retries now and then, and does not show.

#include "complain.hpp"
#include "lock.hpp"
#include "src/locks/append_layout.hpp"
#include "src/locks/map_layout.hpp"
#include "src/locks/ranges_layout.hpp"
#include "tools/support/output.hpp"

#include <unio/locks/shared_fs_mutex.hpp>

#include <fmt/format.h>

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <limits>
#include <map>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <utility>

namespace lock {
namespace {

using inode_id = std::pair<dev_t, ino_t>;
constexpr char const* ends_too_early = "the lock file ends too early";
constexpr char const* other_version = "made by another version of unio, or damaged";
constexpr std::uint64_t last_byte = std::numeric_limits<std::int64_t>::max();

[[noreturn]] void fail(std::string const& path, std::string const& why) {
  throw std::runtime_error(escaped(path) + ": " + why);
}
[[noreturn]] void fail(std::string const& path, int code) { fail(path, std::string(std::strerror(code))); }

// Of "folder/lock": "folder/.lock.map".
std::string path_beside(std::string const& path, char const* what) {
  std::size_t const name = path.rfind('/') + 1; // 0 if there is none
  return path.substr(0, name) + "." + path.substr(name) + "." + what;
}

/// Open for reading; closed at its end.
class input {
 public:
  input(int directory, std::string const& name) noexcept
      : fd_(::openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC)) {}
  input(input const&) = delete;
  input& operator=(input const&) = delete;
  ~input() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int fd() const noexcept { return fd_; }
  /// As many as there are, `n` at most.
  [[nodiscard]] std::vector<char> read(std::uint64_t at, std::size_t n) const {
    std::vector<char> bytes(n);
    std::size_t have = 0;
    while (have < n) {
      auto const r = ::pread(fd_, bytes.data() + have, n - have, static_cast<off_t>(at + have));
      if (r <= 0) break;
      have += static_cast<std::size_t>(r);
    }
    bytes.resize(have);
    return bytes;
  }

 private:
  int fd_;
};

template <class T> T value_at(std::vector<char> const& bytes, std::size_t at) {
  T value;
  std::memcpy(&value, bytes.data() + at, sizeof value);
  return value;
}

// ── what the kernel knows ──────────────────────────────────────────────────────────────────────────────────

struct byte_range {
  std::uint64_t first;
  std::uint64_t last;
  bool exclusive;
  pid_t pid; // 0: unknown
  bool is_held;

  [[nodiscard]] bool has(std::uint64_t byte) const noexcept { return first <= byte && byte <= last; }
};

std::vector<std::string> names_in(std::string const& folder) {
  std::vector<std::string> names;
  DIR* const d = ::opendir(folder.c_str());
  if (d == nullptr) return names;
  while (dirent const* const e = ::readdir(d))
    if (e->d_name[0] != '.') names.emplace_back(e->d_name);
  ::closedir(d);
  return names;
}

bool is_number(std::string const& text) {
  return !text.empty() &&
         std::ranges::all_of(text, [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; });
}

// "lock:	1: OFDLCK ADVISORY  WRITE -1 00:2b:4711 100 EOF"
void take_held(std::string const& fdinfo, pid_t pid, std::vector<byte_range>& to) {
  std::ifstream file(fdinfo);
  for (std::string line; std::getline(file, line);) {
    char kind[16] = "";
    char type[16] = "";
    char last[32] = "";
    std::uint64_t first = 0;
    if (std::sscanf(line.c_str(), "lock: %*d: %15s %*s %15s %*d %*s %" SCNu64 " %31s", kind, type, &first,
                    last) != 4)
      continue;
    if (std::string_view(kind) != "OFDLCK") continue;
    std::uint64_t const end = std::string_view(last) == "EOF" ? last_byte : std::strtoull(last, nullptr, 10);
    to.push_back({first, end, std::string_view(type) == "WRITE", pid, true});
  }
}

// Threads that sleep in fcntl(fd, F_OFD_SETLKW, …).
void take_waiting(pid_t pid, std::map<int, inode_id> const& fds,
                  std::map<inode_id, std::vector<byte_range>>& to) {
  std::string const tasks = fmt::format("/proc/{}/task", pid);
  for (std::string const& task : names_in(tasks)) {
    std::ifstream file(tasks + "/" + task + "/syscall");
    std::string line;
    if (!std::getline(file, line)) continue;
    long call = -1;
    unsigned long a[3] = {};
    if (std::sscanf(line.c_str(), "%ld %lx %lx %lx", &call, &a[0], &a[1], &a[2]) != 4) continue;
    if (call != SYS_fcntl || a[1] != F_OFD_SETLKW) continue;
    auto const at = fds.find(static_cast<int>(a[0]));
    if (at == fds.end()) continue;
    struct flock f;
    iovec const here{&f, sizeof f};
    iovec const there{reinterpret_cast<void*>(a[2]), sizeof f};
    if (::process_vm_readv(pid, &here, 1, &there, 1, 0) != sizeof f) continue;
    auto const first = static_cast<std::uint64_t>(f.l_start);
    std::uint64_t const last = f.l_len == 0 ? last_byte : first + static_cast<std::uint64_t>(f.l_len) - 1;
    to[at->second].push_back({first, last, f.l_type == F_WRLCK, pid, false});
  }
}

std::map<inode_id, std::vector<byte_range>> locks_of(std::vector<inode_id> wanted) {
  std::ranges::sort(wanted);
  std::map<inode_id, std::vector<byte_range>> found;
  for (std::string const& process : names_in("/proc")) {
    if (!is_number(process)) continue;
    auto const pid = static_cast<pid_t>(std::strtol(process.c_str(), nullptr, 10));
    std::map<int, inode_id> fds;
    for (std::string const& fd : names_in("/proc/" + process + "/fd")) {
      struct stat s;
      if (::stat(("/proc/" + process + "/fd/" + fd).c_str(), &s) != 0) continue;
      inode_id const id(s.st_dev, s.st_ino);
      if (!std::ranges::binary_search(wanted, id)) continue;
      fds.emplace(static_cast<int>(std::strtol(fd.c_str(), nullptr, 10)), id);
      take_held("/proc/" + process + "/fdinfo/" + fd, pid, found[id]);
    }
    if (!fds.empty()) take_waiting(pid, fds, found);
  }
  return found;
}

// The locks between two bytes, of any owner.
void ask_kernel(int fd, std::uint64_t first, std::uint64_t last, std::vector<byte_range>& to) {
  while (first <= last && to.size() < 100'000) {
    struct flock f = {};
    f.l_type = F_WRLCK;
    f.l_whence = SEEK_SET;
    f.l_start = static_cast<off_t>(first);
    f.l_len = last == last_byte ? 0 : static_cast<off_t>(last - first + 1);
    if (::fcntl(fd, F_OFD_GETLK, &f) != 0 || f.l_type == F_UNLCK) return;
    std::uint64_t const begin = std::max(first, static_cast<std::uint64_t>(f.l_start));
    std::uint64_t const end = f.l_len == 0 ? last : static_cast<std::uint64_t>(f.l_start + f.l_len - 1);
    to.push_back({begin, std::min(end, last), f.l_type == F_WRLCK, 0, true});
    if (begin > first) ask_kernel(fd, first, begin - 1, to); // the reported lock is not always the first
    if (end >= last) return;
    first = end + 1;
  }
}

bool is_locked(int fd, std::uint64_t byte) {
  std::vector<byte_range> found;
  ask_kernel(fd, byte, byte, found);
  return !found.empty();
}

// Locks of processes that can be inspected, and the rest.
std::vector<byte_range> all_locks(int fd, inode_id id, std::uint64_t first, std::uint64_t last) {
  std::vector<byte_range> known = locks_of({id})[id];
  std::vector<byte_range> all;
  ask_kernel(fd, first, last, all);
  for (byte_range const& r : all) {
    bool const is_known = std::ranges::any_of(
        known, [&](byte_range const& k) { return k.is_held && k.first <= r.last && r.first <= k.last; });
    if (!is_known) known.push_back(r);
  }
  return known;
}

pid_t holder_of(std::vector<byte_range> const& locks, std::uint64_t byte) {
  for (byte_range const& r : locks)
    if (r.is_held && r.has(byte)) return r.pid;
  return 0;
}

// ── the table ──────────────────────────────────────────────────────────────────────────────────────────────

class table {
 public:
  table(std::string algorithm, options const& o) : algorithm_(std::move(algorithm)) {
    name(default_entity);
    for (std::string const& n : o.entities) name(n);
  }

  void entity(std::uint64_t value, bool exclusive, pid_t pid, char const* state) {
    auto const known = names_.find(value);
    std::string const digits = fmt::format("{:016x}", value);
    add(known != names_.end() ? digits + " " + known->second : digits, exclusive, pid, state);
  }
  void add(std::string what, bool exclusive, pid_t pid, char const* state) {
    std::string command;
    if (pid > 0) {
      std::ifstream file(fmt::format("/proc/{}/comm", pid));
      std::getline(file, command);
    }
    for (char& c : command) // a process may choose any name
      if (std::iscntrl(static_cast<unsigned char>(c)) != 0) c = '?';
    if (command.empty()) command.push_back('-');
    rows_.push_back({std::move(what), exclusive ? "exclusive" : "shared", pid > 0 ? std::to_string(pid) : "?",
                     std::move(command), state});
  }
  void print() {
    if (rows_.empty()) return tools::print("{}: nobody holds anything\n", algorithm_);
    std::ranges::sort(rows_, {}, [](row const& r) { return std::tuple(r[0], r[4] == "waiting", r[2]); });
    rows_.insert(rows_.begin(), row{"entity", "kind", "pid", "command", "state"});
    std::size_t widths[5] = {};
    for (row const& r : rows_)
      for (std::size_t i = 0; i != 5; ++i) widths[i] = std::max(widths[i], r[i].size());
    tools::print("{:14}", "algorithm");
    char const* before = "";
    for (row const& r : rows_) {
      tools::print("{}{:{}}  {:{}}  {:>{}}  {:{}}  {}\n", before, r[0], widths[0], r[1], widths[1], r[2],
                   widths[2], r[3], widths[3], r[4]);
      padded_ = fmt::format("{:14}", algorithm_);
      before = padded_.c_str();
    }
  }

 private:
  using row = std::array<std::string, 5>;
  void name(std::string const& n) { names_.emplace(unio::fs::entity_of(n).value, n); }

  std::string algorithm_;
  std::string padded_;
  std::map<std::uint64_t, std::string> names_;
  std::vector<row> rows_;
};

// ── the algorithms ─────────────────────────────────────────────────────────────────────────────────────────

struct lock_file {
  std::string const& path;
  input const& file;
  inode_id id;
  std::uint64_t size;
};

void show_byte_ranges(lock_file const& f, table& t) {
  using namespace unio::fs::ranges_layout;
  constexpr std::uint64_t greatest = unio::fs::byte_ranges::greatest_value;
  std::vector<char> const header = f.file.read(0, sizeof(ranges_header));
  if (header.size() != sizeof(ranges_header)) fail(f.path, ends_too_early);
  if (value_at<std::uint32_t>(header, offsetof(ranges_header, version)) != version ||
      value_at<std::uint32_t>(header, offsetof(ranges_header, header_size)) != sizeof(ranges_header) ||
      value_at<std::uint32_t>(header, offsetof(ranges_header, buckets)) != 1u << bucket_bits ||
      value_at<std::uint32_t>(header, offsetof(ranges_header, words)) != words_in_bucket)
    fail(f.path, other_version);
  std::vector<byte_range> const locks = all_locks(f.file.fd(), f.id, 0, greatest);
  for (byte_range const& r : locks) {
    // The kernel merges the locks of consecutive entities.
    for (std::uint64_t e = r.first; e <= std::min(r.last, greatest) && e - r.first < 1000; ++e)
      t.entity(e, r.exclusive, r.pid, r.is_held ? "held" : "waiting");
  }
  input const beside(AT_FDCWD, path_beside(f.path, "notes"));
  std::vector<char> const of = beside.read(0, sizeof(notes_header));
  std::vector<char> notes;
  if (of.size() == sizeof(notes_header) && std::memcmp(of.data(), notes_magic, sizeof notes_magic) == 0 &&
      value_at<std::uint64_t>(of, offsetof(notes_header, device)) == f.id.first &&
      value_at<std::uint64_t>(of, offsetof(notes_header, inode)) == f.id.second &&
      value_at<std::uint32_t>(of, offsetof(notes_header, buckets)) == 1u << bucket_bits &&
      value_at<std::uint32_t>(of, offsetof(notes_header, words)) == words_in_bucket)
    notes = beside.read(notes_at, notes_bytes);
  for (std::size_t at = 0; at + 8 <= notes.size(); at += 8) {
    std::uint64_t const id = value_at<std::uint64_t>(notes, at) & ~told_bit;
    if (id == 0) continue;
    bool const is_held =
        std::ranges::any_of(locks, [&](byte_range const& r) { return r.is_held && r.has(id - 1); });
    if (!is_held) t.entity(id - 1, true, 0, "owner died");
  }
}

void show_memory_map(lock_file const& f, table& t) {
  using namespace unio::fs::map_layout;
  std::vector<char> const header = f.file.read(0, sizeof(map_header));
  if (header.size() != sizeof(map_header)) fail(f.path, ends_too_early);
  auto const slots = value_at<std::uint32_t>(header, offsetof(map_header, slots));
  if (value_at<std::uint32_t>(header, offsetof(map_header, version)) != version ||
      value_at<std::uint32_t>(header, offsetof(map_header, users)) != users ||
      value_at<std::uint32_t>(header, offsetof(map_header, slot_size)) != sizeof(map_slot) ||
      slots > (1u << 20))
    fail(f.path, other_version);
  std::vector<byte_range> const locks = all_locks(f.file.fd(), f.id, user_bytes, slot_bytes + slots);
  auto const show = [&](std::size_t slot, bool exclusive, std::uint64_t user, char const* state) {
    bool const lives = is_locked(f.file.fd(), user_bytes + user);
    t.add(fmt::format("slot {}", slot), exclusive, holder_of(locks, user_bytes + user),
          lives ? state : "owner died");
  };
  input const beside(AT_FDCWD, path_beside(f.path, "map"));
  if (beside.fd() < 0) fail(path_beside(f.path, "map"), errno);
  // As joining users do: the map that the lock file names.
  std::vector<char> const of = beside.read(0, sizeof(map_header));
  constexpr std::size_t said_alike = offsetof(map_header, device); // magic, version, sizes, hash
  struct stat s;
  if (of.size() != sizeof(map_header) || std::memcmp(of.data(), header.data(), said_alike) != 0 ||
      value_at<std::uint64_t>(of, offsetof(map_header, map_id)) == 0 ||
      value_at<std::uint64_t>(of, offsetof(map_header, map_id)) !=
          value_at<std::uint64_t>(header, offsetof(map_header, map_id)) ||
      ::fstat(beside.fd(), &s) != 0 || static_cast<std::uint64_t>(s.st_size) != file_size(slots))
    fail(path_beside(f.path, "map"), "not the map of this lock file");
  std::vector<char> const map = beside.read(slots_at, slots * sizeof(map_slot));
  for (std::size_t i = 0; (i + 1) * sizeof(map_slot) <= map.size(); ++i) {
    std::size_t const at = i * sizeof(map_slot);
    std::uint64_t const owner = value_at<std::uint64_t>(map, at + offsetof(map_slot, word)) & 0xffff;
    bool is_shared = false;
    for (std::uint32_t user = 1; user <= users; ++user) {
      std::size_t const word = at + offsetof(map_slot, readers) + (user - 1) / 64 * sizeof(std::uint64_t);
      if ((value_at<std::uint64_t>(map, word) >> ((user - 1) % 64) & 1) == 0) continue;
      is_shared = true;
      show(i, false, user, "held");
    }
    if (owner != 0 && owner <= users) show(i, true, owner, is_shared ? "waiting" : "held");
  }
  for (byte_range const& r : locks) // while they are degraded
    for (std::uint64_t b = std::max(r.first, slot_bytes); b <= std::min(r.last, slot_bytes + slots - 1); ++b)
      t.add(fmt::format("slot {}", b - slot_bytes), r.exclusive, r.pid, r.is_held ? "held" : "waiting");
}

void show_atomic_append(lock_file const& f, table& t) {
  using namespace unio::fs::append_layout;
  std::vector<char> const header = f.file.read(0, sizeof(append_header));
  if (header.size() != sizeof(append_header) || f.size < cells_at) fail(f.path, ends_too_early);
  if (value_at<std::uint32_t>(header, offsetof(append_header, version)) != version)
    fail(f.path, other_version);
  std::uint64_t const hint = value_at<std::uint64_t>(header, offsetof(append_header, first));
  std::uint64_t const first = hint < cells_at || hint % sizeof(cell) != 0 ? cells_at : hint;
  std::vector<byte_range> const locks = all_locks(f.file.fd(), f.id, request_bytes, request_bytes | id_mask);
  std::uint64_t request = 0;
  std::uint64_t request_state = done;
  std::vector<char> const queue =
      f.file.read(first, std::min<std::uint64_t>(f.size, first + (64u << 20)) - std::min(first, f.size));
  std::vector<std::pair<cell, bool>> live;
  for (std::size_t at = 0; at + sizeof(cell) <= queue.size(); at += sizeof(cell)) {
    auto const c = value_at<cell>(queue, at);
    if (c.count == 0 || c.count > entities_in_cell || c.number >= c.cells) continue;
    if (c.number == 0) {
      request = c.id;
      request_state = c.state;
    }
    if (c.id != request || request_state == done) continue;
    live.emplace_back(c, request_state != died && is_locked(f.file.fd(), request_bytes + (c.id & id_mask)));
  }
  auto const waits = [&](std::uint64_t id) { // an earlier request has one of its entities, not both shared
    for (auto const& [mine, mine_lives] : live) {
      if (mine.id != id) continue;
      for (std::size_t i = 0; i != mine.count; ++i)
        for (auto const& [other, other_lives] : live) {
          if (other.id == id) break;
          if (!other_lives) continue;
          for (std::size_t j = 0; j != other.count; ++j)
            if (mine.entities[i].value == other.entities[j].value &&
                (mine.entities[i].exclusive != 0 || other.entities[j].exclusive != 0))
              return true;
        }
    }
    return false;
  };
  for (auto const& [c, lives] : live) {
    char const* const state = !lives ? "owner died" : waits(c.id) ? "waiting" : "held";
    for (std::size_t i = 0; i != c.count; ++i) {
      bool const is_told = !lives && (c.told >> i & 1) != 0;
      if (is_told || (!lives && c.entities[i].exclusive == 0)) continue;
      t.entity(c.entities[i].value, c.entities[i].exclusive != 0,
               lives ? holder_of(locks, request_bytes + (c.id & id_mask)) : 0, state);
    }
  }
}

// An entity is a file of that name (src/locks/lock_files.cpp): its owner has byte 0 locked; it is executable
// while the owner is exclusive.
void show_lock_files(std::string const& path, table& t) {
  input const folder(AT_FDCWD, path);
  if (folder.fd() < 0) fail(path, errno);
  std::vector<std::pair<std::string, struct stat>> files;
  std::vector<inode_id> ids;
  for (std::string const& name : names_in(path)) {
    struct stat s;
    bool const is_one = name.size() == 16 &&
                        name.find_first_not_of("0123456789abcdef") == std::string::npos &&
                        ::fstatat(folder.fd(), name.c_str(), &s, AT_SYMLINK_NOFOLLOW) == 0 &&
                        S_ISREG(s.st_mode) && s.st_size == 0;
    if (!is_one) continue;
    files.emplace_back(name, s);
    ids.emplace_back(s.st_dev, s.st_ino);
  }
  auto locks = locks_of(ids);
  for (auto const& [name, s] : files) {
    std::uint64_t const value = std::strtoull(name.c_str(), nullptr, 16);
    bool is_held = false;
    for (byte_range const& r : locks[{s.st_dev, s.st_ino}]) {
      if (!r.has(0)) continue;
      is_held = is_held || r.is_held;
      t.entity(value, r.exclusive, r.pid, r.is_held ? "held" : "waiting");
    }
    if (is_held) continue;
    input const file(folder.fd(), name);
    std::vector<byte_range> others;
    if (file.fd() >= 0) ask_kernel(file.fd(), 0, 0, others);
    for (byte_range const& r : others) t.entity(value, r.exclusive, 0, "held");
    if (others.empty() && (s.st_mode & S_IXUSR) != 0) t.entity(value, true, 0, "owner died");
  }
}

void show(options const& o) {
  struct stat s;
  if (::lstat(o.path.c_str(), &s) != 0) fail(o.path, errno);
  if (S_ISDIR(s.st_mode)) {
    table t("lock_files", o);
    show_lock_files(o.path, t);
    return t.print();
  }
  if (S_ISLNK(s.st_mode)) fail(o.path, ELOOP);
  if (!S_ISREG(s.st_mode)) fail(o.path, "no lock file: neither a regular file nor a directory");
  input const file(AT_FDCWD, o.path);
  if (file.fd() < 0 || ::fstat(file.fd(), &s) != 0) fail(o.path, errno);
  std::vector<char> magic = file.read(0, 16);
  magic.resize(16);
  lock_file const f{o.path, file, {s.st_dev, s.st_ino}, static_cast<std::uint64_t>(s.st_size)};
  struct {
    std::string_view magic;
    char const* name;
    void (*show)(lock_file const&, table&);
  } const kinds[] = {{"unio byte_ranges", "byte_ranges", show_byte_ranges},
                     {"unio memory_map", "memory_map", show_memory_map},
                     {"unio append", "atomic_append", show_atomic_append}};
  for (auto const& k : kinds) {
    if (std::memcmp(magic.data(), k.magic.data(), k.magic.size()) != 0) continue;
    table t(k.name, o);
    k.show(f, t);
    return t.print();
  }
  fail(o.path, "no lock file of unio's");
}

} // namespace

int show_status(options const& o) {
  try {
    show(o);
    return tools::finish_output("unio");
  } catch (std::runtime_error const& e) {
    complain(fmt::format("unio: {}\n", e.what()));
    return 1;
  }
}

} // namespace lock
