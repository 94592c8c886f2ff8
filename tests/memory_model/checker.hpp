// tests/memory_model/checker.hpp: tries every execution of a few threads that the memory model of C++ allows,
// within the bounds below.
//
//   atomic<T>, plain<T>   what the threads share: as std::atomic; as a variable that needs a lock
//   kernel_locks          locks that the kernel keeps and gives up when their holder dies
//   world                 one execution: its threads, deaths, sleepers and clock
//   explore()             all executions; what went wrong first, and how it came to it
//
// The threads run the real code, on stacks of their own, one at a time. At each operation on something shared
// the explorer decides who goes on, and each load which store it reads. An execution is run from its
// beginning for each choice (depth first, no state is kept).
//
// Semantics. Views, as in the operational accounts of release and acquire (Lahav, Giannarakis, Vafeiadis,
// "Taming Release-Acquire Consistency", POPL 2016; Kang, Hur, Lahav, Vafeiadis, Dreyer, "A Promising
// Semantics for Relaxed-Memory Concurrency", POPL 2017, without its promises):
//
//   * A location has the list of its stores, in modification order. A thread has a view: for each location
//     the oldest store that it may still read. A load reads any store that is not older, and the view follows
//     ([intro.races]: the four coherences).
//   * A release stores the thread's view with the value; an acquire that reads it joins it to its own. A
//     read-modify-write reads the last store and passes on the view of that one: it continues a release
//     sequence. A compare-exchange that fails is a load, of any store it may read that has another value.
//   * seq_cst ([atomics.order]): the order S is the order in which such operations are executed. A seq_cst
//     load reads no store older than the newest that a seq_cst operation on that location stored or read
//     before. Nothing passes from one location to another: S orders, it does not synchronize. (A global view
//     for all locations would be stronger than the standard and would hide errors.)
//   * plain data must not be accessed twice, once to write, unless one happens before the other (vector
//     clocks): an error otherwise.
//
// What it leaves out, so that it might miss errors: loads that read stores executed later (load buffering;
// the compilers and processors that RC11 describes do not do it: Lahav, Vafeiadis, Kang, Hur, Dreyer,
// "Repairing Sequential Consistency in C/C++11", PLDI 2017); an S against which relaxed loads read; a store
// that goes before one in the modification order that was executed earlier. The last is noticed: `unordered`
// counts stores that had another place to go. compare_exchange_weak does not fail for no reason: that is one
// more turn of a loop.
//
// Sleeping. futex(2) compares with the newest value and goes to sleep, in one step: that is what the kernel's
// lock of the bucket and the fences of both sides come to (Linux, kernel/futex/waitwake.c, "Basic futex
// operation and ordering guarantees"). It synchronizes nothing. Whom a wake-up finds is a choice. A sleeper's
// time runs out only when nobody else can do anything ("stall"): if nobody had died, somebody was forgotten,
// and that is an error. One that `may_expire` may give up at any moment, or find that its time has passed
// when it is woken.
//
// Reduction. Dynamic partial order reduction (Flanagan, Godefroid, POPL 2005; with the source sets of
// Abdulla, Aronis, Jonsson, Sagonas, POPL 2014) and sleep sets (Godefroid, LNCS 1032), or a bound on
// preemptions (Musuvathi, Qadeer, PLDI 2007) where that is too much; without either for the checker's own
// tests. The reduction knows nothing of sleepers that `may_expire`, and says so.

#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <type_traits>
#include <vector>

