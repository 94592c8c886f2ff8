// unio/detail/holding.hpp: what a guard of a shared_fs_mutex remembers.
//
// Here because an uncontended lock in memory costs a few nanoseconds, and calls would dominate them.

#pragma once

#include <unio/deadline.hpp>
#include <unio/locks/entity.hpp>

#include <atomic>
#include <span>
#include <utility>

namespace unio::inline v0_1::fs::detail {

// The entities of a request in the order in which all users lock them: ascending, without duplicates,
// exclusive if one of the duplicates is. Up to eight need no allocation.
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
  /// Copies `f` of each, and after them the originals: asked().
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
  /// Sorts them into the common order, each once. Implementations call it when the values are final.
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
  /// What assign() with a function was given, in its order, also after canonicalize(). Otherwise none.
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
    entity small_[2 * small_size]; // not cleared, which would cost more than the lock
  };
};

/// Releases the word and its note. False: a waiter or another mark needs the slow path; it is still owned.
template <class Word> bool disown_word(Word& word, Word& note, std::uint64_t me) noexcept {
  std::atomic_signal_fence(std::memory_order_seq_cst); // until here a death is reported
  note.store(0, std::memory_order_relaxed);            // first: the next owner writes its own
  std::uint64_t mine = me;
  return word.compare_exchange_strong(mine, 0, std::memory_order_seq_cst);
}

/// The owner of words in memory that name their owner.
struct word_owner {
  std::uint64_t number = 0;
  unsigned generation = 0; // how many forks lay between the first process and the one that opened it
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
  std::atomic<std::uint64_t>* note = nullptr; // its note,
  word_owner const* owner = nullptr;          // and its owner
  bool owner_died = false;
};

/// How to wait.
struct waiting {
  std::int64_t due_ns = deadline::forever; // on the steady clock; 0: do not wait
  bool spin = false;                       // never sleep
  [[nodiscard]] bool never() const noexcept { return due_ns == 0; }
};
UNIO_API waiting waiting_for(deadline d, bool spin = false) noexcept;

} // namespace unio::fs::detail
