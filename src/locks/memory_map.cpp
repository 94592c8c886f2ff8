// memory_map: locks in a map that all users share, which survive the death of any of them.
//
// map_protocol.hpp has what happens in the slots; here is its environment (the file, its users, their
// deaths), and what replaces it while the map is not in use.
//
// docs/explanation/shared-fs-mutexes.md describes how users live, die, and change over to kernel locks
// ("degrading").

#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"
#include "locks/map_protocol.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/ofd_lock.hpp"

#include <unio/locks/memory_map.hpp>

#include <linux/futex.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <ctime>

namespace unio::inline v0_1::fs {

namespace layout = map_layout;
using layout::died_bit;
using layout::map_header;
using layout::map_notes;
using layout::map_slot;
using layout::map_user;
using layout::noted_bit;
using layout::owner_of;
using layout::told_of;

namespace {

// The environment of the protocol of the slots: this machine, and the lock file.
struct map_machine {
  using slot = map_slot;
  using notes = map_notes;
  template <class T> using atomic = std::atomic<T>;

  static void relax() noexcept {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("yield");
#endif
  }
  static void yield() noexcept { sys::sched_yield(); }
  static std::int64_t now() noexcept { return sys::steady_now(); }

  // Not FUTEX_PRIVATE_FLAG: other processes map the same file. After any error (a signal, another value) the
  // caller looks again.
  static void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t until_ns) noexcept {
    timespec const t{.tv_sec = until_ns / 1'000'000'000, .tv_nsec = until_ns % 1'000'000'000};
    (void)sys::futex(reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET, seen,
                     &t); // an absolute time
  }
  static long wake_sleepers(std::atomic<std::uint32_t>& word, int how_many) noexcept {
    return sys::futex(reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE,
                      static_cast<std::uint32_t>(how_many), nullptr);
  }

  static void step(char const* name) noexcept { hooks::step(name); }

  int is_alive(std::uint64_t user) noexcept {
    if (user == me) return 1; // its own locks do not conflict
    if (user > layout::users) return native(error::damaged_lock_file);
    return sys::ofd_is_locked(file.fd(), layout::user_bytes + user);
  }
  // Holding its byte: no other user recovers it, or takes the number.
  template <class F> int alone_with(std::uint64_t user, F undo) noexcept {
    int const fd = more.take(file);
    if (fd < 0) return fd;
    int const e = byte_lock::try_lock(fd, layout::user_bytes + user, lock_kind::exclusive);
    if (e == 0) undo();
    byte_lock::unlock_all(fd);
    more.give_back(fd);
    return e;
  }
  void forget(std::uint64_t user) noexcept { users[user - 1].in_use.store(0, std::memory_order_release); }

  lock_file file;
  descriptions more;
  map_user* users = nullptr;
  std::uint64_t me = 0; // my number, 1 …
};

using map_protocol = layout::protocol<map_machine>;

} // namespace

// ── the state of a user ────────────────────────────────────────────────────────────────────────────────────

struct detail::memory_map_base::state : private map_machine {
  state() = default;
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state() { close(); }

  int open(path_handle const& base, path_view name, parameters p, map_visibility v, waiting how) noexcept;

  int lock(holding& held, waiting how, unsigned spins) noexcept;
  void unlock(holding& held) noexcept;
  void disown(std::size_t i) noexcept { map.disown(i); }
  [[nodiscard]] quick_map quick() const noexcept;
  [[nodiscard]] bool is_inherited() const noexcept { return generation != sys::fork_generation(); }
  [[nodiscard]] bool is_degraded() const noexcept { return !sees_map || map.epoch_is_odd(); }

 private:
  // opening and closing
  int check_header(bool alone, bool& fresh) noexcept;
  void fill(map_header& h) const noexcept;
  int make_header(bool fresh) noexcept;
  int open_map(bool alone) noexcept;
  int check_map(bool alone, bool& is_ours) noexcept;
  int make_map() noexcept;
  int map_it() noexcept;
  int take_number() noexcept;
  int degrade() noexcept;
  void close() noexcept;