namespace memory_model {

inline constexpr std::size_t most_threads = 8; // deaths and the clock among them
inline constexpr std::size_t most_locations = 40;

/// Of each thread: how much of it happened before.
struct vector_clock {
  std::array<std::uint16_t, most_threads> at{};
  void join(vector_clock const& other) noexcept;
};

struct view {
  std::array<std::uint16_t, most_locations> oldest{};
  vector_clock before;
  void join(view const& other) noexcept;
};

enum class action : std::uint8_t {
  load,
  store,
  exchange,
  compare_exchange,
  wait,
  wake,
  expire,
  kernel,
  spin,
  kill,
  time
};

/// What a thread is about to do. A mutant may change the order, and what is stored.
struct operation {
  action what = action::load;
  bool writes = false;
  std::uint8_t location = 0;
  std::memory_order order = std::memory_order_relaxed;
  std::uint32_t line = 0; // where it is asked for
  int thread = 0;
  char const* name = ""; // of the location
  std::uint64_t expected = 0;
  std::uint64_t desired = 0;  // of a wake-up: how many
  bool fails_relaxed = false; // a compare-exchange: its order is that of success alone
  bool is_late = false;       // a mutant: it comes after the thread's next wake-up
};

struct options {
  int preemptions = -1; // at most; -1: any number
  bool reduction =
      true; // of executions that differ only in the order of what is independent; only with any number
  std::uint64_t most_executions = 20'000'000;
  unsigned most_steps = 400;
  unsigned most_stalls = 12;
  bool may_stall = false; // even without a death
  void (*mutant)(operation&) = nullptr;
};

struct report {
  std::uint64_t executions = 0;
  std::uint64_t redundant = 0; // cut short: others were the same
  std::uint64_t pruned = 0;    // too long
  std::uint64_t stalls = 0;    // executions in which a thread slept too long after a death
  std::uint64_t unordered = 0; // see above
  bool is_complete = false;
  std::string error; // the first; none: empty
  std::string how;   // the steps that led to it
};

class explorer;

/// One execution.
class world {
 public:
  /// The threads' code; they are numbered from 0. Called while the execution is set up.
  void thread(std::function<void()> body);
  /// This thread may die, before any of its steps that changes something (of one before a step that only
  /// looks nobody could tell). Several die in the order of these calls. `then` is called at that moment.
  void may_die(int victim, std::function<void()> then = {});
  /// Called when all threads have ended.
  void at_end(std::function<void()> check);
  /// For traces and mutants.
  void name(void const* object, char const* what);
  /// All that has no name yet.
  void name_rest(char const* what);

  // From the threads:
  /// Ends the exploration.
  void fail(std::string what);
  [[nodiscard]] int self() const noexcept;
  [[nodiscard]] std::int64_t now() const noexcept;
  /// Goes on when the location it looked at last has another value.
  void spin();
  [[nodiscard]] unsigned deaths() const noexcept;

