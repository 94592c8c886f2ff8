// src/locks/map_protocol.hpp: the slots of memory_map: owning, sharing, sleeping, and recovering after a
// holder's death.
//
// A slot's word:    owner (16 bits: the number of a user, 0: none)
//                   waiting   a user sleeps on `turn`
//                   reserved  unlocked for one of those that have slept; others wait
//                   noted     entities of the slot whose owner died are noted in `dead`
//                   died      an owner died whose entity found no room there: reported to the next owner
//                   told      (16 bits) the number of a sharer that got that report; if it dies the next
//                             owner gets it
// and a bit for each user in `readers`, set while one or more of its threads share the slot.
//
//   to own      word: none ──CAS──► me; then wait until no bit in `readers` is set
//   to share    set my bit; if the word has an owner, clear it again and wait
//
// Both orders are sequentially consistent, so that one of the two sees the other (Dekker). After any
// instruction the state of the slot says who owns and who shares it, which makes it recoverable.
//
// Many entities share a slot. Its owner notes in `held` and `more` which ones it has. The recoverer of a dead
// owner copies these notes to `dead`, where the next holder of the entity finds them:
//
//   0           → entity       by the recoverer of its dead owner
//   entity      → 0            a new owner of the entity gets the report; from now on it is noted in `held`
//   entity      → entity, by n a sharer, user n, gets the report: n in `told_of`
//   entity, by n → 0           that sharer unlocks
//   entity, by n → entity      that sharer has died: by its recoverer
//
// `dead` changes only while a dead owner is in the word, or by a holder of the slot. What exceeds its room
// becomes `died`. Recovering is idempotent: each word is changed by one atomic operation that depends on the
// dead number alone, and the number is free for others only after the last.
// docs/explanation/shared-fs-mutexes.md has the proofs.
//
// `Environment` is what all this is built on: memory_map.cpp has the real one, tests/memory_model one that
// tries every interleaving, and every store that the memory model lets a load see.
//
//   slot, notes, atomic<T>             basic_slot, basic_notes, of its atomics
//   relax(), yield(), now()            the processor's pause, sched_yield(2), the steady clock
//   sleep_on(word, seen, until_ns)     futex(2); may return for any reason
//   wake_sleepers(word, how_many)      returns how many of them slept
//   is_alive(user)                     1, 0 or a negative errno
//   alone_with(user, undo)             calls `undo` while no other user can recover this dead user or take
//                                      its number. 0; -EAGAIN: it lives, or another user is recovering it;
//                                      another negative errno
//   forget(user)                       nothing of it is left
//   step(name)                         hooks.hpp

#pragma once

#include "locks/map_layout.hpp"

#include <unio/locks/shared_fs_mutex.hpp>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <iterator>

namespace unio::inline v0_1::fs::map_layout {

inline constexpr std::int64_t first_probe_ns = 2'000'000;
inline constexpr std::int64_t last_probe_ns = 50'000'000;
inline constexpr std::uint64_t fair_after_ns = 200'000;
inline constexpr std::uint64_t reserved_for_ns = 20'000'000; // long enough to get a processor

// How many threads of one user share a slot. The top bit is a lock for the few instructions that change bit
// and count together.
template <class Environment> class sharers {
  using env = Environment;

 public:
  void lock() noexcept {
    for (unsigned n = 0; (count_.fetch_or(busy, std::memory_order_acquire) & busy) != 0; ++n) {
      if (n % 64 == 63) env::yield();
      env::relax();
    }
  }
  void unlock(std::uint32_t count) noexcept { count_.store(count, std::memory_order_release); }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_relaxed) & ~busy;
  }

 private:
  static constexpr std::uint32_t busy = 1u << 31;
  typename env::template atomic<std::uint32_t> count_{0};
};

