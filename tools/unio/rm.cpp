#include "rm.hpp"

#include "complain.hpp"
#include "own_name.hpp"
#include "progress.hpp"
#include "tools/support/output.hpp"

#include <unio/fs/reduce.hpp>
#include <unio/fs/walk.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <string_view>
#include <system_error>

namespace rm {
namespace {

int show(options const& o, std::string const& path) {
  auto const r = unio::fs::contents({}, path, {{.cross_mounts = o.cross_mounts}});
  if (!r) return say(1, path, r.error().code().message());
  for (auto const& i : *r) tools::print("{}/{}\n", escaped(path), escaped(i.name()));
  tools::print("{}\n", escaped(path));
  return r->report().failures.empty() ? 0 : 1;
}

void tell_removed(options const& o, std::string const& path, std::uint64_t n) {
  if (o.verbose) tools::print("{}: {} removed\n", escaped(path), n);
}

// As rm(1), which with -f does not mind a path that cannot exist either: file/name.
int say_why_not(options const& o, std::string const& path, std::error_code why) {
  bool const cannot_exist = why == std::errc::no_such_file_or_directory || why == std::errc::not_a_directory;
  return o.force && cannot_exist ? 0 : say(1, path, why.message());
}
int say_why_not(options const& o, std::string const& path, int error) {
  return say_why_not(o, path, std::error_code(error, std::system_category()));
}

// By one call, so that a directory that takes the file's place stays.
int remove_file(options const& o, std::string const& path, progress::sink& sink) {
  if (::unlink(path.c_str()) != 0) return say_why_not(o, path, errno);
  sink.progress({.entries = 1, .total_entries = 1, .total_is_known = true});
  sink.finish();
  tell_removed(o, path, 1);
  return 0;
}

int remove(options const& o, std::string const& path, progress::interruption& interrupted) {
  if (path.empty()) return say(2, "rm", "an empty path");
  if (own_name(path).empty())
    return say(2, path, "refused: it has no name of its own (/, . and .. have none)");
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) {
    int const e = errno;
    // What an earlier call, which was killed, has left of a tree is found by its name.
    if (e != ENOENT || !o.recursive || o.dry_run) return say_why_not(o, path, e);
  } else if (S_ISDIR(s.st_mode) && !o.recursive) {
    return say(1, path, "is a directory; -r removes it");
  }
  if (o.dry_run) return show(o, path);
  progress::sink sink(progress::how(o.progress), "removed", path);
  if (!o.recursive) return remove_file(o, path, sink);
  unio::fs::reduce_options with;
  with.threads = o.threads;
  with.cross_mounts = o.cross_mounts;
  with.stop = interrupted.token();
  with.rename_first = false; // if it is killed, the rest has its name
  auto const r = unio::fs::reduce({}, path, with, {}, &sink);
  sink.finish();
  if (!r) return say_why_not(o, path, r.error().code());
  tell_removed(o, path, r->removed);
  if (r->left_as[0] != '\0')
    say(1, path, fmt::format("{} is what a call that was killed has left, and remains", escaped(r->left_as)));
  if (interrupted.signal() != 0)
    return say(1, path,
               fmt::format("interrupted; {} removed, {}", r->removed,
                           r->is_gone ? "all of it" : "the rest is as it was"));
  if (r->ended) return say(1, path, r->ended.message());
  return r->is_gone ? 0 : 1;
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.footer(
      "Refuses /, . and .. ; never follows a link; never removes what is mounted unless told.\n\n"
      "Exit status: 0; 1 if something remains; 2 for wrong usage. A signal that ends it ends it as a "
      "signal.");
  app.add_option("path", o.paths, "What to remove")->type_name("PATH");
  app.add_flag("-r,-R,--recursive", o.recursive, "Directories, too, with all that is in them");
  app.add_flag("-f,--force", o.force, "What is not there is no failure, nor is it to name nothing");
  app.add_flag("-n,--dry-run", o.dry_run, "Print what would be removed, and remove nothing");
  app.add_flag("-v,--verbose", o.verbose, "Say how much was removed");
  app.add_flag("--cross-mounts", o.cross_mounts, "Empty what is mounted below");
  progress::describe(app, o.threads, o.progress);
}

int run(options const& o) {
  if (o.paths.empty() && !o.force) return say(2, "rm", "nothing to remove was named");
  int status = 0;
  int signal = 0;
  {
    progress::interruption interrupted;
    for (std::string const& path : o.paths) {
      if (interrupted.signal() != 0) break;
      status = std::max(status, remove(o, path, interrupted));
    }
    signal = interrupted.signal();
  }
  int const printed = tools::finish_output("unio");
  if (signal != 0) progress::die_by(signal);
  return status != 0 ? status : printed;
}

} // namespace rm
