// src/testing/libc/entry.hpp: functions of the C library over the table of system calls.
//
// Programs that know nothing of unio call the C library. These functions take its place, in the program or,
// preloaded, before it, and ask the table of system calls, which a simulation answers (table.cpp). Without a
// simulation, on threads that have none, and for what is not the simulation's, they enter the kernel.
//
//   entry          what each function begins with: is it the program that calls, and who there?
//   open_file      what a number of the program's stands for
//   UNIO_IN_PLACE  defines a function by the name that the linker sees
//
// A simulated descriptor has two numbers: the world's, from 2^28 upwards, and the program's, which is small
// (select(2) can name no other, and many programs index tables by it) and belongs to a real descriptor that
// can do nothing (O_PATH), so that no other gets it.

#pragma once

#include "sys/calls.hpp"
#include "testing/thread_hooks.hpp"
#include "testing/world.hpp"

#include <dlfcn.h>

#include <cerrno>
#include <cstdint>
#include <ctime>
#include <memory>

namespace unio::inline v0_1::testing::libc {

inline constexpr std::int64_t second = 1'000'000'000; // ns
/// What no clock shows is deadline::forever.
constexpr std::int64_t to_ns(std::int64_t seconds, std::int64_t ns) noexcept {
  return seconds < deadline::forever / second ? seconds * second + ns : deadline::forever;
}
inline std::int64_t to_ns(timespec const& t) noexcept { return to_ns(t.tv_sec, t.tv_nsec); }
inline timespec to_timespec(std::int64_t ns) noexcept {
  return {.tv_sec = ns / second, .tv_nsec = ns % second};
}

/// The function of that name which the program would call without this library.
template <class F> F* own(char const* name) noexcept { return reinterpret_cast<F*>(dlsym(RTLD_NEXT, name)); }

struct epoll_set;

struct open_file {
  int in_world = -1; ///< the world's number; -1: an epoll
  bool is_nonblocking = false;
  std::int64_t receive_timeout = -1; ///< SO_RCVTIMEO, ns; negative: none
  std::int64_t send_timeout = -1;
  std::uint64_t blocked_reads = 0; ///< attempts that would have waited: after one, epoll tells the next edge
  std::uint64_t blocked_writes = 0;
  std::shared_ptr<epoll_set> epoll;
  bool is_wall_clock = false; ///< a timer's

  open_file() = default;
  open_file(open_file const&) = delete;
  open_file& operator=(open_file const&) = delete;
  ~open_file();
};
using file_pointer = std::shared_ptr<open_file>;

/// The program's numbers.
[[nodiscard]] file_pointer find_file(int fd) noexcept;
/// Gives it the lowest free number that is `least` or more. Returns it, or -errno.
int add_file(file_pointer f, bool closes_on_exec, int least = 0) noexcept;
/// A new description of the world's descriptor `in_world` (or an error, which it returns).
int add_descriptor(std::int64_t in_world, bool closes_on_exec, bool is_nonblocking) noexcept;
void put_file(int fd, file_pointer f, bool closes_on_exec);
/// Takes the number from the simulation; the real descriptor stays.
void drop_file(int fd) noexcept;
[[nodiscard]] bool closes_on_exec(int fd) noexcept;
void set_closes_on_exec(int fd, bool does) noexcept;
/// A descriptor that can do nothing, for the number of a simulated one.
[[nodiscard]] int placeholder() noexcept;
/// Whether a number is kept by this library.
[[nodiscard]] bool is_internal(int fd) noexcept;
void keep_internal(int fd) noexcept;
[[nodiscard]] int highest_number() noexcept;

/// While one exists the calls of this thread are the simulation's own, and not the program's.
class entry {
 public:
  entry(char const* name, void* caller) noexcept;
  entry(entry const&) = delete;
  entry& operator=(entry const&) = delete;
  ~entry();

  /// The program calls, and is simulated.
  [[nodiscard]] bool simulates() const noexcept { return simulates_; }
  /// What is simulated of that number; null: nothing, it is real.
  [[nodiscard]] file_pointer file(int fd) const noexcept {
    return simulates_ && fd >= 0 ? find_file(fd) : nullptr;
  }

