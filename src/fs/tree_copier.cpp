// A tree of a copy, see src/fs/crew.hpp for the threads: visit makes a directory in it and copies its files;
// left sets the metadata of the directory. A file that fails is removed again. Its time is set last: it marks
// a file that is whole.

#include "fs/tree_copier.hpp"

#include "fs/partial.hpp"
#include "fs/reduce_in.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1::fs::trees {
namespace {

// Errors after which nothing else would succeed either.
bool ends_all(std::int64_t e) noexcept {
  return e == -ENOSPC || e == -EDQUOT || e == -EROFS || e == -ENOMEM || e == -ECANCELED || e == -ETIMEDOUT;
}

/// Whether what is at a name is the copy of another name of the source already.
enum class taken : std::uint8_t {
  no,
  as_name, ///< the two are one name there (case): nothing else can have it
  as_link  ///< an ended copy has linked the two, which are two files by now
};

/// The first name of a file that has several.
struct first_name {
  node* in;
  char* name;        // zero-terminated, the table's
  attributes copied; // of the file, when it was
};

struct own {
  attributes source;
  std::uint64_t key; // see copied.hpp
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
  bool is_gone(worker& w, node& n) noexcept;
  int make_directory(worker& w, node& n) noexcept;
  std::int64_t copy_one(worker& w, node& n, int in, int out, directory_entry const& e,
                        attributes& a) noexcept;
  std::int64_t copy_file(worker& w, node& n, int in, int out, char const* name, attributes& a) noexcept;
  std::int64_t link(worker& w, node& n, int out, char const* name, attributes& a, first_name*& first,
                    bool& is_linked) noexcept;
  bool is_whole(int out, char const* name, attributes const& a) const noexcept;
  int verify_whole(worker& w, node& n, int from, int out, char const* name, attributes const& a) noexcept;
  bool is_claimed(int out, char const* name, attributes& a) noexcept;
  taken is_taken(int out, char const* name) noexcept;
  int claim(int out, char const* name) noexcept;
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
  std::mutex claimed_mutex_;
  inode_table<char> claimed_;
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
  if (e == 0) // reading has changed its time; it has its attributes, and may not be writable any more
    report_refusals(w, n, name, set_metadata(-1, to.get(), -1, nullptr, a, files_.known, false, files_.lost));
  return e;
}

// Whether what is at a name is the copy of a name of the source already: of another one, where the two are
// one (case). It could not be told from what an ended copy has left.
bool tree_copier::is_claimed(int out, char const* name, attributes& a) noexcept {
  if (!is_continued_ || attributes_of(out, name, a) != 0) return false;
  std::lock_guard const lock(claimed_mutex_);
  return claimed_.find(a.id) != nullptr;
}

// Whether a directory lists this very name, and not one in another case.
bool lists(int directory, char const* name) noexcept {
  constexpr std::size_t room = std::size_t{32} << 10;
  std::unique_ptr<std::byte[]> const buffer(new (std::nothrow) std::byte[room]);
  descriptor const all(open_at(directory, ".", O_RDONLY | O_DIRECTORY));
  while (buffer != nullptr) {
    auto const got = sys::uninterrupted([&] { return sys::getdents64(all.get(), buffer.get(), room); });
    if (got <= 0) break;
    for (directory_entry const& e : directory_entries(buffer.get(), static_cast<std::size_t>(got)))
      if (e.name() == name) return true;
  }
  return false;
}

taken tree_copier::is_taken(int out, char const* name) noexcept {
  attributes a;
  if (!is_claimed(out, name, a)) return taken::no;
  bool const has_others = !S_ISDIR(a.mode) && a.links > 1;
  return has_others && lists(out, name) ? taken::as_link : taken::as_name;
}

int tree_copier::claim(int out, char const* name) noexcept {
  attributes a;
  if (!is_continued_) return 0;
  if (int const e = attributes_of(out, name, a); e != 0) return e;
  std::lock_guard const lock(claimed_mutex_);
  bool added = false;
  return claimed_.find_or_add(a.id, added) != nullptr ? 0 : -ENOMEM;
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
      // Its only name, so it is that of the source in another case.
      if (is_claimed(out, entry.c_str(), a) && (a.links == 1 || S_ISDIR(a.mode))) continue;
      if (int const e = clear(out, entry.c_str()); e != 0 && e != -ENOENT)
        fail(w, n, entry.c_str(), "remove", e, "left by an ended copy, and not in the source");
    }
  }
}

