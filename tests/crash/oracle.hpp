// Who holds what, in memory that all workers share and the mutex under test knows nothing of: it notices when
// two are where one should be, and when a death is told wrongly.
//
// A worker notes what it wants before it asks for it, enters when it was granted, leaves before it gives it
// back, and then takes the note away. Who is about to be killed is marked as doomed first, so that after its
// death everybody can see what it held for certain (holder), and what it may have held (wants_alone).
//
//   entered by an owner        nobody else alive may be in, as owner or sharing
//   told of a death            a doomed one wanted it alone, and nobody was told of that yet
//   not told of a death        nobody doomed is its holder, unless somebody was told of that
//
// All atomics here are sequentially consistent, and no step leaves what a kill at that place could spoil.

#pragma once

#include "crash/algorithms.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <new>
#include <span>
#include <string>

namespace crash {

/// A T that forked children share.
template <class T> class shared {
 public:
  shared() {
    void* const at = ::mmap(nullptr, sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED) std::abort();
    value_ = new (at) T; // zeros, from the kernel
  }
  shared(shared const&) = delete;
  shared& operator=(shared const&) = delete;
  ~shared() { ::munmap(static_cast<void*>(value_), sizeof(T)); }
  T* operator->() const noexcept { return value_; }
  T& operator*() const noexcept { return *value_; }

 private:
  T* value_;
};

/// A request, by keys.
struct wanted {
  std::uint64_t alone = 0;
  std::uint64_t shared = 0;

  static wanted of(algorithm const& a, std::span<unio::fs::entity const> entities) {
    wanted w;
    for (auto const e : entities)
      (e.exclusive != 0 ? w.alone : w.shared) |= std::uint64_t{1} << a.key(e.value);
    w.shared &= ~w.alone;
    return w;
  }
};

class oracle {
 public:
  static constexpr unsigned keys = 64;
  static constexpr unsigned most_records = 8192; // the oldest are forgotten
  static constexpr unsigned most_alive = 64;

  /// A worker: one thread. Beginning with 1.
  unsigned begin(algorithm const& a) {
    unsigned const n = ++begun_;
    record& r = at(n);
    r.number = 0;
    r.doomed = false;
    r.wants_alone = r.wants_shared = r.shares = r.told = r.excused = r.consumed = 0;
    r.tells = a.tells == telling::once;
    r.never_tells = a.tells == telling::never;
    r.number = n;
    for (auto& place : alive_) {
      unsigned nobody = 0;
      if (place.compare_exchange_strong(nobody, n)) return n;
    }
    std::abort();
  }
  void end(unsigned me) {
    for (auto& place : alive_) {
      unsigned mine = me;
      place.compare_exchange_strong(mine, 0);
    }
  }
  /// Before it is killed.
  void doom(unsigned who) {
    at(who).doomed = true;
    end(who);
  }

  void wants(unsigned me, wanted w) {
    at(me).wants_shared = w.shared;
    at(me).wants_alone = w.alone;
  }
  void wants_nothing(unsigned me) {
    at(me).told = 0;
    wants(me, {});
  }

  void enter(unsigned me, wanted w, bool owner_died) {
    record& mine = at(me);
    if (owner_died) mine.told = w.shared;
    unsigned dead_holders[keys] = {};
    std::uint64_t held_by_the_dead = 0;
    auto const is_dead = [&](unsigned holder, unsigned k) {
      record const& r = at(holder);
      if (r.number == holder && !r.doomed) return false;
      if (r.number != holder || (r.consumed & bit(k)) != 0) return true;
      held_by_the_dead |= bit(k);
      dead_holders[k] = holder;
      return true;
    };
    for_each(w.alone, [&](unsigned k) {
      unsigned const before = pages_[k].holder.exchange(me);
      if (before != 0 && !is_dead(before, k))
        complain("overlap: worker %u owns key %u, which worker %u still owned", me, k, before);
    });
    mine.shares = w.shared;
    for_each(w.shared, [&](unsigned k) {
      unsigned const holder = pages_[k].holder;
      if (holder != 0 && !is_dead(holder, k))
        complain("overlap: worker %u shares key %u, which worker %u owns", me, k, holder);
    });
    for (auto const& place : alive_) {
      unsigned const other = place;
      if (other == 0 || other == me || at(other).doomed) continue;
      if (std::uint64_t const both = at(other).shares & w.alone; both != 0 && !at(other).doomed)
        complain("overlap: worker %u owns key %d, which worker %u shared", me, std::countr_zero(both), other);
    }
    for_each(w.alone, [&](unsigned k) { pages_[k].before = pages_[k].counter; });
    if (mine.tells && owner_died) check_told(me, w, held_by_the_dead, dead_holders);
    if (mine.tells && !owner_died) check_untold(me, held_by_the_dead & w.alone);
    if (mine.never_tells && owner_died) complain("telling: worker %u was told of a death", me);
    ++grants;
    if (owner_died) ++tellings;
  }

