#include "fs/on_thread.hpp"
#include "fs/tree.hpp"

#include <unio/fs/walk.hpp>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <limits>

namespace unio::inline v0_1::fs {
namespace {

using namespace trees;

class walker;

// Where a worker is: what walk_entry::path() and open() need.
struct place {
  walker* self;
  worker* w;
  node const* in; // null: the root itself, which is in `fd`
  int fd;
};

} // namespace

struct walk_entry::access {
  static walk_entry make(place& p, std::string_view name, entry_kind kind, std::uint64_t inode,
                         std::uint32_t depth, entry_status const* status) noexcept {
    walk_entry e;
    e.name_ = name;
    e.walker_ = &p;
    e.status_ = status;
    e.inode_ = inode;
    e.depth_ = depth;
    e.thread_ = p.w != nullptr ? p.w->index : 0;
    e.kind_ = kind;
    return e;
  }
};

namespace {

constexpr unsigned status_mask = STATX_TYPE | STATX_MODE | STATX_NLINK | STATX_UID | STATX_GID | STATX_MTIME |
                                 STATX_INO | STATX_SIZE | STATX_BLOCKS;

// Filesystems have times for which there is no such number: the earliest and the latest stand for those.
std::int64_t nanoseconds_of(statx_timestamp const& t) noexcept {
  constexpr std::int64_t second = 1'000'000'000;
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max() / second - 1;
  if (t.tv_sec > most) return std::numeric_limits<std::int64_t>::max();
  if (t.tv_sec < -most) return std::numeric_limits<std::int64_t>::min();
  return t.tv_sec * second + t.tv_nsec;
}

entry_status status_of(struct statx const& s) noexcept {
  return {.size = s.stx_size,
          .allocated = s.stx_blocks * 512,
          .device = std::uint64_t{s.stx_dev_major} << 32 | s.stx_dev_minor,
          .inode = s.stx_ino,
          .links = s.stx_nlink,
          .mode = s.stx_mode & 07777U,
          .owner = s.stx_uid,
          .group = s.stx_gid,
          .modified_ns = nanoseconds_of(s.stx_mtime)};
}

class walker final : public crew {
 public:
  walker(walk_visitor& v, walk_options const& o, crew_settings const& s) noexcept
      : crew(s), visitor_(v), options_(o) {}

  std::atomic<std::uint64_t> entries{0};
  std::atomic<std::uint64_t> directories{0};
  walk_report report;

  // Shows the root, and tells whether to go into it.
  bool show_root(int fd, entry_kind kind, entry_status const* status, std::uint64_t inode) noexcept {
    place p{this, nullptr, nullptr, fd};
    entries.fetch_add(1, std::memory_order_relaxed);
    return visitor_.entry(walk_entry::access::make(p, "", kind, inode, 0, status)) == walk_step::go_on;
  }
  void fail(std::string_view path, std::string_view what, std::int64_t why) noexcept {
    std::lock_guard const lock(reporting_);
    tree_failure const f{path, what, code(why), {}};
    report.failures.add(f);
    visitor_.failed(f);
  }

 private:
  int visit(worker& w, node& n) noexcept override;
  int visit_in_order(worker& w, node& n, place& p, node_list& children) noexcept;
  int show(place& p, node& n, std::string_view name, entry_kind kind, std::uint64_t inode,
           node_list& children) noexcept;
  bool leads_to_directory(int fd, char const* name) noexcept;
  bool is_new(int fd, int& e) noexcept;

