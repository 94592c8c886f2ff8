// clone_or_copy and move: see the header, and src/fs/crew.hpp for the threads.
//
//   a file   made without a name, filled, its metadata set, synced if durable, linked into place
//   a tree   .NAME.unio-copy, 0700 (partial.hpp); visit makes a directory in it and copies its files; left
//            sets the metadata of the directory; then syncfs if durable, and rename
//   a link, a FIFO, a socket, a device
//            made in a directory of its own, 0700: who owns the target's directory could otherwise exchange
//            it for something else before its owner and its mode are set by name
//
// In a tree a file that fails is removed again. Its time is set last: it marks a file that is whole.

#include "fs/metadata.hpp"
#include "fs/on_thread.hpp"
#include "fs/partial.hpp"
#include "fs/reduce_in.hpp"
#include "fs/reporting.hpp"
#include "fs/tree.hpp"
#include "sys/clone_extents.hpp"

#include <unio/fs/copy.hpp>

#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1::fs {
namespace {

using namespace trees;

constexpr std::size_t copy_buffer = std::size_t{256} << 10;
constexpr std::size_t page = 4096;
constexpr char random_prefix[] = ".unio-copy-";

using unio::detail::rename;
using unio::detail::sync_folder;

int open_at(int dir, char const* name, int flags, unsigned mode = 0) noexcept {
  return unio::detail::open_at(dir, name, flags, mode);
}

int to_int(std::int64_t e) noexcept { return static_cast<int>(std::min<std::int64_t>(e, 0)); }

// Errors after which nothing else would succeed either.
bool ends_all(std::int64_t e) noexcept {
  return e == -ENOSPC || e == -EDQUOT || e == -EROFS || e == -ENOMEM || e == -ECANCELED || e == -ETIMEDOUT;
}

/// Copying files, with what several of them share.
class file_copier {
 public:
  file_copier(copy_options const& o, reporting& r) noexcept : options(o), report(r) {}

  copy_options const& options;
  reporting& report;
  not_kept lost;
  defaults known;
  sys::copy_hints hints;
  std::atomic<std::uint64_t> unchanged{0};
  std::atomic<std::uint64_t> links_not_kept{0};
  std::atomic<std::uint64_t> missing{0};
  std::atomic<int> why_missing{0}; // of the first
  std::atomic<std::uint64_t> verified_in_cache{0};
  std::atomic<copy_method> method{copy_method::none};

  /// Contents, from one open file to an empty one. `must_end` is asked now and then.
  int contents(int from, int to, attributes const& a, std::byte* buffer, void* asked,
               bool (*must_end)(void*) noexcept) noexcept {
    // Files of procfs have no size, and a device without a number.
    bool const is_empty = a.size == 0 && (a.id.device >> 32) != 0;
    if (is_empty) return 0;
    struct context {
      file_copier* self;
      void* asked;
      bool (*must_end)(void*) noexcept;
    } with{this, asked, must_end};
    sys::extents_copy c;
    c.from = from;
    c.to = to;
    c.size = static_cast<std::int64_t>(a.size);
    c.to_is_empty = true;
    c.may_have_holes = a.blocks * 512 < a.size;
    c.hints = &hints;
    c.buffer = buffer;
    c.buffer_bytes = buffer != nullptr ? copy_buffer : 0;
    c.context = &with;
    c.progress = [](void* p, std::int64_t n) {
      auto& w = *static_cast<context*>(p);
      w.self->report.bytes.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
      w.self->report.tell();
      return w.must_end(w.asked) ? -ECANCELED : 0;
    };
    int const e = sys::copy_extents(c);
    if (c.shared != 0)
      report.shared_bytes.fetch_add(static_cast<std::uint64_t>(c.shared), std::memory_order_relaxed);
    auto const used = static_cast<copy_method>(c.rung);
    copy_method before = method.load(std::memory_order_relaxed);
    while (used > before && !method.compare_exchange_weak(before, used, std::memory_order_relaxed)) {
    }
    return e == 0 && options.verify ? verify(from, to, buffer, asked, must_end) : e;
  }

