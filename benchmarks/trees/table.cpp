// trees: `unio walk`, `unio rm` and `unio cp` beside the commands that people use. All are run as commands:
// starting them is a part of the time.

#include "runner/table.hpp"

#include <fcntl.h>
#include <spawn.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace benchmarks {
namespace {

namespace fs = std::filesystem;
using steady = std::chrono::steady_clock;
using command_line = std::vector<std::string>;

constexpr char const* place_variable = "UNIO_BENCH_TREES";
constexpr char const* cold_variable = "UNIO_BENCH_COLD";
constexpr char const* drop_caches = "/proc/sys/vm/drop_caches";

/// A folder for the trees; removed at the end.
class scratch {
 public:
  scratch() {
    char const* const place = std::getenv(place_variable);
    std::string name = (place != nullptr ? fs::path(place) : fs::temp_directory_path()) / "unio-trees-XXXXXX";
    if (::mkdtemp(name.data()) == nullptr) throw std::system_error(errno, std::generic_category(), name);
    folder_ = name;
  }
  scratch(scratch const&) = delete;
  scratch& operator=(scratch const&) = delete;
  ~scratch() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  [[nodiscard]] std::string operator/(std::string const& name) const { return (folder_ / name).string(); }

 private:
  fs::path folder_;
};

void run(command_line const& arguments) {
  std::vector<char*> pointers;
  for (std::string const& a : arguments) pointers.push_back(const_cast<char*>(a.c_str()));
  pointers.push_back(nullptr);
  posix_spawn_file_actions_t files;
  ::posix_spawn_file_actions_init(&files);
  ::posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t child = -1;
  int const e = ::posix_spawnp(&child, pointers[0], &files, nullptr, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&files);
  if (e != 0) throw std::system_error(e, std::generic_category(), arguments[0]);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::generic_category(), "waitpid");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) throw std::runtime_error(arguments[0] + " fails");
}

/// Files of one size in directories, all of them in one.
struct shape {
  std::string name;
  int directories;
  int files; // in each
  int bytes; // of each
  [[nodiscard]] std::uint64_t entries() const {
    return static_cast<std::uint64_t>(directories) * static_cast<std::uint64_t>(files + 1) + 1;
  }
};

