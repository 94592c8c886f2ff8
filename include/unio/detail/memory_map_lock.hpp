// unio/detail/memory_map_lock.hpp: opening and locking a memory_map, for its parameters.

#pragma once

#include <unio/locks/memory_map.hpp>

namespace unio::inline v0_1::fs {

constexpr std::uint64_t fnv1a_hash::of(std::uint64_t value) noexcept {
  std::uint64_t h = 0xcbf29ce484222325;
  for (int i = 0; i != 8; ++i) h = (h ^ ((value >> (8 * i)) & 0xff)) * 0x100000001b3;
  return h ^ (h >> 32);
}

template <class Hash, std::size_t Slots, class Spinlock>
inline result<memory_map<Hash, Slots, Spinlock>> memory_map<Hash, Slots, Spinlock>::open(
    path_handle const& base, path_view name, map_visibility v, deadline d) noexcept {
  memory_map m;
  if (int const e = m.memory_map_base::open(base, name, {Slots, Hash::id, &slot_of}, v, d); e != 0)
    return unio::detail::failed_on(e, "memory_map::open", name.c_str(), name.size());
  return m;
}

template <class Hash, std::size_t Slots, class Spinlock>
inline result<entities_guard> memory_map<Hash, Slots, Spinlock>::lock(entity e, deadline d,
                                                                      bool spin_not_sleep) noexcept {
  result<entities_guard> r;
  if (!e.exclusive || !own_at_once(*r, e.value, slot_of(e.value))) [[unlikely]]
    lock_slots(r, entities_of(*r).assign(std::span(&e, 1), &in_slots), d, spin_not_sleep, Spinlock::attempts);
  return r;
}
template <class Hash, std::size_t Slots, class Spinlock>
inline result<entities_guard> memory_map<Hash, Slots, Spinlock>::lock(std::span<entity const> entities,
                                                                      deadline d,
                                                                      bool spin_not_sleep) noexcept {
  if (entities.size() == 1) return lock(entities[0], d, spin_not_sleep);
  result<entities_guard> r;
  lock_slots(r, entities_of(*r).assign(entities, &in_slots), d, spin_not_sleep, Spinlock::attempts);
  return r;
}

template <class Hash, std::size_t Slots, class Spinlock>
inline int memory_map<Hash, Slots, Spinlock>::do_lock(detail::holding& held, detail::waiting how) noexcept {
  detail::entity_list const asked = std::move(held.entities);
  if (int const e = held.entities.assign(std::span(asked.begin(), asked.size()), &in_slots); e != 0) return e;
  return lock_slots(held, how, Spinlock::attempts);
}

} // namespace unio::fs
