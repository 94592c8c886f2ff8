// clone_or_copy: see the header.
//
//   a file   made without a name, filled, its metadata set, synced if durable, linked into place
//   a tree   .NAME.unio-copy, 0700 (partial.hpp), filled (tree_copier.hpp); syncfs if durable; rename
//   a link, a FIFO, a socket, a device
//            made in a directory of its own, 0700: who owns the target's directory could otherwise exchange
//            it for something else before its owner and its mode are set by name

#include "fs/copy_until.hpp"
#include "fs/file_copier.hpp"
#include "fs/on_thread.hpp"
#include "fs/partial.hpp"
#include "fs/reduce_in.hpp"
#include "fs/tree_copier.hpp"
#include "fs/within.hpp"

#include <unistd.h>

#include <cstring>
#include <memory>

namespace unio::inline v0_1::fs {
namespace {

using namespace trees;

using unio::detail::rename;
using unio::detail::sync_folder;

class copying {
 public:
  copying(copy_options const& o, deadline d, tree_sink* sink, stop_token second, copied* noted) noexcept
      : options_(o), settings_(settings_of(o, d, second)), told_(sink), files_(options_, told_, noted) {}

  result<copy_report> run(path_handle const& from_base, path_view from, path_handle const& to_base,
                          path_view to) noexcept;

