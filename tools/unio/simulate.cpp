// unio simulate: a process for each seed, with a library that takes the place of the C library's functions
// and answers them from a simulated system (src/testing/preload).

#include "simulate.hpp"

#include "complain.hpp"
#include "numbers.hpp"
#include "src/testing/preload/setting.hpp"
#include "tools/support/output.hpp"

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <elf.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <climits>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <limits>
#include <sstream>
#include <string_view>
#include <system_error>

namespace simulate {
namespace {

namespace preload = unio::testing::preload;
using unio::testing::run_end;

constexpr std::int64_t most_seed = std::numeric_limits<std::int64_t>::max();
constexpr int wrong_usage = 2, cannot_be_executed = 126, not_found = 127;

std::vector<std::string_view> words_of(std::string_view list) {
  std::vector<std::string_view> all;
  for (;;) {
    std::size_t const comma = list.find(',');
    all.push_back(list.substr(0, comma));
    if (comma == list.npos) return all;
    list.remove_prefix(comma + 1);
  }
}

std::vector<std::string_view> fault_names() {
  std::vector<std::string_view> all;
  for (preload::fault const& f : preload::faults) all.push_back(f.name);
  all.push_back(preload::files_fail);
  return all;
}

std::string wrong_faults(std::string const& list) {
  auto const known = fault_names();
  auto const words = words_of(list);
  for (auto word = words.begin(); word != words.end(); ++word) {
    bool const is_whole = *word == "all" || *word == "none";
    if (!is_whole && std::ranges::find(known, *word) == known.end())
      return fmt::format("the faults are {}, all and none, not \"{}\"", fmt::join(known, ", "), *word);
    if (is_whole && words.size() != 1) return fmt::format("\"{}\" is with others in \"{}\"", *word, list);
    if (std::find(words.begin(), word, *word) != word)
      return fmt::format("\"{}\" is twice in \"{}\"", *word, list);
  }
  return "";
}

// What the library is told.
std::string chosen_faults(std::optional<std::string> const& list) {
  std::vector<std::string_view> all;
  if (!list) {
    for (preload::fault const& f : preload::faults)
      if (f.is_usual) all.push_back(f.name);
  } else {
    all = *list == "all" ? fault_names() : words_of(*list);
    std::erase(all, "none");
  }
  return fmt::format("{}", fmt::join(all, ","));
}

// 5ms, 20us, 1.5s, 0
std::optional<std::int64_t> span_of(std::string const& text) {
  auto const m = measure_of(text);
  if (!m) return {};
  double const scale = m->unit == "ns"   ? 1
                       : m->unit == "us" ? 1e3
                       : m->unit == "ms" ? 1e6
                       : m->unit == "s"  ? 1e9
                                         : 0;
  bool const is_right = (scale != 0 || (m->number == 0 && m->unit.empty())) && m->number * scale <= 3.6e12;
  return is_right ? std::optional(static_cast<std::int64_t>(m->number * scale)) : std::nullopt;
}

struct range {
  std::int64_t least;
  std::int64_t most;
};

// "A..B", or "B" alone for 0..B.
std::optional<range> range_of(std::string const& text) {
  std::size_t const dots = text.find("..");
  auto const least = dots == text.npos ? std::optional<std::int64_t>(0) : span_of(text.substr(0, dots));
  auto const most = span_of(dots == text.npos ? text : text.substr(dots + 2));
  if (!least || !most || *least > *most) return {};
  return range{*least, *most};
}

std::string wrong_range(std::string const& text) {
  return range_of(text)
             ? ""
             : fmt::format("\"{}\" is not a range of times up to an hour, as 0..5ms or 20us..1s", text);
}

std::string about(std::string const& path, char const* what) { return fmt::format("\"{}\": {}", path, what); }

std::string wrong_directory(std::string const& path) {
  char whole[PATH_MAX];
  if (path.find('\n') != path.npos) return about(path, "has a line break");
  struct stat s{};
  if (::realpath(path.c_str(), whole) == nullptr || ::stat(whole, &s) != 0)
    return about(path, std::strerror(errno));
  return S_ISDIR(s.st_mode) ? "" : about(path, "is no directory");
}

std::string wrong_input(std::string const& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0 || ::access(path.c_str(), R_OK) != 0)
    return about(path, std::strerror(errno));
  return S_ISREG(s.st_mode) ? "" : about(path, "is not a regular file");
}

// ── the library ────────────────────────────────────────────────────────────────────────────────────────────

constexpr char const* library_name = "libunio_simulate.so";

constexpr char const* stage_name = "unio_stage"; // beside it
constexpr std::string_view between = "::";

std::string quoted(std::string const& word) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./,:@%";
  if (!word.empty() && word.find_first_not_of(plain) == word.npos) return word;
  std::string text = "'";
  for (char const c : word) {
    if (c == '\'') {
      text += "'\\''";
    } else {
      text += c;
    }
  }
  return text + "'";
}