  /// Whether the storage has what the source has, and not only the page cache: 0, -EIO, or why that is not
  /// known. `to` is opened for reading and writing, or for reading if it was written long ago.
  int verify(int from, int to, std::byte* buffer, void* asked, bool (*must_end)(void*) noexcept) noexcept {
    struct aligned_delete {
      void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{page}); }
    };
    std::unique_ptr<std::byte[], aligned_delete> own;
    if (buffer == nullptr) {
      own.reset(new (std::align_val_t{page}, std::nothrow) std::byte[copy_buffer]);
      if (own == nullptr) return -ENOMEM;
      buffer = own.get();
    }
    if (int const e = unio::detail::make_durable(to); e != 0) return e;
    auto const flags = sys::fcntl(to, F_GETFL, 0);
    int same = -EINVAL;
    if (flags >= 0 && sys::fcntl(to, F_SETFL, static_cast<long>(flags | O_DIRECT)) == 0) {
      same = same_contents(from, to, buffer, copy_buffer, asked, must_end);
      (void)sys::fcntl(to, F_SETFL, static_cast<long>(flags));
    }
    if (same == -EINVAL) { // no direct I/O here, or with more alignment
      verified_in_cache.fetch_add(1, std::memory_order_relaxed);
      (void)sys::fadvise(to, 0, 0, POSIX_FADV_DONTNEED);
      same = same_contents(from, to, buffer, copy_buffer, asked, must_end);
    }
    return same > 0 ? 0 : same == 0 ? -EIO : same;
  }

  /// What was refused is reported; the copy is as good as it can be without.
  void report_refusals(std::string_view path, refusals const& r) noexcept {
    if (r.owner != 0) report.fail(path, "set the owner", r.owner);
    if (r.mode != 0) report.fail(path, "set the mode", r.mode);
    if (r.attributes != 0) report.fail(path, "list the attributes", r.attributes);
    if (r.times != 0) report.fail(path, "set the times", r.times);
  }

  /// Makes what has no contents: a link, a FIFO, a socket, a device; in a directory that no other user can
  /// change.
  int make_special(int in, char const* from, int out, char const* to, attributes const& a,
                   refusals& refused) noexcept {
    if (S_ISLNK(a.mode)) {
      char target[unio::detail::longest_path + 2];
      auto const n = sys::readlinkat(in, from, target, sizeof target - 1);
      if (n < 0) return static_cast<int>(n);
      target[n] = '\0';
      if (auto const e = sys::symlinkat(target, out, to); e < 0) return static_cast<int>(e);
    } else {
      auto const device = static_cast<unsigned>(makedev(a.device_major, a.device_minor));
      if (auto const e = sys::mknodat(out, to, a.mode, device); e < 0) return static_cast<int>(e);
    }
    refused = set_metadata(-1, -1, out, to, a, known, false, lost);
    // Of a link only root may set any (xattr(7)).
    bool const may_have_attributes = !S_ISLNK(a.mode) || known.owner == 0;
    if (may_have_attributes) refused.attributes = copy_attributes_of_special(in, from, out, to, lost);
    return 0;
  }
};

// ── a tree ─────────────────────────────────────────────────────────────────────────────────────────────────

/// The first name of a file that has several.
struct first_name {
  node* in;
  char* name; // zero-terminated, the table's
};

struct own {
  attributes source;
  bool is_made;
};

class tree_copier final : public crew {
 public:
  /// `copy`: the root of what is made; `is_continued`: it may have names already.
  tree_copier(crew_settings const& s, file_copier& f, inode_id copy, bool is_continued) noexcept
      : crew(s), files_(f), copy_(copy), is_continued_(is_continued) {}
  ~tree_copier() override {
    while (names_ != nullptr) ::operator delete(std::exchange(names_, *reinterpret_cast<char**>(names_)));
  }

 private:
  int visit(worker& w, node& n) noexcept override;
  int left(worker& w, node& n) noexcept override;
  int make_directory(worker& w, node& n) noexcept;
  std::int64_t copy_one(worker& w, node& n, int in, int out, directory_entry const& e) noexcept;
  std::int64_t copy_file(worker& w, node& n, int in, int out, char const* name) noexcept;
  std::int64_t link(worker& w, node& n, int out, char const* name, attributes const& a, first_name*& first,
                    bool& is_linked) noexcept;
  bool is_whole(int out, char const* name, attributes const& a) const noexcept;
  int verify_whole(worker& w, node& n, int from, int out, char const* name, attributes const& a) noexcept;
  int clear(int out, char const* name) const noexcept;
  void remove_strangers(worker& w, node& n, int in, int out) noexcept;
  char* keep(char const* name) noexcept;
  // What is not in the copy.
  void fail(worker& w, node& n, char const* name, std::string_view what, std::int64_t why,
            std::string_view reason = {}) noexcept {
    int none = 0;
    files_.why_missing.compare_exchange_strong(none, static_cast<int>(why), std::memory_order_relaxed);
    files_.missing.fetch_add(1, std::memory_order_relaxed);
    files_.report.fail(path(w, n, name), what, why, reason);
  }
  void report_refusals(worker& w, node& n, char const* name, refusals const& r) noexcept {
    if (r.any()) files_.report_refusals(path(w, n, name), r); // a path may be as long as the tree is deep
  }

  file_copier& files_;
  inode_id copy_;
  bool is_continued_;
  std::mutex linked_mutex_;
  inode_table<first_name> linked_;
  char* names_ = nullptr;
};

char* tree_copier::keep(char const* name) noexcept {
  std::size_t const size = std::strlen(name) + 1;
  auto* const at = static_cast<char*>(::operator new(sizeof(char*) + size, std::nothrow));
  if (at == nullptr) return nullptr;
  std::memcpy(at, &names_, sizeof names_);
  names_ = at;
  std::memcpy(at + sizeof(char*), name, size);
  return at + sizeof(char*);
}

