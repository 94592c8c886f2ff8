#include "testing/libc/entry.hpp"

#include <cxxabi.h>
#include <dlfcn.h>
#include <fcntl.h>

#include <algorithm>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace unio::inline v0_1::testing::libc {

constinit thread_local calling current_call;
constinit thread_local int depth = 0;
constinit bool are_several = false;
constinit refused_here end_refused = nullptr;

namespace {

constinit thread_local void* real_caller = nullptr;

struct number {
  file_pointer file;
  bool closes_on_exec = false;
};

// Never destroyed: programs close descriptors in destructors of static objects.
struct state {
  std::vector<number> numbers;
  std::vector<int> internal;
  int placeholder = -1;
  std::uint64_t of_world = 0;
};

state& all() noexcept {
  static state* const s = new state;
  return *s;
}

// What an earlier simulation has left belongs to no descriptor of this one.
state& now() noexcept {
  state& s = all();
  if (s.of_world != worlds_so_far()) {
    for (std::size_t i = 0; i != s.numbers.size(); ++i)
      if (s.numbers[i].file != nullptr) {
        s.numbers[i].file->in_world = -1;
        (void)raw(SYS_close, static_cast<int>(i));
      }
    s.numbers.clear();
    s.of_world = worlds_so_far();
  }
  return s;
}

number* slot(int fd) noexcept {
  state& s = now();
  auto const i = static_cast<std::size_t>(fd);
  return fd >= 0 && i < s.numbers.size() ? &s.numbers[i] : nullptr;
}

} // namespace

open_file::~open_file() {
  if (in_world >= 0 && answering_world() != nullptr) (void)sys::close(in_world);
}

// ---- numbers

file_pointer find_file(int fd) noexcept {
  number const* const n = slot(fd);
  return n != nullptr ? n->file : nullptr;
}

int placeholder() noexcept {
  state& s = all();
  if (s.placeholder < 0) {
    constexpr int high = 700; // the program's own numbers stay as low as they would be
    auto const fd = static_cast<int>(raw(SYS_openat, AT_FDCWD, "/dev/null", O_PATH | O_CLOEXEC, 0));
    if (fd < 0) return -1;
    s.placeholder = static_cast<int>(raw(SYS_fcntl, fd, F_DUPFD_CLOEXEC, high));
    if (s.placeholder < 0) {
      s.placeholder = fd;
    } else {
      (void)raw(SYS_close, fd);
    }
    keep_internal(s.placeholder);
  }
  return s.placeholder;
}

bool is_internal(int fd) noexcept { return std::ranges::find(all().internal, fd) != all().internal.end(); }
void keep_internal(int fd) noexcept { all().internal.push_back(fd); }
int highest_number() noexcept { return static_cast<int>(now().numbers.size()) - 1; }

void put_file(int fd, file_pointer f, bool closes) {
  state& s = now();
  if (s.numbers.size() <= static_cast<std::size_t>(fd)) s.numbers.resize(static_cast<std::size_t>(fd) + 1);
  s.numbers[static_cast<std::size_t>(fd)] = {std::move(f), closes};
}

int add_file(file_pointer f, bool closes, int least) noexcept {
  (void)now();
  auto const fd = static_cast<int>(raw(SYS_fcntl, placeholder(), F_DUPFD_CLOEXEC, least));
  if (fd >= 0) put_file(fd, std::move(f), closes);
  return fd;
}

int add_descriptor(std::int64_t in_world, bool closes, bool is_nonblocking) noexcept {
  if (in_world < 0) return static_cast<int>(in_world);
  auto f = std::make_shared<open_file>();
  f->in_world = static_cast<int>(in_world);
  f->is_nonblocking = is_nonblocking;
  return add_file(std::move(f), closes);
}

void drop_file(int fd) noexcept {
  if (number* const n = slot(fd); n != nullptr) {
    file_pointer const last = std::move(n->file); // closing it may ask for numbers
    n->file = nullptr;
  }
}

bool closes_on_exec(int fd) noexcept {
  number const* const n = slot(fd);
  return n != nullptr && n->closes_on_exec;
}

void set_closes_on_exec(int fd, bool does) noexcept {
  if (number* const n = slot(fd); n != nullptr) n->closes_on_exec = does;
}

// ---- who calls

entry::entry(char const* name, void* caller) noexcept
    : simulates_(depth++ == 0 && answering_world() != nullptr && this_thread_is_simulated()) {
  if (simulates_) current_call = {name, real_caller != nullptr ? real_caller : caller};
}

entry::~entry() {
  if (--depth == 0) current_call = {};
}

calls_for::calls_for(void* from) noexcept : before_(std::exchange(real_caller, from)) {}
calls_for::~calls_for() { real_caller = before_; }

namespace {

// Of several programs each is a copy in memory that has its name (src/testing/preload/stage.cpp).
std::string name_of(char const* object) {
  constexpr std::string_view before = "/memfd:", after = " (deleted)";
  char target[PATH_MAX];
  if (!std::string_view(object).starts_with("/proc/self/fd/")) return object;
  std::int64_t const n = raw(SYS_readlinkat, AT_FDCWD, object, target, sizeof target);
  std::string_view name(target, static_cast<std::size_t>(std::max<std::int64_t>(n, 0)));
  if (!name.starts_with(before) || !name.ends_with(after)) return object;
  name.remove_prefix(before.size());
  name.remove_suffix(after.size());
  return std::string(name);
}

} // namespace

std::string describe_caller(void* address) {
  Dl_info where{};
  char text[64];
  if (dladdr(address, &where) == 0 || where.dli_fname == nullptr) {
    std::snprintf(text, sizeof text, "%p", address);
    return text;
  }
  auto const offset = [&](void const* from) {
    return static_cast<std::size_t>(static_cast<char const*>(address) - static_cast<char const*>(from));
  };
  if (where.dli_sname == nullptr) {
    std::snprintf(text, sizeof text, "+0x%zx", offset(where.dli_fbase));
    return name_of(where.dli_fname) + text;
  }
  int status = 0;
  char* const readable = abi::__cxa_demangle(where.dli_sname, nullptr, nullptr, &status);
  std::string line = status == 0 && readable != nullptr ? readable : where.dli_sname;
  std::free(readable);
  std::snprintf(text, sizeof text, "+0x%zx in ", offset(where.dli_saddr));
  return line + text + name_of(where.dli_fname);
}

std::int64_t refuse(std::string_view what) noexcept {
  std::string line(what);
  line += " is not simulated";
  if (current_call.from != nullptr) line += ": called by " + describe_caller(current_call.from);
  if (end_refused != nullptr) end_refused(line);
  std::fputs(("unio::testing: " + line + "\n").c_str(), stderr);
  return -ENOSYS;
}

} // namespace unio::testing::libc
