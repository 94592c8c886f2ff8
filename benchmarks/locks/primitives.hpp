// The peers: what the kernel, the filesystem, the C library and the processor offer. One primitive for each
// entity, taken in ascending order, let go in descending order.
//
//   flock_files    flock(2), a file each
//   ofd_ranges     F_OFD_SETLKW of fcntl(2), a byte each of one file
//   excl_files     O_EXCL of open(2), a file each
//   robust_mutexes pthread_mutexattr_setrobust(3), process-shared
//   words          an atomic exchange each
#pragma once

#include "users.hpp"

#include <fcntl.h>
#include <sched.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <system_error>
#include <utility>

namespace locks_bench {

/// Unlocks at its end.
template <class L> class [[nodiscard]] held_by {
 public:
  explicit held_by(L& lock) noexcept : lock_(lock) {}
  ~held_by() { lock_.release(); }
  held_by(held_by const&) = delete;
  held_by& operator=(held_by const&) = delete;

 private:
  L& lock_;
};

class owned_fd {
 public:
  owned_fd() = default;
  owned_fd(int directory, char const* name, int flags)
      : fd_(::openat(directory, name, flags | O_CLOEXEC, 0600)) {
    if (fd_ < 0) throw std::system_error(errno, std::generic_category(), name);
  }
  owned_fd(owned_fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  owned_fd& operator=(owned_fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~owned_fd() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }

 private:
  int fd_ = -1;
};

// 16 hexadecimal digits, as lock_files has them.
struct file_name {
  explicit file_name(unsigned number) noexcept {
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(place::entity_value(number)));
  }
  char text[17];
};

[[noreturn]] inline void fail_with(int error, char const* what) {
  throw std::system_error(error, std::generic_category(), what);
}

class flock_files {
 public:
  explicit flock_files(place const& where) : count_(where.count) {
    const owned_fd folder(AT_FDCWD, (where.folder + "/files").c_str(), O_PATH);
    for (unsigned i = 0; i < count_; ++i)
      files_[i] = owned_fd(folder.get(), file_name(where.first + i).text, O_RDWR | O_CREAT);
  }
  held_by<flock_files> acquire() {
    for (unsigned i = 0; i < count_; ++i)
      if (::flock(files_[i].get(), LOCK_EX) != 0) fail_with(errno, "flock");
    return held_by(*this);
  }
  void release() noexcept {
    for (unsigned i = count_; i-- > 0;) ::flock(files_[i].get(), LOCK_UN);
  }

 private:
  unsigned count_;
  std::array<owned_fd, most_entities> files_;
};

class ofd_ranges {
 public:
  explicit ofd_ranges(place const& where)
      : first_(where.first),
        count_(where.count),
        file_(AT_FDCWD, (where.folder + "/files/ranges").c_str(), O_RDWR | O_CREAT) {}

  held_by<ofd_ranges> acquire() {
    for (unsigned i = 0; i < count_; ++i)
      if (set(F_WRLCK, place::entity_value(first_ + i), 1) != 0) fail_with(errno, "F_OFD_SETLKW");
    return held_by(*this);
  }
  // All at once: this description has no other lock.
  void release() noexcept { set(F_UNLCK, 0, 0); }

 private:
  int set(short kind, std::uint64_t at, off_t bytes) const noexcept {
    struct flock l{};
    l.l_type = kind;
    l.l_whence = SEEK_SET;
    l.l_start = static_cast<off_t>(at);
    l.l_len = bytes;
    return ::fcntl(file_.get(), F_OFD_SETLKW, &l);
  }

  unsigned first_;
  unsigned count_;
  owned_fd file_;
};

// Nobody wakes those who wait for a file to go away: they let others run, then sleep for longer and longer.
class excl_files {
 public:
  explicit excl_files(place const& where)
      : count_(where.count), folder_(AT_FDCWD, (where.folder + "/files").c_str(), O_PATH) {
    for (unsigned i = 0; i < count_; ++i)
      std::snprintf(names_[i].data(), 17, "%s", file_name(where.first + i).text);
  }
  held_by<excl_files> acquire() {
    for (unsigned i = 0; i < count_; ++i) make(names_[i].data());
    return held_by(*this);
  }
  void release() noexcept {
    for (unsigned i = count_; i-- > 0;) ::unlinkat(folder_.get(), names_[i].data(), 0);
  }

 private:
  static constexpr unsigned yields = 16;
  static constexpr std::uint64_t shortest_sleep_ns = 50'000;
  static constexpr unsigned most_doublings = 4;

  void make(char const* name) const {
    for (unsigned attempt = 0;; ++attempt) {
      int const fd = ::openat(folder_.get(), name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
      if (fd >= 0) {
        ::close(fd);
        return;
      }
      if (errno != EEXIST) fail_with(errno, "O_EXCL");
      if (attempt < yields)
        ::sched_yield();
      else
        sleep_ns(shortest_sleep_ns << std::min(attempt - yields, most_doublings));
    }
  }

  unsigned count_;
  owned_fd folder_;
  std::array<std::array<char, 17>, most_entities> names_{};
};

class robust_mutexes {
 public:
  explicit robust_mutexes(place const& where)
      : first_(where.memory->mutexes + where.first), count_(where.count) {}

  held_by<robust_mutexes> acquire() {
    for (unsigned i = 0; i < count_; ++i) {
      int const e = ::pthread_mutex_lock(&first_[i].mutex);
      if (e == EOWNERDEAD) ::pthread_mutex_consistent(&first_[i].mutex);
      if (e != 0 && e != EOWNERDEAD) fail_with(e, "pthread_mutex_lock");
    }
    return held_by(*this);
  }
  void release() noexcept {
    for (unsigned i = count_; i-- > 0;) ::pthread_mutex_unlock(&first_[i].mutex);
  }

 private:
  lock_memory::mutex_line* first_;
  unsigned count_;
};

// Never sleeps, but lets others run now and then: whoever holds it may be one of them.
class words {
 public:
  explicit words(place const& where) : first_(where.memory->words + where.first), count_(where.count) {}

  held_by<words> acquire() noexcept {
    for (unsigned i = 0; i < count_; ++i)
      while (first_[i].word.exchange(1, std::memory_order_acquire) != 0) wait(first_[i].word);
    return held_by(*this);
  }
  void release() noexcept {
    for (unsigned i = count_; i-- > 0;) first_[i].word.store(0, std::memory_order_release);
  }

 private:
  static constexpr unsigned looks_between_yields = 128;

  static void wait(std::atomic<std::uint32_t> const& word) noexcept {
    for (unsigned looks = 1; word.load(std::memory_order_relaxed) != 0; ++looks) {
      if (looks % looks_between_yields == 0)
        ::sched_yield();
      else
        pause();
    }
  }
  static void pause() noexcept {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
  }

  lock_memory::word_line* first_;
  unsigned count_;
};

} // namespace locks_bench