// A program with its arguments, and where it is.
struct program {
  std::vector<std::string> words;
  std::string path;
  std::string libraries; // lines "name=path"
};

std::vector<program> programs_of(std::vector<std::string> const& command) {
  std::vector<program> all(1);
  for (std::string const& word : command) {
    if (word == between) {
      all.emplace_back();
    } else {
      all.back().words.push_back(word);
    }
  }
  return all;
}

// An errno, or 0. A program of another machine is refused here: execvp(3) would take it for a script.
int why_not_executed(std::string const& path) {
  struct stat s{};
  if (::stat(path.c_str(), &s) != 0) return errno;
  if (!S_ISREG(s.st_mode)) return EACCES;
  if (::faccessat(AT_FDCWD, path.c_str(), X_OK, AT_EACCESS) != 0) return errno;
  Elf64_Ehdr head{};
  int const fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  ssize_t const n = fd >= 0 ? ::read(fd, &head, sizeof head) : 0;
  if (fd >= 0) ::close(fd);
  bool const is_elf = n >= SELFMAG && std::memcmp(head.e_ident, ELFMAG, SELFMAG) == 0;
  bool const is_ours =
      n == sizeof head && head.e_ident[EI_CLASS] == ELFCLASS64 && head.e_machine == EM_X86_64;
  return is_elf && !is_ours ? ENOEXEC : 0;
}

// Finds it as execvp(3) does. Returns an errno, or 0.
int find(program& p) {
  std::string const& name = p.words.front();
  p.path = name;
  if (name.find('/') != name.npos) return why_not_executed(name);
  char const* const folders = std::getenv("PATH");
  int why = ENOENT;
  std::istringstream list(folders != nullptr ? folders : "/bin:/usr/bin");
  for (std::string folder; std::getline(list, folder, ':');) {
    p.path = (folder.empty() ? "." : folder) + "/" + name;
    int const here = why_not_executed(p.path);
    if (here == 0) return 0;
    if (here == EACCES && !name.empty()) why = EACCES;
  }
  return why;
}

// What the program is linked with, as the dynamic linker finds it, which runs nothing of it here.
std::string libraries_of(std::string const& path) {
  std::string const command = "/lib64/ld-linux-x86-64.so.2 --list " + quoted(path) + " 2>/dev/null";
  std::FILE* const list = ::popen(command.c_str(), "re");
  std::string lines;
  char text[2 * PATH_MAX];
  while (list != nullptr && std::fgets(text, sizeof text, list) != nullptr) { // "\tNAME => PATH (ADDRESS)"
    std::string_view const line(text);
    std::size_t const arrow = line.find(" => "), end = line.rfind(" (0x");
    if (arrow != line.npos && end != line.npos && end > arrow)
      lines += fmt::format("{}={}\n", line.substr(1, arrow - 1), line.substr(arrow + 4, end - arrow - 4));
  }
  if (list != nullptr) (void)::pclose(list);
  return lines;
}

// Beside the command in a build, in the library directory once installed. Empty: it is in neither.
std::string library_path() {
  char self[PATH_MAX];
  ssize_t const n = ::readlink("/proc/self/exe", self, sizeof self);
  if (n <= 0) return {};
  std::string_view const path(self, static_cast<std::size_t>(n));
  std::string const folder(path.substr(0, path.rfind('/') + 1));
  for (std::string const& where : {std::string(), std::string(UNIO_SIMULATE_DIRECTORY)}) {
    std::string const whole = folder + where + library_name;
    if (::access(whole.c_str(), R_OK) == 0) return whole;
  }
  return {};
}

