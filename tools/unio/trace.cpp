// unio trace: by bpftrace, which is given a script; or by what the library itself records (UNIO_TRACE).

#include "trace.hpp"

#include "checks.hpp"
#include "complain.hpp"
#include "numbers.hpp"
#include "src/driver/recording.hpp"
#include "tools/support/output.hpp"

#include <unio/file_handle.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <map>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace trace {
namespace {

constexpr int wrong_usage = 2, cannot_be_executed = 126, not_found = 127;

std::string contents_of(std::string const& file, std::size_t most = std::string::npos) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw std::system_error(errno, std::system_category(), escaped(file));
  std::string bytes;
  std::vector<char> piece(1 << 20);
  do {
    in.read(piece.data(), static_cast<std::streamsize>(std::min(piece.size(), most - bytes.size())));
    bytes.append(piece.data(), static_cast<std::size_t>(in.gcount()));
  } while (in && bytes.size() < most);
  if (in.bad()) throw std::runtime_error(escaped(file) + ": cannot be read");
  return bytes;
}

// Takes the place of this process. Returns only if that fails.
int become(std::vector<std::string> const& command) {
  std::vector<char*> words;
  for (std::string const& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  ::execvp(words[0], words.data());
  return errno;
}

// ---- a process that runs ----------------------------------------------------------------------------------

// What of the process has the probes: its libunio, or the program itself.
std::string object_of(std::string const& process) {
  std::string const folder = "/proc/" + process;
  std::ifstream maps(folder + "/maps");
  if (!maps) throw std::runtime_error("there is no process " + process + ", or it is another user's");
  for (std::string line; std::getline(maps, line);) {
    std::size_t const name = line.rfind('/');
    if (name != line.npos && line.compare(name, 12, "/libunio.so.") == 0)
      return folder + "/root" + line.substr(line.find('/'));
  }
  return folder + "/exe";
}

bool has_probes(std::string const& object) {
  std::string const bytes = contents_of(object);
  using namespace std::string_view_literals;
  return bytes.find("stapsdt\0"sv) != bytes.npos && bytes.find("unio\0operation_started\0"sv) != bytes.npos;
}

// For bpftrace. Its maps @begin to @turn are by operation, or by multiplexer.
std::string script_for(std::string const& object, unsigned seconds) {
  std::string text;
  auto const probe = [&](char const* name, std::string_view body) {
    text += fmt::format("usdt:\"{}\":unio:{} {}\n", object, name, body);
  };
  text += "BEGIN { printf(\"watching; an interrupt ends it\\n\"); }\n";
  probe("operation_started", "{ @begin[arg0] = nsecs; @faces[arg0] = *(uint64*)(arg0 + arg1); }");
  probe("coroutine_suspended", "/@begin[arg0]/ { @awaited[arg0] = *(uint64*)arg1; }");
  probe("operation_completed",
        "/@begin[arg0]/ {\n"
        "  $took = (nsecs - @begin[arg0]) / 1000;\n"
        "  @us_until_completed[str(*(uint64*)@faces[arg0])] = hist($took);\n"
        "  if (@awaited[arg0]) {\n"
        "    @us_awaited_by[usym(@awaited[arg0]), str(*(uint64*)@faces[arg0])] = stats($took);\n"
        "  }\n"
        "  @end[arg0] = nsecs; delete(@begin[arg0]); delete(@awaited[arg0]);\n"
        "}");
  probe("operation_delivered",
        "/@end[arg0]/ {\n"
        "  @us_until_delivered[str(*(uint64*)@faces[arg0])] = hist((nsecs - @end[arg0]) / 1000);\n"
        "  delete(@end[arg0]); delete(@faces[arg0]);\n"
        "}");
  probe("turn_begin", "{ @asked[arg0] = nsecs; }");
  probe("turn_fetched",
        "/@asked[arg0]/ {\n"
        "  @us_asking_or_asleep = hist((nsecs - @asked[arg0]) / 1000);\n"
        "  @turn[arg0] = nsecs; delete(@asked[arg0]);\n"
        "}");
  probe("turn_end",
        "/@turn[arg0]/ { @us_serving = hist((nsecs - @turn[arg0]) / 1000); delete(@turn[arg0]); }");
  if (seconds != 0) text += fmt::format("interval:s:{} {{ exit(); }}\n", seconds);
  text +=
      "END { clear(@begin); clear(@faces); clear(@awaited); clear(@end); clear(@asked); clear(@turn); }\n";
  return text;
}

int watch(options const& o) {
  std::string const object = object_of(o.process);
  if (!has_probes(object))
    return say(1, "trace",
               "process " + o.process +
                   " has no probes of unio: it was built without sys/sdt.h, "
                   "or has no unio. --record needs no probes");
  if (object.find_first_of("\"\\") != object.npos)
    return say(1, object, "is no name for bpftrace's language");
  std::string const script = script_for(object, o.seconds);
  if (o.print) {
    tools::print(script);
    return 0;
  }
  // How many operations in flight it follows: 4,096 otherwise.
  (void)::setenv("BPFTRACE_MAP_KEYS_MAX", "1000000", 0);
  int const e = become({"bpftrace", "-p", o.process, "-e", script});
  if (e == ENOENT)
    return say(1, "trace",
               "bpftrace is not installed (package bpftrace). --record FILE -- PROGRAM needs none");
  return say(1, "bpftrace", std::strerror(e));
}

// ---- a recording ------------------------------------------------------------------------------------------

using unio::driver::recorded;
using event = unio::driver::recorded_event;

constexpr std::string_view magic(unio::driver::recording_magic, sizeof unio::driver::recording_magic);

bool begins_as_a_recording(std::filesystem::path const& file) {
  std::error_code why;
  if (!std::filesystem::is_regular_file(file, why)) return false; // a FIFO would be waited for
  char bytes[magic.size()] = {};
  std::ifstream(file, std::ios::binary).read(bytes, sizeof bytes);
  return std::string_view(bytes, sizeof bytes) == magic;
}

std::error_code put_back(unio::file_handle& from, std::filesystem::path const& file) {
  using unio::file_handle;
  auto to =
      file_handle::file({}, file.c_str(), file_handle::mode::write, file_handle::creation::only_if_not_exist);
  if (!to) return to.error();
  using std::filesystem::perms;
  std::error_code why;
  std::filesystem::permissions(file, perms::owner_read | perms::owner_write, why);
  if (why) return why;
  auto const size = from.maximum_extent();
  if (!size) return size.error();
  auto const copied = from.clone_extents_to(0, *size, *to, 0); // most of it has no storage
  return copied ? std::error_code() : copied.error();
}

int record(options const& o) {
  if (o.command.empty()) {
    complain("unio: trace: after --record FILE: -- PROGRAM ARGUMENTS…\n");
    return wrong_usage;
  }
  std::error_code why;
  std::filesystem::path const file = std::filesystem::absolute(o.record, why);
  unio::file_handle before; // the recording that is there, until the program has begun
  if (!why && std::filesystem::exists(std::filesystem::symlink_status(file, why))) {
    if (!begins_as_a_recording(file)) return say(1, o.record, "is there, and is no recording");
    auto there = unio::file_handle::file({}, file.c_str());
    if (!there) return say(1, o.record, there.error().message());
    before = std::move(*there);
  }
  // The program makes it, at its first operation, and goes on if it cannot.
  if (::access(file.parent_path().c_str(), W_OK | X_OK) != 0) return say(1, o.record, std::strerror(errno));
  if (::setenv("UNIO_TRACE", file.c_str(), 1) != 0) return say(1, "trace", std::strerror(errno));
  if (before.is_open()) {
    std::filesystem::remove(file, why);
    if (why) return say(1, o.record, why.message());
  }
  int const e = become(o.command);
  if (before.is_open()) {
    if (auto const lost = put_back(before, file)) return say(1, o.record, "is lost: " + lost.message());
  }
  return say(e == ENOENT ? not_found : cannot_be_executed, o.command.front(), std::strerror(e));
}

std::string span(std::int64_t ns) {
  double const n = static_cast<double>(ns);
  if (ns < 10'000) return fmt::format("{} ns", ns);
  if (ns < 10'000'000) return fmt::format("{:.1f} us", n / 1e3);
  if (ns < 10'000'000'000) return fmt::format("{:.1f} ms", n / 1e6);
  return fmt::format("{:.1f} s", n / 1e9);
}

class spans {
 public:
  void add(std::int64_t ns) { all_.push_back(ns); }
  [[nodiscard]] std::size_t size() const { return all_.size(); }
  // "half, 99 %, most"
  std::string text() {
    if (all_.empty()) return fmt::format("{:>10} {:>10} {:>10}", "-", "-", "-");
    std::ranges::sort(all_);
    auto const at = [this](std::size_t percent) { return span(all_[(all_.size() - 1) * percent / 100]); };
    return fmt::format("{:>10} {:>10} {:>10}", at(50), at(99), at(100));
  }

 private:
  std::vector<std::int64_t> all_;
};

struct verb {
  std::uint64_t count = 0, failed = 0;
  spans until_completed, until_delivered;
};

// Follows events in the order of their times.
class follower {
 public:
  void see(event const& e) {
    switch (e.what) {
      case recorded::started:
        flights_[e.subject] = flight{.begin = e.ns};
        name_of(e).count += 1;
        return;
      case recorded::completed:
        completed(e);
        return;
      case recorded::delivered:
        if (auto const f = flights_.find(e.subject); f != flights_.end() && f->second.end != never) {
          name_of(e).until_delivered.add(e.ns - f->second.end);
          f->second.end = never;
        }
        return;
      case recorded::turn_begin:
        turns_[e.subject] = {.begin = e.ns};
        return;
      case recorded::turn_fetched:
        fetched(e);
        return;
      case recorded::turn_end:
        if (turn& t = turns_[e.subject]; t.fetched != never) {
          served_.add(e.ns - t.fetched);
          t.fetched = never;
        }
        return;
    }
  }
  std::string text() {
    std::string all = fmt::format(
        "{:<18} {:>9} {:>7} {:>32}   {:>32}\n{:<18} {:>9} {:>7} {:>10} {:>10} {:>10}   {:>10} {:>10} "
        "{:>10}\n",
        "", "", "", "until its result is known", "from there until its receiver has it", "operation",
        "started", "failed", "half", "99 %", "most", "half", "99 %", "most");
    for (auto& [name, v] : verbs_)
      all += fmt::format("{:<18} {:>9} {:>7} {}   {}\n", escaped(name), v.count, v.failed,
                         v.until_completed.text(), v.until_delivered.text());
    std::uint64_t open = 0;
    for (auto const& [subject, f] : flights_) open += f.begin != never ? 1 : 0;
    all += fmt::format("\nwithout a result at the end: {}\n", open);
    if (served_.size() != 0) {
      all += fmt::format("\n{:<36} {:>10} {:>10} {:>10}\n", "turns", "half", "99 %", "most");
      all += fmt::format("{:<36} {}\n", "asking the kernel, or asleep in it", asked_.text());
      all += fmt::format("{:<36} {}\n", "serving: receivers and coroutines", served_.text());
    }
    return all;
  }

 private:
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::min();
  struct flight {
    std::int64_t begin = never; ///< until a result is known
    std::int64_t end = never;   ///< until that is delivered
  };
  struct turn {
    std::int64_t begin = never;
    std::int64_t fetched = never;
  };
  verb& name_of(event const& e) { return verbs_[std::string(e.name, ::strnlen(e.name, sizeof e.name))]; }
  void completed(event const& e) {
    auto const f = flights_.find(e.subject);
    if (f == flights_.end()) return; // its start was overwritten
    verb& v = name_of(e);
    if (e.outcome < 0) ++v.failed;
    if (f->second.begin != never) v.until_completed.add(e.ns - f->second.begin);
    f->second = {.end = e.ns};
  }
  void fetched(event const& e) {
    turn& t = turns_[e.subject];
    if (t.begin != never) asked_.add(e.ns - t.begin);
    t = {.fetched = e.ns};
  }

  std::map<std::uint64_t, flight> flights_;
  std::map<std::uint64_t, turn> turns_;
  std::map<std::string, verb> verbs_;
  spans asked_, served_;
};

} // namespace

std::string told(std::string const& bytes) {
  using namespace unio::driver;
  if (!bytes.starts_with(magic) || bytes.size() < sizeof(recording_file))
    throw std::runtime_error("is no recording");
  recording_header header;
  std::memcpy(&header, bytes.data(), sizeof header);
  if (header.event_size != sizeof(event) || header.rings != recorded_rings ||
      header.events != recorded_events)
    throw std::runtime_error("is a recording of another version");
  std::vector<event> all;
  std::uint64_t overwritten = 0;
  int threads = 0;
  for (std::size_t i = 0; i != recorded_rings; ++i) {
    char const* const ring = bytes.data() + offsetof(recording_file, rings) + i * sizeof(recording_ring);
    std::uint64_t count = 0;
    std::memcpy(&count, ring, sizeof count);
    if (count == 0) continue;
    ++threads;
    std::uint64_t const kept = std::min<std::uint64_t>(count, recorded_events);
    overwritten += count - kept;
    for (std::uint64_t n = count - kept; n != count; ++n) {
      event e;
      std::memcpy(&e, ring + offsetof(recording_ring, events) + n % recorded_events * sizeof e, sizeof e);
      if (static_cast<int>(e.what) < recorded_count && e.ns >= 0) all.push_back(e); // others: it is damaged
    }
  }
  std::vector<std::pair<std::int64_t, std::size_t>> order; // of one moment: as they stand in their ring
  for (event const& e : all) order.emplace_back(e.ns, order.size());
  std::ranges::sort(order);
  std::string text = fmt::format("process {}, {} rings, {} events, {} older ones overwritten", header.pid,
                                 threads, all.size(), overwritten);
  if (!all.empty()) text += ", of " + span(order.back().first - order.front().first);
  follower f;
  for (auto const& [ns, i] : order) f.see(all[i]);
  return text + "\n\n" + f.text();
}

void describe(CLI::App& app, options& o) {
  app.footer(
      "Without --record and --show: of a process that runs, by bpftrace, which needs the rights for that.\n"
      "After --record: -- PROGRAM ARGUMENTS…, which takes the place of this command.\n\n"
      "Exit status: 0; 1 with a reason; 2 for wrong usage; PROGRAM's; 126 if it cannot be executed; 127 if "
      "it "
      "was not found.");
  auto* const process = app.add_option("pid", o.process, "The process")
                            ->type_name("PID")
                            ->check(whole_number(1, std::numeric_limits<int>::max()));
  auto* const seconds = app.add_option("--seconds", o.seconds, "Watch so long. By default until an interrupt")
                            ->type_name("N")
                            ->check(whole_number(1, 86'400));
  auto* const print = app.add_flag("--print", o.print, "Print what bpftrace would be given");
  auto* const record =
      app.add_option("--record", o.record, "Run PROGRAM and record what it does in this file")
          ->type_name("FILE")
          ->check(not_empty);
  auto* const show =
      app.add_option("--show", o.show, "Tell what is in this file")->type_name("FILE")->check(not_empty);
  record->excludes(show)->excludes(process);
  show->excludes(process);
  seconds->needs(process);
  print->needs(process);
}

int run(options const& o) {
  if (!o.record.empty()) return record(o);
  if (!o.command.empty()) return say(wrong_usage, "trace", "a program is run with --record FILE alone");
  if (!o.show.empty()) {
    std::error_code why;
    if (std::filesystem::is_fifo(o.show, why)) return say(1, o.show, "is no recording"); // nor waited for
    std::string const bytes = contents_of(o.show, sizeof(unio::driver::recording_file)); // some have no end
    try {
      tools::print(told(bytes));
    } catch (std::runtime_error const& e) {
      return say(1, o.show, e.what());
    }
    return 0;
  }
  if (o.process.empty()) {
    complain("unio: trace: what? PID, --record FILE -- PROGRAM… or --show FILE\n");
    return wrong_usage;
  }
  return watch(o);
}

} // namespace trace
