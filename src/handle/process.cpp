// Processes: putting together what a child gets, and the handle.

#include "handle/launch.hpp"
#include "handle/names.hpp"
#include "handle/process_state.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"

#include <unio/passed_handles.hpp>
#include <unio/process_handle.hpp>

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <climits>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string_view>

namespace unio::inline v0_1 {

static_assert(sizeof(process_handle) == 24);

namespace {

using detail::launch_plan;

/// Linux 6.5, include/uapi/asm-generic/socket.h (SO_PEERPIDFD).
constexpr int so_peer_pidfd = 77;

constexpr char const* default_search = "/bin:/usr/bin"; // as the C library's, where there is no PATH

// Whether a part of a PATH is relative to the working directory.
bool has_relative_part(std::string_view search) noexcept {
  for (;;) {
    if (!search.starts_with('/')) return true; // an empty one too
    std::size_t const colon = search.find(':');
    if (colon == search.npos) return false;
    search.remove_prefix(colon + 1);
  }
}

bool has_nul(std::string const& s) noexcept { return s.find('\0') != s.npos; }

std::string_view name_in(std::string_view variable) noexcept {
  return variable.substr(0, variable.find('='));
}

// ---- arguments and environment, as execve(2) takes them --------------------------------------------------

// Pointers and what they point to in one piece of memory, filled in the order of the calls.
class texts {
 public:
  void count(std::size_t size) noexcept { bytes_ += size + 1, ++pointers_; }
  void count_end() noexcept { ++pointers_; }
  void reserve(std::size_t bytes) noexcept { bytes_ += bytes; }
  bool allocate() noexcept {
    memory_.reset(new (std::nothrow) std::byte[pointers_ * sizeof(char*) + bytes_]);
    next_pointer_ = reinterpret_cast<char**>(memory_.get());
    next_byte_ = reinterpret_cast<char*>(memory_.get() + pointers_ * sizeof(char*));
    return memory_ != nullptr;
  }
  [[nodiscard]] char* const* here() const noexcept { return next_pointer_; }
  void put(std::string_view text) noexcept {
    *next_pointer_++ = next_byte_;
    if (!text.empty()) std::memcpy(next_byte_, text.data(), text.size());
    next_byte_ += text.size();
    *next_byte_++ = '\0';
  }
  // What was reserved, behind all texts.
  [[nodiscard]] char* room() const noexcept { return next_byte_; }
  // What stays where it is.
  void put_end(char* what = nullptr) noexcept { *next_pointer_++ = what; }