 private:
  bool simulates_;
};

/// The innermost call of the program, for messages.
struct calling {
  char const* name = nullptr;
  void* from = nullptr;
};
extern constinit thread_local calling current_call;
extern constinit thread_local int depth;
/// Programs, in this process.
extern constinit bool are_several;

/// While one exists the calls of this thread's functions are those of `from`.
class calls_for {
 public:
  explicit calls_for(void* from) noexcept;
  calls_for(calls_for const&) = delete;
  calls_for& operator=(calls_for const&) = delete;
  ~calls_for();

 private:
  void* before_;
};

/// "main+0x12 in ./program"
[[nodiscard]] std::string describe_caller(void* address);

/// Ends the process: `what` is not simulated. Without a preloaded library: returns -ENOSYS after a line.
std::int64_t refuse(std::string_view what) noexcept;
/// Is called by it instead, once.
using refused_here = void (*)(std::string_view line) noexcept;
extern constinit refused_here end_refused;

template <class... A> std::int64_t raw(long number, A... a) noexcept { return sys::call(number, a...); }

/// As the C library returns it.
template <class T = long> T answer(std::int64_t r) noexcept {
  if (r >= 0) return static_cast<T>(r);
  errno = static_cast<int>(-r);
  return static_cast<T>(-1);
}

// ---- waiting

/// Waits until one of `events` may be there, at most `timeout_ns` (negative: for ever). 1, 0 after the
/// timeout, or -errno.
std::int64_t wait_for(open_file const& f, int fd, short events, std::int64_t timeout_ns) noexcept;
/// All that poll(2) would report of it.
[[nodiscard]] short events_of(open_file const& f) noexcept;
void sleep_for(std::int64_t ns) noexcept;

/// An attempt would have waited, or has moved less than it could: who waits in an epoll looks again.
inline void was_blocked(std::uint64_t& attempts) noexcept {
  ++attempts;
  if (simulated_threads != nullptr) simulated_threads->changed();
}

/// Repeats an attempt that would have waited, where the program waits for it.
template <class Attempt>
std::int64_t perform(open_file& f, int fd, short events, std::int64_t timeout_ns, bool waits,
                     Attempt attempt) noexcept {
  world* const w = answering_world();
  std::int64_t const until = timeout_ns < 0 ? deadline::forever : w->moment(timeout_ns);
  for (;;) {
    std::int64_t const r = attempt();
    if (r != -EAGAIN) return r;
    was_blocked(events == 1 ? f.blocked_reads : f.blocked_writes);
    if (!waits) return r;
    std::int64_t const left = until == deadline::forever ? -1 : std::max<std::int64_t>(0, until - w->now());
    std::int64_t const n = wait_for(f, fd, events, left);
    if (n < 0) return n;
    if (n == 0) return -EAGAIN;
  }
}

// ---- files

/// What it names in the simulated filesystem: an absolute path below one of the directories that are
/// simulated, or a socket's; empty: it is the system's.
[[nodiscard]] std::string simulated_path(int dir, char const* path);
void simulate_directory(std::string path);
/// A socket may be bound to that path: the simulated filesystem has its directory if the system's has.
void lend_directory_of(std::string_view path);

/// They are in the program if this is called.
void link_in_place() noexcept;

// ---- names for the linker

#define UNIO_CALLER __builtin_return_address(0)

/// The name of the function is another one here: so neither the C library's declaration nor its inline
/// forms (_FORTIFY_SOURCE) have a say.
#define UNIO_IN_PLACE(type, name, parameters)                                                           \
  extern "C"                                                                                            \
      [[gnu::visibility("default"), gnu::used]] type in_place_of_##name parameters noexcept asm(#name); \
  type in_place_of_##name parameters noexcept
#define UNIO_WEAK_IN_PLACE(type, name, parameters)                                 \
  extern "C" [[gnu::visibility("default"), gnu::used,                              \
               gnu::weak]] type in_place_of_##name parameters noexcept asm(#name); \
  type in_place_of_##name parameters noexcept
/// Another name of the same.
#define UNIO_ALSO(type, name, parameters, other, arguments) \
  UNIO_IN_PLACE(type, name, parameters) { return in_place_of_##other arguments; }

} // namespace unio::testing::libc
