// Events of operations, in rings that a file has.

#include "driver/recording.hpp"

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"

#include <unio/multiplexer.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace unio::inline v0_1::driver {
namespace {

// Null, if a program asks that has gained privileges. A copy, as the program may clear its environment before
// the file is made.
char const* wanted_name() noexcept {
  char const* const name = ::secure_getenv("UNIO_TRACE");
  return name != nullptr && *name != '\0' ? ::strdup(name) : nullptr;
}
char const* const file_name = wanted_name();

} // namespace

bool const records = file_name != nullptr;

namespace {

constinit recording_file* file = nullptr;
constinit int descriptor = -1;         // stays open: the blocks of a ring are taken when a thread begins
constinit struct stat recorded_into{}; // the file: the program may close it, and its number be another one's
constinit unsigned generation = 0;
constinit std::array<std::atomic<bool>, recorded_rings> taken{};

std::size_t offset_of_ring(std::size_t i) noexcept {
  return offsetof(recording_file, rings) + i * sizeof(recording_ring);
}

// Returns 0 or an errno.
int open_file(char const* name) noexcept {
  int const opened = ::open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (opened < 0) return errno;
  int const fd = sys::above_standard(opened);
  if (fd < 0) {
    ::unlink(name);
    return -fd;
  }
  void* p = MAP_FAILED;
  // Which fails where the size of files is limited; ftruncate(2) by itself ends the process (SIGXFSZ).
  int e = -static_cast<int>(sys::past_tests::ftruncate(fd, sizeof(recording_file)));
  if (e == 0) e = ::posix_fallocate(fd, 0, sizeof(recording_header));
  if (e == 0) {
    p = ::mmap(nullptr, sizeof(recording_file), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED) e = errno;
  }
  if (e != 0) {
    ::close(fd);
    ::unlink(name);
    return e;
  }
  if (::fstat(fd, &recorded_into) != 0) recorded_into = {}; // then no thread gets a ring
  file = static_cast<recording_file*>(p);
  descriptor = fd;
  recording_header& h = file->header;
  h.pid = static_cast<std::uint32_t>(::getpid());
  h.event_size = sizeof(recorded_event);
  h.rings = recorded_rings;
  h.events = recorded_events;
  std::memcpy(h.magic, recording_magic, sizeof h.magic);
  return 0;
}

// The first event makes the file: under the lock, so that a child of fork does not find it half made.
enum class progress : std::uint8_t { not_begun, is_open, is_closed };
constinit std::atomic<progress> so_far{progress::not_begun};
constinit sys::process_lock beginning{sys::guarded::recording};

progress begin() noexcept {
  std::lock_guard const held(beginning);
  progress p = so_far.load(std::memory_order_relaxed); // by another thread, under the lock
  if (p != progress::not_begun) return p;
  generation = sys::fork_generation();
  int const e = open_file(file_name);
  // The program goes on. A program that it starts, with the same environment, finds the file there.
  if (e != 0 && e != EEXIST)
    std::fprintf(stderr, "unio: UNIO_TRACE: nothing is recorded: %s\n", std::strerror(e));
  p = e == 0 ? progress::is_open : progress::is_closed;
  so_far.store(p, std::memory_order_release);
  return p;
}

bool is_open() noexcept {
  progress p = so_far.load(std::memory_order_acquire); // pairs with begin()
  if (p == progress::not_begun) [[unlikely]]
    p = begin();
  return p == progress::is_open;
}

// A thread's ring. Another thread that begins later goes on with that of one that has ended.
class own_ring {
 public:
  ~own_ring() {
    if (ring_ != nullptr) taken[index_].store(false, std::memory_order_release); // pairs with find()
    ring_ = nullptr; // what later destructors of this thread do is not recorded
    has_looked_ = true;
  }
  recording_ring* find() noexcept {
    if (!has_looked_) [[unlikely]]
      look();
    return ring_;
  }

 private:
  void look() noexcept {
    has_looked_ = true;
    for (index_ = 0; index_ != recorded_rings; ++index_)
      if (!taken[index_].exchange(true, std::memory_order_acquire)) break;
    if (index_ == recorded_rings) return;
    if (int const e = take_blocks(index_); e != 0) {
      taken[index_].store(false, std::memory_order_release);
      static std::atomic<bool> has_said{false};
      if (!has_said.exchange(true, std::memory_order_relaxed))
        std::fprintf(stderr, "unio: UNIO_TRACE: a thread is not recorded: %s\n", std::strerror(e));
      return;
    }
    ring_ = &file->rings[index_];
  }
  // Where there is no room for the blocks a store would raise SIGBUS. Returns 0 or an errno.
  static int take_blocks(std::size_t ring) noexcept {
    struct stat now;
    if (::fstat(descriptor, &now) != 0) return errno;
    if (now.st_dev != recorded_into.st_dev || now.st_ino != recorded_into.st_ino) return EBADF;
    return ::posix_fallocate(descriptor, static_cast<::off_t>(offset_of_ring(ring)), sizeof(recording_ring));
  }
  recording_ring* ring_ = nullptr;
  std::size_t index_ = 0;
  bool has_looked_ = false;
};
thread_local own_ring mine;

recorded_event* begin_event(recorded what, void const* subject) noexcept {
  // A child of fork writes nothing: the rings are those of its parent's threads.
  if (!is_open() || sys::fork_generation() != generation) return nullptr;
  recording_ring* const ring = mine.find();
  if (ring == nullptr) return nullptr;
  recorded_event& e = ring->events[ring->count.load(std::memory_order_relaxed) % recorded_events];
  e = {};
  e.ns = sys::steady_now();
  e.subject = reinterpret_cast<std::uintptr_t>(subject);
  e.what = what;
  return &e;
}

void end_event() noexcept {
  recording_ring& ring = *mine.find();
  ring.count.store(ring.count.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

} // namespace

void record(recorded what, io_operation const& op) noexcept {
  recorded_event* const e = begin_event(what, &op);
  if (e == nullptr) return;
  char const* const name = op.faces().name;
  std::memcpy(e->name, name, ::strnlen(name, sizeof e->name));
  if (what == recorded::completed || what == recorded::delivered) e->outcome = op.outcome_value();
  end_event();
}

void start_recorded(io_operation& op, io_multiplexer& m) noexcept {
  record(recorded::started, op);
  m.start(op);
}

void record_turn(recorded what, void const* multiplexer) noexcept {
  if (begin_event(what, multiplexer) != nullptr) end_event();
}

int record_turn_end(void const* multiplexer, int ran) noexcept {
  record_turn(recorded::turn_end, multiplexer);
  return ran;
}

} // namespace unio::driver
