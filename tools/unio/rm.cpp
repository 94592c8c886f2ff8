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

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace rm {
namespace {

int show(options const& o, std::string const& path) {
  auto const r = unio::fs::contents({}, path, {{.cross_mounts = o.cross_mounts}});
  if (!r) return say(1, path, r.error().code().message());
  for (auto const& i : *r) fmt::print("{}/{}\n", path, i.name());
  fmt::print("{}\n", path);
  return r->report().failures.empty() ? 0 : 1;
}

int remove(options const& o, std::string const& path, progress::interruption& interrupted) {
  if (path.empty()) return say(2, "rm", "an empty path");
  if (own_name(path).empty())
    return say(2, path, "refused: it has no name of its own (/, . and .. have none)");
  struct stat s{};
  if (::lstat(path.c_str(), &s) != 0) {
    if (o.force && errno == ENOENT) return 0;
    return say(1, path, std::strerror(errno));
  }
  if (S_ISDIR(s.st_mode) && !o.recursive) return say(1, path, "is a directory; -r removes it");
  if (o.dry_run) return show(o, path);
  progress::sink sink(progress::how(o.progress), "removed", path);
  unio::fs::reduce_options with;
  with.threads = o.threads;
  with.cross_mounts = o.cross_mounts;
  with.stop = interrupted.token();
  auto const r = unio::fs::reduce({}, path, with, {}, &sink);
  sink.finish();
  if (!r) return say(1, path, r.error().code().message());
  if (o.verbose) fmt::print("{}: {} removed\n", path, r->removed);
  if (r->left_as[0] != '\0')
    say(1, path, fmt::format("what remains is called {}, because its name was taken", r->left_as));
  if (interrupted.signal() != 0)
    return say(128 + interrupted.signal(), path,
               fmt::format("interrupted; {} removed, {}", r->removed,
                           r->is_gone ? "all of it" : "the rest is as it was"));
  if (r->ended) return say(1, path, r->ended.message());
  return r->is_gone ? 0 : 1;
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.footer(
      "Refuses /, . and .. ; never follows a link; never removes what is mounted unless told.\n\n"
      "Exit status: 0; 1 if something remains; 2 for wrong usage; 128 + the signal that ended it.");
  app.add_option("path", o.paths, "What to remove")->type_name("PATH")->required();
  app.add_flag("-r,-R,--recursive", o.recursive, "Directories, too, with all that is in them");
  app.add_flag("-f,--force", o.force, "What is not there is no failure");
  app.add_flag("-n,--dry-run", o.dry_run, "Print what would be removed, and remove nothing");
  app.add_flag("-v,--verbose", o.verbose, "Say how much was removed");
  app.add_flag("--cross-mounts", o.cross_mounts, "Empty what is mounted below");
  progress::describe(app, o.threads, o.progress);
}

int run(options const& o) {
  int status = 0;
  {
    progress::interruption interrupted;
    for (std::string const& path : o.paths) {
      status = std::max(status, remove(o, path, interrupted));
      if (interrupted.signal() != 0) break;
    }
  }
  int const printed = tools::finish_output("unio");
  return status != 0 ? status : printed;
}

} // namespace rm
