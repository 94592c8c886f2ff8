// compare: both directories are read and sorted, and then gone through side by side.

#include "fs/metadata.hpp"
#include "fs/on_thread.hpp"
#include "fs/tree.hpp"

#include <unio/fs/compare.hpp>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace unio::inline v0_1::fs {
namespace {

using namespace trees;

constexpr std::size_t compare_buffer = std::size_t{256} << 10;
constexpr std::size_t longest_list = std::size_t{64} << 10;
constexpr std::uint64_t smallest_hole = std::uint64_t{64} << 10;

struct listed {
  std::size_t name; // in `text`
  std::uint32_t size;
};

struct listing {
  growing<listed> all;
  growing<char> text;
  [[nodiscard]] std::string_view name(std::size_t i) const noexcept {
    return {text.data() + all[i].name, all[i].size};
  }
};

class comparer final : public crew {
 public:
  comparer(crew_settings const& s, compare_options const& o, compare_sink* sink) noexcept
      : crew(s), options_(o), sink_(sink) {}

  std::atomic<std::uint64_t> entries{0};
  compare_report report;

  /// What differs of two names; `is_directory`: both are. 0 or -errno.
  int compare_names(worker& w, int a, int b, char const* name_a, char const* name_b, difference& d,
                    bool& is_directory) noexcept;
  /// The same of two open directories.
  int compare_open(worker& w, int a, int b, attributes const& x, attributes const& y, difference& d) noexcept;
  void tell(std::string_view path, difference d) noexcept {
    std::lock_guard const lock(telling_);
    ++report.differences;
    if (sink_ != nullptr) sink_->differs(path, d);
  }
  void fail(std::string_view path, std::int64_t why, std::string_view what = "compare") noexcept {
    std::lock_guard const lock(telling_);
    tree_failure const f{path, what, code(why), {}};
    report.failures.add(f);
    if (sink_ != nullptr) sink_->failed(f);
  }

 private:
  int visit(worker& w, node& n) noexcept override;
  int list(worker& w, int fd, listing& to) noexcept;
  int compare_attributes(int a, int b, bool& is_same) noexcept;
  void compare_metadata(attributes const& x, attributes const& y, difference& d) noexcept;
  [[nodiscard]] bool counts(difference d) const noexcept { return options_.what & d; }