// ── a run ──────────────────────────────────────────────────────────────────────────────────────────────────

struct descriptor {
  int fd = -1;
  explicit descriptor(int number, char const* call = "memfd_create") : fd(number) {
    if (fd < 0) throw std::system_error(errno, std::system_category(), call);
  }
  descriptor(descriptor const&) = delete;
  descriptor& operator=(descriptor const&) = delete;
  ~descriptor() { ::close(fd); }
};

constexpr char const* stuck =
    "stuck: ten seconds of processor time or sixty of real time have not been enough";

struct outcome {
  bool failed = false;
  std::string how;     // "deadlock", "exit status 3"
  std::string why;     // lines
  std::string refusal; // of a call that is not simulated
  std::string output;  // of what was not shown
  std::uint64_t hash = 0;
  std::uint64_t steps = 0;
  std::vector<std::uint32_t> decisions; // their numbers, upwards: those that are equal count once
  std::string story;
  bool is_story_cut = false;
  int exec_error = 0;
};

class runner {
 public:
  runner(options const& o, std::string library, std::vector<program> const& programs)
      : options_(o), library_(std::move(library)), programs_(programs) {
    if (::ftruncate(memory_.fd, sizeof(preload::record)) != 0)
      throw std::system_error(errno, std::system_category(), "ftruncate");
    void* const p =
        ::mmap(nullptr, sizeof(preload::record), PROT_READ | PROT_WRITE, MAP_SHARED, memory_.fd, 0);
    if (p == MAP_FAILED) throw std::system_error(errno, std::system_category(), "mmap");
    record_ = static_cast<preload::record*>(p);
    faults_ = chosen_faults(o.faults);
    latency_ = range_of(o.latency.value_or("0..5ms")).value();
    for (std::string const& d : o.files) {
      char whole[PATH_MAX];
      if (::realpath(d.c_str(), whole) != nullptr) directories_ += fmt::format("files={}\n", whole);
    }
  }
  runner(runner const&) = delete;
  runner& operator=(runner const&) = delete;
  ~runner() { ::munmap(record_, sizeof(preload::record)); }

  /// `kept`: the decisions that stand; null: all.
  outcome run(std::uint64_t seed, bool shows_output, std::vector<std::uint32_t> const* kept = nullptr,
              bool tells = false);

 private:
  [[noreturn]] void execute(std::string const& setting, int output, int report) const noexcept;

  options const& options_;
  std::string library_;
  std::vector<program> const& programs_;
  std::string faults_;
  range latency_{};
  std::string directories_;
  descriptor memory_{::memfd_create("unio simulate", MFD_CLOEXEC)};
  preload::record* record_ = nullptr;
};

// In the child. Addresses are those of every run: some programs let their order decide.
void runner::execute(std::string const& setting, int output, int report) const noexcept {
  (void)::personality(ADDR_NO_RANDOMIZE);
  (void)::prctl(PR_SET_PDEATHSIG, SIGKILL); // or it would go on when the command is ended
  std::string libraries = library_;
  if (char const* const others = std::getenv("LD_PRELOAD"); others != nullptr && *others != '\0')
    libraries.append(":").append(others);
  (void)::setenv("LD_PRELOAD", libraries.c_str(), 1);
  (void)::setenv(preload::variable, setting.c_str(), 1);
  int const input = ::open(options_.input.value_or("/dev/null").c_str(), O_RDONLY);
  if (input >= 0) (void)::dup2(input, STDIN_FILENO);
  if (input > STDERR_FILENO) ::close(input);
  if (output >= 0) {
    (void)::dup2(output, STDOUT_FILENO);
    (void)::dup2(output, STDERR_FILENO);
  }
  (void)::fcntl(memory_.fd, F_SETFD, 0);
  std::vector<char const*> arguments;
  std::string const stage = library_.substr(0, library_.rfind('/') + 1) + stage_name;
  bool const are_several = programs_.size() > 1;
  if (are_several) {
    arguments.push_back(stage.c_str());
    // Libraries of programs that are loaded late may want storage that is set aside at the start. And they
    // are copies, which are named by their descriptors (src/testing/preload/stage.cpp).
    for (auto const& [name, value] : {std::pair("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=131072"),
                                      {"LD_LIBRARY_PATH", "/proc/self/fd"}}) {
      char const* const others = std::getenv(name);
      bool const is_alone = others == nullptr || *others == '\0';
      (void)::setenv(name, is_alone ? value : (std::string(others) + ":" + value).c_str(), 1);
    }
  }
  for (program const& p : programs_) {
    if (&p != &programs_.front()) arguments.push_back(between.data());
    if (are_several) {
      arguments.push_back(p.path.c_str());
      arguments.push_back(p.libraries.c_str());
    }
    for (std::string const& word : p.words) arguments.push_back(word.c_str());
  }
  arguments.push_back(nullptr);
  std::string const& path = are_several ? stage : programs_.front().path;
  (void)::execvp(path.c_str(), const_cast<char* const*>(arguments.data()));
  int const why = errno;
  (void)!::write(report, &why, sizeof why);
  ::_exit(not_found);
}