  walk_visitor& visitor_;
  walk_options const& options_;
  std::mutex reporting_;
  std::mutex seen_mutex_;
  inode_table<char> seen_; // directories, where links are followed
};

bool walker::leads_to_directory(int fd, char const* name) noexcept {
  struct statx s;
  auto const e = sys::statx(fd, name, AT_STATX_DONT_SYNC, STATX_TYPE, &s);
  return e == 0 && kind_of(s.stx_mode) == entry_kind::directory;
}

bool walker::is_new(int fd, int& e) noexcept {
  inode_id id;
  e = identify(fd, id);
  if (e != 0) return false;
  std::lock_guard const lock(seen_mutex_);
  bool added = false;
  if (seen_.find_or_add(id, added) == nullptr) e = -ENOMEM;
  return added;
}

// 0, or a negative code that ends all.
int walker::show(place& p, node& n, std::string_view name, entry_kind kind, std::uint64_t inode,
                 node_list& children) noexcept {
  entry_status status;
  entry_status const* known = nullptr;
  if (options_.with_status || kind == entry_kind::unknown) {
    struct statx s;
    unsigned const mask = options_.with_status ? status_mask : STATX_TYPE;
    auto const e = sys::statx(p.fd, name.data(), AT_SYMLINK_NOFOLLOW | AT_STATX_DONT_SYNC, mask, &s);
    if (e == -ENOENT) { // removed by another process: counted, but not shown
      entries.fetch_sub(1, std::memory_order_relaxed);
      return 0;
    }
    if (e < 0) {
      fail(path(*p.w, n, name), "stat", e);
    } else {
      kind = kind_of(s.stx_mode);
      status = status_of(s);
      if (options_.with_status) known = &status;
    }
  }
  std::uint32_t const depth = n.depth + 1;
  walk_step const step = visitor_.entry(walk_entry::access::make(p, name, kind, inode, depth, known));
  if (step == walk_step::stop) {
    end(-EINTR);
    return 0;
  }
  bool const goes_in =
      step == walk_step::go_on && depth < options_.max_depth &&
      (kind == entry_kind::directory ||
       (kind == entry_kind::symlink && options_.follow_links && leads_to_directory(p.fd, name.data())));
  if (!goes_in) return 0;
  node* const child = make(*p.w, n, name);
  if (child == nullptr) return -ENOMEM;
  children.push(*child);
  return 0;
}

int walker::visit(worker& w, node& n) noexcept {
  int const fd = use(w, n);
  if (fd < 0) {
    // EXDEV: a mount. ENOENT, ENOTDIR, ELOOP: it is no directory any more.
    bool const is_gone = fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP;
    if (fd != -EXDEV && !is_gone) fail(path(w, n, {}), "open", fd);
    return 0;
  }
  int e = 0;
  if (!options_.follow_links || is_new(fd, e)) {
    directories.fetch_add(1, std::memory_order_relaxed);
    place p{this, &w, &n, fd};
    node_list children;
    std::uint64_t shown = 0;
    if (options_.ordered) {
      e = visit_in_order(w, n, p, children);
    } else {
      while (e == 0 && !must_end()) {
        std::int64_t const got = read(w, fd);
        if (got < 0 && got != -ENOENT) fail(path(w, n, {}), "read", got);
        if (got <= 0) break;
        for (directory_entry const& entry : directory_entries(w.buffer, static_cast<std::size_t>(got))) {
          ++shown;
          e = show(p, n, entry.name(), entry.kind(), entry.inode(), children);
          if (e != 0) break;
        }
        push(children);
      }
    }
    push(children);
    entries.fetch_add(shown, std::memory_order_relaxed);
  }
  unuse(n);
  return e;
}

int walker::visit_in_order(worker& w, node& n, place& p, node_list& children) noexcept {
  struct one {
    std::size_t name; // in `text`
    std::uint64_t inode;
    std::uint32_t size;
    entry_kind kind;
  };
  growing<one> all;
  growing<char> text;
  while (!must_end()) {
    std::int64_t const got = read(w, p.fd);
    if (got < 0 && got != -ENOENT) fail(path(w, n, {}), "read", got);
    if (got <= 0) break;
    for (directory_entry const& e : directory_entries(w.buffer, static_cast<std::size_t>(got))) {
      if (!all.push({text.size(), e.inode(), static_cast<std::uint32_t>(e.name().size()), e.kind()}) ||
          !text.append(e.c_str(), e.name().size() + 1))
        return -ENOMEM;
    }
  }
  auto const name = [&](one const& o) { return std::string_view(text.data() + o.name, o.size); };
  std::sort(all.begin(), all.end(), [&](one const& a, one const& b) { return name(a) < name(b); });
  for (one const& o : all) {
    if (must_end()) break;
    entries.fetch_add(1, std::memory_order_relaxed);
    if (int const e = show(p, n, name(o), o.kind, o.inode, children); e != 0) return e;
  }
  return 0;
}

result<walk_report> walk_until(path_handle const& base, path_view path, walk_visitor& v,
                               walk_options const& o, deadline d, stop_token second) noexcept {
  if (int const e = path.check(); e != 0) return code(e);
  crew_settings s = settings_of(o, d, second);
  s.follow_links = o.follow_links;
  s.depth_first = o.ordered;
  s.verify = true;
  s.climb = true;
  if (o.ordered) s.threads = 1;
  if (o.follow_links) s.cross_mounts = true; // a link may lead anywhere
  walker all(v, o, s);
  bool const follows =
      o.follow_links || (path.size() > 1 && std::string_view(path.c_str(), path.size()).ends_with('/'));
  struct statx status;
  auto r = sys::statx(base_of(base), path.c_str(), follows ? 0 : AT_SYMLINK_NOFOLLOW, status_mask, &status);
  if (r < 0) return code(r);
  entry_kind const kind = kind_of(status.stx_mode);
  int fd = -1;
  if (kind == entry_kind::directory) {
    int const flags = O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC | (follows ? 0 : O_NOFOLLOW);
    fd = sys::above_standard(
        sys::uninterrupted([&] { return sys::openat(base_of(base), path.c_str(), flags, 0); }));
    if (fd < 0) return code(fd);
  }
  entry_status const known = status_of(status);
  bool const goes_in = all.show_root(fd, kind, o.with_status ? &known : nullptr, status.stx_ino);
  int e = 0;
  if (fd >= 0) {
    if (goes_in && o.max_depth != 0) {
      e = all.begin(fd);
      if (e != 0) return code(e);
      e = all.run();
    } else {
      sys::close(fd);
    }
  }
  all.report.entries = all.entries.load(std::memory_order_relaxed);
  all.report.directories = all.directories.load(std::memory_order_relaxed);
  if (e != 0 && e != -EINTR) all.report.ended = code(e); // EINTR: the visitor's wish
  return std::move(all.report);
}

} // namespace

std::string_view walk_entry::path() const noexcept {
  place const& p = *static_cast<place const*>(walker_);
  return p.in == nullptr ? std::string_view("") : p.self->path(*p.w, *p.in, name_);
}

// By way of a descriptor without access: so the inode that was looked at is the one that is opened.
result<file_handle> walk_entry::open() const noexcept {
  place const& p = *static_cast<place const*>(walker_);
  auto const fails = [&](std::error_code why) {
    return unio::detail::failed_with(why, "open", this->path());
  };
  if (p.in == nullptr) return fails(code(-EISDIR));
  descriptor const found(unio::detail::open_at(p.fd, name_.data(), O_PATH | O_NOFOLLOW, 0));
  if (found.get() < 0) return fails(code(found.get()));
  result<file_handle> f = file_handle::file({}, unio::detail::descriptor_path(found.get()).text);
  if (!f.has_value()) [[unlikely]]
    f = fails(f.error().code());
  return f;
}

result<walk_report> walk(path_handle const& base, path_view path, walk_visitor& v, walk_options const& o,
                         deadline d) noexcept {
  return named(walk_until(base, path, v, o, d, {}), "walk", path);
}

task<result<walk_report>> co_walk(path_handle const& base, path_view path, walk_visitor& v, walk_options o,
                                  deadline d) {
  auto r =
      co_await on_thread([&](stop_token stop) noexcept { return walk_until(base, path, v, o, d, stop); });
  co_return named(std::move(r), "walk", path);
}

// ── summarize ──────────────────────────────────────────────────────────────────────────────────────────────

namespace {

class summing final : public walk_visitor {
 public:
  walk_step entry(walk_entry const& e) noexcept override {
    tree_summary& s = part[e.thread()].sum;
    s.deepest = std::max(s.deepest, e.depth());
    bool const is_file = e.kind() == entry_kind::file;
    bool const is_link = e.kind() == entry_kind::symlink;
    bool const is_directory = e.kind() == entry_kind::directory;
    ++(is_file ? s.files : is_directory ? s.directories : is_link ? s.symlinks : s.others);
    entry_status const* const known = e.status();
    if (known == nullptr) return walk_step::go_on;
    if (!is_directory && known->links > 1) {
      std::lock_guard const lock(mutex);
      bool added = false;
      if (linked.find_or_add({known->device, known->inode}, added) != nullptr && !added) {
        ++s.further_names;
        return walk_step::go_on;
      }
    }
    s.allocated += known->allocated;
    if (is_file || is_link) s.size += known->size;
    return walk_step::go_on;
  }