  // degraded
  int lock_in_kernel(holding& held, waiting how, unsigned spins) noexcept;
  int await_map(entity e, waiting how, holding& held) noexcept;
  int has_note(std::size_t slot, std::uint64_t owned, detail::entity_list const& entities) noexcept;
  int read_from_afar(void* to, std::size_t n, std::uint64_t at) noexcept;

  map_protocol map{*this};
  lock_file map_file; // closed by users that map it
  parameters p_{};
  std::uint64_t named_map = 0; // the map_id in the lock file
  std::uint64_t map_id = 0;    // that of the map
  bool sees_map = false;
  unsigned generation = sys::fork_generation();
  map_header* header = nullptr;
  map_slot* slots = nullptr;
  map_notes* slot_notes = nullptr;
};

// ── opening ────────────────────────────────────────────────────────────────────────────────────────────────

int detail::memory_map_base::state::open(path_handle const& base, path_view name, parameters p,
                                         map_visibility v, waiting how) noexcept {
  p_ = p;
  bool alone = false;
  result<lock_file> f = lock_file::join(base, name, how, alone, {.beside = "map"});
  if (!f) return to_native(f.error());
  file = std::move(*f);
  sees_map = !file.is_remote() && v == map_visibility::automatic;

  bool fresh = false;
  int e = check_header(alone, fresh);
  if (e != 0) return e;
  if (fresh && !alone) return native(error::damaged_lock_file);
  if (e = open_map(alone); e != 0) return e;
  if (fresh || named_map != map_id) { // alone: later users must find this very map
    if (e = make_header(fresh); e != 0) return e;
  }
  hooks::step("open.map_made");
  if (sees_map) {
    if (e = map_it(); e != 0) return e;
    map_file.close();
    if (!map.use(slots, slot_notes, p_.slots, p_.slot_of, &header->epoch)) return -ENOMEM;
    if (alone) map.recover_all_slots();
    for (std::uint64_t n = 1; alone && n <= layout::users; ++n) forget(n);
    if (e = take_number(); e != 0) return e;
    hooks::step("open.numbered");
  } else if (e = degrade(); e != 0) {
    return e; // it has no number: its locks could not be recovered
  }
  return file.joined();
}

// Checks the lock file's header, completely, before using any of it.
int detail::memory_map_base::state::check_header(bool alone, bool& fresh) noexcept {
  struct stat s;
  if (int const e = file.status(s); e < 0) return e;
  fresh = s.st_size == 0;
  if (fresh) return 0;
  if (static_cast<std::size_t>(s.st_size) < sizeof(map_header)) return native(error::not_a_lock_file);
  map_header h;
  if (int const e = read_at(file.fd(), &h, sizeof h, 0); e != 0) return e;
  fresh = s.st_size == sizeof h && is_zero(&h, sizeof h); // a power loss came before the header was on disk
  if (fresh) return 0;
  if (int const e = check_magic(h.magic, layout::magic); e != 0) return e;
  if (h.version > layout::version) return native(error::newer_lock_file);
  if (h.version < layout::version) { // its users have a map of their own
    fresh = alone;
    return alone ? 0 : native(error::different_lock_file);
  }
  if (h.users != layout::users || h.slot_size != sizeof(map_slot)) return native(error::damaged_lock_file);
  if (h.slots != p_.slots || h.hash_id != p_.hash_id) return native(error::different_lock_file);
  named_map = h.map_id;
  return 0;
}

void detail::memory_map_base::state::fill(map_header& h) const noexcept {
  std::memcpy(h.magic, layout::magic, sizeof h.magic);
  h.version = layout::version;
  h.slots = p_.slots;
  h.users = layout::users;
  h.slot_size = sizeof(map_slot);
  h.hash_id = p_.hash_id;
  h.device = file.is_remote() ? layout::any_device : file.device();
  h.inode = file.inode();
  h.map_id = map_id;
}

