#include "cp.hpp"

#include "complain.hpp"
#include "own_name.hpp"
#include "progress.hpp"
#include "tools/support/output.hpp"

#include <unio/fs/copy.hpp>
#include <unio/fs/walk.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <string_view>

namespace cp {
namespace {

bool is_directory(std::string const& path) {
  struct stat s{};
  return ::stat(path.c_str(), &s) == 0 && S_ISDIR(s.st_mode);
}

std::string_view in_words(unio::fs::copy_method m) {
  switch (m) {
    case unio::fs::copy_method::none:
      return "nothing to copy";
    case unio::fs::copy_method::cloned:
      return "storage shared";
    case unio::fs::copy_method::in_kernel:
      return "copied in the kernel";
    default:
      return "read and written";
  }
}

int show(options const& o, std::string const& from, std::string const& to) {
  auto const r = unio::fs::contents({}, from, {{.cross_mounts = o.cross_mounts}});
  if (!r) return say(1, from, r.error().code().message());
  std::string const a = escaped(from);
  std::string const b = escaped(to);
  tools::print("{} -> {}\n", a, b);
  for (auto const& i : *r) {
    std::string const name = escaped(i.name());
    tools::print("{}/{} -> {}/{}\n", a, name, b, name);
  }
  return r->report().failures.empty() ? 0 : 1;
}

// Whether the library says that the error is the path's. It keeps the end of a long one.
bool is_about(unio::failure const& f, std::string_view path) {
  std::string const object = f.object();
  std::string const whole = escaped(path);
  return whole == object || (object.starts_with("...") && whole.ends_with(object.substr(3)));
}

// What is wrong with the path, where the library says it behind that: "a (is in the source)".
std::string what_is_wrong(unio::failure const& f, std::string_view path) {
  std::string const object = f.object();
  std::string const before = escaped(path) + " (";
  bool const says_it = object.starts_with(before) && object.ends_with(')');
  return says_it ? object.substr(before.size(), object.size() - before.size() - 1) : f.code().message();
}

// Whether it has ended because of what could not be copied, each of which was named, and not for a reason of
// its own, as a full disk.
bool is_incomplete(unio::fs::copy_report const& r) {
  for (std::size_t i = 0; r.missing != 0 && i != r.failures.kept(); ++i)
    if (r.failures[i].why == r.ended) return true;
  return false;
}

// EXDEV: of a rename within a directory, which overlayfs refuses of a lower layer's directories.
std::string why_it_ended(std::error_code e) {
  return e == std::errc::cross_device_link ? "what is there cannot be renamed (overlayfs); remove it before"
                                           : e.message();
}

// What the user may not set is no failure, but no secret either.
void tell_losses(std::string const& to, unio::fs::copy_report const& r) {
  if (r.owners_not_kept != 0) say(0, to, fmt::format("the owners of {} were not kept", r.owners_not_kept));
  if (r.attributes_not_kept != 0)
    say(0, to, fmt::format("{} extended attributes were not kept", r.attributes_not_kept));
  if (r.links_not_kept != 0) say(0, to, fmt::format("{} hard links became copies", r.links_not_kept));
}

int copy(options const& o, std::string const& from, std::string const& to,
         progress::interruption& interrupted) {
  if (o.dry_run) return show(o, from, to);
  progress::sink sink(progress::how(o.progress), "copied", from);
  unio::fs::copy_options with;
  with.threads = o.threads;
  with.cross_mounts = o.cross_mounts;
  with.stop = interrupted.token();
  with.replace = o.replace;
  with.resume = o.resume;
  with.keep_partial = o.resume;
  with.durable = o.durable;
  with.verify = o.verify;
  with.allow_incomplete = o.allow_incomplete;
  auto const r = unio::fs::clone_or_copy({}, from, {}, to, with, {}, &sink);
  sink.finish();
  if (!r) {
    if (r.error() == std::errc::file_exists) return say(1, to, "is there already; --replace replaces it");
    if (r.error() == std::errc::device_or_resource_busy)
      return say(1, to, "another copy to this place is under way");
    if (r.error() == std::errc::connection_already_in_progress)
      return say(1, to, "another copy was killed; --resume continues it");
    if (r.error().code().value() == ESTALE)
      return say(1, to, "nothing says of what .NAME.unio-copy beside it is a copy; remove it");
    if (r.error() == std::errc::invalid_argument) return say(1, to, what_is_wrong(r.error(), to));
    return say(1, is_about(r.error(), to) ? to : from, r.error().code().message());
  }
  std::string const left_as = escaped(r->left_as);
  std::string const left = left_as.empty()  ? ""
                           : r->is_in_place ? fmt::format("; what it has replaced is left as {}", left_as)
                           : left_as.ends_with(".unio-copy")
                               ? fmt::format("; {} is beside it, which --resume continues", left_as)
                               : fmt::format("; {} is left beside it", left_as);
  std::string const state = r->is_in_place ? "it is in place" : "what was there before is as it was";
  if (interrupted.signal() != 0 && r->ended) return say(1, to, fmt::format("interrupted; {}{}", state, left));
  if (r->ended && is_incomplete(*r))
    return say(
        1, to,
        fmt::format("not all of it could be copied; {}{}; --allow-incomplete puts it in place", state, left));
  if (r->ended) return say(1, to, fmt::format("{}; {}{}", why_it_ended(r->ended), state, left));
  tell_losses(to, *r);
  if (!left.empty()) say(0, to, left.substr(2));
  if (o.verbose)
    tools::print("{}: {} made, {} there before, {} bytes, {} of them shared; {}\n", escaped(to), r->entries,
                 r->unchanged, r->bytes, r->shared_bytes, in_words(r->method));
  if (o.verbose && r->verified_in_cache != 0)
    tools::print("{}: {} compared without direct I/O\n", escaped(to), r->verified_in_cache);
  return r->failures.empty() ? 0 : 1;
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.footer(
      "Trees are copied with modes, owners, times, attributes, links and holes, and storage is shared where "
      "the filesystem can.\nA copy gets its name when it is whole. If TO is a directory the copy is put into "
      "it.\n\nExit status: 0; 1 if something was not copied; 2 for wrong usage. A signal that ends it ends "
      "it as a signal.");
  app.add_option("path", o.paths, "What to copy, and last where to")
      ->type_name("FROM... TO")
      ->required()
      ->expected(2, -1);
  app.add_flag("-f,--replace", o.replace, "Replace what is there, as one");
  app.add_flag("--allow-incomplete", o.allow_incomplete,
               "Replace a tree although something could not be copied");
  app.add_flag("--resume", o.resume,
               "Continue an interrupted copy of a tree; keep what there is if interrupted");
  app.add_flag("--durable", o.durable, "Wait for the disk before it gets its name");
  app.add_flag("--verify", o.verify, "Compare the contents before it gets its name");
  app.add_flag("-n,--dry-run", o.dry_run, "Print what would be copied, and copy nothing");
  app.add_flag("-v,--verbose", o.verbose, "Say how much was copied, and how");
  app.add_flag("--cross-mounts", o.cross_mounts, "Copy what is mounted below");
  progress::describe(app, o.threads, o.progress);
}

int run(options const& o) {
  if (std::ranges::find(o.paths, "") != o.paths.end()) return say(2, "cp", "an empty path");
  std::string const& to = o.paths.back();
  bool const is_into = is_directory(to);
  if (o.paths.size() > 2 && !is_into)
    return say(2, to, "several are copied into a directory, which this is not");
  int status = 0;
  int signal = 0;
  std::set<std::string_view> names; // of copies
  {
    progress::interruption interrupted;
    for (std::size_t i = 0; i + 1 != o.paths.size() && interrupted.signal() == 0; ++i) {
      std::string const& from = o.paths[i];
      std::string_view const name = own_name(from);
      if (name.empty() || (!is_into && own_name(to).empty())) {
        status =
            say(2, name.empty() ? from : to, "refused: it has no name of its own (/, . and .. have none)");
        continue;
      }
      std::string const target = is_into ? fmt::format("{}{}{}", to, to.ends_with('/') ? "" : "/", name) : to;
      if (!names.insert(name).second) { // with --replace it would take the place of that copy
        status = std::max(status,
                          say(1, from, fmt::format("refused: {} is the copy of another", escaped(target))));
        continue;
      }
      status = std::max(status, copy(o, from, target, interrupted));
    }
    signal = interrupted.signal();
  }
  int const printed = tools::finish_output("unio");
  if (signal != 0) progress::die_by(signal);
  return status != 0 ? status : printed;
}

} // namespace cp