 private:
  int prepare(path_handle const& from_base, path_view from, path_handle const& to_base,
              path_view to) noexcept;
  int is_inside() noexcept;
  int note_source(int from) noexcept;
  int refuse(char const* why) noexcept { return about_target_ = why, -EINVAL; }
  [[nodiscard]] failure not_begun(int e, path_view to) const noexcept;
  bool must_end() noexcept;
  int copy_file() noexcept;
  int copy_special() noexcept;
  int copy_tree() noexcept;
  int make_and_place_special(int room) noexcept;
  int place(int in, char const* name) noexcept;
  int replace_tree(char const* name, char (&old)[unio::detail::longest_name + 1]) noexcept;
  void remove_tree(char const* name) noexcept;
  void remove_one(char const* name, int flags) noexcept;

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
  bool blames_target_ = false;    // for the error, if nothing is begun
  char const* about_target_ = ""; // what is wrong with it, in words
  bool has_source_ = false;       // open
};

// Whether the target's directory is in the source, or the source in what it would replace: 0, -EINVAL, or why
// that is not known.
int copying::is_inside() noexcept {
  int e = is_in(to_folder_.get(), source_.id);
  if (e == -EINVAL) return refuse(" (is in the source)");
  if (e != 0 || !has_target_) return e;
  descriptor const from(open_at(from_folder_.get(), from_.name, O_PATH | O_DIRECTORY | O_NOFOLLOW));
  if (from.get() < 0) return from.get();
  e = holds(to_folder_.get(), to_.name, from.get(), settings_);
  if (e == -EINVAL) return refuse(" (has the source in it)");
  return e == -ECANCELED || e == -ETIMEDOUT ? 0 : e; // must_end() says so
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
    if (target_.id == source_.id) return refuse(" (is the source)");
    if (!options_.replace) return -EEXIST;
    if (S_ISDIR(target_.mode) != is_tree) return is_tree ? -ENOTDIR : -EISDIR;
  }
  return is_tree ? is_inside() : 0;
}

// For who removes it after it was copied: `from` is open, and source_ its attributes.
int copying::note_source(int from) noexcept {
  if (files_.noted == nullptr) return 0;
  files_.noted->root.reset(sys::fcntl(from, F_DUPFD_CLOEXEC, 3));
  return files_.noted->root.get() < 0 ? files_.noted->root.get() : files_.noted->note(0, source_);
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
  if (e != 0 && rename(dir, whole, dir, name, relink_mode::no_replace) != 0 && report_.left_as[0] == '\0')
    std::memcpy(report_.left_as, whole, sizeof whole);
  return e;
}

constexpr std::string_view removing = "remove the remains"; // what of them cannot be removed is a failure

// What is no tree, or an empty one.
void copying::remove_one(char const* name, int flags) noexcept {
  auto const e = sys::unlinkat(to_folder_.get(), name, flags);
  if (e == 0 || e == -ENOENT) return;
  std::memcpy(report_.left_as, name, std::strlen(name) + 1);
  told_.fail({}, removing, e);
}

void copying::remove_tree(char const* name) noexcept {
  reduce_options const o{.rename_first = false, .make_writable = true};
  auto const r = reduce_in(to_folder_.get(), name, true, o, {}, nullptr, {});
  if (r ? r->is_gone : r.error() == std::errc::no_such_file_or_directory) return;
  std::memcpy(report_.left_as, name, std::strlen(name) + 1);
  if (!r || r->failures.empty()) told_.fail({{}, removing, r ? r->ended : r.error(), {}});
  for (std::size_t i = 0; r && i != r->failures.kept(); ++i)
    told_.fail({r->failures[i].path, removing, r->failures[i].why, r->failures[i].reason});
}

int copying::copy_file() noexcept {
  auto const asks = [](void* c) noexcept { return static_cast<copying*>(c)->must_end(); };
  descriptor const from(open_to_read(from_folder_.get(), from_.name, this, asks));
  has_source_ = from.get() >= 0 || ended_ != 0;
  if (from.get() < 0) return from.get();
  if (int const e = attributes_of(from.get(), "", source_); e != 0) return e;
  if (!S_ISREG(source_.mode)) return -ESTALE;
  if (int const e = note_source(from.get()); e != 0) return e;
  if (int const e = files_.await_next_time(source_, this, asks); e != 0) return e;
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
  if (e == 0) e = files_.contents(from.get(), to.get(), source_, nullptr, this, asks);
  if (e == 0)
    files_.report_refusals(
        "", set_metadata(from.get(), to.get(), -1, nullptr, source_, files_.known, false, files_.lost));
  if (e == 0 && options_.durable) e = unio::detail::make_durable(to.get());
  if (e == 0 && !has_name && !options_.replace) e = close_another(to.get());
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
  if (e == 0 && has_name) e = close_written(to);
  if (e == 0 && has_name) e = place(dir, name);
  if (e != 0 && has_name && !report_.is_in_place) remove_one(name, 0);
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
  remove_one(name, AT_REMOVEDIR);
  if (e == 0) told_.entries.store(1, std::memory_order_relaxed);
  return e;
}

// `room` is a directory that only this user may enter, unless it was exchanged for another.
int copying::make_and_place_special(int room) noexcept {
  constexpr char made[] = "copy";
  if (int const e = take_over(room); e != 0) return e;
  refusals refused;
  descriptor const from(open_at(from_folder_.get(), from_.name, O_PATH | O_NOFOLLOW));
  int e = from.get() < 0 ? from.get() : attributes_of(from.get(), "", source_);
  if (e == 0 && (S_ISREG(source_.mode) || S_ISDIR(source_.mode))) e = -ESTALE; // exchanged
  if (e == 0) e = note_source(from.get());
  if (e == 0) e = files_.make_special(from_folder_.get(), from_.name, room, made, source_, refused);
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
  int e = note_source(from.get());
  if (e == 0) e = attributes_of(to.get(), "", root);
  files_.known.find(to.get());
  descriptor const synced(options_.durable ? open_at(to.get(), ".", flags) : -1);

  if (e == 0 && options_.durable && synced.get() < 0) e = synced.get();
  if (e == 0) e = copy_tree_into(settings_, files_, root.id, made.was_there(), from.release(), to.release());
  if (e == 0 && has_target_ && !options_.allow_incomplete)
    e = files_.why_missing.load(std::memory_order_relaxed);
  if (e == 0 && options_.durable) e = to_int(sys::uninterrupted([&] { return sys::syncfs(synced.get()); }));
  if (e == 0) e = place(dir, made.name());
  if (report_.is_in_place) {
    made.forget();
  } else if (options_.keep_partial && report_.left_as[0] == '\0') {
    std::memcpy(report_.left_as, made.name(), std::strlen(made.name()) + 1);
  } else {
    remove_tree(made.name());
    if (report_.left_as[0] == '\0') made.forget();
  }
  return e;
}

failure copying::not_begun(int e, path_view to) const noexcept {
  if (!blames_target_) return code(e);
  unio::detail::failed_object o;
  o.append(to.c_str(), to.size(), o.capacity - std::strlen(about_target_));
  o.append(about_target_);
  return unio::detail::failed(e, "clone_or_copy", o);
}

result<copy_report> copying::run(path_handle const& from_base, path_view from, path_handle const& to_base,
                                 path_view to) noexcept {
  if (int const e = prepare(from_base, from, to_base, to); e != 0) return not_begun(e, to);
  int e = 0;
  if (must_end()) {
    e = ended_;
  } else if (S_ISREG(source_.mode)) {
    e = copy_file();
    if (!has_source_) return code(e);
  } else if (S_ISDIR(source_.mode)) {
    e = copy_tree();
    if (!has_source_) return code(e);
    if (is_refused_) return not_begun(e, to);
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

} // namespace

result<copy_report> trees::copy_until(path_handle const& from_base, path_view from,
                                      path_handle const& to_base, path_view to, copy_options const& o,
                                      deadline d, tree_sink* sink, stop_token second,
                                      copied* noted) noexcept {
  std::unique_ptr<copying> const c(new (std::nothrow) copying(o, d, sink, second, noted));
  if (c == nullptr) return code(-ENOMEM);
  return c->run(from_base, from, to_base, to);
}

result<copy_report> clone_or_copy(path_handle const& from_base, path_view from, path_handle const& to_base,
                                  path_view to, copy_options const& o, deadline d, tree_sink* sink) noexcept {
  return named(copy_until(from_base, from, to_base, to, o, d, sink, {}), "clone_or_copy", from, to);
}

task<result<copy_report>> co_clone_or_copy(path_handle const& from_base, path_view from,
                                           path_handle const& to_base, path_view to, copy_options o,
                                           deadline d, tree_sink* sink) {
  auto r = co_await on_thread(
      [&](stop_token stop) noexcept { return copy_until(from_base, from, to_base, to, o, d, sink, stop); });
  co_return named(std::move(r), "clone_or_copy", from, to);
}

} // namespace unio::fs