int detail::memory_map_base::state::make_header(bool fresh) noexcept {
  map_header h{};
  fill(h);
  if (fresh) {
    if (auto const r = sys::uninterrupted([&] { return sys::ftruncate(file.fd(), 0); }); r < 0)
      return static_cast<int>(r);
  }
  return write_header(file.fd(), &h, sizeof h, fresh);
}

// Opens the map of this very lock file. A user that is alone makes one if there is none; it never changes the
// size of an existing one, which may belong to a removed lock file of the same name and still have users.
int detail::memory_map_base::state::open_map(bool alone) noexcept {
  for (int attempts = 0; attempts != 3; ++attempts) {
    bool made = false;
    result<lock_file> f = file.open_beside("map", alone ? &made : nullptr);
    if (!f && !alone && f.error() == std::errc::no_such_file_or_directory)
      return native(error::damaged_lock_file);
    if (!f) return to_native(f.error());
    map_file = std::move(*f);
    if (made) return make_map();
    if (int const e = map_file.refresh(); e != 0) return e;
    bool is_ours = false;
    if (int const e = check_map(alone, is_ours); e != 0) return e;
    if (!is_ours && !alone) return native(error::damaged_lock_file);
    if (is_ours && alone && sees_map) { // alone, so the user that made the others degrade is gone
      std::uint64_t const even = 0;
      return write_at(map_file.fd(), &even, sizeof even, offsetof(map_header, epoch));
    }
    if (is_ours) return 0;
    if (int const e = map_file.remove_name(); e != 0) return e;
    hooks::step("open.map_removed");
  }
  return -EBUSY;
}

// 0, or why it may not be removed. A user that is alone identifies its map by the lock file's inode, because
// the lock file may have had another map since: seen through another directory, or renamed. A
// user that is not alone must have the map that the others have.
int detail::memory_map_base::state::check_map(bool alone, bool& is_ours) noexcept {
  struct stat s;
  if (int const e = map_file.status(s); e < 0) return e;
  int const unfinished =
      is_unfinished(map_file.fd(), static_cast<std::uint64_t>(s.st_size), layout::file_size(p_.slots));
  if (unfinished != 0) return std::min(unfinished, 0);
  map_header h{};
  std::size_t const n = std::min(sizeof h, static_cast<std::size_t>(s.st_size));
  if (int const e = read_at(map_file.fd(), &h, n, 0); e != 0) return e;
  if (n != sizeof h || std::memcmp(h.magic, layout::magic, sizeof h.magic) != 0)
    return native(error::not_a_lock_file);
  if (h.version > layout::version) return native(error::newer_lock_file);
  map_id = h.map_id;
  map_header ours{};
  fill(ours);
  is_ours = h.map_id != 0 && h.version == ours.version && h.slots == ours.slots && h.users == ours.users &&
            h.slot_size == ours.slot_size && h.hash_id == ours.hash_id &&
            static_cast<std::size_t>(s.st_size) == layout::file_size(p_.slots);
  bool const is_named = h.map_id == named_map;
  if (!alone) {
    is_ours = is_ours && is_named;
    return 0;
  }
  is_ours = is_ours && h.inode == ours.inode;
  // Device numbers are each machine's own, and may change at a restart.
  bool const is_its_device = h.device == file.device() || h.device == layout::any_device || file.is_remote();
  if (!is_ours || is_its_device) return 0;
  is_ours = is_named && s.st_dev == file.device();
  return is_ours ? write_at(map_file.fd(), &ours.device, sizeof ours.device, offsetof(map_header, device))
                 : 0;
}

