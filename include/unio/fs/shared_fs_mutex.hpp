// unio/fs/shared_fs_mutex.hpp: a mutex over many names at once, shared by all processes that can open a path.
//
//   entity            what is locked: 63 bits that the program chooses, and whether it is to be alone with them
//   entities_guard    holds some entities; lets them go at its end
//   shared_fs_mutex   the abstract base of lock_files, byte_ranges, atomic_append and memory_map
//   co_lock           the awaited form
//
//   auto m = unio::fs::byte_ranges::open("/var/lib/shop/lock").value();
//   std::array both{unio::fs::entity_of("account 7"), unio::fs::entity_of("account 9")};
//   auto held = m.lock(both).value();             // both or none
//   if (held.owner_died()) repair();              // whoever held one of them before was killed
//
// Which of the four: memory_map is the fastest by far, and for one machine; byte_ranges works wherever the filesystem has
// locks; atomic_append costs the same for one entity and for eight and serves in the order of arrival; lock_files shows what is locked to
// `ls`. Each header has the same table of guarantees.

#pragma once

#include <unio/deadline.hpp>
#include <unio/result.hpp>
#include <unio/task.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>

namespace unio::fs {

class shared_fs_mutex;
namespace detail {
class memory_map_base;
}

/// What is locked: a number of the program's choice.
///
/// Size    8 bytes
/// Source  AFIO v2, shared_fs_mutex::entity_type
struct entity {
  std::uint64_t value : 63;
  std::uint64_t exclusive : 1;

  constexpr entity() noexcept : value(0), exclusive(1) {}
  /// Only the low 63 bits of `v` count.
  explicit constexpr entity(std::uint64_t v, bool alone = true) noexcept
      : value(v & ~(std::uint64_t{1} << 63)), exclusive(alone) {}

  /// The same, to be shared with others that share it.
  [[nodiscard]] constexpr entity shared() const noexcept { return entity(value, false); }

  friend constexpr bool operator==(entity a, entity b) noexcept {
    return a.value == b.value && a.exclusive == b.exclusive;
  }
};
static_assert(sizeof(entity) == 8);

/// The entity of a name: the same for the same bytes, in all processes and versions. Two names get the same one by chance
/// once in 2^63; then they exclude each other, which is slow but right.
///
/// Cost  FNV-1a and a mixing step: some 1 ns a byte; no allocation
[[nodiscard]] UNIO_API entity entity_of(std::string_view name, bool exclusive = true) noexcept;
[[nodiscard]] UNIO_API entity entity_of(std::span<std::byte const> bytes, bool exclusive = true) noexcept;
/// One that nobody else has. Errors: as getrandom(2).
[[nodiscard]] UNIO_API result<entity> random_entity(bool exclusive = true) noexcept;

namespace detail {

// The entities of a request in the one order in which everybody takes them: ascending, each once, exclusive if anybody wanted
// that. Up to eight need no memory of their own.
class UNIO_API entity_list {
 public:
  entity_list() noexcept {}
  entity_list(entity_list&& other) noexcept { take(other); }
  entity_list& operator=(entity_list&& other) noexcept {
    if (this != &other) {
      clear();
      take(other);
    }
    return *this;
  }
  ~entity_list() {
    if (large_ != nullptr) clear();
  }

  /// Copies them, in the order in which they are. 0, or -ENOMEM.
  int assign(std::span<entity const> from) noexcept {
    clear();
    if (from.size() > small_size) [[unlikely]] {
      if (int const e = reserve(from.size()); e != 0) return e;
    }
    entity* to = begin();
    for (entity const e : from) *to++ = e;
    size_ = from.size();
    return 0;
  }
  /// Copies what `f` makes of each, and behind that each as it is: asked().
  template <class F> int assign(std::span<entity const> from, F const& f) noexcept {
    clear();
    if (from.size() > small_size) [[unlikely]] {
      if (int const e = reserve(2 * from.size()); e != 0) return e;
    }
    entity* to = begin();
    for (entity const e : from) *to++ = f(e);
    for (entity const e : from) *to++ = e;
    size_ = asked_ = from.size();
    return 0;
  }
  /// The only one.
  void assign_one(entity e) noexcept {
    small_[0] = e;
    size_ = 1;
  }
  /// Into the one order, each once. Who locks does it, when the values are those that count.
  void canonicalize() noexcept {
    if (size_ > 1) sort_and_merge();
  }

