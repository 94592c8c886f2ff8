// unio/detail/map_slot.hpp: a slot of memory_map's file, and how to own a free one. Here because that should
// cost a few instructions at the caller; all else is in src/locks/map_protocol.hpp, the file's other parts in
// src/locks/map_layout.hpp.

#pragma once

#include <unio/detail/holding.hpp>

#include <atomic>
#include <utility>

namespace unio::inline v0_1::fs::map_layout {

inline constexpr std::uint32_t users = 320;

/// `Atomic` is std::atomic, but for the tests that try every interleaving (tests/memory_model).
template <template <class> class Atomic, std::uint32_t Users> struct alignas(64) basic_slot {
  Atomic<std::uint64_t> word;  // see src/locks/map_protocol.hpp
  Atomic<std::uint64_t> held;  // a note of the entity that the owner has locked; 0: none
  Atomic<std::uint32_t> turn;  // changes at each release that may have to wake a sleeper
  Atomic<std::uint32_t> drain; // changes when a reader leaves that an owner waits for
  Atomic<std::uint64_t> readers[Users / 64];
};
using map_slot = basic_slot<std::atomic, users>;
static_assert(sizeof(map_slot) == 64 && std::atomic<std::uint64_t>::is_always_lock_free);

/// The note of an entity: its value, and a bit so that it is never 0.
constexpr std::uint64_t note_of(std::uint64_t value) noexcept { return value | std::uint64_t{1} << 63; }

template <template <class> class Atomic, std::uint32_t Users>
bool has_readers(basic_slot<Atomic, Users> const& s) noexcept {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (... | s.readers[I].load(std::memory_order_seq_cst)) != 0;
  }(std::make_index_sequence<Users / 64>());
}

template <class Epoch> bool is_odd(Epoch const& epoch) noexcept {
  return (epoch.load(std::memory_order_seq_cst) & 1) != 0;
}

/// False: it has an owner, or other bits set.
template <class Word> bool own_word(Word& word, std::uint64_t me) noexcept {
  std::uint64_t nobody = 0;
  return word.compare_exchange_strong(nobody, me, std::memory_order_seq_cst);
}

/// Takes a free slot for the entity of this value, while the map is in use. False: the slow path is needed,
/// and `disown` has released what was taken.
template <class Slot, class Epoch, class Disown>
bool own_at_once(Slot& s, std::uint64_t value, std::uint64_t me, Epoch const& epoch, Disown disown) noexcept {
  if (!own_word(s.word, me)) [[unlikely]]
    return false;
  if (has_readers(s) || is_odd(epoch)) [[unlikely]] {
    disown();
    return false;
  }
  s.held.store(note_of(value), std::memory_order_relaxed); // read by users that find this one dead
  // A killed process has executed all instructions up to some point, so only the compiler must keep the
  // order.
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return true;
}

} // namespace unio::fs::map_layout

namespace unio::inline v0_1::fs::detail {

/// The map, for the fast path.
struct quick_map {
  map_layout::map_slot* slots = nullptr; // none: there is no fast path
  std::atomic<std::uint64_t> const* epoch = nullptr;
  word_owner me;
};

} // namespace unio::fs::detail