// Its last bytes.
std::string end_of(int fd) {
  constexpr off_t most = 65536;
  off_t const size = ::lseek(fd, 0, SEEK_END);
  std::string text(static_cast<std::size_t>(std::clamp<off_t>(size, 0, most)), '\0');
  ssize_t const n = ::pread(fd, text.data(), text.size(), std::max<off_t>(size - most, 0));
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(n, 0)));
  return text;
}

std::chrono::nanoseconds processor_time(pid_t child) {
  clockid_t clock{};
  timespec used{};
  if (::clock_getcpuclockid(child, &clock) != 0 || ::clock_gettime(clock, &used) != 0) return {};
  return std::chrono::seconds(used.tv_sec) + std::chrono::nanoseconds(used.tv_nsec);
}

// Waits until it has ended. Returns why it had to be ended: by its alarms it is not if it blocks or ignores
// those signals, or has stopped itself. `output`: what it prints is kept there; -1: shown.
char const* await_end(pid_t child, int output) {
  constexpr std::chrono::seconds longest(65), most_work(12); // the alarms come after 60 and 10
  constexpr off_t most_output = off_t{256} << 20;
  constexpr int look_every_ms = 100;
  auto const until = std::chrono::steady_clock::now() + longest;
  descriptor const process(static_cast<int>(::syscall(SYS_pidfd_open, child, 0)), "pidfd_open");
  char const* why = nullptr;
  for (pollfd p{.fd = process.fd, .events = POLLIN, .revents = 0}; ::poll(&p, 1, look_every_ms) <= 0;) {
    struct stat s{};
    if (std::chrono::steady_clock::now() > until || processor_time(child) > most_work) why = stuck;
    if (output >= 0 && ::fstat(output, &s) == 0 && s.st_size > most_output)
      why = "stuck: it prints, and has printed more than 256 MiB";
    if (why != nullptr) (void)::kill(child, SIGKILL);
  }
  return why;
}