int detail::memory_map_base::state::make_map() noexcept {
  int const fd = map_file.fd();
  auto const size = layout::file_size(p_.slots);
  result<entity> const id = random_entity();
  if (!id) return to_native(id.error());
  map_id = id->value | 1; // never 0
  // All of its size at once: a map that is empty or all zeros was not finished.
  if (auto const r = sys::uninterrupted([&] { return sys::ftruncate(fd, static_cast<std::int64_t>(size)); });
      r < 0)
    return static_cast<int>(r);
  int e = reserve(fd, 0, size);
  hooks::step("open.reserved");
  map_header h{};
  fill(h);
  if (e == 0) e = write_at(fd, &h, sizeof h, 0);
  if (e != 0) (void)sys::ftruncate(fd, 0); // no other user has it open
  return e;
}

int detail::memory_map_base::state::map_it() noexcept {
  std::size_t const size = layout::file_size(p_.slots);
  auto const r =
      sys::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, map_file.fd(), 0);
  if (r < 0 && r > -4096) return static_cast<int>(r);
  auto* const bytes = reinterpret_cast<std::byte*>(r);
  ::madvise(bytes, size, MADV_DONTFORK); // a child must not use it
  header = reinterpret_cast<map_header*>(bytes);
  users = reinterpret_cast<map_user*>(bytes + layout::users_at);
  slots = reinterpret_cast<map_slot*>(bytes + layout::slots_at);
  slot_notes = reinterpret_cast<map_notes*>(bytes + layout::notes_at(p_.slots));
  return 0;
}

// Takes a number whose byte is free. What its last user left behind is recovered first, as after a death:
// guards may have been released for good.
int detail::memory_map_base::state::take_number() noexcept {
  for (std::uint64_t n = 1; n <= layout::users; ++n) {
    int const e = byte_lock::try_lock(file.fd(), layout::user_bytes + n, lock_kind::exclusive);
    if (e == -EAGAIN) continue;
    if (e != 0) return e;
    me = n;
    map.be(n);
    hooks::step("open.has_number");
    map.recover_slots(n);
    users[n - 1].pid = static_cast<std::uint32_t>(::getpid());
    users[n - 1].in_use.store(1, std::memory_order_release);
    return 0;
  }
  return native(error::too_many_users);
}

// Makes all users change over. They need not answer: each looks at the epoch after locking in the map.
int detail::memory_map_base::state::degrade() noexcept {
  std::uint64_t const odd = 1;
  if (int const e = write_at(map_file.fd(), &odd, sizeof odd, offsetof(map_header, epoch)); e != 0) return e;
  auto const r = sys::uninterrupted([&] { return sys::fdatasync(map_file.fd()); }); // to the server
  return r < 0 ? static_cast<int>(r) : 0;
}

// The tests' hooks are in the slow path.
detail::quick_map detail::memory_map_base::state::quick() const noexcept {
  if (!sees_map || hooks::are_compiled) return {};
  return {.slots = slots,
          .epoch = &header->epoch,
          .me = {.number = me, .generation = generation, .forks = &sys::fork_count}};
}

void detail::memory_map_base::state::close() noexcept {
  bool const inherited = file.is_inherited();
  if (header != nullptr && !inherited) {
    // All guards are gone, so nothing is held.
    if (me != 0) users[me - 1].in_use.store(0, std::memory_order_release);
    hooks::step("close.not_in_use");
    (void)sys::munmap(header, layout::file_size(p_.slots));
  }
  header = nullptr;
  more.close(inherited);
  map_file.close();
  file.close(); // and releases all its locks
}

// ── degraded ───────────────────────────────────────────────────────────────────────────────────────────────