// Links `name` to the first name of the same file: then is_linked, and `a` is what that was copied as, since
// when others may have written to it. Otherwise this is the first name, whose file is made under the lock.
// Returns 0 or a negative code.
std::int64_t tree_copier::link(worker& w, node& n, int out, char const* name, attributes& a,
                               first_name*& first, bool& is_linked) noexcept {
  bool added = false;
  first = linked_.find_or_add(a.id, added);
  if (first == nullptr) return -ENOMEM;
  if (first->in == nullptr) {
    first->in = &n;
    first->copied = a;
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
      if (!is_same && is_taken(out, name) != taken::as_name && clear(out, name) == 0)
        e = sys::linkat(dir, first->name, out, name, 0);
      if (is_same) e = 0;
    }
    unuse(*first->in);
  }
  is_linked = e == 0;
  if (is_linked) a = first->copied;
  // EMLINK, or the first has failed
  if (e != 0) files_.links_not_kept.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

std::int64_t tree_copier::copy_file(worker& w, node& n, int in, int out, char const* name,
                                    attributes& a) noexcept {
  auto const asks = [](void* c) noexcept { return static_cast<tree_copier*>(c)->must_end(); };
  descriptor const from(open_to_read(in, name, this, asks));
  if (from.get() < 0) return from.get();
  if (int const e = attributes_of(from.get(), "", a); e != 0) return e;
  if (!S_ISREG(a.mode)) return -ESTALE; // exchanged after it was listed
  if (int const e = files_.await_next_time(a, this, asks); e != 0) return e;

  descriptor to;
  bool const has_mode = files_.known.have_mode(a);
  bool is_there = false;
  auto const make = [&]() noexcept -> std::int64_t {
    int const flags = (files_.options.verify ? O_RDWR : O_WRONLY) | O_CREAT | O_EXCL | O_NOFOLLOW;
    unsigned const mode = has_mode ? a.mode & 0777 : 0600;
    to.reset(open_at(out, name, flags, mode));
    if (to.get() == -EEXIST && is_continued_) {
      taken const t = is_taken(out, name);
      if (t == taken::as_name) return -EEXIST;
      is_there = t == taken::no && is_whole(out, name, a) &&
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
    if (e = claim(out, name); e != 0) return e;
    files_.unchanged.fetch_add(1, std::memory_order_relaxed);
    files_.report.bytes.fetch_add(a.size, std::memory_order_relaxed);
    return 0;
  }
  e = files_.contents(from.get(), to.get(), a, w.buffer + settings_.buffer, this, asks);
  bool const seems_whole = e == 0; // from now on
  if (e == 0) {
    report_refusals(w, n, name,
                    set_metadata(from.get(), to.get(), -1, nullptr, a, files_.known, has_mode, files_.lost));
    e = close_written(to);
  }
  if (e == 0) e = claim(out, name);
  if (e == 0) {
    files_.report.entries.fetch_add(1, std::memory_order_relaxed);
  } else {
    // What an ended copy leaves has another time than its source, and is made again.
    if (seems_whole || !ends_all(e) || !files_.options.keep_partial) sys::unlinkat(out, name, 0);
    if (first != nullptr) first->in = nullptr;
  }
  return e;
}

// `a`: what the copy was made of.
std::int64_t tree_copier::copy_one(worker& w, node& n, int in, int out, directory_entry const& entry,
                                   attributes& a) noexcept {
  char const* const name = entry.c_str();
  if (entry.kind() == entry_kind::file) {
    auto const e = copy_file(w, n, in, out, name, a);
    if (e != -ESTALE && e != -ELOOP && e != -ENXIO) return e;
  }
  if (int const e = attributes_of(in, name, a); e != 0) return e;
  if (S_ISDIR(a.mode)) return -EISDIR;
  if (S_ISREG(a.mode)) return copy_file(w, n, in, out, name, a);
  bool is_linked = false;
  first_name* first = nullptr;
  std::unique_lock lock(linked_mutex_, std::defer_lock);
  if (a.links > 1) {
    lock.lock();
    if (auto const e = link(w, n, out, name, a, first, is_linked); e != 0) return e;
  }
  taken const t = is_linked ? taken::no : is_taken(out, name);
  if (t == taken::as_name) {
    if (first != nullptr) first->in = nullptr;
    return -EEXIST;
  }
  bool const may_differ = files_.options.verify && S_ISLNK(a.mode);
  if (!is_linked && t == taken::no && is_whole(out, name, a) &&
      !(may_differ && same_links(in, name, out, name) != 1)) {
    files_.unchanged.fetch_add(1, std::memory_order_relaxed);
    return claim(out, name);
  }
  refusals refused;
  std::int64_t e = is_linked ? 0 : files_.make_special(in, name, out, name, a, refused);
  if (e == -EEXIST && is_continued_ && clear(out, name) == 0)
    e = files_.make_special(in, name, out, name, a, refused);
  report_refusals(w, n, name, refused);
  if (e == 0 && !is_linked) e = claim(out, name);
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
    if (is_taken(out, n.name) != taken::as_name) e = attributes_of(out, n.name, a);
    if (e == 0 && !S_ISDIR(a.mode)) {
      e = sys::unlinkat(out, n.name, 0);
      if (e == 0) e = sys::mkdirat(out, n.name, 0700);
    }
  }
  if (e == 0) e = claim(out, n.name);
  unuse(parent);
  return to_int(e);
}

