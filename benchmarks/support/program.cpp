// Both sides of `--serve`.

#include "support/program.hpp"

#include <fmt/format.h>

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <system_error>

namespace benchmarks {
namespace {

std::vector<std::string> split(std::string const& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

// A line without its end; false at the end of the input.
bool read_line(std::FILE* in, std::string& line) {
  line.clear();
  for (int c = std::getc(in); c != EOF; c = std::getc(in)) {
    if (c == '\n') return true;
    line += static_cast<char>(c);
  }
  return false;
}

class child {
 public:
  explicit child(std::string const& program) : program_(program) {
    int to[2];
    int from[2];
    if (::pipe2(to, O_CLOEXEC) != 0 || ::pipe2(from, O_CLOEXEC) != 0)
      throw std::system_error(errno, std::generic_category(), "pipe2");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, from[1], STDOUT_FILENO);
    std::string option = "--serve";
    char* const arguments[] = {program_.data(), option.data(), nullptr};
    const int error = ::posix_spawnp(&pid_, program_.c_str(), &actions, nullptr, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    ::close(to[0]);
    ::close(from[1]);
    in_ = ::fdopen(from[0], "r");
    out_ = ::fdopen(to[1], "w");
    if (error != 0) {
      std::fclose(in_);
      std::fclose(out_);
      throw std::system_error(error, std::generic_category(), program_);
    }
  }

  ~child() {
    std::fclose(out_);
    std::fclose(in_);
    ::waitpid(pid_, nullptr, 0);
  }

  child(child const&) = delete;
  child& operator=(child const&) = delete;

  std::string next_line() {
    std::string line;
    if (!read_line(in_, line)) throw std::runtime_error(program_ + " ended early");
    return line;
  }

  sample run(std::size_t index, std::uint64_t operations) {
    // What this program wants counted is counted over there.
    fmt::print(out_, "run\t{}\t{}\t{}\n", index, operations, counting() ? 1 : 0);
    std::fflush(out_);
    const std::vector<std::string> fields = split(next_line());
    if (fields.size() != 2) throw std::runtime_error(program_ + " answers something else than a sample");
    return {std::stod(fields[0]), std::stoull(fields[1])};
  }

 private:
  std::string program_;
  pid_t pid_ = -1;
  std::FILE* in_ = nullptr;
  std::FILE* out_ = nullptr;
};

std::vector<parameter> parameters_from(std::vector<std::string> const& fields, std::size_t first) {
  std::vector<parameter> out;
  for (std::size_t i = first; i < fields.size(); ++i) {
    const std::size_t equals = fields[i].find('=');
    if (equals == std::string::npos) throw std::runtime_error("not a parameter: " + fields[i]);
    out.push_back({fields[i].substr(0, equals), fields[i].substr(equals + 1)});
  }
  return out;
}

} // namespace

std::vector<benchmark_case> cases_of(std::string const& program) {
  const auto server = std::make_shared<child>(program);
  std::vector<benchmark_case> cases;
  for (;;) {
    const std::vector<std::string> fields = split(server->next_line());
    if (fields.size() == 1 && fields[0] == "end") return cases;
    if (fields.size() >= 2 && fields[0] == "case") {
      cases.push_back({.subject = fields[1],
                       .parameters = parameters_from(fields, 2),
                       .run = [server, i = cases.size()](std::uint64_t n) { return server->run(i, n); }});
    } else if (fields.size() >= 3 && fields[0] == "missing") {
      cases.push_back({.subject = fields[2],
                       .parameters = parameters_from(fields, 3),
                       .run = nullptr,
                       .unavailable = fields[1]});
    } else {
      throw std::runtime_error(program + " does not know --serve");
    }
  }
}

int serve(std::vector<benchmark_case> const& cases) {
  for (benchmark_case const& c : cases) {
    if (c.run) fmt::print("case\t{}", c.subject);
    if (!c.run) fmt::print("missing\t{}\t{}", c.unavailable, c.subject);
    for (parameter const& p : c.parameters) fmt::print("\t{}={}", p.name, p.value);
    fmt::print("\n");
  }
  fmt::print("end\n");
  std::fflush(stdout);
  for (std::string line; read_line(stdin, line);) {
    const std::vector<std::string> fields = split(line);
    if (fields.size() != 4 || fields[0] != "run") throw std::runtime_error("not understood: " + line);
    count_allocations(fields[3] == "1");
    const sample s = cases.at(std::stoull(fields[1])).run(std::stoull(fields[2]));
    count_allocations(false);
    fmt::print("{}\t{}\n", s.ns, s.allocations);
    std::fflush(stdout);
  }
  return 0;
}

} // namespace benchmarks