// How long a thread has waited, and what it does next.
template <class Environment> class wait_state {
  using env = Environment;
  using waiting = detail::waiting;

 public:
  wait_state(waiting how, unsigned spins) noexcept : how_(how), spins_(spins) {}

  [[nodiscard]] bool has_slept() const noexcept { return has_slept_; }
  /// True: look again at once, which costs little.
  bool spin() noexcept {
    if (how_.never()) return false;
    if (how_.spin) {
      if (++spun_ % 4096 == 0) return false; // time to look at the clock
      if (spun_ % 256 == 0) env::yield();
    } else if (++spun_ > spins_) {
      return false;
    }
    env::relax();
    return true;
  }
  [[nodiscard]] bool sleeps() const noexcept { return !how_.spin; }
  /// When to check whether the owner lives, or the deadline, whichever is first.
  std::int64_t next_look() noexcept {
    std::int64_t const at = env::now() + probe_ns_;
    return std::min(at, how_.due_ns);
  }
  void slept() noexcept { has_slept_ = true; }
  /// True once per interval, or at the deadline.
  bool wants_probe(std::int64_t look_at) noexcept {
    if (!how_.spin && env::now() < look_at) return false;
    probe_ns_ = std::min(probe_ns_ * 2, last_probe_ns);
    return true;
  }
  /// 0, or why to give up.
  [[nodiscard]] int over() const noexcept {
    if (how_.never()) return -EAGAIN;
    return how_.due_ns != deadline::forever && env::now() >= how_.due_ns ? -ETIMEDOUT : 0;
  }

 private:
  waiting how_;
  unsigned spins_;
  unsigned spun_ = 0;
  bool has_slept_ = false;
  std::int64_t probe_ns_ = first_probe_ns;
};

