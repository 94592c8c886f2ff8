// unio/futex.hpp: waiting until another thread or process has changed a word of memory.
//
//   futex_scope     who waits on the word
//   async_wait_on   waits while the word has a value
//   futex           a word to wait on, and to wake who waits
//
//   futex turns(map->turns, futex_scope::processes);
//   for (auto seen = map->turns.load(); seen == old;) seen = (co_await turns.co_wait(old)).value();
//
//   map->turns.fetch_add(1);                   // the other side: first the change,
//   futex(map->turns, futex_scope::processes).wake();         // then the wake-up

#pragma once

#include <unio/handle.hpp>

#include <atomic>

namespace unio::inline v0_1 {

class futex;
namespace detail {
struct word_access;
extern UNIO_API driver::operation_faces const wait_on_faces;
} // namespace detail

/// Whose threads wait on a word and wake each other.
enum class futex_scope : std::uint8_t {
  this_process,
  processes, ///< all that have the word in memory that they share: a map of a file, MAP_SHARED
};

namespace detail {

/// A word, the value that is waited on, and its operation's place among those that a thread of the library
/// waits for (src/op/word_waits.hpp). Queued by the operation's thread; granted by the waiting one, which
/// posts it to the operation's multiplexer.
struct word_waiter : work {
  enum answer : std::uint8_t {
    none,
    look,    ///< the word has another value
    woken,   ///< it may have
    alone,   ///< no thread waits for it any more
    refused, ///< the kernel cannot wait there
  };
  explicit word_waiter(function f) noexcept : work(f) {}
  word_waiter(function f, std::atomic<std::uint32_t>& w, std::uint32_t expected, futex_scope s) noexcept
      : work(f), word(&w), known(expected), scope(s) {}
  // A description is moved before it waits for anything.
  word_waiter(word_waiter const& other) noexcept
      : work(other), word(other.word), known(other.known), scope(other.scope) {}
  word_waiter& operator=(word_waiter const& other) noexcept {
    word = other.word;
    known = other.known;
    scope = other.scope;
    return *this;
  }

  std::atomic<std::uint32_t>* word = nullptr;
  std::uint32_t known = 0; ///< waits while the word has it
  futex_scope scope = futex_scope::this_process;
  bool is_posted = false; // and it has not run
  std::atomic<answer> granted{none};
  std::uint16_t place = 0;
  io_multiplexer* runs = nullptr;
};

} // namespace detail

/// Waits while a word has the value `expected`: until another one is seen there, or a wake-up has come.
///
/// Returns       the word's value then. Like futex(2), and unlike std::atomic::wait, it may still be
///               `expected`: a wake-up is passed on although nothing has changed. Wait in a loop
/// Errors        condition::timed_out, would_block, canceled; EFAULT where the kernel cannot wait, such as
///               memory of this process alone that it may only read, with futex_scope::processes
/// Preconditions the word stays where it is, and may be read, until the operation has finished
/// Concurrency   any number of waits on one word, in any threads and, with futex_scope::processes, processes
/// Cancellation  if the word has changed by then, or the wake-up has come, its value is returned. A wake-up
///               that comes to one that has ended goes on to another that waits on the word
/// Wakes         who changes the word changes it first and wakes then: a wake-up without a change may be
///               missed where one thread waits for many words, and so may a change that is taken back
/// Cost          no allocation, no system call if the word has another value already. On a ring nothing more
///               than its entry, but for the first wait of a process for a word of its own: the kernel may
///               forget that one (seen on Linux 6.18). Otherwise none of the threads that perform operations
///               is held: one thread waits for 127 words, the next for the next, 16 at most. A wait joins and
///               leaves at the cost of a call that wakes the thread, O(its words)
/// Runs as       io_uring FUTEX_WAIT (Linux 6.7) · futex_waitv(2) (Linux 5.16) on a thread of the library ·
///               where neither is there, where the 2,032 places are taken, and in a simulation: a look every
///               1, 2, 4, then 8 ms · blocking futex(2)
/// Source        docs/features.md L-02; futex(2), FUTEX_WAIT_BITSET; futex_waitv(2)
class UNIO_API async_wait_on : public detail::operation_on,
                               public detail::standard_sender<async_wait_on>,
                               private detail::word_waiter {
 public:
  using result_type = io_result<std::uint32_t>;
  async_wait_on() noexcept : word_waiter(&was_granted) {}
  async_wait_on(futex const& word, std::uint32_t expected, unio::deadline d = {}) noexcept;
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return seen_;
  }

 private:
  friend struct detail::word_access;
  static void was_granted(work& w, bool run) noexcept;

  std::uint32_t seen_ = 0;
  bool only_looks_ = false; // nothing tells when the word changes
};

/// A word of memory as something to wait on. Refers to it, and owns nothing.
///
/// Thread safety  distinct and shared: safe
/// Lifetime       the word's; of a wait in flight the word's alone
/// Size           24 bytes
class UNIO_API futex {
 public:
  explicit futex(std::atomic<std::uint32_t>& word, futex_scope scope = futex_scope::this_process,
                 io_multiplexer* m = nullptr) noexcept
      : word_(&word), multiplexer_(m), scope_(scope) {}

  [[nodiscard]] std::atomic<std::uint32_t>& word() const noexcept { return *word_; }
  [[nodiscard]] futex_scope scope() const noexcept { return scope_; }
  [[nodiscard]] io_multiplexer* own_multiplexer() const noexcept { return multiplexer_; }
  void set_multiplexer(io_multiplexer* m) noexcept { multiplexer_ = m; }

  /// wait, try_wait, try_wait_for, …, co_wait, …: see async_wait_on.
  UNIO_VERB_FORMS(wait, async_wait_on, (std::uint32_t, expected))

  /// Wakes up to `n` of those that wait on the word; all of them wait with the same scope. Waits for nothing.
  ///
  /// Returns  how many it has woken. Others may return as well, because they see the word's new value. One
  ///          that has been cancelled may be counted; its wake-up then goes to another
  /// Errors   none: where nothing waits, nothing happens
  /// Cost     one system call, also if none waits
  /// Source   futex(2), FUTEX_WAKE
  int wake(int n = 1) noexcept;
  int wake_all() noexcept;

 private:
  std::atomic<std::uint32_t>* word_;
  io_multiplexer* multiplexer_;
  futex_scope scope_;
};

UNIO_SENDER_FORMS(async_wait_on, (futex const&, word), (std::uint32_t, expected))

inline async_wait_on::async_wait_on(futex const& f, std::uint32_t expected, unio::deadline d) noexcept
    : operation_on(detail::wait_on_faces, f, d), word_waiter(&was_granted, f.word(), expected, f.scope()) {}

} // namespace unio
