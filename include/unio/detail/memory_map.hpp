// unio/detail/memory_map.hpp: the base of every memory_map: the part without its parameters.

#pragma once

#include <unio/detail/map_slot.hpp>
#include <unio/file_handle.hpp>
#include <unio/locks/shared_fs_mutex.hpp>

#include <memory>

namespace unio::inline v0_1::fs {
enum class map_visibility;
}

namespace unio::inline v0_1::fs::detail {

class UNIO_API memory_map_base : public shared_fs_mutex {
 public:
  memory_map_base(memory_map_base&& other) noexcept;
  memory_map_base& operator=(memory_map_base&& other) noexcept;
  ~memory_map_base() override;

  /// True while all users use locks of the kernel, because one of them cannot see the map.
  [[nodiscard]] bool is_degraded() const noexcept;
  /// How many users that see the map may have the file open at once.
  static constexpr std::size_t most_users = map_layout::users;

 protected:
  memory_map_base() noexcept;
  struct parameters {
    std::uint32_t slots;
    std::uint64_t hash_id;
    std::size_t (*slot_of)(std::uint64_t value) noexcept;
  };
  int open(path_handle const& base, path_view name, parameters p, map_visibility v, deadline d) noexcept;
  /// Takes a free slot. False: the slow path is needed.
  [[nodiscard]] bool own_at_once(entities_guard& guard, std::uint64_t value, std::size_t slot) noexcept {
    if (quick_.slots == nullptr || quick_.me.is_inherited()) [[unlikely]]
      return false;
    map_layout::map_slot& s = quick_.slots[slot];
    if (!map_layout::own_at_once(s, value, quick_.me.number, *quick_.epoch, [&] { disown(slot); }))
        [[unlikely]]
      return false;
    guard.mutex_ = this;
    guard.held_.entities.assign_one(entity(slot));
    guard.held_.word = &s.word;
    guard.held_.note = &s.held;
    guard.held_.owner = &quick_.me;
    return true;
  }
  /// `held` holds numbers of slots.
  int lock_slots(holding& held, waiting how, unsigned spins) noexcept;
  void do_unlock(holding& held) noexcept final;

  static entity_list& entities_of(entities_guard& guard) noexcept { return guard.held_.entities; }
  /// Locks entities_of(*r). `failed` is the error of preparing them, or 0.
  void lock_slots(result<entities_guard>& r, int failed, deadline d, bool spin, unsigned spins) noexcept;

 private:
  void disown(std::size_t slot) noexcept;

  struct state;
  std::unique_ptr<state> state_;
  quick_map quick_;
};

} // namespace unio::fs::detail