 private:
  std::size_t bytes_ = 0, pointers_ = 0;
  char** next_pointer_ = nullptr;
  char* next_byte_ = nullptr;
  std::unique_ptr<std::byte[]> memory_;
};

bool is_changed(std::string_view name, std::vector<std::string> const& changes, std::size_t from) noexcept {
  for (std::size_t i = from; i < changes.size(); ++i)
    if (name_in(changes[i]) == name) return true;
  return false;
}

// Calls `keep` for each variable that stays as it is, `set` for each new one.
template <class Keep, class Set>
void for_each_variable(launch_options const& o, Keep keep, Set set) noexcept {
  if (o.inherits_environment)
    for (char** v = environ; v != nullptr && *v != nullptr; ++v)
      if (o.environment.empty() || !is_changed(name_in(*v), o.environment, 0)) keep(*v);
  for (std::size_t i = 0; i < o.environment.size(); ++i) {
    std::string_view const v = o.environment[i];
    bool const sets = v.find('=') != v.npos;
    if (sets && !is_changed(name_in(v), o.environment, i + 1)) set(v);
  }
}

int put_together(launch_plan& plan, texts& all, path_view program, std::vector<std::string> const& arguments,
                 launch_options const& o) noexcept {
  if (int const e = program.check(); e != 0) return e;
  if (int const e = o.working_directory.check(); e != 0) return e;
  if (has_nul(o.name)) return detail::native(error::embedded_nul);
  for (auto const* const list : {&arguments, &o.environment})
    for (std::string const& s : *list)
      if (has_nul(s)) return detail::native(error::embedded_nul);
  for (std::string const& v : o.environment)
    if (name_in(v).empty()) return -EINVAL;

  std::string_view const name =
      o.name.empty() ? std::string_view(program.c_str(), program.size()) : std::string_view(o.name);
  bool const inherits_all = o.inherits_environment && o.environment.empty();
  std::size_t kept = 0;
  all.count(name.size());
  for (std::string const& a : arguments) all.count(a.size());
  all.count_end();
  if (!inherits_all) {
    for_each_variable(
        o, [&](char*) { all.count_end(), ++kept; }, [&](std::string_view v) { all.count(v.size()); });
    all.count_end();
  }
  if (plan.search != nullptr) all.reserve(PATH_MAX);
  if (!all.allocate()) return -ENOMEM;

  plan.arguments = all.here();
  all.put(name);
  for (std::string const& a : arguments) all.put(a);
  all.put_end();
  plan.environment = environ;
  if (!inherits_all) {
    plan.environment = all.here();
    // Another thread may have set a variable since they were counted.
    for_each_variable(
        o,
        [&](char* v) {
          if (kept != 0) all.put_end(v), --kept;
        },
        [&](std::string_view v) { all.put(v); });
    for (; kept != 0; --kept) all.put_end();
    all.put_end();
  }
  plan.candidate = all.room();
  return 0;
}

// ---- descriptors -----------------------------------------------------------------------------------------

// Closes what is only needed until the child has begun.
struct for_the_child {
  int fds[5];
  int count = 0;
  for_the_child() = default;
  for_the_child(for_the_child const&) = delete;
  for_the_child& operator=(for_the_child const&) = delete;
  ~for_the_child() {
    for (int i = 0; i < count; ++i) sys::close(fds[i]);
  }
  int keep(int fd) noexcept { return fds[count++] = fd; }
};

// Whether an open of it leads to the same: a pipe or a terminal. Each open of many devices makes something
// new, such as a terminal by /dev/ptmx.
bool opens_the_same(int fd) noexcept {
  struct stat s;
  if (sys::fstat(fd, &s) < 0) return false;
  unsigned number = 0;
  return S_ISFIFO(s.st_mode) || (s.st_rdev != makedev(5, 2) && sys::ioctl(fd, TIOCGDEV, &number) >= 0);
}

// A pipe's end that does not block, opened anew so that it does. A negative code: that cannot be done.
int blocking_twin(int fd) noexcept {
  std::int64_t const flags = sys::fcntl(fd, F_GETFL, 0);
  if (flags < 0 || (flags & O_NONBLOCK) == 0 || !opens_the_same(fd)) return -1;
  // Without a reader an open for writing would wait.
  int const twin = detail::reopen(fd, static_cast<int>(flags & O_ACCMODE) | O_NONBLOCK);
  if (twin < 0) return twin;
  if (sys::fcntl(twin, F_SETFL, static_cast<long>(flags & ~std::int64_t{O_NONBLOCK})) >= 0) return twin;
  sys::close(twin);
  return -1;
}

// The ends of a new pipe: the child's, which blocks, in `source`.
int make_pipe(bool child_reads, int& source, pipe_handle& ours, for_the_child& theirs) noexcept {
  result<anonymous_pipe> made = pipe_handle::anonymous();
  if (!made) return detail::to_native(made.error());
  pipe_handle& child_end = child_reads ? made->reader : made->writer;
  ours = static_cast<pipe_handle&&>(child_reads ? made->writer : made->reader);
  source = theirs.keep(child_end.release());
  std::int64_t const r = sys::fcntl(source, F_SETFL, 0);
  return r < 0 ? static_cast<int>(r) : 0;
}

int prepare_stream(int number, child_stream const& s, launch_plan& plan, pipe_handle& ours,
                   for_the_child& theirs, launch_step& step) noexcept {
  step = static_cast<launch_step>(static_cast<int>(launch_step::input) + number);
  switch (s.where()) {
    case child_stream::leads::inherited:
      return 0;
    case child_stream::leads::null:
      plan.sources[number] = launch_plan::null;
      return 0;
    case child_stream::leads::merged:
      plan.sources[number] = launch_plan::merged;
      return number == 2 ? 0 : -EINVAL;
    case child_stream::leads::pipe:
      step = launch_step::pipes;
      return make_pipe(number == 0, plan.sources[number], ours, theirs);
    case child_stream::leads::handle:
      break;
  }
  handle const& h = *s.target();
  if (!h.is_open()) return -EBADF;
  plan.sources[number] = h.native_handle();
  bool const is_pipe = h.kind() == handle_kind::pipe || h.kind() == handle_kind::named_pipe;
  int const twin = is_pipe ? blocking_twin(h.native_handle()) : -1;
  if (twin == -EMFILE || twin == -ENFILE) return twin;
  if (twin >= 0) plan.sources[number] = theirs.keep(twin);
  return 0;
}

int prepare_descriptors(launch_plan& plan, launch_options const& o, launched_process& out,
                        for_the_child& theirs, launch_step& step) noexcept {
  child_stream const* const streams[] = {&o.input, &o.output, &o.error};
  pipe_handle* const ours[] = {&out.input, &out.output, &out.error};
  for (int i = 0; i < 3; ++i)
    if (int const e = prepare_stream(i, *streams[i], plan, *ours[i], theirs, step); e != 0) return e;
  step = launch_step::passed;
  if (o.passed.size() > launch_plan::most_passed) return -EINVAL;
  for (handle const* const h : o.passed) {
    if (!h->is_open()) return -EBADF;
    plan.sources[plan.count++] = h->native_handle();
  }
  return 0;
}

} // namespace

// ---- launching -------------------------------------------------------------------------------------------

char const* to_string(launch_step s) noexcept {
  constexpr char const* names[] = {
      "nothing",        "arguments",         "pipes",          "process",         "process group",
      "parent's death", "working directory", "standard input", "standard output", "standard error",
      "passed handles", "other descriptors", "program"};
  return names[static_cast<std::size_t>(s)];
}

result<launched_process> process_handle::launch(path_view program, std::vector<std::string> const& arguments,
                                                launch_options const& options, launch_step* failed) {
  return launch({}, program, arguments, options, failed);
}

result<launched_process> process_handle::launch(path_handle const& base, path_view program,
                                                std::vector<std::string> const& arguments,
                                                launch_options const& options, launch_step* failed) {
  launch_step step = launch_step::arguments;
  auto const fail = [&](int code) {
    if (failed != nullptr) *failed = step;
    return detail::failed_on(code, "launch", program.c_str(), program.size());
  };
  if (failed != nullptr) *failed = launch_step::none;

  launch_plan plan;
  texts all;
  plan.program = program.c_str();
  bool const is_path = std::strchr(plan.program, '/') != nullptr || program.size() == 0;
  if (base.is_open()) {
    plan.base = base.native_handle();
    plan.is_open_base = true;
  } else if (!is_path) {
    char const* const path = std::getenv("PATH");
    plan.search = path != nullptr ? path : default_search;
  }
  if (int const e = put_together(plan, all, program, arguments, options); e != 0) return fail(e);

  launched_process out;
  for_the_child theirs;
  if (int const e = prepare_descriptors(plan, options, out, theirs, step); e != 0) return fail(e);

  step = launch_step::working_directory;
  if (options.working_base != nullptr && options.working_base->is_open())
    plan.working_base = options.working_base->native_handle();
  if (options.working_directory.size() != 0) plan.working_directory = options.working_directory.c_str();
  bool const moves = plan.working_base >= 0 || plan.working_directory != nullptr;
  bool const is_relative =
      is_path ? *plan.program != '/' : plan.search != nullptr && has_relative_part(plan.search);
  if (moves && plan.base < 0 && is_relative) {
    // The program is relative to where this process is.
    int const here = detail::open_at(AT_FDCWD, ".", O_PATH | O_DIRECTORY, 0);
    if (here < 0) return fail(here);
    plan.base = theirs.keep(here);
    plan.is_open_base = true;
  }
  plan.group = options.group;
  plan.inherits_signals = options.inherits_signals;
  plan.signal_at_parents_death = options.signal_at_parents_death;

  step = launch_step::process;
  std::unique_ptr<detail::process_state> state(new (std::nothrow) detail::process_state);
  if (state == nullptr) return fail(-ENOMEM);
  // A table of calls that stands for the kernel cannot make processes, and says so: a simulation, by name.
  if (!sys::kernel_answers())
    if (std::int64_t const r = sys::pidfd_open(0, 0); r == -ENOSYS) return fail(-ENOSYS);
  detail::launched_child c{};
  if (int const e = begin_child(plan, c); e != 0) {
    step = plan.step;
    return fail(e);
  }
  state->id = c.id;
  state->is_ours = true;
  state->generation = sys::fork_generation();
  out.process = process_handle(c.fd, state.release());
  return out;
}

// ---- the handle ------------------------------------------------------------------------------------------

process_handle& process_handle::operator=(process_handle&& other) noexcept {
  if (this != &other) {
    (void)close();
    handle::operator=(static_cast<handle&&>(other));
    state_ = std::exchange(other.state_, nullptr);
  }
  return *this;
}

result<process_handle> process_handle::adopt(int id) noexcept {
  return make(static_cast<int>(sys::pidfd_open(id, 0)), id);
}

result<process_handle> process_handle::of_peer(handle const& socket) noexcept {
  // It says what is no Unix socket, and what has no peer: the kernel's errors for these have changed.
  result<peer_credentials> const who = credentials_of_peer(socket);
  if (!who) return who.error();
  int fd = -1;
  unsigned size = sizeof(fd);
  std::int64_t const r = sys::getsockopt(socket.native_handle(), SOL_SOCKET, so_peer_pidfd, &fd, &size);
  return make(r < 0 ? static_cast<int>(r) : fd, who->process);
}

// Of a descriptor, or a negative code.
result<process_handle> process_handle::make(int pidfd, int id) noexcept {
  int const fd = sys::above_standard(pidfd);
  if (fd < 0) return detail::to_error_code(fd);
  auto* const state = new (std::nothrow) detail::process_state;
  if (state == nullptr) {
    sys::close(fd);
    return detail::to_error_code(-ENOMEM);
  }
  state->id = id;
  return process_handle(fd, state);
}

result<process_handle> process_handle::current() noexcept { return adopt(::getpid()); }

// async_close leaves the state.
int process_handle::id() const noexcept { return is_open() && state_ != nullptr ? state_->id : 0; }

result<void> process_handle::kill(int signal) noexcept {
  std::int64_t const r = sys::pidfd_send_signal(fd_, signal, nullptr, 0);
  if (r < 0) return detail::failed(r, "kill");
  return {};
}

result<process_resources> process_handle::resources() noexcept {
  if (!is_open() || state_ == nullptr) return detail::failed(-EBADF, "resources");
  process_resources used;
  if (int const e = detail::look_at_resources(*state_, native_handle(), used); e != 0)
    return detail::failed(e, "resources");
  return used;
}

// ESRCH: it was waited for already, so its status is known.
failure detail::end_by(process_handle& p, int signal) noexcept {
  result<void> const r = p.kill(signal);
  return r || r.error() == std::errc::no_such_process ? failure() : r.error();
}

bool detail::lives_on(io_result<exit_status> const& waited) noexcept {
  return !waited && (waited.error() == condition::timed_out || waited.error() == condition::would_block);
}

result<exit_status> process_handle::terminate(deadline grace) noexcept {
  if (auto const e = detail::end_by(*this, SIGTERM)) return e;
  io_result<exit_status> const ended = wait(grace);
  if (!detail::lives_on(ended)) return ended;
  if (auto const e = detail::end_by(*this, SIGKILL)) return e;
  return wait();
}

int process_handle::release() noexcept {
  int const fd = handle::release(); // after which no wait uses the state
  delete std::exchange(state_, nullptr);
  return fd;
}

result<void> process_handle::close() noexcept {
  int const fd = handle::release();
  std::unique_ptr<detail::process_state> state(std::exchange(state_, nullptr));
  if (fd < 0) return {};
  exit_status ignored;
  bool const is_child = state != nullptr && state->is_ours && state->generation == sys::fork_generation();
  if (is_child && detail::look(*state, fd, ignored) == -EAGAIN) {
    detail::leave_to_reaper(state.release(), fd);
    return {};
  }
  std::int64_t const r = sys::close(fd);
  if (r < 0 && r != -EINTR) return detail::to_error_code(static_cast<int>(r));
  return {};
}

} // namespace unio