// Whether an ended copy has left it whole: its time was set last.
bool tree_copier::is_whole(int out, char const* name, attributes const& a) const noexcept {
  attributes b;
  return is_continued_ && attributes_of(out, name, b) == 0 && b.mode == a.mode && b.size == a.size &&
         b.modified_s == a.modified_s && b.modified_ns == a.modified_ns && b.device_major == a.device_major &&
         b.device_minor == a.device_minor && (a.links > 1 || b.links == 1);
}

// Whether what an ended copy has left has the contents, too. 0, -EIO, or why that is not known.
int tree_copier::verify_whole(worker& w, node& n, int from, int out, char const* name,
                              attributes const& a) noexcept {
  descriptor const to(open_at(out, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (to.get() < 0) return to.get();
  int const e = files_.verify(from, to.get(), w.buffer + settings_.buffer, this,
                              [](void* c) noexcept { return static_cast<tree_copier*>(c)->must_end(); });
  if (e == 0) // reading has changed its time
    report_refusals(w, n, name,
                    set_metadata(from, to.get(), -1, nullptr, a, files_.known, false, files_.lost));
  return e;
}

// Removes what is in the way of a name.
int tree_copier::clear(int out, char const* name) const noexcept {
  auto const e = sys::unlinkat(out, name, 0);
  if (e != -EISDIR && e != -EPERM) return to_int(e);
  reduce_options const o{.rename_first = false, .make_writable = true};
  auto const r = reduce_in(out, name, true, o, {}, nullptr, settings_.stop);
  return r && r->is_gone ? 0 : to_int(e);
}

// An ended copy has left names that the source does not have: any more, or not yet.
void tree_copier::remove_strangers(worker& w, node& n, int in, int out) noexcept {
  while (!must_end()) {
    std::int64_t const got = read(w, out);
    if (got < 0 && got != -ENOENT) fail(w, n, "", "read", got);
    if (got <= 0) return;
    directory_entries const all(w.buffer, static_cast<std::size_t>(got));
    for (directory_entry const& entry : all) {
      attributes a;
      if (attributes_of(in, entry.c_str(), a) != -ENOENT) continue;
      if (int const e = clear(out, entry.c_str()); e != 0 && e != -ENOENT)
        fail(w, n, entry.c_str(), "remove", e, "left by an ended copy, and not in the source");
    }
  }
}

// Links `name` to the first name of the same file: then is_linked. Otherwise this is the first name, whose
// file is made under the lock. Returns 0 or a negative code.
std::int64_t tree_copier::link(worker& w, node& n, int out, char const* name, attributes const& a,
                               first_name*& first, bool& is_linked) noexcept {
  bool added = false;
  first = linked_.find_or_add(a.id, added);
  if (first == nullptr) return -ENOMEM;
  if (first->in == nullptr) {
    first->in = &n;
    first->name = keep(name);
    if (first->name == nullptr) return -ENOMEM;
    hold(n);
    return 0;
  }
  int const dir = use(w, *first->in, 1);
  std::int64_t e = dir;
  if (dir >= 0) {
    e = sys::linkat(dir, first->name, out, name, 0);
    if (e == -EEXIST && is_continued_) { // perhaps the link that it should be
      attributes x;
      attributes y;
      bool const is_same =
          attributes_of(dir, first->name, x) == 0 && attributes_of(out, name, y) == 0 && x.id == y.id;
      if (!is_same && clear(out, name) == 0) e = sys::linkat(dir, first->name, out, name, 0);
      if (is_same) e = 0;
    }
    unuse(*first->in);
  }
  is_linked = e == 0;
  // EMLINK, or the first has failed
  if (e != 0) files_.links_not_kept.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

std::int64_t tree_copier::copy_file(worker& w, node& n, int in, int out, char const* name) noexcept {
  descriptor const from(open_at(in, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (from.get() < 0) return from.get();
  attributes a;
  if (int const e = attributes_of(from.get(), "", a); e != 0) return e;
  if (!S_ISREG(a.mode)) return -ESTALE; // exchanged after it was listed

  descriptor to;
  bool const has_mode = files_.known.have_mode(a);
  bool is_there = false;
  auto const make = [&]() noexcept -> std::int64_t {
    int const flags = (files_.options.verify ? O_RDWR : O_WRONLY) | O_CREAT | O_EXCL | O_NOFOLLOW;
    unsigned const mode = has_mode ? a.mode & 0777 : 0600;
    to.reset(open_at(out, name, flags, mode));
    if (to.get() == -EEXIST && is_continued_) {
      is_there = is_whole(out, name, a) &&
                 (!files_.options.verify || verify_whole(w, n, from.get(), out, name, a) == 0);
      if (is_there) return 0;
      if (int const e = clear(out, name); e < 0) return e;
      to.reset(open_at(out, name, flags, mode));
    }
    return std::min(to.get(), 0);
  };
  std::int64_t e = 0;
  // Files with several names are copied one at a time, so that no name is linked to one that is not whole.
  std::unique_lock lock(linked_mutex_, std::defer_lock);
  first_name* first = nullptr;
  if (a.links > 1) {
    lock.lock();
    bool is_linked = false;
    e = link(w, n, out, name, a, first, is_linked);
    if (is_linked) {
      files_.report.entries.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
  }
  files_.report.total_bytes.fetch_add(a.size, std::memory_order_relaxed);
  if (e == 0) e = make();
  if (e != 0) {
    if (first != nullptr) first->in = nullptr;
    return e;
  }
  if (is_there) {
    files_.unchanged.fetch_add(1, std::memory_order_relaxed);
    files_.report.bytes.fetch_add(a.size, std::memory_order_relaxed);
    return 0;
  }
  e = files_.contents(from.get(), to.get(), a, w.buffer + settings_.buffer, this,
                      [](void* c) noexcept { return static_cast<tree_copier*>(c)->must_end(); });
  if (e == 0) {
    report_refusals(w, n, name,
                    set_metadata(from.get(), to.get(), -1, nullptr, a, files_.known, has_mode, files_.lost));
    files_.report.entries.fetch_add(1, std::memory_order_relaxed);
  } else {
    // What an ended copy leaves has another time than its source, and is made again.
    if (!ends_all(e) || !files_.options.keep_partial) sys::unlinkat(out, name, 0);
    if (first != nullptr) first->in = nullptr;
  }
  return e;
}

std::int64_t tree_copier::copy_one(worker& w, node& n, int in, int out,
                                   directory_entry const& entry) noexcept {
  char const* const name = entry.c_str();
  if (entry.kind() == entry_kind::file) {
    auto const e = copy_file(w, n, in, out, name);
    if (e != -ESTALE && e != -ELOOP && e != -ENXIO) return e;
  }
  attributes a;
  if (int const e = attributes_of(in, name, a); e != 0) return e;
  if (S_ISDIR(a.mode)) return -EISDIR;
  if (S_ISREG(a.mode)) return copy_file(w, n, in, out, name);
  if (is_whole(out, name, a)) {
    files_.unchanged.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  bool is_linked = false;
  first_name* first = nullptr;
  std::unique_lock lock(linked_mutex_, std::defer_lock);
  if (a.links > 1) {
    lock.lock();
    if (auto const e = link(w, n, out, name, a, first, is_linked); e != 0) return e;
  }
  refusals refused;
  std::int64_t e = is_linked ? 0 : files_.make_special(in, name, out, name, a, refused);
  if (e == -EEXIST && is_continued_ && clear(out, name) == 0)
    e = files_.make_special(in, name, out, name, a, refused);
  report_refusals(w, n, name, refused);
  if (e == 0) files_.report.entries.fetch_add(1, std::memory_order_relaxed);
  if (e != 0 && first != nullptr) first->in = nullptr;
  return e;
}

int tree_copier::make_directory(worker& w, node& n) noexcept {
  node& parent = *n.parent;
  int const out = use(w, parent, 1);
  if (out < 0) return out;
  auto e = sys::mkdirat(out, n.name, 0700);
  if (e == -EEXIST && is_continued_) {
    attributes a;
    e = attributes_of(out, n.name, a);
    if (e == 0 && !S_ISDIR(a.mode)) {
      e = sys::unlinkat(out, n.name, 0);
      if (e == 0) e = sys::mkdirat(out, n.name, 0700);
    }
  }
  unuse(parent);
  return to_int(e);
}

int tree_copier::visit(worker& w, node& n) noexcept {
  auto& mine = n.extra<own>();
  int const in = use(w, n, 0);
  if (in < 0) {
    fail(w, n, "", "open", in);
    return 0;
  }
  std::int64_t e = attributes_of(in, "", mine.source);
  if (e == 0 && mine.source.id == copy_) {
    // By a mount, for instance. What is made is all below it, so that no other directory need be compared.
    unuse(n);
    fail(w, n, "", "copy", -EINVAL, "the copy itself, which lies in the source");
    return 0;
  }
  if (e == 0 && n.parent != nullptr) e = make_directory(w, n);
  int const out = e == 0 ? use(w, n, 1) : to_int(e);
  if (out < 0) {
    unuse(n);
    if (ends_all(out) || n.parent == nullptr) return out;
    fail(w, n, "", "make", out);
    return 0;
  }
  mine.is_made = true;
  // It may have its owner, its mode and its ACLs already.
  if (int const t = is_continued_ ? take_over(out) : 0; t != 0) fail(w, n, "", "take over", t);
  files_.report.entries.fetch_add(1, std::memory_order_relaxed);
  e = 0;
  while (e == 0 && !must_end()) {
    std::int64_t const got = read(w, in);
    if (got < 0 && got != -ENOENT) fail(w, n, "", "read", got);
    if (got <= 0) break;
    node_list children;
    std::uint64_t found = 0;
    directory_entries const all(w.buffer, static_cast<std::size_t>(got));
    for (auto i = all.begin(); i != all.end(); ++i) ++found;
    files_.report.total_entries.fetch_add(found, std::memory_order_relaxed);
    for (directory_entry const& entry : all) {
      if (must_end()) break;
      files_.report.tell();
      std::int64_t r = -EISDIR;
      if (entry.kind() != entry_kind::directory) r = copy_one(w, n, in, out, entry);
      if (r == -EISDIR) {
        node* const child = make(w, n, entry.name());
        if (child == nullptr) {
          e = -ENOMEM;
          break;
        }
        new (&child->extra<own>()) own{};
        children.push(*child);
      } else if (ends_all(r)) {
        e = r;
        break;
      } else if (r != 0) {
        attributes a;
        bool const is_gone = r == -ENOENT && attributes_of(in, entry.c_str(), a) == -ENOENT;
        if (!is_gone) fail(w, n, entry.c_str(), "copy", r);
      }
    }
    push(children);
  }
  if (e == 0 && is_continued_) remove_strangers(w, n, in, out);
  unuse(n);
  unuse(n);
  return to_int(e);
}

int tree_copier::left(worker& w, node& n) noexcept {
  auto const& mine = n.extra<own>();
  if (!mine.is_made) return 0;
  int const out = use(w, n, 1);
  if (out >= 0) {
    int const in = use(w, n, 0); // for its attributes; without it they are lost
    refusals const refused =
        set_metadata(in, out, -1, nullptr, mine.source, files_.known, false, files_.lost);
    if (in >= 0) unuse(n);
    if (in < 0) files_.lost.attributes.fetch_add(1, std::memory_order_relaxed);
    unuse(n);
    report_refusals(w, n, "", refused);
  } else {
    files_.report.fail(path(w, n, ""), "set the metadata", out);
  }
  w.shown_node = nullptr;
  return 0;
}

// ── one copy ───────────────────────────────────────────────────────────────────────────────────────────────

class copying {
 public:
  copying(copy_options const& o, deadline d, tree_sink* sink, stop_token second) noexcept
      : options_(o), settings_(settings_of(o, d, second)), told_(sink), files_(options_, told_) {}

  result<copy_report> run(path_handle const& from_base, path_view from, path_handle const& to_base,
                          path_view to) noexcept;

 private:
  int prepare(path_handle const& from_base, path_view from, path_handle const& to_base,
              path_view to) noexcept;
  int is_inside() const noexcept;
  bool must_end() noexcept;
  int copy_file() noexcept;
  int copy_special() noexcept;
  int copy_tree() noexcept;
  int make_and_place_special(int room) noexcept;
  int place(int in, char const* name) noexcept;
  int replace_tree(char const* name, char (&old)[unio::detail::longest_name + 1]) noexcept;
  void remove_tree(char const* name) noexcept;

  copy_options options_;
  crew_settings settings_;
  reporting told_;
  file_copier files_;
  copy_report report_;
  split_path from_;
  split_path to_;
  descriptor from_folder_;
  descriptor to_folder_;
  attributes source_{};
  attributes target_{};
  bool has_target_ = false;
  bool is_refused_ = false; // before anything was changed
  int ended_ = 0;
  bool blames_target_ = false; // for the error of prepare()
  bool has_source_ = false;    // open
};

// Whether the target's directory is the source or in it: 0, -EINVAL, or why that is not known.
int copying::is_inside() const noexcept {
  descriptor at(open_at(to_folder_.get(), ".", O_PATH | O_DIRECTORY));
  attributes before{};
  for (;;) {
    attributes a;
    if (at.get() < 0) return at.get() == -EACCES ? 0 : at.get(); // this user may not look further up
    if (int const e = attributes_of(at.get(), "", a); e != 0) return e;
    if (a.id == source_.id) return -EINVAL;
    if (a.id == before.id) return 0;
    before = a;
    descriptor up(open_at(at.get(), "..", O_PATH | O_DIRECTORY));
    at.reset(up.release());
  }
}

bool copying::must_end() noexcept {
  if (settings_.stop.stop_requested() || settings_.second_stop.stop_requested()) ended_ = -ECANCELED;
  if (settings_.due != deadline::forever && sys::steady_now() >= settings_.due) ended_ = -ETIMEDOUT;
  return ended_ != 0;
}

int copying::prepare(path_handle const& from_base, path_view from, path_handle const& to_base,
                     path_view to) noexcept {
  if (int const e = from_.set(from); e != 0) return e;
  blames_target_ = true;
  if (int const e = to_.set(to); e != 0) return e;
  blames_target_ = false;
  from_folder_.reset(open_at(base_of(from_base), from_.folder, O_PATH | O_DIRECTORY));
  if (from_folder_.get() < 0) return from_folder_.get();
  if (int const e = attributes_of(from_folder_.get(), from_.name, source_); e != 0) return e;
  blames_target_ = true;
  to_folder_.reset(open_at(base_of(to_base), to_.folder, O_RDONLY | O_DIRECTORY));
  if (to_folder_.get() == -EACCES && !options_.durable) // what cannot be read cannot be synced
    to_folder_.reset(open_at(base_of(to_base), to_.folder, O_PATH | O_DIRECTORY));
  if (to_folder_.get() < 0) return to_folder_.get();
  bool const is_tree = S_ISDIR(source_.mode);
  blames_target_ = is_tree || !from_.has_slash;
  if (!is_tree && (from_.has_slash || to_.has_slash)) return -ENOTDIR;
  int const e = attributes_of(to_folder_.get(), to_.name, target_);
  if (e != 0 && e != -ENOENT) return e;
  has_target_ = e == 0;
  if (has_target_) {
    if (target_.id == source_.id) return -EINVAL;
    if (!options_.replace) return -EEXIST;
    if (S_ISDIR(target_.mode) != is_tree) return is_tree ? -ENOTDIR : -EISDIR;
  }
  return is_tree ? is_inside() : 0;
}

// Gives a whole copy, which has a name of its own in the directory `in`, its place.
int copying::place(int in, char const* name) noexcept {
  int const dir = to_folder_.get();
  if (options_.durable) { // its name comes after what it names
    if (int const e = sync_folder(in); e != 0) return e;
  }
  char old[unio::detail::longest_name + 1] = ""; // what was replaced is called that now
  bool const replaces_tree = options_.replace && S_ISDIR(source_.mode) && has_target_;
  int const e = replaces_tree ? replace_tree(name, old)
                              : rename(in, name, dir, to_.name,
                                       options_.replace ? relink_mode::replace : relink_mode::no_replace);
  if (e != 0) return e;
  report_.is_in_place = true;
  if (int const s = options_.durable ? sync_folder(dir) : 0; s != 0) {
    std::memcpy(report_.left_as, old, sizeof old);
    return s;
  }
  if (*old != '\0') remove_tree(old);
  return 0;
}

// Exchanges the whole copy and the tree that is there. `old`: what that is called then; empty: it was gone.
int copying::replace_tree(char const* name, char (&old)[unio::detail::longest_name + 1]) noexcept {
  int const dir = to_folder_.get();
  // The old tree must never have the name that `resume` continues: its names would become the copy's.
  char whole[unio::detail::longest_name + 1];
  if (int const e = random_name(whole, random_prefix); e != 0) return e;
  if (int const e = rename(dir, name, dir, whole, relink_mode::no_replace); e != 0) return e;
  int e = rename(dir, whole, dir, to_.name, relink_mode::exchange);
  if (e == 0) {
    std::memcpy(old, whole, sizeof old);
    return 0;
  }
  if (e == -ENOENT) e = rename(dir, whole, dir, to_.name, relink_mode::no_replace); // removed since
  if (e == -EINVAL || e == -ENOSYS) { // NFS, 9p: without exchanging
    char aside[unio::detail::longest_name + 1];
    e = random_name(aside, random_prefix);
    if (e == 0) e = rename(dir, to_.name, dir, aside, relink_mode::no_replace);
    if (e == 0) {
      e = rename(dir, whole, dir, to_.name, relink_mode::no_replace);
      if (e == 0) {
        std::memcpy(old, aside, sizeof old);
      } else if (rename(dir, aside, dir, to_.name, relink_mode::no_replace) != 0) {
        std::memcpy(report_.left_as, aside, sizeof aside); // another process has taken the name
      }
    }
  }
  if (e != 0) (void)rename(dir, whole, dir, name, relink_mode::no_replace);
  return e;
}

// What of it cannot be removed is a failure.
void copying::remove_tree(char const* name) noexcept {
  reduce_options const o{.rename_first = false, .make_writable = true};
  auto const r = reduce_in(to_folder_.get(), name, true, o, {}, nullptr, {});
  if (r ? r->is_gone : r.error() == std::errc::no_such_file_or_directory) return;
  std::memcpy(report_.left_as, name, std::strlen(name) + 1);
  constexpr std::string_view what = "remove the remains";
  if (!r || r->failures.empty()) told_.fail({{}, what, r ? r->ended : r.error(), {}});
  for (std::size_t i = 0; r && i != r->failures.kept(); ++i)
    told_.fail({r->failures[i].path, what, r->failures[i].why, r->failures[i].reason});
}

int copying::copy_file() noexcept {
  descriptor const from(
      open_at(from_folder_.get(), from_.name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY));
  if (from.get() < 0) return from.get();
  has_source_ = true;
  if (int const e = attributes_of(from.get(), "", source_); e != 0) return e;
  if (!S_ISREG(source_.mode)) return -ESTALE;
  told_.total_entries.store(1, std::memory_order_relaxed);
  told_.total_bytes.store(source_.size, std::memory_order_relaxed);
  told_.total_is_known.store(true, std::memory_order_relaxed);
  int const dir = to_folder_.get();
  char name[unio::detail::longest_name + 1];
  if (int const e = random_name(name, random_prefix); e != 0) return e;
  int const access = options_.verify ? O_RDWR : O_WRONLY;
  descriptor to(open_at(dir, ".", access | O_TMPFILE, 0600));
  bool has_name = to.get() < 0;
  if (has_name) to.reset(open_at(dir, name, access | O_CREAT | O_EXCL | O_NOFOLLOW, 0600));
  if (to.get() < 0) return to.get();
  int e = drop_inherited_acls(to.get());
  if (e == 0)
    e = files_.contents(from.get(), to.get(), source_, nullptr, this,
                        [](void* c) noexcept { return static_cast<copying*>(c)->must_end(); });
  if (e == 0)
    files_.report_refusals(
        "", set_metadata(from.get(), to.get(), -1, nullptr, source_, files_.known, false, files_.lost));
  if (e == 0 && options_.durable) e = unio::detail::make_durable(to.get());
  if (e == 0 && !has_name) {
    // If it must not replace anything it gets its final name at once.
    e = unio::detail::link_open_file(to.get(), dir, options_.replace ? name : to_.name);
    if (e == 0 && !options_.replace) {
      report_.is_in_place = true;
      if (options_.durable) e = sync_folder(dir);
    } else if (e == 0) {
      has_name = true;
    }
  }
  if (e == 0 && has_name) e = place(dir, name);
  if (e != 0 && has_name && !report_.is_in_place) sys::unlinkat(dir, name, 0);
  if (e == 0) told_.entries.store(1, std::memory_order_relaxed);
  return e;
}

int copying::copy_special() noexcept {
  int const dir = to_folder_.get();
  char name[unio::detail::longest_name + 1];
  if (int const e = random_name(name, random_prefix); e != 0) return e;
  told_.total_entries.store(1, std::memory_order_relaxed);
  if (auto const e = sys::mkdirat(dir, name, 0700); e < 0) return static_cast<int>(e);
  descriptor const room(open_at(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK));
  int e = room.get();
  if (e >= 0) e = make_and_place_special(room.get());
  sys::unlinkat(dir, name, AT_REMOVEDIR);
  if (e == 0) told_.entries.store(1, std::memory_order_relaxed);
  return e;
}

// `room` is a directory that only this user may enter, unless it was exchanged for another.
int copying::make_and_place_special(int room) noexcept {
  constexpr char made[] = "copy";
  if (int const e = take_over(room); e != 0) return e;
  refusals refused;
  int e = files_.make_special(from_folder_.get(), from_.name, room, made, source_, refused);
  if (e != 0) return e;
  e = place(room, made);
  if (!report_.is_in_place) sys::unlinkat(room, made, 0);
  files_.report_refusals("", refused);
  return e;
}

int copying::copy_tree() noexcept {
  int const dir = to_folder_.get();
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_NONBLOCK;
  descriptor from(open_at(from_folder_.get(), from_.name, flags));
  if (from.get() < 0) return from.get();
  has_source_ = true;
  partial made;
  descriptor to(made.take(dir, to_.name, from.get(), options_.resume));
  if (to.get() < 0) return is_refused_ = true, to.get();
  attributes root{};
  int e = attributes_of(to.get(), "", root);
  files_.known.find(to.get());
  descriptor const synced(options_.durable ? open_at(to.get(), ".", flags) : -1);

  crew_settings s = settings_;
  s.sides = 2;
  s.extra = sizeof(own);
  s.spare = copy_buffer;
  s.depth_first = true;
  s.verify = true;
  s.climb = true;
  if (e == 0 && options_.durable && synced.get() < 0) e = synced.get();
  if (e == 0) {
    tree_copier all(s, files_, root.id, made.was_there());
    e = all.begin(from.release(), to.release());
    if (e == 0) {
      new (&all.root().extra<own>()) own{};
      told_.total_entries.store(1, std::memory_order_relaxed); // the root
      e = all.run();
    }
  }
  if (e == 0 && has_target_ && !options_.allow_incomplete)
    e = files_.why_missing.load(std::memory_order_relaxed);
  if (e == 0 && options_.durable) e = to_int(sys::uninterrupted([&] { return sys::syncfs(synced.get()); }));
  if (e == 0) e = place(dir, made.name());
  if (report_.is_in_place) {
    made.forget();
  } else if (options_.keep_partial) {
    std::memcpy(report_.left_as, made.name(), std::strlen(made.name()) + 1);
  } else {
    remove_tree(made.name());
    if (report_.left_as[0] == '\0') made.forget();
  }
  return e;
}

result<copy_report> copying::run(path_handle const& from_base, path_view from, path_handle const& to_base,
                                 path_view to) noexcept {
  if (int const e = prepare(from_base, from, to_base, to); e != 0) {
    if (blames_target_) return unio::detail::failed_on(e, "clone_or_copy", to.c_str(), to.size());
    return code(e);
  }
  int e = 0;
  if (must_end()) {
    e = ended_;
  } else if (S_ISREG(source_.mode)) {
    e = copy_file();
    if (!has_source_) return code(e);
  } else if (S_ISDIR(source_.mode)) {
    e = copy_tree();
    if (is_refused_ || !has_source_) return code(e);
  } else {
    e = copy_special();
  }
  if (e == -ECANCELED && ended_ != 0) e = ended_;
  if (e != 0) report_.ended = code(e);
  if (e == 0) told_.total_is_known.store(true, std::memory_order_relaxed);
  told_.tell(true);
  report_.entries = told_.entries.load(std::memory_order_relaxed);
  report_.bytes = told_.bytes.load(std::memory_order_relaxed);
  report_.shared_bytes = told_.shared_bytes.load(std::memory_order_relaxed);
  report_.unchanged = files_.unchanged.load(std::memory_order_relaxed);
  report_.owners_not_kept = files_.lost.owners.load(std::memory_order_relaxed);
  report_.attributes_not_kept = files_.lost.attributes.load(std::memory_order_relaxed);
  report_.links_not_kept = files_.links_not_kept.load(std::memory_order_relaxed);
  report_.missing = files_.missing.load(std::memory_order_relaxed);
  report_.verified_in_cache = files_.verified_in_cache.load(std::memory_order_relaxed);
  report_.method = files_.method.load(std::memory_order_relaxed);
  report_.failures = std::move(told_.failures);
  return std::move(report_);
}

result<copy_report> copy_until(path_handle const& from_base, path_view from, path_handle const& to_base,
                               path_view to, copy_options const& o, deadline d, tree_sink* sink,
                               stop_token second) noexcept {
  std::unique_ptr<copying> const c(new (std::nothrow) copying(o, d, sink, second));
  if (c == nullptr) return code(-ENOMEM);
  return c->run(from_base, from, to_base, to);
}

// rename(2) does nothing if both are names of one file. Then removes `from`; but not if both are one name: by
// another path to the same folder, or in another case where that does not matter. Returns 0 or a negative
// code.
int end_two_names(int from_dir, split_path const& from, int to_dir, char const* to) noexcept {
  attributes x{};
  attributes y{};
  descriptor const folder(open_at(from_dir, from.folder, O_PATH | O_DIRECTORY));
  auto const are_one = [&](int dir, char const* name) noexcept {
    return attributes_of(dir, name, x) == 0 && attributes_of(to_dir, to, y) == 0 && x.id == y.id;
  };
  if (folder.get() < 0 || !are_one(folder.get(), from.name) || x.links < 2) return 0;
  char aside[unio::detail::longest_name + 1];
  if (int const e = random_name(aside, random_prefix); e != 0) return e;
  if (int const e = rename(folder.get(), from.name, folder.get(), aside, relink_mode::no_replace); e != 0)
    return e;
  if (are_one(folder.get(), aside)) return static_cast<int>(sys::unlinkat(folder.get(), aside, 0));
  return rename(folder.get(), aside, folder.get(), from.name, relink_mode::no_replace);
}

result<copy_report> move_until(path_handle const& from_base, path_view from, path_handle const& to_base,
                               path_view to, copy_options o, deadline d, tree_sink* sink,
                               stop_token second) noexcept {
  split_path a;
  split_path b;
  if (int const e = a.set(from); e != 0) return code(e);
  if (int const e = b.set(to); e != 0) return code(e);
  int const from_dir = base_of(from_base);
  int const to_dir = base_of(to_base);
  auto const how = o.replace ? relink_mode::replace : relink_mode::no_replace;
  int e = rename(from_dir, from.c_str(), to_dir, to.c_str(), how);
  if (e == 0 && o.replace) e = end_two_names(from_dir, a, to_dir, to.c_str());
  if (e == 0) {
    copy_report renamed;
    renamed.is_in_place = true;
    return renamed;
  }
  bool const can_copy = e == -EXDEV || e == -ENOTEMPTY;
  if (!can_copy) return code(e);
  o.verify = true;
  o.durable = true;
  result<copy_report> r = copy_until(from_base, from, to_base, to, o, d, sink, second);
  if (!r || !r->is_in_place || r->ended || !r->failures.empty()) return r;
  reduce_options removing;
  removing.threads = o.threads;
  auto const removed = reduce(from_base, from, removing, {}, sink);
  if (!removed) r->failures.add({"", "remove", removed.error(), {}});
  for (std::size_t i = 0; removed && i != removed->failures.kept(); ++i)
    r->failures.add(removed->failures[i]);
  return r;
}

} // namespace

result<copy_report> clone_or_copy(path_handle const& from_base, path_view from, path_handle const& to_base,
                                  path_view to, copy_options const& o, deadline d, tree_sink* sink) noexcept {
  result<copy_report> r = copy_until(from_base, from, to_base, to, o, d, sink, {});
  name_failure(r, "clone_or_copy", from, to);
  return r;
}

task<result<copy_report>> co_clone_or_copy(path_handle const& from_base, path_view from,
                                           path_handle const& to_base, path_view to, copy_options o,
                                           deadline d, tree_sink* sink) {
  result<copy_report> r;
  co_await on_thread(
      [&](stop_token stop) noexcept { r = copy_until(from_base, from, to_base, to, o, d, sink, stop); });
  name_failure(r, "clone_or_copy", from, to);
  co_return r;
}

result<copy_report> move(path_handle const& from_base, path_view from, path_handle const& to_base,
                         path_view to, copy_options const& o, deadline d, tree_sink* sink) noexcept {
  result<copy_report> r = move_until(from_base, from, to_base, to, o, d, sink, {});
  name_failure(r, "move", from, to);
  return r;
}

task<result<copy_report>> co_move(path_handle const& from_base, path_view from, path_handle const& to_base,
                                  path_view to, copy_options o, deadline d, tree_sink* sink) {
  result<copy_report> r;
  co_await on_thread(
      [&](stop_token stop) noexcept { r = move_until(from_base, from, to_base, to, o, d, sink, stop); });
  name_failure(r, "move", from, to);
  co_return r;
}

} // namespace unio::fs