outcome runner::run(std::uint64_t seed, bool shows_output, std::vector<std::uint32_t> const* kept,
                    bool tells) {
  if (::fallocate(memory_.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, sizeof *record_) != 0)
    throw std::system_error(errno, std::system_category(), "fallocate"); // all zeros again
  record_->keeps_all = kept == nullptr;
  if (kept != nullptr)
    for (std::uint32_t const number : *kept) record_->kept.add(number);
  record_->tells = tells;
  descriptor const output(shows_output ? ::dup(STDOUT_FILENO) : ::memfd_create("output", MFD_CLOEXEC));
  int report[2];
  if (::pipe2(report, O_CLOEXEC) != 0) throw std::system_error(errno, std::system_category(), "pipe2");
  std::string const setting = fmt::format("seed={}\nrecord={}\nfaults={}\nlatency={},{}\n{}", seed,
                                          memory_.fd, faults_, latency_.least, latency_.most, directories_);
  std::fflush(nullptr);
  pid_t const child = ::fork();
  if (child < 0) throw std::system_error(errno, std::system_category(), "fork");
  if (child == 0) execute(setting, shows_output ? -1 : output.fd, report[1]);
  ::close(report[1]);
  outcome o;
  (void)!::read(report[0], &o.exec_error, sizeof o.exec_error);
  ::close(report[0]);
  char const* const stopped = await_end(child, shows_output ? -1 : output.fd);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) throw std::system_error(errno, std::system_category(), "waitpid");
  if (!shows_output) o.output = end_of(output.fd);
  if (o.exec_error != 0) return o;

  preload::record const& r = *record_;
  o.hash = (r.fingerprint ^ r.run.fingerprint) * 0x100000001b3 ^ r.run.steps;
  o.steps = r.run.steps;
  for (std::uint32_t number = 0; options_.shrink && number != preload::numbers::most; ++number) {
    if (r.decided.bits[number / 64] == 0) number |= 63;
    if (r.decided.has(number)) o.decisions.push_back(number);
  }
  o.story.assign(r.story, r.told);
  o.is_story_cut = r.is_story_cut;
  o.refusal = r.is_refused ? r.refusal : "";
  int const signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  if (r.version == 0) {
    o.refusal =
        "it has not loaded " + library_ +
        ": a program that is linked statically, or that runs with another user's rights, is not simulated";
  } else if (signal == SIGSYS && !r.is_refused) {
    o.refusal = "a system call is not simulated, and its signal was blocked";
  }
  o.failed = true;
  if (r.version != 0 && r.run.end != run_end::returned) {
    o.how = unio::testing::threads::ends[static_cast<std::size_t>(r.run.end)];
    o.why = r.run.why;
  } else if (stopped != nullptr) {
    o.how = stopped;
  } else if (signal == SIGPROF || signal == SIGALRM) {
    o.how = stuck;
  } else if (signal != 0) {
    o.how = ::strsignal(signal);
  } else if (WEXITSTATUS(status) != 0) {
    o.how = fmt::format("exit status {}", WEXITSTATUS(status));
  } else {
    o.failed = false;
  }
  return o;
}

// ── fewer decisions ────────────────────────────────────────────────────────────────────────────────────────

using decisions = std::vector<std::uint32_t>;

constexpr unsigned most_runs = 2000;

bool is_same(outcome const& o, outcome const& failed) {
  return o.failed && o.how == failed.how && o.refusal.empty();
}

/// Decisions that are enough for the same failure, and none of which can be left out alone: by leaving out
/// halves, quarters, … (Zeller, Hildebrandt: Simplifying and Isolating Failure-Inducing Input, TSE 2002).
decisions shrunk(runner& r, std::uint64_t seed, outcome const& failed, unsigned& runs) {
  auto const still_fails = [&](decisions const& kept) {
    ++runs;
    return is_same(r.run(seed, false, &kept), failed);
  };
  decisions kept = failed.decisions;
  std::size_t parts = 2;
  if (still_fails({})) return {};
  if (!still_fails(kept)) return kept;
  while (kept.size() > 1 && runs < most_runs) {
    std::size_t const size = (kept.size() + parts - 1) / parts;
    bool is_smaller = false;
    for (std::size_t at = 0; at < kept.size() && runs < most_runs && !is_smaller; at += size) {
      decisions rest = kept;
      auto const from = rest.begin() + static_cast<std::ptrdiff_t>(at);
      rest.erase(from, from + static_cast<std::ptrdiff_t>(std::min(size, kept.size() - at)));
      if (!still_fails(rest)) continue;
      kept = std::move(rest);
      is_smaller = true;
    }
    if (is_smaller) {
      parts = std::max<std::size_t>(2, parts - 1);
    } else if (parts >= kept.size()) {
      break;
    } else {
      parts = std::min(kept.size(), parts * 2);
    }
  }
  return kept;
}

decisions decisions_of(std::string_view list) {
  decisions all;
  if (list != "none")
    for (std::string_view const word : words_of(list))
      all.push_back(static_cast<std::uint32_t>(std::stoul(std::string(word))));
  return all;
}

// Numbers, upwards, with commas between, or "none".
std::string wrong_decisions(std::string const& list) {
  if (list == "none") return "";
  std::int64_t before = -1;
  for (std::string_view const part : words_of(list)) {
    std::string const word(part);
    if (std::string const wrong = whole_number(before + 1, preload::numbers::most - 1)(word); !wrong.empty())
      return "numbers of decisions, upwards, with commas between: " + wrong;
    before = std::stol(word);
  }
  return "";
}