  [[nodiscard]] entity* begin() noexcept { return large_ != nullptr ? large_ : small_; }
  [[nodiscard]] entity* end() noexcept { return begin() + size_; }
  [[nodiscard]] entity const* begin() const noexcept { return large_ != nullptr ? large_ : small_; }
  [[nodiscard]] entity const* end() const noexcept { return begin() + size_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  entity& operator[](std::size_t i) noexcept { return begin()[i]; }
  entity const& operator[](std::size_t i) const noexcept { return begin()[i]; }
  /// What assign() with a function was given, in that order; canonicalize() leaves it alone. Otherwise none.
  [[nodiscard]] std::span<entity const> asked() const noexcept { return {begin() + asked_, asked_}; }

 private:
  static constexpr std::size_t small_size = 8;

  int reserve(std::size_t n) noexcept; // when clear
  void sort_and_merge() noexcept;
  void clear() noexcept {
    delete[] large_;
    large_ = nullptr;
    size_ = asked_ = 0;
  }
  void take(entity_list& other) noexcept {
    size_ = std::exchange(other.size_, 0);
    asked_ = std::exchange(other.asked_, 0);
    large_ = std::exchange(other.large_, nullptr);
    if (large_ != nullptr) return;
    for (std::size_t i = 0; i < size_; ++i) small_[i] = other.small_[i];
    for (std::size_t i = asked_; i < 2 * asked_; ++i) small_[i] = other.small_[i];
  }

  std::size_t size_ = 0;
  std::size_t asked_ = 0;
  entity* large_ = nullptr;
  union {
    entity small_[2 * small_size]; // written before it is read: a lock of a few nanoseconds does not clear it
  };
};

/// Nobody owns the word now, and nothing is noted beside it. False: somebody waits for it, or there is more to say; it is owned still.
template <class Word> bool disown_word(Word& word, Word& note, std::uint64_t me) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst); // a death while the owner is at work is noted
  note.store(0, std::memory_order_relaxed);            // first: the next owner writes its own
  std::uint64_t mine = me;
  return word.compare_exchange_strong(mine, 0, std::memory_order_seq_cst);
}

/// Who owns words in memory that say whose they are.
struct word_owner {
  std::uint64_t number = 0;
  unsigned generation = 0; // how often this process and those before it had forked when it was opened
  std::atomic<unsigned> const* forks = nullptr;

  [[nodiscard]] bool is_inherited() const noexcept {
    return forks->load(std::memory_order_relaxed) != generation;
  }
  [[nodiscard]] bool disown(std::atomic<std::uint64_t>& word,
                            std::atomic<std::uint64_t>& note) const noexcept {
    return !is_inherited() && disown_word(word, note, number);
  }
};

/// What an implementation remembers of a request that it granted.
struct holding {
  holding() noexcept {}

  entity_list entities;
  std::uint64_t words[2] = {};                // the implementation's own
  std::atomic<std::uint64_t>* word = nullptr; // all that is held, if it is one such word,
  std::atomic<std::uint64_t>* note = nullptr; // what is noted beside it,
  word_owner const* owner = nullptr;          // whose it is
  bool owner_died = false;
};

/// How to wait.
struct waiting {
  std::int64_t due_ns = deadline::forever; // on the steady clock; 0: do not wait
  bool spin = false;                       // never sleep
  [[nodiscard]] bool never() const noexcept { return due_ns == 0; }
};

} // namespace detail

/// Holds what lock() locked; lets it go when it ends.
///
/// Thread safety  distinct objects: safe; shared: no. May be passed to another thread and end there
/// Moved-from     holds nothing
/// Lifetime       must not outlive its mutex
/// After fork     the child's copy holds nothing, and does nothing at its end
class UNIO_API entities_guard {
 public:
  entities_guard() noexcept {} // not defaulted: that would clear all of it first
  entities_guard(entities_guard&& other) noexcept
      : mutex_(std::exchange(other.mutex_, nullptr)), held_(std::move(other.held_)) {}
  entities_guard& operator=(entities_guard&& other) noexcept {
    if (this != &other) {
      unlock();
      mutex_ = std::exchange(other.mutex_, nullptr);
      held_ = std::move(other.held_);
    }
    return *this;
  }
  ~entities_guard() { unlock(); }

  [[nodiscard]] bool owns_lock() const noexcept { return mutex_ != nullptr; }
  explicit operator bool() const noexcept { return owns_lock(); }
  /// True if one of the entities was held, not shared, by a process that died meanwhile: what they protect may be half
  /// changed. Told to the next owner, once.
  [[nodiscard]] bool owner_died() const noexcept { return held_.owner_died; }
  [[nodiscard]] shared_fs_mutex* mutex() const noexcept { return mutex_; }

