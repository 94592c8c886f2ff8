// Programs: starting and ending them, and what they say.

#include "runner/program.hpp"

#include "support/fields.hpp"
#include "support/placement.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <system_error>
#include <utility>

namespace benchmarks {
namespace {

using clock = std::chrono::steady_clock;

constexpr std::chrono::seconds longest_start(10);
constexpr std::chrono::seconds longest_run(120);

counting counted = counting::nothing;

char const* name_of(counting c) {
  switch (c) {
    case counting::nothing:
      return "nothing";
    case counting::allocations:
      return "allocations";
    case counting::system_calls:
      return "system_calls";
  }
  return "nothing";
}

std::pair<std::string, std::string> halves(std::string const& text, char separator) {
  const std::size_t at = text.rfind(separator);
  if (at == std::string::npos) throw std::runtime_error("not understood: " + text);
  return {text.substr(0, at), text.substr(at + 1)};
}

// Where this thread may run is inherited by what it starts.
class on_cpu {
 public:
  explicit on_cpu(int cpu) {
    if (cpu < 0 || ::sched_getaffinity(0, sizeof before_, &before_) != 0) return;
    moved_ = move_to_cpu(cpu);
    if (!moved_) throw std::runtime_error(fmt::format("there is no processor {} to run on", cpu));
  }
  ~on_cpu() {
    if (moved_) ::sched_setaffinity(0, sizeof before_, &before_);
  }
  on_cpu(on_cpu const&) = delete;
  on_cpu& operator=(on_cpu const&) = delete;