 private:
  friend class explorer;
  explicit world(explorer& e) : e_(e) {}
  explorer& e_;
};

report explore(options const& o, std::function<void(world&)> const& make);

namespace detail {

// What atomic<T> and the others do, without their types. Locations live as long as the execution.
std::uint8_t new_location(void const* object, std::uint64_t value);
void start_with(std::uint8_t at, std::uint64_t v);
std::uint64_t load(std::uint8_t at, std::memory_order o, std::uint32_t line);
void store(std::uint8_t at, std::uint64_t v, std::memory_order o, std::uint32_t line);
enum class change { add, set_bits, and_bits, replace };
std::uint64_t exchange(std::uint8_t at, change how, std::uint64_t v, std::uint64_t mask, std::memory_order o,
                       std::uint32_t line);
bool compare_exchange(std::uint8_t at, std::uint64_t& expected, std::uint64_t desired, std::memory_order o,
                      bool fails_relaxed, std::uint32_t line);
void wait(std::uint8_t at, std::uint64_t seen, std::int64_t until_ns, bool may_expire);
int wake(std::uint8_t at, int how_many);

struct plain_history {
  vector_clock writes, reads;
};
void note_access(plain_history& h, bool writes, std::uint32_t line);

} // namespace detail

template <class T> class atomic {
  using order = std::memory_order;
  using where = std::source_location;
  using change = detail::change;
  static constexpr order seq_cst = std::memory_order_seq_cst;

 public:
  atomic(T v = T()) : at_(detail::new_location(this, word_of(v))) {}
  atomic(atomic const&) = delete;

  T load(order o = seq_cst, where w = where::current()) const {
    return value_of(detail::load(at_, o, w.line()));
  }
  void store(T v, order o = seq_cst, where w = where::current()) {
    detail::store(at_, word_of(v), o, w.line());
  }
  T fetch_add(T v, order o = seq_cst, where w = where::current()) { return change_by(change::add, v, o, w); }
  T fetch_or(T v, order o = seq_cst, where w = where::current()) {
    return change_by(change::set_bits, v, o, w);
  }
  T fetch_and(T v, order o = seq_cst, where w = where::current()) {
    return change_by(change::and_bits, v, o, w);
  }
  T exchange(T v, order o = seq_cst, where w = where::current()) {
    return change_by(change::replace, v, o, w);
  }
  bool compare_exchange_strong(T& expected, T desired, order o = seq_cst, where w = where::current()) {
    return compare_exchange(expected, desired, o, false, w);
  }
  bool compare_exchange_weak(T& expected, T desired, order o = seq_cst, where w = where::current()) {
    return compare_exchange(expected, desired, o, false, w);
  }
  /// `failure` is relaxed, or of the strength of `o`.
  bool compare_exchange_strong(T& expected, T desired, order o, order failure, where w = where::current()) {
    return compare_exchange(expected, desired, o, failure == std::memory_order_relaxed, w);
  }
  bool compare_exchange_weak(T& expected, T desired, order o, order failure, where w = where::current()) {
    return compare_exchange(expected, desired, o, failure == std::memory_order_relaxed, w);
  }

  /// Instead of what it was made with, while the execution is set up.
  void start_with(T v) { detail::start_with(at_, v); }
  [[nodiscard]] std::uint8_t location() const noexcept { return at_; }

 private:
  static constexpr std::uint64_t bits = std::is_same_v<T, bool> ? 1
                                                                : ~std::uint64_t{0} >> (64 - 8 * sizeof(T));
  static std::uint64_t word_of(T v) noexcept {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<std::uintptr_t>(v);
    } else {
      return static_cast<std::uint64_t>(v);
    }
  }
  static T value_of(std::uint64_t word) noexcept {
    if constexpr (std::is_pointer_v<T>) {
      return reinterpret_cast<T>(static_cast<std::uintptr_t>(word));
    } else {
      return static_cast<T>(word);
    }
  }
  T change_by(change how, T v, order o, where w) {
    return value_of(detail::exchange(at_, how, word_of(v), bits, o, w.line()));
  }
  bool compare_exchange(T& expected, T desired, order o, bool fails_relaxed, where w) {
    std::uint64_t e = word_of(expected);
    bool const done = detail::compare_exchange(at_, e, word_of(desired), o, fails_relaxed, w.line());
    expected = value_of(e);
    return done;
  }
  std::uint8_t at_;
};

/// What a lock is to guard.
template <class T> class plain {
 public:
  explicit plain(T v = T()) : value_(v) {}
  T read(std::source_location w = std::source_location::current()) {
    detail::note_access(history_, false, w.line());
    return value_;
  }
  void write(T v, std::source_location w = std::source_location::current()) {
    detail::note_access(history_, true, w.line());
    value_ = v;
  }

 private:
  T value_;
  detail::plain_history history_;
};

/// futex(2). May return for any reason; see the top for time.
inline void sleep_on(atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t until_ns,
                     bool may_expire) {
  detail::wait(word.location(), seen, until_ns, may_expire);
}
/// How many slept.
inline int wake_sleepers(atomic<std::uint32_t>& word, int how_many) {
  return detail::wake(word.location(), how_many);
}

/// Locks 0 … 7, each held by one thread or none. Taking one synchronizes with its last unlock.
class kernel_locks {
 public:
  kernel_locks();
  void hold_from_the_start(int lock, int thread) noexcept {
    holders_[static_cast<std::size_t>(lock)] = thread;
  }
  [[nodiscard]] bool is_held(int lock);
  bool try_hold(int lock);
  void let_go(int lock);

 private:
  friend class explorer;
  std::array<int, 8> holders_;
  std::uint8_t at_;
};

} // namespace memory_model