  /// Lets go now. Does nothing the second time.
  void unlock() noexcept;
  /// Does not let go: they stay locked until the process ends; those of a memory_map until it does, and then as after a death. Returns the
  /// mutex.
  shared_fs_mutex* release() noexcept { return std::exchange(mutex_, nullptr); }

 private:
  friend class shared_fs_mutex;
  friend class detail::memory_map_base;
  shared_fs_mutex* mutex_ = nullptr;
  detail::holding held_;
};

/// A mutex over entities, shared between processes by a path.
///
/// Entities are locked all or none, in one order for everybody, so that requests never deadlock each other. A thread
/// that asks for more while it holds some may deadlock with another that does, as with any mutex.
///
/// Thread safety  distinct objects: safe, also of the same path; one object: safe, and its threads exclude each other
/// After fork     the child's copy reports error::inherited_by_fork; it opens its own
/// Source         AFIO v2, algorithm::shared_fs_mutex
class UNIO_API shared_fs_mutex {
 public:
  virtual ~shared_fs_mutex() = default;

  /// Locks all of `entities`: waits until that is possible. Duplicates count once, exclusive if one of them is. None: a
  /// guard that holds nothing.
  ///
  /// Effects       none on `entities`, which are neither kept nor reordered
  /// Returns       the guard
  /// Errors        condition::timed_out, would_block for a deadline of zero; error::too_many_entities;
  ///               error::inherited_by_fork; ENOMEM; what the filesystem says, ENOLCK and EIO among it. Nothing is locked then
  /// Waiting       sleeps; with `spin_not_sleep` it never does, and uses its processor: where waits are shorter than a switch
  /// Cancellation  by the deadline alone; co_lock by a stop, too
  /// Cost          see each implementation; no allocation for up to eight entities
  /// Source        AFIO v2, shared_fs_mutex::lock
  [[nodiscard]] result<entities_guard> lock(std::span<entity const> entities, deadline d = {},
                                            bool spin_not_sleep = false) noexcept;
  [[nodiscard]] result<entities_guard> lock(entity e, deadline d = {}, bool spin_not_sleep = false) noexcept {
    return lock(std::span(&e, 1), d, spin_not_sleep);
  }
  /// Never waits. Errors: condition::would_block where something is held by others; as lock().
  [[nodiscard]] result<entities_guard> try_lock(std::span<entity const> entities) noexcept {
    return lock(entities, deadline::zero());
  }
  [[nodiscard]] result<entities_guard> try_lock(entity e) noexcept { return lock(e, deadline::zero()); }
  /// As guard.unlock().
  void unlock(entities_guard& guard) noexcept { guard.unlock(); }

  shared_fs_mutex(shared_fs_mutex const&) = delete;
  shared_fs_mutex& operator=(shared_fs_mutex const&) = delete;

 protected:
  friend class entities_guard;
  shared_fs_mutex() = default;

  /// Locks held.entities, which it canonicalizes; it may change them to what it really locks. Sets owner_died where that is so.
  /// 0, or a negative native code: -EAGAIN if it may not wait, -ETIMEDOUT; nothing is locked then.
  virtual int do_lock(detail::holding& held, detail::waiting how) noexcept = 0;
  virtual void do_unlock(detail::holding& held) noexcept = 0;

  static detail::waiting waiting_for(deadline d, bool spin) noexcept;
};

/// lock(), awaited: tries, and between two attempts waits on the coroutine's multiplexer, 50 µs at first, twice as long each time
/// up to 5 ms. Neither a thread nor the lock's own queue waits meanwhile, so blocking waiters of the same entities come first more often.
///
/// Cancellation  condition::canceled if asked to stop while waiting
/// Lifetime      the entities are copied; the mutex must outlive the task
[[nodiscard]] UNIO_API task<result<entities_guard>> co_lock(shared_fs_mutex& mutex,
                                                            std::span<entity const> entities,
                                                            deadline d = {});
[[nodiscard]] UNIO_API task<result<entities_guard>> co_lock(shared_fs_mutex& mutex, entity e,
                                                            deadline d = {});

inline void entities_guard::unlock() noexcept {
  shared_fs_mutex* const m = std::exchange(mutex_, nullptr);
  if (m == nullptr || (held_.word != nullptr && held_.owner->disown(*held_.word, *held_.note))) return;
  m->do_unlock(held_);
}

} // namespace unio::fs