void make(std::string const& path, shape const& s) {
  std::string const text(static_cast<std::size_t>(s.bytes), 'x');
  fs::create_directory(path);
  for (int d = 0; d != s.directories; ++d) {
    // Each in one of some groups: a path has some length.
    std::string at = path + "/group" + std::to_string(d / 100);
    if (d % 100 == 0) fs::create_directory(at);
    at += "/directory" + std::to_string(d);
    fs::create_directory(at);
    int const folder = ::open(at.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    for (int f = 0; f != s.files; ++f) {
      int const file =
          ::openat(folder, ("file" + std::to_string(f)).c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      if (file < 0 || ::write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
        throw std::system_error(errno, std::generic_category(), at);
      ::close(file);
    }
    ::close(folder);
  }
}

struct subject {
  std::string name;
  command_line command; // FROM and TO stand for the trees
};

std::string why_not(std::string const& program) {
  if (program.find('/') != std::string::npos) return fs::exists(program) ? "" : "not built: " + program;
  std::string const path = std::getenv("PATH") != nullptr ? std::getenv("PATH") : "/usr/bin:/bin";
  for (std::size_t at = 0; at <= path.size();) {
    std::size_t const end = std::min(path.find(':', at), path.size());
    if (::access((path.substr(at, end - at) + "/" + program).c_str(), X_OK) == 0) return "";
    at = end + 1;
  }
  return program + " is not installed";
}

// Why the caches of the machine are not emptied; empty: they may be.
std::string why_not_cold() {
  if (std::getenv(cold_variable) == nullptr)
    return std::string(cold_variable) + " is not set: it empties the caches of the whole machine";
  return ::access(drop_caches, W_OK) == 0 ? "" : std::string(drop_caches) + " may not be written";
}

sample timed(command_line command, std::string const& from, std::string const& to, std::uint64_t entries) {
  for (std::string& word : command) {
    if (word == "FROM") word = from;
    if (word == "FROM/") word = from + "/";
    if (word == "TO") word = to;
  }
  auto const begin = steady::now();
  run(command);
  double const ns = std::chrono::duration<double, std::nano>(steady::now() - begin).count();
  return {.elapsed_ns = ns, .value = ns / static_cast<double>(entries)};
}

} // namespace

table trees_table(settings const& s) {
  auto const at = std::make_shared<scratch>();
  table t{
      .name = "trees",
      .title = "walking, removing and copying directory trees",
      .unit = "ns per entry",
      .reference = "GNU",
      .rounds = s.quick ? 1 : 5,
      .notes =
          {"Whole commands, the kernel's caches warm. walk prints the names to /dev/null. The trees are in "
           "TMPDIR, or where UNIO_BENCH_TREES says.",
           "GNU: find, rm -rf, cp -a. fd, bfs, rsync: as Debian has them. rmz, cpz, xcp: of crates.io; cpz "
           "keeps no more than the mode, xcp no owner.",
           "cold: with UNIO_BENCH_COLD the machine's caches are emptied before each run, which does not "
           "affect a tmpfs.",
           "nested: 100 files in each directory. flat: all in one. copy: files of 4 KiB with all metadata; "
           "one file: 512 MiB."},
  };
  std::string const unio = s.unio;
  int const scale = s.quick ? 1 : 50;
  auto const add = [&](std::string const& work, shape const& sh, std::vector<subject> const& all,
                       bool removes, bool copies) {
    bool const is_cold = sh.name == "cold";
    std::string const from = *at / (work + "-" + sh.name);
    for (subject const& each : all) {
      benchmark_case c{
          .subject = each.name,
          .parameters = {{"work", work}, {"tree", sh.name}},
          .run = nullptr,
          .unavailable = why_not(each.command[0]),
          .operations = 1,
      };
      if (is_cold && c.unavailable.empty()) c.unavailable = why_not_cold();
      if (c.unavailable.empty())
        c.run = [=, folder = at](std::uint64_t) { // which must outlive the runs
          if (!fs::exists(from)) make(from, sh);
          if (is_cold) {
            ::sync();
            std::ofstream(drop_caches) << "3";
          }
          sample const one = timed(each.command, from, from + "-copy", sh.entries());
          if (removes) fs::remove_all(from); // what is left of it
          if (copies) fs::remove_all(from + "-copy");
          return one;
        };
      t.cases.push_back(std::move(c));
    }
  };
  std::vector<subject> const walking = {{"GNU", {"find", "FROM"}},
                                        {"fd", {"fdfind", "-uu", ".", "FROM"}},
                                        {"bfs", {"bfs", "FROM"}},
                                        {"unio", {unio, "walk", "FROM"}}};
  add("walk", {"nested", 100 * scale, 99, 0}, walking, false, false);
  add("walk", {"cold", 20 * scale, 99, 0}, walking, false, false);
  add("remove", {"nested", 20 * scale, 100, 100},
      {{"GNU", {"rm", "-rf", "FROM"}}, {"rmz", {"rmz", "FROM"}}, {"unio", {unio, "rm", "-r", "FROM"}}}, true,
      false);
  add("remove", {"flat", 1, 2000 * scale, 0},
      {{"GNU", {"rm", "-rf", "FROM"}}, {"rmz", {"rmz", "FROM"}}, {"unio", {unio, "rm", "-r", "FROM"}}}, true,
      false);
  std::vector<subject> const copying = {{"GNU", {"cp", "-a", "FROM", "TO"}},
                                        {"rsync", {"rsync", "-aHAX", "FROM/", "TO"}},
                                        {"cpz", {"cpz", "FROM", "TO"}},
                                        {"xcp", {"xcp", "-r", "FROM", "TO"}},
                                        {"unio", {unio, "cp", "FROM", "TO"}}};
  add("copy", {"nested", 10 * scale, 50, 4096}, copying, false, true);
  add("copy", {"one file", 1, 1, s.quick ? 1 << 20 : 512 << 20}, copying, false, true);
  return t;
}

} // namespace benchmarks