  compare_options const& options_;
  compare_sink* sink_;
  std::mutex telling_;
  std::mutex linked_mutex_;
  inode_table<inode_id> linked_; // the file of the second tree for each of the first with several names
  inode_table<inode_id> back_;
};

void add(difference& to, difference d) noexcept { to = to | d; }

int comparer::list(worker& w, int fd, listing& to) noexcept {
  to.all.clear();
  to.text.clear();
  for (;;) {
    std::int64_t const got = read(w, fd);
    if (got <= 0) return static_cast<int>(got == -ENOENT ? 0 : got);
    if (must_end()) return 0;
    for (directory_entry const& e : directory_entries(w.buffer, static_cast<std::size_t>(got)))
      if (!to.all.push({to.text.size(), static_cast<std::uint32_t>(e.name().size())}) ||
          !to.text.append(e.c_str(), e.name().size() + 1))
        return -ENOMEM;
  }
}

// The lists may have any order, so each of the first is looked for in the second, and they are as long.
int comparer::compare_attributes(int a, int b, bool& is_same) noexcept {
  char few[2][1024];
  auto const n = sys::flistxattr(a, few[0], sizeof few[0]);
  auto const m = sys::flistxattr(b, few[1], sizeof few[1]);
  if (n <= 0 && m <= 0 && n != -ERANGE && m != -ERANGE) return 0;
  std::unique_ptr<char[]> const many(new (std::nothrow) char[4 * longest_list]);
  if (many == nullptr) return -ENOMEM;
  char* const names[2] = {many.get(), many.get() + longest_list};
  char* const values[2] = {many.get() + 2 * longest_list, many.get() + 3 * longest_list};
  auto const list = [&](int fd, char* to) noexcept {
    auto const size = sys::flistxattr(fd, to, longest_list);
    return size == -EOPNOTSUPP ? 0 : size;
  };
  auto const size_a = list(a, names[0]);
  auto const size_b = list(b, names[1]);
  if (size_a < 0 || size_b < 0) return static_cast<int>(std::min(size_a, size_b));
  auto const count = [](char const* at, std::int64_t size) {
    int c = 0;
    for (char const* end = at + size; at < end; at += std::strlen(at) + 1)
      if (std::string_view(at) != "security.selinux") ++c;
    return c;
  };
  if (count(names[0], size_a) != count(names[1], size_b)) is_same = false;
  for (char const* at = names[0]; is_same && at < names[0] + size_a; at += std::strlen(at) + 1) {
    if (std::string_view(at) == "security.selinux") continue;
    auto const x = sys::fgetxattr(a, at, values[0], longest_list);
    auto const y = sys::fgetxattr(b, at, values[1], longest_list);
    if (x < 0) return static_cast<int>(x);
    is_same = x == y && std::memcmp(values[0], values[1], static_cast<std::size_t>(x)) == 0;
  }
  return 0;
}

void comparer::compare_metadata(attributes const& x, attributes const& y, difference& d) noexcept {
  bool const is_link = S_ISLNK(x.mode);
  if (counts(difference::mode) && !is_link && (x.mode & 07777) != (y.mode & 07777)) add(d, difference::mode);
  if (counts(difference::owner) && (x.owner != y.owner || x.group != y.group)) add(d, difference::owner);
  if (counts(difference::modified) && (x.modified_s != y.modified_s || x.modified_ns != y.modified_ns))
    add(d, difference::modified);
  auto const is_sparse = [](attributes const& z) { return z.blocks * 512 + smallest_hole < z.size; };
  if (counts(difference::holes) && S_ISREG(x.mode) && is_sparse(x) != is_sparse(y)) add(d, difference::holes);
  if (!counts(difference::links) || S_ISDIR(x.mode) || (x.links < 2 && y.links < 2)) return;
  std::lock_guard const lock(linked_mutex_);
  bool added = false;
  inode_id* const other = linked_.find_or_add(x.id, added);
  if (other != nullptr && added) *other = y.id;
  bool const is_same = other == nullptr || *other == y.id;
  inode_id* const one = back_.find_or_add(y.id, added);
  if (one != nullptr && added) *one = x.id;
  if (!is_same || (one != nullptr && *one != x.id)) add(d, difference::links);
}

int comparer::compare_open(worker& w, int a, int b, attributes const& x, attributes const& y,
                           difference& d) noexcept {
  int e = 0;
  bool is_same = true;
  if (S_ISREG(x.mode) && counts(difference::contents) && x.id != y.id) {
    e = same_contents(a, b, w.buffer + settings_.buffer, settings_.spare, this,
                      [](void* c) noexcept { return static_cast<comparer*>(c)->must_end(); });
    is_same = e != 0;
    if (e > 0 || e == -ECANCELED) e = 0;
  }
  if (!is_same) add(d, difference::contents);
  is_same = true;
  if (e == 0 && counts(difference::attributes)) e = compare_attributes(a, b, is_same);
  if (!is_same) add(d, difference::attributes);
  return e;
}

int comparer::compare_names(worker& w, int a, int b, char const* name_a, char const* name_b, difference& d,
                            bool& is_directory) noexcept {
  attributes x;
  attributes y;
  is_directory = false;
  if (int const e = attributes_of(a, name_a, x); e != 0) return e;
  if (int const e = attributes_of(b, name_b, y); e != 0) return e;
  bool const is_device = S_ISCHR(x.mode) || S_ISBLK(x.mode);
  if ((x.mode & S_IFMT) != (y.mode & S_IFMT) ||
      (is_device && (x.device_major != y.device_major || x.device_minor != y.device_minor))) {
    add(d, difference::kind);
    return 0;
  }
  compare_metadata(x, y, d);
  if (S_ISLNK(x.mode) && counts(difference::contents)) {
    int const same = same_links(a, name_a, b, name_b);
    if (same < 0) return same;
    if (same == 0) add(d, difference::contents);
  }
  is_directory = S_ISDIR(x.mode);
  bool const opens = (S_ISREG(x.mode) && counts(difference::contents | difference::attributes)) ||
                     (is_directory && counts(difference::attributes));
  if (!opens) return 0;
  auto const asks = [](void* c) noexcept { return static_cast<comparer*>(c)->must_end(); };
  descriptor const f(open_to_read(a, name_a, this, asks));
  descriptor const g(open_to_read(b, name_b, this, asks));
  if (f.get() < 0 || g.get() < 0) {
    is_directory = false; // not to be tried again
    int const e = std::min(f.get(), g.get());
    return e == -ECANCELED ? 0 : e;
  }
  return compare_open(w, f.get(), g.get(), x, y, d);
}

int comparer::visit(worker& w, node& n) noexcept {
  int const a = use(w, n, 0);
  if (a < 0) {
    fail(path(w, n, {}), a, "open");
    return 0;
  }
  int const b = use(w, n, 1);
  if (b < 0) {
    unuse(n);
    fail(path(w, n, {}), b, "open");
    return 0;
  }
  listing first;
  listing second;
  int e = list(w, a, first);
  if (e == 0) e = list(w, b, second);
  if (e != 0 && e != -ENOMEM) {
    fail(path(w, n, {}), e);
    first.all.clear(); // what is in half a list may be in the other tree all the same
    second.all.clear();
    e = 0;
  }
  for (listing* l : {&first, &second}) {
    auto const name = [&](listed const& o) { return std::string_view(l->text.data() + o.name, o.size); };
    std::sort(l->all.begin(), l->all.end(),
              [&](listed const& x, listed const& y) { return name(x) < name(y); });
  }
  node_list children;
  std::uint64_t compared = 0;
  for (std::size_t i = 0, j = 0; e == 0 && !must_end();) {
    bool const has_first = i != first.all.size();
    bool const has_second = j != second.all.size();
    if (!has_first && !has_second) break;
    ++compared;
    if (!has_second || (has_first && first.name(i) < second.name(j))) {
      tell(path(w, n, first.name(i++)), difference::only_in_first);
      continue;
    }
    if (!has_first || second.name(j) < first.name(i)) {
      tell(path(w, n, second.name(j++)), difference::only_in_second);
      continue;
    }
    std::string_view const name = first.name(i++);
    ++j;
    auto d = static_cast<difference>(0);
    bool is_directory = false;
    int const r = compare_names(w, a, b, name.data(), name.data(), d, is_directory);
    if (r != 0) {
      fail(path(w, n, name), r);
    } else if (d != static_cast<difference>(0)) {
      tell(path(w, n, name), d);
    }
    if (!is_directory) continue;
    node* const child = make(w, n, name);
    if (child == nullptr) {
      e = -ENOMEM;
    } else {
      children.push(*child);
    }
  }
  push(children);
  entries.fetch_add(compared, std::memory_order_relaxed);
  unuse(n);
  unuse(n);
  return e;
}

result<compare_report> compare_until(path_handle const& first_base, path_view first,
                                     path_handle const& second_base, path_view second, compare_sink* sink,
                                     compare_options const& o, deadline d, stop_token stop) noexcept {
  if (int const e = first.check(); e != 0) return code(e);
  if (int const e = second.check(); e != 0) return code(e);
  crew_settings s = settings_of(o, d, stop);
  s.sides = 2;
  s.spare = compare_buffer;
  s.depth_first = true;
  s.verify = true;
  s.climb = true;
  comparer all(s, o, sink);
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  auto const open = [&](path_handle const& base, path_view p) noexcept {
    return sys::above_standard(
        sys::uninterrupted([&] { return sys::openat(base_of(base), p.c_str(), flags, 0); }));
  };
  worker w; // for the roots themselves
  std::unique_ptr<std::byte[]> const buffer(new (std::nothrow) std::byte[s.buffer + s.spare]);
  if (buffer == nullptr) return code(-ENOMEM);
  w.buffer = buffer.get();
  auto what = static_cast<difference>(0);
  bool is_directory = false;
  int e = all.compare_names(w, base_of(first_base), base_of(second_base), first.c_str(), second.c_str(), what,
                            is_directory);
  if (e != 0) return code(e);
  all.entries.store(1, std::memory_order_relaxed);
  if (what != static_cast<difference>(0)) all.tell("", what);
  if (is_directory) {
    int const a = open(first_base, first);
    int const b = open(second_base, second);
    e = a < 0 ? a : b < 0 ? b : 0;
    if (e == 0) {
      e = all.begin(a, b);
    } else {
      if (a >= 0) sys::close(a);
      if (b >= 0) sys::close(b);
    }
    if (e != 0) return code(e);
    e = all.run();
  }
  if (e == 0) e = all.ended();
  if (e != 0) all.report.ended = code(e);
  all.report.entries = all.entries.load(std::memory_order_relaxed);
  return std::move(all.report);
}

} // namespace

std::string_view to_string(difference d) noexcept {
  constexpr std::string_view words[] = {
      "only in the first", "only in the second", "kind", "contents", "mode", "owner", "time",
      "attributes",        "hard links",         "holes"};
  auto const bits = static_cast<std::uint32_t>(d);
  for (std::size_t i = 0; i != std::size(words); ++i)
    if ((bits >> i & 1U) != 0) return words[i];
  return "nothing";
}

result<compare_report> compare(path_handle const& first_base, path_view first, path_handle const& second_base,
                               path_view second, compare_sink* sink, compare_options const& o,
                               deadline d) noexcept {
  return named(compare_until(first_base, first, second_base, second, sink, o, d, {}), "compare", first,
               second);
}

task<result<compare_report>> co_compare(path_handle const& first_base, path_view first,
                                        path_handle const& second_base, path_view second, compare_sink* sink,
                                        compare_options o, deadline d) {
  auto r = co_await on_thread([&](stop_token stop) noexcept {
    return compare_until(first_base, first, second_base, second, sink, o, d, stop);
  });
  co_return named(std::move(r), "compare", first, second);
}

} // namespace unio::fs