// Functions are kept out of line so that the fast path through lock() and unlock() keeps its registers.
template <class Environment> class protocol {
  using env = Environment;
  using slot = typename env::slot;
  using slot_notes = typename env::notes;
  template <class T> using atomic = typename env::template atomic<T>;
  using waiting = detail::waiting;
  using waits = wait_state<env>;
  using counter = sharers<env>;

 public:
  /// Locked in the map, but the map is no longer in use: unlock again.
  static constexpr int degraded_meanwhile = 1;

  explicit protocol(Environment& e) noexcept : env_(e) {}

  /// The slots, which entity is in which, and the epoch that says whether they are in use. False: no memory.
  bool use(slot* slots, slot_notes* notes, std::size_t n, std::size_t (*hash)(std::uint64_t) noexcept,
           atomic<std::uint64_t> const* epoch) noexcept {
    slots_ = slots;
    notes_ = notes;
    size_ = n;
    slot_of_ = hash;
    epoch_ = epoch;
    sharing_.reset(new (std::nothrow) counter[n]);
    return sharing_ != nullptr;
  }
  /// Sets the number of this user.
  void be(std::uint64_t user) noexcept { me_ = user; }

  [[nodiscard]] bool epoch_is_odd() const noexcept { return is_odd(*epoch_); }

  /// Locks all of held.entities, or none. 0; degraded_meanwhile; a negative errno.
  int lock(detail::holding& held, waiting how, unsigned spins) noexcept {
    bool noted = false;
    entity* const first = held.entities.begin();
    entity* const last = held.entities.end();
    int e = 0;
    entity* at = first;
    for (; at != last; ++at) {
      if (e = lock_slot(*at, how, spins, noted); e != 0) break;
      env::step("lock.slot");
    }
    if (e == 0 && epoch_is_odd()) e = degraded_meanwhile;
    if (e != 0) [[unlikely]] {
      while (at != first) release(*--at);
      return e;
    }
    granted(held, noted);
    return 0;
  }
  /// All slots are locked. Notes what is owned, for users that may find this one dead, and takes the notes of
  /// deaths, which are for one owner each: if it dies, it is noted again.
  void granted(detail::holding& held, bool noted) noexcept {
    note_owned(held);
    if (noted) [[unlikely]]
      held.owner_died = take_notes(held);
  }
  /// Its slots in the opposite order.
  void unlock(detail::holding& held) noexcept {
    if (held.owner_died) [[unlikely]]
      forget_told(held);
    for (std::size_t i = held.entities.size(); i != 0; --i) {
      entity const e = held.entities[i - 1];
      if (e.exclusive) wipe_owned(e.value, (held.words[1] & has_more) != 0);
      env::step("unlock.wiped");
      release(e);
      env::step("unlock.slot");
    }
  }

  /// `noted`: becomes true if there is a note of a death; take_notes() takes it when everything is granted.
  int lock_slot(entity e, waiting how, unsigned spins, bool& noted) noexcept {
    return e.exclusive ? own(slots_[e.value], how, spins, noted) : share(e.value, how, spins, noted);
  }
  void release(entity e) noexcept {
    if (e.exclusive) {
      disown(slots_[e.value]);
    } else {
      unshare(e.value);
    }
  }
  void disown(std::size_t i) noexcept { disown(slots_[i]); }

  // While no process has the number `user`.
  void recover_slots(std::uint64_t user) noexcept {
    std::uint64_t const bit = bit_of(user);
    std::size_t const part = part_of(user);
    for (std::size_t i = 0; i != size_; ++i) {
      slot& s = slots_[i];
      std::uint64_t word = s.word.load(std::memory_order_seq_cst);
      if ((word & noted_bit) != 0) untell(i, user);
      if (owner_of(word) == user) disown_for_dead(i, user);
      word = s.word.load(std::memory_order_seq_cst);
      while (told_of(word) == user) {
        if (s.word.compare_exchange_weak(word, (word & ~told_mask) | died_bit, std::memory_order_seq_cst))
          env::step("recover.told");
      }
      if ((s.readers[part].load(std::memory_order_relaxed) & bit) != 0) {
        s.readers[part].fetch_and(~bit, std::memory_order_seq_cst);
        env::step("recover.reader");
        wake(s.drain, INT_MAX);
      }
    }
    env_.forget(user);
  }

  // No other user has it open: none of the noted users lives, and none sleeps. Invalid user numbers are
  // cleared, too, and times from before a restart.
  void recover_all_slots() noexcept {
    for (std::size_t i = 0; i != size_; ++i) {
      slot& s = slots_[i];
      slot_notes& n = notes_[i];
      clear(n.told_of);
      std::uint64_t left = copy_owned(i);
      bool is_noted = false;
      for (auto& note : n.dead) {
        std::uint64_t const is = note.load(std::memory_order_relaxed);
        if (is == note_of(is)) {
          is_noted = true;
        } else {
          clear(note);
        }
      }
      std::uint64_t const word = s.word.load(std::memory_order_relaxed);
      if ((word & (died_bit | told_mask)) != 0) left |= died_bit;
      if (is_noted) left |= noted_bit;
      if (word != left) s.word.store(left, std::memory_order_seq_cst);
      env::step("recover.all");
      wipe_owned(i, true);
      for (auto& bits : s.readers) clear(bits);
      clear(n.fair_at_ns);
    }
  }

 private:
  static constexpr std::uint64_t bit_of(std::uint64_t user) noexcept {
    return std::uint64_t{1} << ((user - 1) % 64);
  }
  static constexpr std::size_t part_of(std::uint64_t user) noexcept { return (user - 1) / 64; }

  // A reserved slot is for users that have slept, and for all if none of them takes it in time: it may have
  // been killed.
  [[nodiscard]] bool is_free(slot const& s, std::uint64_t word, waits const& w) const noexcept {
    if (owner_of(word) != 0) return false;
    return (word & reserved_bit) == 0 || w.has_slept() ||
           is_past(notes_of(s).fair_at_ns.load(std::memory_order_relaxed) + reserved_for_ns,
                   fair_after_ns + reserved_for_ns);
  }
  // A moment further ahead than possible is of another clock: a time namespace has its own
  // (time_namespaces(7)).
  static bool is_past(std::uint64_t moment, std::uint64_t most_ahead) noexcept {
    auto const now = static_cast<std::uint64_t>(env::now());
    return moment <= now || moment - now > most_ahead;
  }
  [[nodiscard]] slot_notes& notes_of(slot const& s) const noexcept { return notes_[&s - slots_]; }

  // True if a user slept.
  static bool wake(atomic<std::uint32_t>& word, int how_many) noexcept {
    word.fetch_add(1, std::memory_order_seq_cst); // pairs with the load before sleep_on()
    return env::wake_sleepers(word, how_many) > 0;
  }

  int own(slot& s, waiting how, unsigned spins, bool& noted) noexcept {
    if (!own_word(s.word, me_)) [[unlikely]]
      return own_slowly(s, how, spins, noted);
    if (!has_readers(s)) [[likely]]
      return 0;
    waits w(how, spins);
    int const e = drain(s, w);
    noted |= has_notes(s.word.load(std::memory_order_relaxed)); // of a sharer that had got a report
    return e;
  }

  [[gnu::noinline]] int own_slowly(slot& s, waiting how, unsigned spins, bool& noted) noexcept {
    waits w(how, spins);
    for (;;) {
      std::uint64_t word = s.word.load(std::memory_order_seq_cst);
      if (!is_free(s, word, w)) {
        if (int const e = await_release(s, w); e != 0) return e;
        continue;
      }
      // A woken user cannot know whether others still sleep.
      std::uint64_t const next = me_ | (word & (kept_mask | waiting_bit)) | (w.has_slept() ? waiting_bit : 0);
      if (!s.word.compare_exchange_weak(word, next, std::memory_order_seq_cst)) continue;
      break;
    }
    env::step("own.before_readers");
    int const e = drain(s, w);
    noted |= has_notes(s.word.load(std::memory_order_relaxed));
    return e;
  }

  // The word is mine: waits until no user shares it any more. If that fails it is free again.
  [[gnu::noinline]] int drain(slot& s, waits& w) noexcept {
    while (has_readers(s)) {
      if (w.spin()) continue;
      int stop = w.over();
      std::int64_t const look_at = w.next_look();
      if (stop == 0 && w.sleeps()) {
        std::uint32_t const seen = s.drain.load(std::memory_order_seq_cst);
        if (!has_readers(s)) break;
        env::sleep_on(s.drain, seen, look_at);
      }
      if (stop != 0 || w.wants_probe(look_at)) {
        int const recovered = probe(s, true);
        if (recovered == 1) continue;
        if (recovered < 0) stop = recovered;
      }
      if (stop == 0) continue;
      disown(s);
      return stop;
    }
    return 0;
  }

  void disown(slot& s) noexcept {
    if (!detail::disown_word(s.word, s.held, me_)) [[unlikely]]
      disown_slowly(s);
  }

  // A user sleeps for it, or there is a note for the next owner.
  [[gnu::noinline]] void disown_slowly(slot& s) noexcept {
    std::uint64_t word = s.word.load(std::memory_order_seq_cst);
    bool someone_sleeps = false;
    bool reserves = false;
    std::uint64_t const now = static_cast<std::uint64_t>(env::now());
    atomic<std::uint64_t>& fair_at_ns = notes_of(s).fair_at_ns;
    bool const is_due = is_past(fair_at_ns.load(std::memory_order_relaxed), fair_after_ns);
    do {
      someone_sleeps = (word & waiting_bit) != 0;
      reserves = someone_sleeps && is_due;
      if (reserves) fair_at_ns.store(now + fair_after_ns, std::memory_order_relaxed);
    } while (!s.word.compare_exchange_weak(word, (word & kept_mask) | (reserves ? reserved_bit : 0),
                                           std::memory_order_seq_cst));
    env::step("disown.before_wake");
    if (!someone_sleeps) return;
    bool const woken = wake(s.turn, 1);
    if (!reserves || woken) return;
    // No sleeper took it: for all again, and for those that began to sleep because of it.
    word = s.word.load(std::memory_order_seq_cst);
    while (owner_of(word) == 0 && (word & reserved_bit) != 0) {
      if (!s.word.compare_exchange_weak(word, word & kept_mask, std::memory_order_seq_cst)) continue;
      if ((word & waiting_bit) != 0) wake(s.turn, 1);
      return;
    }
  }

  // 0: look again; otherwise why to give up.
  int await_release(slot& s, waits& w) noexcept {
    if (w.spin()) return 0;
    int const stop = w.over();
    std::int64_t const look_at = w.next_look();
    if (stop == 0 && w.sleeps()) {
      std::uint32_t const seen = s.turn.load(std::memory_order_seq_cst);
      std::uint64_t word = s.word.load(std::memory_order_seq_cst);
      if (is_free(s, word, w)) return 0;
      if ((word & waiting_bit) == 0 &&
          !s.word.compare_exchange_strong(word, word | waiting_bit, std::memory_order_seq_cst))
        return 0;
      env::step("await.before_sleep");
      env::sleep_on(s.turn, seen, look_at);
      w.slept();
      env::step("await.woken");
    }
    if (stop == 0 && !w.wants_probe(look_at)) return 0;
    int const recovered = probe(s, false);
    if (recovered == 1) return 0;
    if (stop == 0 && recovered == 0) return 0;
    if (w.has_slept()) wake(s.turn, 1); // it may have been reserved for me
    return recovered < 0 ? recovered : stop;
  }

  [[gnu::noinline]] int share(std::size_t i, waiting how, unsigned spins, bool& noted) noexcept {
    waits w(how, spins);
    while (!try_share(i, w, noted)) {
      if (int const e = await_release(slots_[i], w); e != 0) return e;
    }
    // The next sleeper may share, too.
    if (w.has_slept()) wake(slots_[i].turn, 1);
    return 0;
  }

  bool try_share(std::size_t i, waits const& w, bool& noted) noexcept {
    slot& s = slots_[i];
    counter& here = sharing_[i];
    here.lock();
    std::uint32_t const others = here.count();
    std::uint64_t word = s.word.load(std::memory_order_seq_cst);
    bool got = is_free(s, word, w);
    bool owner_waits = false;
    if (got && others == 0) {
      auto& bits = s.readers[part_of(me_)];
      std::uint64_t const bit = bit_of(me_);
      env::step("share.before_noting");
      bits.fetch_or(bit, std::memory_order_seq_cst);
      env::step("share.before_owner");
      word = s.word.load(std::memory_order_seq_cst);
      got = owner_of(word) == 0;
      owner_waits = !got;
      if (!got) bits.fetch_and(~bit, std::memory_order_seq_cst);
    }
    here.unlock(got ? others + 1 : others);
    if (owner_waits) wake(s.drain, 1);
    if (!got) return false;
    noted |= has_notes(word);
    // It was reserved for one that slept: for this one.
    while (owner_of(word) == 0 && (word & reserved_bit) != 0 &&
           !s.word.compare_exchange_weak(word, word & ~reserved_bit, std::memory_order_seq_cst)) {
    }
    return true;
  }

  [[gnu::noinline]] void unshare(std::size_t i) noexcept {
    slot& s = slots_[i];
    counter& here = sharing_[i];
    here.lock();
    std::uint32_t const left = here.count() - 1;
    bool owner_waits = false;
    if (left == 0) {
      s.readers[part_of(me_)].fetch_and(~bit_of(me_), std::memory_order_seq_cst);
      owner_waits = owner_of(s.word.load(std::memory_order_seq_cst)) != 0;
    }
    here.unlock(left);
    if (owner_waits) wake(s.drain, 1);
  }

  // ── notes of entities ────────────────────────────────────────────────────────────────────────────────────

  // In holding::words[1]: something is noted in `more`; and, for each of the first that were asked for, that
  // its sharer got a report.
  static constexpr std::uint64_t has_more = 1;
  static constexpr std::uint64_t was_told(std::size_t asked) noexcept {
    return asked < 63 ? std::uint64_t{2} << asked : 0;
  }

  static bool has_notes(std::uint64_t word) noexcept { return (word & (died_bit | noted_bit)) != 0; }
  static void clear(atomic<std::uint64_t>& word) noexcept {
    if (word.load(std::memory_order_relaxed) != 0) word.store(0, std::memory_order_seq_cst);
  }

  [[nodiscard]] std::size_t slot_of(detail::holding const& held, entity asked) const noexcept {
    return held.entities.size() == 1 ? held.entities[0].value : slot_of_(asked.value);
  }

  // Relaxed: the recoverer has the kernel lock that this user had until it died.
  void note_owned(detail::holding& held) noexcept {
    for (entity const e : held.entities.asked()) {
      if (!e.exclusive) continue;
      std::size_t const i = slot_of(held, e);
      std::uint64_t const note = note_of(e.value);
      std::uint64_t const first = slots_[i].held.load(std::memory_order_relaxed);
      if (first == 0) {
        slots_[i].held.store(note, std::memory_order_relaxed);
      } else if (first != note) {
        note_more(held, i, note);
      }
      env::step("lock.noted");
    }
    std::atomic_signal_fence(std::memory_order_seq_cst); // what the owner does comes after
  }
  [[gnu::noinline]] void note_more(detail::holding& held, std::size_t i, std::uint64_t note) noexcept {
    held.words[1] |= has_more;
    for (auto& place : notes_[i].more) {
      std::uint64_t const is = place.load(std::memory_order_relaxed);
      if (is == 0) place.store(note, std::memory_order_relaxed);
      if (is == 0 || is == note) return;
    }
    std::end(notes_[i].more)[-1].store(any_entity, std::memory_order_relaxed);
  }
  void wipe_owned(std::size_t i, bool more) noexcept {
    std::atomic_signal_fence(std::memory_order_seq_cst); // what the owner did comes before
    slots_[i].held.store(0, std::memory_order_relaxed);
    if (more) [[unlikely]]
      for (auto& place : notes_[i].more) place.store(0, std::memory_order_relaxed);
  }

  [[gnu::noinline]] bool take_notes(detail::holding& held) noexcept {
    bool died = false;
    for (entity const e : held.entities) died |= take_any(held, e);
    std::span<entity const> const asked = held.entities.asked();
    for (std::size_t n = 0; n != asked.size(); ++n) {
      std::size_t const i = slot_of(held, asked[n]);
      if ((slots_[i].word.load(std::memory_order_relaxed) & noted_bit) == 0) continue;
      if (asked[n].exclusive) {
        died |= take_note(i, note_of(asked[n].value));
      } else if (share_note(i, note_of(asked[n].value))) {
        died = true;
        held.words[1] |= was_told(n);
      }
    }
    for (entity const e : held.entities)
      if (e.exclusive) close_notes(e.value);
    return died;
  }

  // A death of an owner of an unknown entity.
  bool take_any(detail::holding& held, entity e) noexcept {
    slot& s = slots_[e.value];
    std::uint64_t word = s.word.load(std::memory_order_relaxed);
    std::uint64_t const told = e.exclusive ? 0 : me_ << told_shift;
    while ((word & died_bit) != 0 && (told == 0 || told_of(word) == 0)) {
      if (told == 0) note_any(held, e.value);
      if (s.word.compare_exchange_weak(word, (word & ~died_bit) | told, std::memory_order_seq_cst))
        return true;
    }
    return false;
  }
  void note_any(detail::holding& held, std::size_t i) noexcept {
    held.words[1] |= has_more;
    std::end(notes_[i].more)[-1].store(any_entity, std::memory_order_relaxed);
  }

  // For an owner: the entity is in `held` already.
  bool take_note(std::size_t i, std::uint64_t note) noexcept {
    slot_notes& n = notes_[i];
    for (std::size_t k = 0; k != std::size(n.dead); ++k) {
      std::uint64_t const is = n.dead[k].load(std::memory_order_relaxed);
      if (is != note) continue;
      n.dead[k].store(0, std::memory_order_relaxed);
      env::step("notes.taken");
      // This very request also asked to share it, and got the report then.
      bool const was_told = teller_of(n.told_of.load(std::memory_order_relaxed), k) != 0;
      if (was_told) untell_one(i, k);
      return true;
    }
    return false;
  }
  // Of several that share it one gets the report.
  bool share_note(std::size_t i, std::uint64_t note) noexcept {
    slot_notes& n = notes_[i];
    for (std::size_t k = 0; k != std::size(n.dead); ++k) {
      if (n.dead[k].load(std::memory_order_relaxed) != note) continue;
      std::uint64_t told = n.told_of.load(std::memory_order_relaxed);
      while (teller_of(told, k) == 0) {
        // Acquire; pairs with the release of a sharer that got the report, unlocked, and has wiped the note.
        if (!n.told_of.compare_exchange_weak(told, told | teller(me_, k), std::memory_order_seq_cst))
          continue;
        env::step("notes.shared");
        if (n.dead[k].load(std::memory_order_relaxed) == note) return true;
        untell_one(i, k);
        return false;
      }
      return false;
    }
    return false;
  }
  // For an owner: no note is left, so the next holder need not look.
  void close_notes(std::size_t i) noexcept {
    for (auto const& place : notes_[i].dead)
      if (place.load(std::memory_order_relaxed) != 0) return;
    std::uint64_t word = slots_[i].word.load(std::memory_order_relaxed);
    while ((word & noted_bit) != 0 &&
           !slots_[i].word.compare_exchange_weak(word, word & ~noted_bit, std::memory_order_seq_cst)) {
    }
  }

  void untell_one(std::size_t i, std::size_t k) noexcept {
    notes_[i].told_of.fetch_and(~teller(owner_mask, k), std::memory_order_seq_cst);
  }
  // A sharer that got a report unlocks in order.
  [[gnu::noinline]] void forget_told(detail::holding const& held) noexcept {
    for (entity const e : held.entities) {
      std::uint64_t word = slots_[e.value].word.load(std::memory_order_relaxed);
      while (
          !e.exclusive && told_of(word) == me_ &&
          !slots_[e.value].word.compare_exchange_weak(word, word & ~told_mask, std::memory_order_seq_cst)) {
      }
    }
    std::span<entity const> const asked = held.entities.asked();
    for (std::size_t n = 0; n != asked.size(); ++n) {
      std::uint64_t const mark = was_told(n);
      if (asked[n].exclusive || (mark != 0 && (held.words[1] & mark) == 0)) continue;
      std::size_t const i = slot_of(held, asked[n]);
      slot_notes& notes = notes_[i];
      for (std::size_t k = 0; k != std::size(notes.dead); ++k) {
        if (notes.dead[k].load(std::memory_order_relaxed) != note_of(asked[n].value) ||
            teller_of(notes.told_of.load(std::memory_order_relaxed), k) != me_)
          continue;
        notes.dead[k].store(0, std::memory_order_relaxed);
        env::step("notes.wiped");
        untell_one(i, k);
      }
    }
  }

  // ── recovering ───────────────────────────────────────────────────────────────────────────────────────────

  // A report that a dead sharer got is due again.
  void untell(std::size_t i, std::uint64_t user) noexcept {
    slot_notes& n = notes_[i];
    std::uint64_t told = n.told_of.load(std::memory_order_seq_cst);
    for (std::size_t k = 0; k != std::size(n.dead); ++k) {
      while (teller_of(told, k) == user) {
        if (!n.told_of.compare_exchange_weak(told, told & ~teller(owner_mask, k), std::memory_order_seq_cst))
          continue;
        told &= ~teller(owner_mask, k);
        env::step("recover.told_of");
      }
    }
  }
  // Waiters find it free, and the notes of what its owner had. The notes are in `dead` before they are wiped
  // here, and that is before another user may own it, so the recoverer may die between any two of these
  // steps.
  void disown_for_dead(std::size_t i, std::uint64_t user) noexcept {
    slot& s = slots_[i];
    std::uint64_t const noted = copy_owned(i);
    std::uint64_t word = s.word.load(std::memory_order_seq_cst);
    while ((word & noted) != noted)
      if (s.word.compare_exchange_weak(word, word | noted, std::memory_order_seq_cst)) break;
    env::step("recover.noted");
    wipe_owned(i, true);
    env::step("recover.wiped");
    word = s.word.load(std::memory_order_seq_cst);
    while (owner_of(word) == user) {
      if (s.word.compare_exchange_weak(word, word & kept_mask, std::memory_order_seq_cst)) {
        env::step("recover.word");
        wake(s.turn, INT_MAX);
      }
    }
  }
  // Copies what a dead owner noted, each once. Returns the bits that the word needs then.
  std::uint64_t copy_owned(std::size_t i) noexcept {
    slot_notes& n = notes_[i];
    std::uint64_t bits = copy_note(n, slots_[i].held.load(std::memory_order_relaxed));
    for (auto const& more : n.more) bits |= copy_note(n, more.load(std::memory_order_relaxed));
    return bits;
  }
  std::uint64_t copy_note(slot_notes& n, std::uint64_t note) noexcept {
    if (note == 0) return 0;
    if (note != note_of(note)) return died_bit;
    for (auto const& place : n.dead)
      if (place.load(std::memory_order_relaxed) == note) return noted_bit;
    for (auto& place : n.dead) {
      if (place.load(std::memory_order_relaxed) != 0) continue;
      place.store(note, std::memory_order_seq_cst);
      env::step("recover.copied");
      return noted_bit;
    }
    return died_bit;
  }

  // Undoes what a dead user held. 0; -EAGAIN: it lives, or another user is recovering it; another negative
  // errno. Does not wait, because the other recoverer may have been stopped.
  int recover(std::uint64_t user) noexcept {
    return env_.alone_with(user, [&] {
      env::step("recover.dead");
      recover_slots(user);
      env::step("recover.done");
    });
  }

  // Whether a dead user held the slot. 1: it did, look again; 0: no; negative: an errno.
  int probe(slot& s, bool also_readers) noexcept {
    int recovered = 0;
    auto const look_after = [&](std::uint64_t user) {
      int const alive = env_.is_alive(user);
      if (alive != 0) return alive < 0 ? alive : 0;
      int const e = recover(user);
      if (e == 0) recovered = 1;
      return e == -EAGAIN ? 0 : e;
    };
    std::uint64_t const owner = owner_of(s.word.load(std::memory_order_seq_cst));
    if (owner != 0) {
      if (int const e = look_after(owner); e != 0) return e;
    }
    for (std::size_t part = 0; also_readers && part != std::size(s.readers); ++part) {
      for (std::uint64_t bits = s.readers[part].load(std::memory_order_seq_cst); bits != 0;
           bits &= bits - 1) {
        auto const user = part * 64 + static_cast<unsigned>(__builtin_ctzll(bits)) + 1;
        if (int const e = look_after(user); e != 0) return e;
      }
    }
    return recovered;
  }

  Environment& env_;
  slot* slots_ = nullptr;
  slot_notes* notes_ = nullptr; // for each slot
  std::size_t size_ = 0;
  std::size_t (*slot_of_)(std::uint64_t) noexcept = nullptr;
  atomic<std::uint64_t> const* epoch_ = nullptr;
  std::unique_ptr<counter[]> sharing_; // for each slot
  std::uint64_t me_ = 0;               // my number, 1 …
};

} // namespace unio::fs::map_layout