 private:
  cpu_set_t before_ = {};
  bool moved_ = false;
};

struct pipe_ends {
  int read = -1;
  int write = -1;
};

pipe_ends make_pipe() {
  int fds[2];
  if (::pipe2(fds, O_CLOEXEC) != 0) throw std::system_error(errno, std::generic_category(), "pipe2");
  return {fds[0], fds[1]};
}

} // namespace

child_program::child_program(std::vector<std::string> arguments, int cpu) : name_(arguments.at(0)) {
  const on_cpu placed(cpu);
  const pipe_ends to = make_pipe();
  const pipe_ends from = make_pipe();
  to_ = to.write;
  from_ = from.read;
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, to.read, STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, from.write, STDOUT_FILENO);
  std::vector<char*> pointers;
  for (std::string& a : arguments) pointers.push_back(a.data());
  pointers.push_back(nullptr);
  posix_spawnattr_t attributes; // the runner ignores SIGPIPE; what it starts begins as from a shell
  posix_spawnattr_init(&attributes);
  sigset_t defaults;
  sigemptyset(&defaults);
  sigaddset(&defaults, SIGPIPE);
  posix_spawnattr_setsigdefault(&attributes, &defaults);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  const int error = ::posix_spawnp(&pid_, name_.c_str(), &actions, &attributes, pointers.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  ::close(to.read);
  ::close(from.write);
  if (error == 0) return;
  ::close(to_);
  ::close(from_);
  throw std::system_error(error, std::generic_category(), name_);
}

child_program::~child_program() {
  ::close(to_);
  ::close(from_);
  if (pid_ <= 0) return;
  ::kill(pid_, SIGTERM);
  for (int i = 0; i < 200; ++i) { // two seconds
    if (::waitpid(pid_, nullptr, WNOHANG) != 0) return;
    ::usleep(10'000);
  }
  ::kill(pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void child_program::write_line(std::string const& line) {
  const std::string text = line + "\n";
  if (::write(to_, text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    throw std::system_error(errno, std::generic_category(), name_);
}

bool child_program::more(clock::time_point until) {
  pollfd p{.fd = from_, .events = POLLIN, .revents = 0};
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
  if (left <= 0 || ::poll(&p, 1, static_cast<int>(left)) == 0)
    throw std::runtime_error(name_ + " takes too long");
  char bytes[4096];
  const ssize_t n = ::read(from_, bytes, sizeof bytes);
  if (n < 0 && errno != EINTR) throw std::system_error(errno, std::generic_category(), name_);
  if (n > 0) unread_.append(bytes, static_cast<std::size_t>(n));
  return n != 0;
}

std::string child_program::read_line(std::chrono::seconds patience) {
  const auto until = clock::now() + patience;
  for (;;) {
    const std::size_t end = unread_.find('\n');
    if (end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    if (!more(until)) throw std::runtime_error(name_ + " ended early");
  }
}

child_program::ending child_program::wait(std::chrono::seconds patience) {
  const auto until = clock::now() + patience;
  while (more(until)) {
  }
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
  return {std::exchange(unread_, {}), WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status)};
}

sample sample_from(std::string const& line) {
  const std::vector<std::string> fields = split(line);
  if (fields.size() >= 2 && fields[0] == "failed") throw std::runtime_error(fields[1]);
  if (fields.size() < 3 || fields[0] != "sample") throw std::runtime_error("not a sample: " + line);
  sample s{.elapsed_ns = std::stod(fields[1]), .value = std::stod(fields[2])};
  std::size_t i = 3;
  for (; i < fields.size() && fields[i] != "histogram"; ++i) {
    const auto [name, value] = halves(fields[i], '=');
    s.extra.push_back({name, std::stod(value)});
  }
  for (++i; i < fields.size(); ++i) {
    const auto [upper, count] = halves(fields[i], ':');
    s.histogram.push_back({std::stod(upper), std::stoull(count)});
  }
  return s;
}

void count_in_programs(counting what) { counted = what; }
counting counted_in_programs() { return counted; }

bool is_ours(std::string const& subject) { return subject.starts_with("unio"); }

std::vector<benchmark_case>& operator+=(std::vector<benchmark_case>& to, std::vector<benchmark_case> more) {
  std::ranges::move(more, std::back_inserter(to));
  return to;
}

namespace {

std::vector<parameter> parameters_from(std::vector<std::string> const& fields, std::size_t first) {
  std::vector<parameter> out;
  for (std::size_t i = first; i < fields.size(); ++i) {
    const std::size_t equals = fields[i].find('=');
    if (equals == std::string::npos) throw std::runtime_error("not a parameter: " + fields[i]);
    out.push_back({fields[i].substr(0, equals), fields[i].substr(equals + 1)});
  }
  return out;
}

std::vector<benchmark_case> cases_of(std::string const& path, int cpu) {
  const auto program = std::make_shared<child_program>(std::vector<std::string>{path, "--serve"}, cpu);
  std::vector<benchmark_case> cases;
  for (;;) {
    const std::vector<std::string> fields = split(program->read_line(longest_start));
    if (fields.size() == 1 && fields[0] == "end") return cases;
    if (fields.size() < 3) throw std::runtime_error(path + " does not know --serve");
    benchmark_case c{.subject = fields[2], .parameters = parameters_from(fields, 3), .run = nullptr};
    if (fields[0] == "case") {
      c.operations = std::stoull(fields[1]);
      c.run = [program, i = cases.size()](std::uint64_t n) {
        program->write_line(fmt::format("run\t{}\t{}\t{}", i, n, name_of(counted)));
        return sample_from(program->read_line(longest_run));
      };
    } else if (fields[0] == "missing") {
      c.unavailable = fields[1];
    } else {
      throw std::runtime_error(path + " does not know --serve");
    }
    cases.push_back(std::move(c));
  }
}

} // namespace

std::vector<benchmark_case> program_cases(settings const& s, std::string const& name) {
  const std::string path = name.find('/') != std::string::npos ? name : s.programs + "/" + name;
  try {
    if (!std::filesystem::exists(path)) throw std::runtime_error("not built: " + path);
    return cases_of(path, s.subject_cpu);
  } catch (std::exception const& e) {
    return {{.subject = std::filesystem::path(path).filename(),
             .parameters = {},
             .run = nullptr,
             .unavailable = e.what()}};
  }
}

} // namespace benchmarks