  void leave(unsigned me, wanted w) {
    at(me).shares = 0;
    for_each(w.alone, [&](unsigned k) {
      page& p = pages_[k];
      if (p.counter != p.before)
        complain("lost update: somebody else changed key %u while worker %u owned it", k, me);
      p.counter = p.before + 1;
      unsigned mine = me;
      if (!p.holder.compare_exchange_strong(mine, 0))
        complain("overlap: worker %u leaves key %u, which worker %u owns meanwhile", me, k, mine);
    });
  }

  /// Only the first is kept.
  [[gnu::format(printf, 2, 3)]] void complain(char const* format, ...) {
    if (complaints++ != 0) return;
    std::va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text_, sizeof text_, format, arguments);
    va_end(arguments);
    is_said_ = true;
  }
  /// What went wrong first, or nothing.
  [[nodiscard]] std::string verdict() const {
    if (complaints == 0) return {};
    return is_said_ ? text_ : "something, but who noticed it died";
  }

  std::atomic<unsigned> complaints;
  std::atomic<std::uint64_t> grants;
  std::atomic<std::uint64_t> refusals; // that were no mistake
  std::atomic<std::uint64_t> tellings;

 private:
  struct record {
    std::atomic<unsigned> number;
    std::atomic<bool> doomed; // is to be killed
    bool tells, never_tells;
    std::atomic<std::uint64_t> wants_alone, wants_shared; // from before it asks until it has given back
    std::atomic<std::uint64_t> shares;                    // is in
    std::atomic<std::uint64_t> told; // shares, told of a death: should it die now, another may be told again
    std::atomic<std::uint64_t> excused;  // after its death: it may have been told of these
    std::atomic<std::uint64_t> consumed; // after its death somebody was told for these
  };
  struct page {
    std::atomic<unsigned> holder;
    volatile std::uint64_t counter; // not atomic: the owner's alone
    volatile std::uint64_t before;
  };

  static std::uint64_t bit(unsigned k) noexcept { return std::uint64_t{1} << k; }
  template <class F> static void for_each(std::uint64_t mask, F&& f) {
    for (; mask != 0; mask &= mask - 1) f(static_cast<unsigned>(std::countr_zero(mask)));
  }
  record& at(unsigned n) { return records_[n % most_records]; }
  [[nodiscard]] record const& at(unsigned n) const { return records_[n % most_records]; }

  // Was there a death to be told of? It has been told, now.
  void check_told(unsigned me, wanted w, std::uint64_t held_by_the_dead, unsigned const* holders) {
    std::uint64_t const mine = w.alone | w.shared;
    bool justified = false;
    auto const consume = [&](record& r) {
      std::uint64_t const may = (r.wants_alone | r.told) & mine;
      return may != 0 && (r.consumed.fetch_or(may) & may) != may;
    };
    for_each(held_by_the_dead, [&](unsigned k) { justified |= consume(at(holders[k])); });
    // Otherwise of one that may have had it, or had been told. Of several such nobody knows which it was, and
    // for which of its keys, so none is used up.
    unsigned candidates = 0;
    record* candidate = nullptr;
    for (unsigned n = 0; n != used() && !justified; ++n)
      if (record& r = records_[n];
          r.number != me && r.doomed && ((r.wants_alone | r.told) & mine & ~r.consumed) != 0) {
        ++candidates;
        candidate = &r;
      }
    if (!justified && candidates != 0) justified = candidates > 1 || consume(*candidate);
    if (!justified)
      complain(
          "telling: worker %u was told of a death that was told before, or was none (alone %#lx, shared "
          "%#lx)",
          me, static_cast<unsigned long>(w.alone), static_cast<unsigned long>(w.shared));
  }

  void check_untold(unsigned me, std::uint64_t held_by_the_dead) {
    if (held_by_the_dead == 0) return;
    for (unsigned n = 0; n != used(); ++n) // somebody who shared it may have been told, and died
      if (record& r = records_[n]; r.doomed && r.number != me)
        if (std::uint64_t const may = r.wants_shared & held_by_the_dead; may != 0)
          held_by_the_dead &= ~(may & ~r.excused.fetch_or(may)); // each once
    if (held_by_the_dead != 0)
      complain("telling: worker %u was not told of the death of an owner of keys %#lx", me,
               static_cast<unsigned long>(held_by_the_dead));
  }
  [[nodiscard]] unsigned used() const { return std::min(begun_.load() + 1, most_records); }

  std::atomic<unsigned> begun_;
  std::atomic<bool> is_said_;
  char text_[240];
  std::atomic<unsigned> alive_[most_alive];
  page pages_[keys];
  record records_[most_records];
};

} // namespace crash