// The kernel lock of each slot, and under it the map's: a user that holds the latter has held it since before
// the epoch changed. A user that sees the map also notes there what it holds, so that its death is reported.
int detail::memory_map_base::state::lock_in_kernel(holding& held, waiting how, unsigned spins) noexcept {
  int const fd = more.take(file);
  if (fd < 0) return fd;
  int e = 0;
  bool noted = false;
  entity* const first = held.entities.begin();
  entity* const last = held.entities.end();
  entity* at = first;
  for (; at != last; ++at) {
    lock_kind const kind = at->exclusive ? lock_kind::exclusive : lock_kind::shared;
    e = byte_lock::lock_until(fd, layout::slot_bytes + at->value, kind, how);
    hooks::step("lock.byte");
    if (e == 0) e = sees_map ? map.lock_slot(*at, how, spins, noted) : await_map(*at, how, held);
    if (e != 0) break;
    hooks::step("lock.slot");
  }
  if (e != 0) {
    while (sees_map && at != first) map.release(*--at);
    byte_lock::unlock_all(fd);
    more.give_back(fd);
    held.owner_died = false;
    return e;
  }
  held.words[0] = static_cast<std::uint64_t>(fd) + 1;
  if (sees_map) map.granted(held, noted);
  return 0;
}

// Taking a lock makes NFS ask the server again (nfs(5), "Using file locks with NFS"); FUSE needs an explicit
// request. It is held during that: the pages that another process here has asked for, which may be older, are
// not dropped.
int detail::memory_map_base::state::read_from_afar(void* to, std::size_t n, std::uint64_t at) noexcept {
  if (int const e = byte_lock::lock(map_file.fd(), layout::sync_byte, lock_kind::exclusive); e != 0) return e;
  int e = map_file.refresh();
  if (e == 0) e = read_at(map_file.fd(), to, n, at);
  byte_lock::unlock(map_file.fd(), layout::sync_byte);
  return e;
}

// A holder of the slot in the map has held it since before the epoch changed. This user cannot write there,
// so the note of a death stays for a user that can.
int detail::memory_map_base::state::await_map(entity e, waiting how, holding& held) noexcept {
  pause wait(how);
  for (;;) {
    std::uint64_t seen[sizeof(map_slot) / sizeof(std::uint64_t)];
    if (int const r = read_from_afar(seen, sizeof seen, layout::slots_at + e.value * sizeof(map_slot));
        r != 0)
      return r;
    int in_the_way = 0;
    std::uint64_t const word = seen[offsetof(map_slot, word) / sizeof(std::uint64_t)];
    bool noted = (word & died_bit) != 0; // found by another user already
    std::uint64_t owned_by_dead = 0;
    auto const look_at_user = [&](std::uint64_t user, bool owns) {
      int const alive = is_alive(user);
      if (alive < 0 || alive == 1) in_the_way = alive;
      if (alive == 0 && owns) owned_by_dead = seen[offsetof(map_slot, held) / sizeof(std::uint64_t)];
    };
    if (owner_of(word) != 0) look_at_user(owner_of(word), true);
    if (told_of(word) != 0) {
      int const alive = is_alive(told_of(word));
      if (alive < 0) return alive;
      noted |= alive == 0;
    }
    constexpr std::size_t first_readers = offsetof(map_slot, readers) / sizeof(std::uint64_t);
    for (std::size_t part = 0; e.exclusive && part != layout::users / 64 && in_the_way == 0; ++part)
      for (std::uint64_t bits = seen[first_readers + part]; bits != 0 && in_the_way == 0; bits &= bits - 1)
        look_at_user(part * 64 + static_cast<unsigned>(__builtin_ctzll(bits)) + 1, false);
    if (in_the_way < 0) return in_the_way;
    if (in_the_way == 0) {
      if ((word & noted_bit) != 0 || owned_by_dead != 0) {
        int const r = has_note(e.value, owned_by_dead, held.entities);
        if (r < 0) return r;
        noted |= r == 1;
      }
      held.owner_died |= noted;
      return 0;
    }
    if (int const stop = wait.next(); stop != 0) return stop;
  }
}

