// src/driver/shared/members.hpp: which slot of a multiplexer a thread has.
//
// A thread remembers its slot in each multiplexer that it uses, by the multiplexer's number, which is never
// used again: a thread that ends must not touch a multiplexer that has gone, and threads end after static
// objects are destroyed.

#pragma once

#include "sys/fork.hpp"

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::driver {

class slot;
class unclaimed_operations;

class members {
 public:
  members() noexcept;
  members(members const&) = delete;
  members& operator=(members const&) = delete;

  /// Once per process, before any static object is made.
  static void begin() noexcept;

  /// Calls `f` for what is unclaimed of each multiplexer of several threads, while none of them can end.
  /// Throws what `f` throws.
  static void for_each_unclaimed(void (*f)(unclaimed_operations&, void* context), void* context);

  /// The calling thread's slot here, or null.
  [[nodiscard]] slot* find_mine() const noexcept {
    if (last.number == number_) [[likely]]
      return last.mine;
    return look_for_mine();
  }

 protected:
  ~members() = default;
  /// First in the derived destructor: threads that end from now on do nothing here; those that are ending are
  /// waited for.
  void end_membership() noexcept;
  /// In a child of fork, which has none of the threads that this could wait for.
  [[nodiscard]] bool inherited_by_fork() const noexcept { return fork_generation_ != sys::fork_generation(); }
  /// The calling thread's is `s` from now on, until leave() or its end. False: no memory.
  [[nodiscard]] bool join(slot& s) noexcept;
  void leave() noexcept;
  /// The thread that has `s` ends, and is the calling one. Calls leave().
  virtual void retire(slot& s) noexcept = 0;
  virtual void forget_unclaimed(int fd) noexcept = 0;
  [[nodiscard]] virtual unclaimed_operations& unclaimed_here() noexcept = 0;

 private:
  struct entries;
  static void forget_unclaimed_in_all(int fd) noexcept;
  // What the thread has asked for last: its slot here, or that it has none.
  struct last_found {
    std::uint64_t number;
    slot* mine;
  };
  static constinit thread_local last_found last;
  static entries& this_threads() noexcept;
  static members* keep_older_than(std::uint64_t number) noexcept;
  void let_end() noexcept;
  slot* look_for_mine() const noexcept;

  std::uint64_t number_ = 0;
  members* next_living_ = nullptr;
  unsigned const fork_generation_ = sys::fork_generation();
  std::atomic<int> retiring_{0}; // threads that keep this from ending
};

inline constinit thread_local members::last_found members::last{};

} // namespace unio::driver