// ── reports ────────────────────────────────────────────────────────────────────────────────────────────────

std::string again(options const& o, std::uint64_t seed, std::string const& keep) {
  std::string line = fmt::format("unio simulate --seeds 1 --from {}", seed);
  if (o.faults) line += " --faults " + quoted(*o.faults);
  if (o.latency) line += " --latency " + quoted(*o.latency);
  for (std::string const& d : o.files) line += " --files " + quoted(d);
  if (o.input) line += " --input " + quoted(*o.input);
  if (!keep.empty()) line += " --keep " + keep;
  line += " --";
  for (std::string const& word : o.command) line += " " + quoted(word);
  return line;
}

// Its last lines, each behind a bar.
void show_output(std::string_view text) {
  constexpr std::size_t most_lines = 20;
  while (text.ends_with('\n')) text.remove_suffix(1);
  if (text.empty()) return;
  std::size_t begin = text.size();
  for (std::size_t lines = 0; lines != most_lines && begin != 0; ++lines) {
    std::size_t const line = text.rfind('\n', begin - 1);
    begin = line == text.npos ? 0 : line;
  }
  if (begin != 0) tools::print("  | …\n");
  text.remove_prefix(begin != 0 ? begin + 1 : 0);
  for (;;) {
    std::size_t const line = text.find('\n');
    tools::print("  | {}\n", escaped(text.substr(0, line)));
    if (line == text.npos) return;
    text.remove_prefix(line + 1);
  }
}

} // namespace

void describe(CLI::App& app, options& o) {
  std::string list;
  for (preload::fault const& f : preload::faults)
    list += fmt::format("  {:<9} {}{}\n", f.name, f.what, f.is_usual ? "" : " (not by default)");
  list += fmt::format("  {:<9} calls on files below --files fail with EIO (not by default)\n",
                      preload::files_fail);
  app.footer(
      "Behind it all: -- PROGRAM ARGUMENTS…, what to run; several with :: between, the last of which ends "
      "it. Its sockets, files below --files, threads, clocks "
      "and "
      "random bytes are\nsimulated, and its standard input is empty or --input. Each line about a seed that "
      "failed has "
      "the command that runs it again.\n\nFaults:\n" +
      list +
      "\nExit status: 0; 1 if PROGRAM failed for a seed, waits for ever, or does what is not simulated; 2 "
      "for wrong usage;\n126 if PROGRAM cannot be executed; 127 if it was not found.");
  app.add_option("--seeds", o.seeds, "How many runs, each with the next seed. By default 100")
      ->type_name("N")
      ->check(whole_number(1, most_seed));
  app.add_option("--from", o.from, "The first seed. By default 0")
      ->type_name("SEED")
      ->check(whole_number(0, most_seed));
  app.add_option("--faults", o.faults, "What may go wrong: names with commas, all or none")
      ->type_name("LIST")
      ->check(wrong_faults);
  app.add_option("--latency", o.latency, "How long what is sent takes. By default 0..5ms")
      ->type_name("RANGE")
      ->check(wrong_range);
  app.add_flag(
      "--shrink", o.shrink,
      "Find the fewest decisions with which the first seed that fails still does, and tell what they are");
  app.add_option("--keep", o.keep, "Only these decisions of the seed stand: as --shrink prints them")
      ->type_name("NUMBERS")
      ->check(wrong_decisions);
  app.add_option(
         "--files", o.files,
         "A directory whose files are simulated, with the contents they have now; may be given several times")
      ->type_name("DIRECTORY")
      ->allow_extra_args(false)
      ->check(wrong_directory);
  app.add_option("--input", o.input,
                 "What the programs read from standard input; each reads on where the one before has stopped")
      ->type_name("FILE")
      ->check(wrong_input);
}