  struct alignas(64) one {
    tree_summary sum;
  };
  std::unique_ptr<one[]> part;
  std::mutex mutex;
  inode_table<char> linked;
};

result<tree_summary> summarize_until(path_handle const& base, path_view path, walk_options o, deadline d,
                                     stop_token second) noexcept {
  o.with_status = true;
  o.ordered = false;
  summing v;
  v.part.reset(new (std::nothrow) summing::one[crew::most_threads]);
  if (v.part == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  result<walk_report> r = walk_until(base, path, v, o, d, second);
  if (!r) return r.error();
  tree_summary all;
  for (int i = 0; i != crew::most_threads; ++i) {
    tree_summary const& s = v.part[i].sum;
    all.files += s.files;
    all.directories += s.directories;
    all.symlinks += s.symlinks;
    all.others += s.others;
    all.further_names += s.further_names;
    all.size += s.size;
    all.allocated += s.allocated;
    all.deepest = std::max(all.deepest, s.deepest);
  }
  all.failures = std::move(r->failures);
  all.ended = r->ended;
  return all;
}

} // namespace

result<tree_summary> summarize(path_handle const& base, path_view path, walk_options const& o,
                               deadline d) noexcept {
  return named(summarize_until(base, path, o, d, {}), "summarize", path);
}

task<result<tree_summary>> co_summarize(path_handle const& base, path_view path, walk_options o, deadline d) {
  auto r =
      co_await on_thread([&](stop_token stop) noexcept { return summarize_until(base, path, o, d, stop); });
  co_return named(std::move(r), "summarize", path);
}

// ── contents ───────────────────────────────────────────────────────────────────────────────────────────────

struct tree_contents::state {
  growing<item> items; // their paths are offsets until all are there
  growing<char> text;
  walk_report report;
};

namespace {

class collecting final : public walk_visitor {
 public:
  struct one {
    growing<tree_contents::item> items;
    growing<char> text;
  };
  walk_step entry(walk_entry const& e) noexcept override {
    if (e.depth() == 0) return walk_step::go_on;
    one& p = part[e.thread()];
    std::string_view const path = e.path();
    tree_contents::item const i{nullptr, e.inode(), static_cast<std::uint32_t>(path.size()), e.kind()};
    if (p.items.push(i) && p.text.append(path.data(), path.size() + 1)) return walk_step::go_on;
    has_no_memory.store(true, std::memory_order_relaxed);
    return walk_step::stop;
  }
  std::unique_ptr<one[]> part;
  std::atomic<bool> has_no_memory{false};
};

} // namespace

tree_contents::tree_contents() noexcept = default;
tree_contents::tree_contents(tree_contents&&) noexcept = default;
tree_contents& tree_contents::operator=(tree_contents&&) noexcept = default;
tree_contents::~tree_contents() = default;

std::size_t tree_contents::size() const noexcept { return state_ == nullptr ? 0 : state_->items.size(); }
tree_contents::item const& tree_contents::operator[](std::size_t i) const noexcept {
  return state_->items[i];
}
tree_contents::item const* tree_contents::begin() const noexcept {
  return state_ == nullptr ? nullptr : state_->items.data();
}
tree_contents::item const* tree_contents::end() const noexcept { return begin() + size(); }
walk_report const& tree_contents::report() const noexcept { return state_->report; }

result<tree_contents> contents(path_handle const& base, path_view path, walk_options const& o,
                               deadline d) noexcept {
  auto const no_memory = [&] {
    return unio::detail::failed_on(-ENOMEM, "contents", path.c_str(), path.size());
  };
  collecting v;
  v.part.reset(new (std::nothrow) collecting::one[crew::most_threads]);
  std::unique_ptr<tree_contents::state> all(new (std::nothrow) tree_contents::state);
  if (v.part == nullptr || all == nullptr) return no_memory();
  result<walk_report> r = named(walk_until(base, path, v, o, d, {}), "contents", path);
  if (!r) return r.error();
  if (v.has_no_memory.load(std::memory_order_relaxed)) return no_memory();
  all->report = std::move(*r);
  std::size_t bytes = 0;
  for (int i = 0; i != crew::most_threads; ++i) bytes += v.part[i].text.size();
  if (!all->text.resize(bytes)) return no_memory();
  char* to = all->text.data();
  for (int i = 0; i != crew::most_threads; ++i) {
    collecting::one& p = v.part[i];
    if (p.text.size() != 0) std::memcpy(to, p.text.data(), p.text.size());
    for (tree_contents::item item : p.items) {
      item.path = to;
      to += item.path_size + 1;
      if (!all->items.push(item)) return no_memory();
    }
  }
  std::sort(all->items.begin(), all->items.end(),
            [](tree_contents::item const& a, tree_contents::item const& b) { return a.name() < b.name(); });
  tree_contents c;
  c.state_ = std::move(all);
  return c;
}

task<result<tree_contents>> co_contents(path_handle const& base, path_view path, walk_options o, deadline d) {
  stop_source both;
  co_return co_await on_thread([&](stop_token stop) noexcept {
    auto const pass_on = [&both]() noexcept { both.request_stop(); };
    stop_callback const first(stop, pass_on);
    stop_callback const second(o.stop, pass_on);
    walk_options with = o;
    with.stop = both.get_token();
    return contents(base, path, with, d);
  });
}

} // namespace unio::fs
