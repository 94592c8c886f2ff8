// move: a rename, or a copy that is compared and made durable, and then what was copied is removed.

#include "fs/copy_until.hpp"
#include "fs/file_copier.hpp"
#include "fs/on_thread.hpp"
#include "fs/reduce_in.hpp"

#include <unistd.h>

namespace unio::inline v0_1::fs {
namespace {

using namespace trees;

using unio::detail::rename;

// rename(2) does nothing if both are names of one file. Then removes `from`; but not if both are one name: by
// another path to the same folder, or in another case where that does not matter. Returns 0 or a negative
// code. `left`: what has the name by now is called that, see remove_if().
int end_two_names(int from_dir, split_path const& from, int to_dir, char const* to,
                  char (&left)[unio::detail::longest_name + 1]) noexcept {
  attributes x{};
  attributes y{};
  descriptor const folder(open_at(from_dir, from.folder, O_PATH | O_DIRECTORY));
  auto const are_one = [&](int dir, char const* name) noexcept {
    return attributes_of(dir, name, x) == 0 && attributes_of(to_dir, to, y) == 0 && x.id == y.id;
  };
  if (folder.get() < 0 || !are_one(folder.get(), from.name) || x.links < 2 || S_ISDIR(x.mode)) return 0;
  int const e = remove_if(folder.get(), from.name, left,
                          [&](char const* now) noexcept { return are_one(folder.get(), now); });
  return e != -ESTALE ? e : 0;
}

void add_left(copy_report& to, char const* name) noexcept {
  to.failures.add({name, "remove", code(-EEXIST), "what the source is called now"});
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
  if (e == 0) {
    copy_report renamed;
    renamed.is_in_place = true;
    char left[unio::detail::longest_name + 1] = "";
    if (o.replace) e = end_two_names(from_dir, a, to_dir, to.c_str(), left);
    if (left[0] != '\0') {
      add_left(renamed, left);
    } else if (e != 0) {
      return code(e);
    }
    return renamed;
  }
  // A directory that is not empty: XFS says EEXIST (rename(2)).
  bool const can_copy = e == -EXDEV || e == -ENOTEMPTY || (e == -EEXIST && o.replace);
  if (!can_copy) return code(e);
  o.verify = true;
  o.durable = true;
  // Once the copy is in place the path may lead to something else.
  descriptor const folder(open_at(from_dir, a.folder, O_PATH | O_DIRECTORY));
  if (folder.get() < 0) return code(folder.get());
  copied noted;
  result<copy_report> r = copy_until(from_base, from, to_base, to, o, d, sink, second, &noted);
  if (!r || !r->is_in_place || r->ended || !r->failures.empty()) return r;
  reduce_options removing;
  removing.threads = o.threads;
  auto removed = reduce_in(folder.get(), a.name, a.has_slash, removing, {}, sink, {}, &noted);
  if (!removed && removed.error() == std::errc::no_such_file_or_directory) return r;
  if (!removed) r->failures.add({"", "remove", removed.error(), {}});
  if (removed) r->failures = std::move(removed->failures);
  if (removed && removed->left_as[0] != '\0') add_left(*r, removed->left_as);
  return r;
}

} // namespace

result<copy_report> move(path_handle const& from_base, path_view from, path_handle const& to_base,
                         path_view to, copy_options const& o, deadline d, tree_sink* sink) noexcept {
  return named(move_until(from_base, from, to_base, to, o, d, sink, {}), "move", from, to);
}

task<result<copy_report>> co_move(path_handle const& from_base, path_view from, path_handle const& to_base,
                                  path_view to, copy_options o, deadline d, tree_sink* sink) {
  auto r = co_await on_thread(
      [&](stop_token stop) noexcept { return move_until(from_base, from, to_base, to, o, d, sink, stop); });
  co_return named(std::move(r), "move", from, to);
}

} // namespace unio::fs