namespace {

// What is enough for the failure, told in the order in which it happened.
void tell_shrunk(options const& o, runner& r, std::uint64_t seed, outcome const& failed) {
  unsigned runs = 0;
  decisions const kept = shrunk(r, seed, failed, runs);
  outcome const last = r.run(seed, false, &kept, true);
  if (!is_same(last, failed)) {
    tools::print(
        "  not shrunk: it does not fail again in the same way, so it depends on what is not simulated\n");
    return;
  }
  tools::print("  shrunk in {} runs: {} of {} decisions are enough", runs, kept.size(),
               failed.decisions.size());
  std::string const list = kept.empty() ? "none" : fmt::format("{}", fmt::join(kept, ","));
  tools::print("; again: {}\n", escaped(again(o, seed, list)));
  std::string_view story = last.story;
  for (int i = 1; !story.empty(); ++i) {
    std::size_t const line = std::min(story.find('\n'), story.size());
    tools::print("  {:>3}. {}\n", i, escaped(story.substr(0, line)));
    story.remove_prefix(std::min(line + 1, story.size()));
  }
  if (last.is_story_cut) tools::print("       …\n");
  tools::print("       then: {}\n", last.how);
  show_output(last.output);
}

int not_executed(std::string const& name, int why) {
  return say(why == ENOENT ? not_found : cannot_be_executed, name, std::strerror(why));
}

} // namespace

int run(options const& o) {
  if (o.command.empty()) {
    complain("unio: simulate: after the options: -- PROGRAM ARGUMENTS…\n");
    return wrong_usage;
  }
  std::vector<program> programs = programs_of(o.command);
  if (std::ranges::any_of(programs, [](program const& p) { return p.words.empty(); })) {
    complain("unio: simulate: a program is missing before or after \"::\"\n");
    return wrong_usage;
  }
  if (o.seeds - 1 > std::uint64_t{most_seed} - o.from) {
    complain(fmt::format("unio: simulate: the last seed would be more than {}\n", most_seed));
    return wrong_usage;
  }
  if (o.latency && o.faults && range_of(*o.latency)->least == 0 && range_of(*o.latency)->most != 0 &&
      std::ranges::none_of(words_of(*o.faults), [](auto w) { return w == "all" || w == "latency"; })) {
    complain(fmt::format(
        "unio: simulate: --latency {} is that of the fault latency, which --faults {} leaves out\n",
        *o.latency, *o.faults));
    return wrong_usage;
  }
  std::string const library = library_path();
  if (library.empty())
    return say(1, "simulate",
               fmt::format("{} is not there: it is part of builds for x86-64, with exceptions "
                           "and without sanitizers",
                           library_name));
  for (program& p : programs)
    if (int const why = find(p); why != 0) return not_executed(p.words.front(), why);
  if (programs.size() > 1)
    for (program& p : programs) p.libraries = libraries_of(p.path);
  auto const begin = std::chrono::steady_clock::now();
  runner r(o, library, programs);
  std::uint64_t failures = 0, hash = 0xcbf29ce484222325, steps = 0;
  bool const shows_output = o.seeds == 1 && !o.shrink;
  decisions const kept = decisions_of(o.keep.value_or("none"));
  for (std::uint64_t i = 0; i != o.seeds; ++i) {
    std::uint64_t const seed = o.from + i;
    outcome const one = r.run(seed, shows_output, o.keep ? &kept : nullptr);
    if (one.exec_error != 0)
      return not_executed(programs.size() == 1 ? o.command.front() : stage_name, one.exec_error);
    if (!one.refusal.empty())
      return say(1, programs.size() == 1 ? o.command.front() : "simulate", one.refusal);
    hash = (hash ^ one.hash) * 0x100000001b3;
    steps += one.steps;
    if (!one.failed) continue;
    ++failures;
    tools::print("seed {}: {}; again: {}\n", seed, one.how, escaped(again(o, seed, o.keep.value_or(""))));
    if (failures == 1 && o.shrink) {
      tell_shrunk(o, r, seed, one);
    } else if (failures == 1 && !shows_output) {
      show_output(one.output);
    }
    std::fflush(stdout);
  }
  std::chrono::duration<double> const took = std::chrono::steady_clock::now() - begin;
  tools::print("{} seeds, {} failed; {} points, {:.2f} s; decisions {:016x}\n", o.seeds, failures, steps,
               took.count(), hash);
  return failures != 0 ? 1 : 0;
}

} // namespace simulate