// Whether a directory that cannot be opened was removed since it was listed.
bool tree_copier::is_gone(worker& w, node& n) noexcept {
  attributes a;
  int e = use(w, *n.parent, 0); // the root is open
  if (e < 0) return e == -ENOENT;
  e = attributes_of(e, n.name, a);
  unuse(*n.parent);
  return e == -ENOENT;
}

int tree_copier::visit(worker& w, node& n) noexcept {
  auto& mine = n.extra<own>();
  int const in = use(w, n, 0);
  if (in < 0) {
    if (in != -ENOENT || !is_gone(w, n)) fail(w, n, "", "open", in);
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
  if (n.parent != nullptr) mine.key = key_of(n.parent->extra<own>().key, n.name);
  // It may have its owner, its mode and its ACLs already.
  if (int const t = is_continued_ ? take_over(out) : 0; t != 0) fail(w, n, "", "take over", t);
  if (is_continued_) drop_attributes(out);
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
      attributes a{};
      std::int64_t r = -EISDIR;
      if (entry.kind() != entry_kind::directory) r = copy_one(w, n, in, out, entry, a);
      if (r == 0 && files_.noted != nullptr) r = files_.noted->note(key_of(mine.key, entry.name()), a);
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

} // namespace

int copy_tree_into(crew_settings const& given, file_copier& f, inode_id copy, bool is_continued, int from,
                   int to) noexcept {
  crew_settings s = given;
  s.sides = 2;
  s.extra = sizeof(own);
  s.spare = copy_buffer;
  s.depth_first = true;
  s.verify = true;
  s.climb = true;
  tree_copier all(s, f, copy, is_continued);
  if (int const e = all.begin(from, to); e != 0) return e;
  new (&all.root().extra<own>()) own{};
  f.report.total_entries.store(1, std::memory_order_relaxed); // the root
  return all.run();
}

} // namespace unio::fs::trees