// Whether there is a note of one of the entities asked for, or a dead owner of the slot, who noted `owned`,
// has one of them. 1, 0 or a negative native code.
int detail::memory_map_base::state::has_note(std::size_t index, std::uint64_t owned,
                                             detail::entity_list const& entities) noexcept {
  constexpr std::size_t words = sizeof(map_notes) / sizeof(std::uint64_t);
  constexpr std::size_t more_at = offsetof(map_notes, more) / sizeof(std::uint64_t);
  constexpr std::size_t dead_at = offsetof(map_notes, dead) / sizeof(std::uint64_t);
  constexpr std::size_t told_at = offsetof(map_notes, told_of) / sizeof(std::uint64_t);
  std::uint64_t seen[words];
  if (int const r = read_from_afar(seen, sizeof seen, layout::notes_at(p_.slots) + index * sizeof(map_notes));
      r != 0)
    return r;
  auto const is_wanted = [&](std::uint64_t note) {
    return std::ranges::any_of(entities.asked(), [&](entity e) { return layout::note_of(e.value) == note; });
  };
  if (is_wanted(owned)) return 1;
  for (std::size_t i = more_at; owned != 0 && i != dead_at; ++i)
    if (seen[i] == layout::any_entity || is_wanted(seen[i])) return 1;
  for (std::size_t i = dead_at; i != words; ++i) {
    if (!is_wanted(seen[i])) continue;
    std::uint64_t const user = layout::teller_of(seen[told_at], i - dead_at);
    int const alive = user != 0 ? is_alive(user) : 0;
    if (alive < 0) return alive;
    if (alive == 0) return 1;
  }
  return 0;
}

// ── locking ────────────────────────────────────────────────────────────────────────────────────────────────

int detail::memory_map_base::state::lock(holding& held, waiting how, unsigned spins) noexcept {
  if (is_inherited()) [[unlikely]]
    return native(error::inherited_by_fork);
  if (sees_map && !map.epoch_is_odd()) {
    int const e = map.lock(held, how, spins);
    if (e != map_protocol::degraded_meanwhile) return e;
    hooks::step("lock.degraded_meanwhile");
  }
  return lock_in_kernel(held, how, spins);
}

void detail::memory_map_base::state::unlock(holding& held) noexcept {
  if (is_inherited()) [[unlikely]]
    return;
  if (sees_map) map.unlock(held);
  if (held.words[0] == 0) [[likely]]
    return;
  int const fd = static_cast<int>(held.words[0] - 1);
  byte_lock::unlock_all(fd);
  more.give_back(fd);
}

namespace detail {

memory_map_base::memory_map_base(memory_map_base&& other) noexcept
    : state_(std::move(other.state_)), quick_(std::exchange(other.quick_, {})) {}
memory_map_base& memory_map_base::operator=(memory_map_base&& other) noexcept {
  state_ = std::move(other.state_);
  quick_ = std::exchange(other.quick_, {});
  return *this;
}
memory_map_base::memory_map_base() noexcept = default;
memory_map_base::~memory_map_base() = default;

bool memory_map_base::is_degraded() const noexcept { return state_->is_degraded(); }

int memory_map_base::open(path_handle const& base, path_view name, parameters p, map_visibility v,
                          deadline d) noexcept {
  state_.reset(new (std::nothrow) state);
  if (state_ == nullptr) return -ENOMEM;
  if (int const e = state_->open(base, name, p, v, waiting_for(d)); e != 0) return e;
  quick_ = state_->quick();
  return 0;
}

int memory_map_base::lock_slots(holding& held, waiting how, unsigned spins) noexcept {
  held.entities.canonicalize();
  return state_->lock(held, how, spins);
}

void memory_map_base::lock_slots(result<entities_guard>& r, int failed, deadline d, bool spin,
                                 unsigned spins) noexcept {
  holding& held = r->held_;
  if (failed == 0 && held.entities.empty()) return;
  if (failed == 0) failed = lock_slots(held, waiting_for(d, spin), spins);
  if (failed == 0) {
    r->mutex_ = this;
  } else {
    r = unio::detail::failed(failed, "lock");
  }
}

void memory_map_base::do_unlock(holding& held) noexcept { state_->unlock(held); }

void memory_map_base::disown(std::size_t slot) noexcept { state_->disown(slot); }

} // namespace detail
} // namespace unio::fs
