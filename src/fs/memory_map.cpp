// memory_map: locks in a map that all users share, which survive the death of any of them.
//
// A slot's word:    owner (16 bits: the number of a user, 0: nobody)
//                   waiting   somebody sleeps on `turn`
//                   reserved  let go for one of those that have slept; others wait
//                   died      an owner died; told to the next owner
//                   told      (16 bits) the number of one who shares the slot and was told; if it dies so must be told the next
// and a bit for each user in `readers`, set while one or more of its threads share the slot.
//
//   to own      word: nobody ──CAS──► me; then wait until no bit in `readers` is set
//   to share    set my bit; if the word has an owner, clear it again and wait
//
// Both orders are sequentially consistent, so that one of the two sees the other (Dekker). The state of the slot
// says who owns and who shares it at every moment between two instructions: that is what makes it recoverable. A count of
// readers would not be: who dies between counting and noting leaves it wrong.
//
// A user lives as long as it holds the lock on its byte (user_bytes + number); the kernel lets go of that, whatever becomes of the process. Who
// has waited for 2 … 50 ms asks whether the owner lives, and if not takes its byte and undoes all it held. That is
// idempotent: each word is changed by one atomic operation that depends on the dead number alone, and the number is free for
// others only after the last.
//
// Degrading. A user that cannot see the map makes the epoch odd (in the file). Who has locked slots looks at the epoch afterwards, and
// lets go again if it is odd; so who has the kernel's lock of a slot has only to wait for those that looked before.
// From then on nobody locks in the map without that. The epoch becomes even when somebody opens the file alone.

#include "fs/hooks.hpp"
#include "fs/lock_file.hpp"
#include "fs/map_layout.hpp"
#include "sys/fork.hpp"

#include <unio/fs/memory_map.hpp>

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <ctime>
#include <new>
#include <optional>

namespace unio::fs {

namespace layout = map_layout;
using layout::has_readers;
using layout::map_header;
using layout::map_slot;
using layout::map_user;

namespace {

constexpr std::uint64_t owner_mask = 0xffff;
constexpr std::uint64_t waiting_bit = 1u << 16;
constexpr std::uint64_t reserved_bit = 1u << 17;
constexpr std::uint64_t died_bit = 1u << 18;
constexpr unsigned told_shift = 32;
constexpr std::uint64_t told_mask = owner_mask << told_shift;
constexpr std::uint64_t kept_mask = died_bit | told_mask; // whoever owns it

constexpr std::int64_t first_probe_ns = 2'000'000;
constexpr std::int64_t last_probe_ns = 50'000'000;
constexpr std::uint64_t fair_after_ns = 200'000;
constexpr std::uint64_t reserved_for_ns = 20'000'000; // long enough to be given a processor

constexpr std::uint64_t owner_of(std::uint64_t word) noexcept { return word & owner_mask; }

constexpr std::uint64_t told_of(std::uint64_t word) noexcept { return (word & told_mask) >> told_shift; }

void relax() noexcept {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Not FUTEX_PRIVATE_FLAG: others map the same file. What goes wrong (a signal, another value) is another look.
void sleep_on(std::atomic<std::uint32_t>& word, std::uint32_t seen, std::int64_t until_ns) noexcept {
  timespec const t{.tv_sec = until_ns / 1'000'000'000, .tv_nsec = until_ns % 1'000'000'000};
  (void)sys::futex(reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAIT_BITSET, seen,
                   &t); // an absolute time, monotonic
}

// True if somebody slept.
bool wake(std::atomic<std::uint32_t>& word, int how_many) noexcept {
  word.fetch_add(1, std::memory_order_seq_cst); // pairs with the load before sleep_on()
  return sys::futex(reinterpret_cast<std::uint32_t*>(&word), FUTEX_WAKE, static_cast<std::uint32_t>(how_many),
                    nullptr) > 0;
}

// Of one user's threads: how many share a slot. The top bit is a lock for the few instructions that change bit and count together.
class sharers {
 public:
  void lock() noexcept {
    for (unsigned n = 0; (count_.fetch_or(busy, std::memory_order_acquire) & busy) != 0; ++n) {
      if (n % 64 == 63) sys::sched_yield();
      relax();
    }
  }
  void unlock(std::uint32_t count) noexcept { count_.store(count, std::memory_order_release); }
  [[nodiscard]] std::uint32_t count() const noexcept {
    return count_.load(std::memory_order_relaxed) & ~busy;
  }

 private:
  static constexpr std::uint32_t busy = 1u << 31;
  std::atomic<std::uint32_t> count_{0};
};

// How long somebody has waited, and what is next.
class wait_state {
 public:
  wait_state(detail::waiting how, unsigned spins) noexcept : how_(how), spins_(spins) {}

  [[nodiscard]] bool has_slept() const noexcept { return has_slept_; }
  /// True: look again at once, it costs little.
  bool spin() noexcept {
    if (how_.never()) return false;
    if (how_.spin) {
      if (++spun_ % 4096 == 0) return false; // time to look at the clock
      if (spun_ % 256 == 0) sys::sched_yield();
    } else if (++spun_ > spins_) {
      return false;
    }
    relax();
    return true;
  }
  [[nodiscard]] bool sleeps() const noexcept { return !how_.spin; }
  /// When to look whether the owner lives, or the deadline, whichever is first.
  std::int64_t next_look() noexcept {
    std::int64_t const at = sys::steady_now() + probe_ns_;
    return std::min(at, how_.due_ns);
  }
  void slept() noexcept { has_slept_ = true; }
  /// True once per interval, or in the end.
  bool wants_probe(std::int64_t look_at) noexcept {
    if (!how_.spin && sys::steady_now() < look_at) return false;
    probe_ns_ = std::min(probe_ns_ * 2, last_probe_ns);
    return true;
  }
  /// 0, or why to give up.
  [[nodiscard]] int over() const noexcept {
    if (how_.never()) return -EAGAIN;
    return how_.due_ns != deadline::forever && sys::steady_now() >= how_.due_ns ? -ETIMEDOUT : 0;
  }

 private:
  detail::waiting how_;
  unsigned spins_;
  unsigned spun_ = 0;
  bool has_slept_ = false;
  std::int64_t probe_ns_ = first_probe_ns;
};

} // namespace

// ── the state of a user ────────────────────────────────────────────────────────────────────────────────────

struct detail::memory_map_base::state {
  state() = default;
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state() { close(); }

  int open(path_handle const& base, path_view name, parameters p, map_visibility v) noexcept;

  int lock(holding& held, waiting how, unsigned spins) noexcept;
  void unlock(holding& held) noexcept;
  void disown(std::size_t slot) noexcept { disown(slots[slot]); }
  [[nodiscard]] quick_map quick() const noexcept;
  [[nodiscard]] bool is_inherited() const noexcept { return generation != sys::fork_generation(); }
  [[nodiscard]] bool is_degraded() const noexcept { return !sees_map || epoch_is_odd(); }

 private:
  // opening and closing
  int check_header(struct stat const& s, bool alone, bool& fresh) noexcept;
  int check_unfinished(bool& fresh) noexcept;
  int make_map(bool fresh) noexcept;
  int map_it() noexcept;
  int take_number() noexcept;
  int degrade() noexcept;
  void close() noexcept;

  // recovering
  int is_alive(std::uint64_t user) noexcept;
  int recover(std::uint64_t user) noexcept;
  void recover_slots(std::uint64_t user) noexcept;
  void recover_all() noexcept;
  int probe(map_slot& s, bool also_readers) noexcept;

  // in the map
  [[nodiscard]] bool epoch_is_odd() const noexcept { return layout::is_odd(header->epoch); }
  // What is reserved is for those that have slept, and for everybody if none of them takes it in time: it may have been killed.
  static bool is_free(map_slot const& s, std::uint64_t word, wait_state const& w) noexcept {
    if (owner_of(word) != 0) return false;
    return (word & reserved_bit) == 0 || w.has_slept() ||
           static_cast<std::uint64_t>(sys::steady_now()) >=
               s.fair_at_ns.load(std::memory_order_relaxed) + reserved_for_ns;
  }
  int lock_in_map(holding& held, waiting how, unsigned spins) noexcept;
  int lock_slot(entity e, waiting how, unsigned spins, bool& noted) noexcept;
  int own(map_slot& s, waiting how, unsigned spins, bool& noted) noexcept;
  int own_slowly(map_slot& s, waiting how, unsigned spins, bool& noted) noexcept;
  int drain(map_slot& s, wait_state& w) noexcept;
  void disown(map_slot& s) noexcept;
  void disown_slowly(map_slot& s) noexcept;
  int share(std::size_t i, waiting how, unsigned spins, bool& noted) noexcept;
  bool try_share(std::size_t i, wait_state const& w, bool& noted) noexcept;
  void unshare(std::size_t i) noexcept;
  void release(entity e) noexcept;
  int await_release(map_slot& s, wait_state& w) noexcept;
  bool take_notes(entity_list const& entities) noexcept;
  void forget_told(map_slot& s) noexcept;

  // degraded
  int lock_in_kernel(holding& held, waiting how, unsigned spins) noexcept;
  int await_map(entity e, waiting how, bool& died) noexcept;
  int read_from_afar(void* to, std::size_t n, std::uint64_t at) noexcept;

  lock_file file;
  descriptions more;
  parameters p_{};
  bool sees_map = false;
  unsigned generation = sys::fork_generation();
  std::uint64_t me = 0; // my number, 1 …
  map_header* header = nullptr;
  map_user* users = nullptr;
  map_slot* slots = nullptr;
  std::unique_ptr<sharers[]> sharing;
};

// ── opening ────────────────────────────────────────────────────────────────────────────────────────────────

namespace {

bool is_zero(void const* data, std::size_t n) noexcept {
  auto const* const bytes = static_cast<unsigned char const*>(data);
  return std::all_of(bytes, bytes + n, [](unsigned char b) { return b == 0; });
}

} // namespace

int detail::memory_map_base::state::open(path_handle const& base, path_view name, parameters p,
                                         map_visibility v) noexcept {
  p_ = p;
  bool alone = false;
  result<lock_file> f = lock_file::join(base, name, layout::init_byte, layout::in_use_byte, alone);
  if (!f) return native_of(f.error());
  file = std::move(*f);
  sees_map = !file.is_remote() && v == map_visibility::automatic;

  struct stat s;
  if (auto const r = sys::fstat(file.fd(), &s); r < 0) return static_cast<int>(r);
  bool fresh = false;
  int e = check_header(s, alone, fresh);
  if (e != 0) return e;
  if (fresh && !alone) return unio::detail::native(error::damaged_lock_file);
  if (alone) {
    if (e = make_map(fresh); e != 0) return e;
  }
  hooks::step("open.map_made");
  if (sees_map) {
    if (e = map_it(); e != 0) return e;
    if (alone) recover_all();
    if (e = take_number(); e != 0) return e;
    hooks::step("open.numbered");
  } else if (e = degrade(); e != 0) {
    return e; // it has no number: nobody could recover for it what it cannot write
  }
  sharing.reset(new (std::nothrow) sharers[p_.slots]);
  if (sharing == nullptr) return -ENOMEM;
  return file.joined(layout::init_byte, layout::in_use_byte);
}

// Believes nothing before it has looked at all of it.
int detail::memory_map_base::state::check_header(struct stat const& s, bool alone, bool& fresh) noexcept {
  fresh = s.st_size == 0;
  if (fresh) return 0;
  if (static_cast<std::size_t>(s.st_size) < sizeof(map_header))
    return unio::detail::native(error::not_a_lock_file);
  alignas(map_header) unsigned char bytes[sizeof(map_header)];
  if (int const e = read_at(file.fd(), bytes, sizeof bytes, 0); e != 0) return e;
  auto const& h = *reinterpret_cast<map_header const*>(bytes);
  if (is_zero(bytes, sizeof bytes) && static_cast<std::size_t>(s.st_size) == layout::file_size(p_.slots))
    return check_unfinished(fresh);
  if (int const e = check_magic(h.magic, layout::magic); e != 0) return e;
  if (h.version > layout::version) return unio::detail::native(error::newer_lock_file);
  if (h.version != layout::version || h.users != layout::users || h.slot_size != sizeof(map_slot))
    return unio::detail::native(error::damaged_lock_file);
  if (h.slots != p_.slots || h.hash_id != p_.hash_id) return unio::detail::native(error::different_lock_file);
  if (static_cast<std::size_t>(s.st_size) < layout::file_size(p_.slots))
    return unio::detail::native(error::damaged_lock_file);
  // Another file's contents, or this file's from before a restart that gave the device another number. Whoever has it open has seen to
  // that; and the numbers of devices are each machine's own.
  bool const is_its_device = h.device == s.st_dev || h.device == layout::any_device || file.is_remote();
  if (alone && !(is_its_device && h.inode == s.st_ino)) fresh = true;
  return 0;
}

// Nothing but zeros: who made it died before it had written the header.
int detail::memory_map_base::state::check_unfinished(bool& fresh) noexcept {
  unsigned char some[layout::users_at];
  std::size_t const size = layout::file_size(p_.slots);
  for (std::size_t at = 0; at < size; at += sizeof some) {
    std::size_t const n = std::min(sizeof some, size - at);
    if (int const e = read_at(file.fd(), some, n, at); e != 0) return e;
    if (!is_zero(some, n)) return unio::detail::native(error::not_a_lock_file);
  }
  fresh = true;
  return 0;
}

// Nobody else has it open. What users of before held is recovered as after any death, so that the next owners are told.
int detail::memory_map_base::state::make_map(bool fresh) noexcept {
  int const fd = file.fd();
  if (fresh) {
    if (auto const r = sys::ftruncate(fd, 0); r < 0) return static_cast<int>(r);
    // All of its size at once: who finds it empty or all zeros knows that it was not finished.
    if (auto const r = sys::ftruncate(fd, static_cast<std::int64_t>(layout::file_size(p_.slots))); r < 0)
      return static_cast<int>(r);
    if (int const e = reserve(fd, 0, layout::file_size(p_.slots)); e != 0) {
      (void)sys::ftruncate(fd, 0);
      return e;
    }
    hooks::step("open.reserved");
    map_header h{};
    std::memcpy(h.magic, layout::magic, sizeof h.magic);
    h.version = layout::version;
    h.slots = p_.slots;
    h.users = layout::users;
    h.slot_size = sizeof(map_slot);
    h.hash_id = p_.hash_id;
    h.device = file.is_remote() ? layout::any_device : file.device();
    h.inode = file.inode();
    int const e = write_at(fd, &h, sizeof h, 0);
    if (e != 0) (void)sys::ftruncate(fd, 0); // what there is of it would be damaged
    return e;
  }
  // Alone, so whatever made the others degrade has gone.
  std::uint64_t const even = 0;
  return sees_map ? write_at(fd, &even, sizeof even, offsetof(map_header, epoch)) : 0;
}

int detail::memory_map_base::state::map_it() noexcept {
  std::size_t const size = layout::file_size(p_.slots);
  auto const r = sys::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.fd(), 0);
  if (r < 0 && r > -4096) return static_cast<int>(r);
  auto* const bytes = reinterpret_cast<std::byte*>(r);
  ::madvise(bytes, size, MADV_DONTFORK); // a child has nothing of it
  header = reinterpret_cast<map_header*>(bytes);
  users = reinterpret_cast<map_user*>(bytes + layout::users_at);
  slots = reinterpret_cast<map_slot*>(bytes + layout::slots_at);
  return 0;
}

// A number whose byte nobody holds. What its last user left behind is recovered first, as after a death: guards may have been
// released for good.
int detail::memory_map_base::state::take_number() noexcept {
  for (std::uint64_t n = 1; n <= layout::users; ++n) {
    int const e = byte_lock::try_lock(file.fd(), layout::user_bytes + n, lock_kind::exclusive);
    if (e == -EAGAIN) continue;
    if (e != 0) return e;
    me = n;
    hooks::step("open.has_number");
    recover_slots(n);
    users[n - 1].pid = static_cast<std::uint32_t>(::getpid());
    users[n - 1].in_use.store(1, std::memory_order_release);
    return 0;
  }
  return unio::detail::native(error::too_many_users);
}

// Makes everybody change over. Nobody is asked: who locked in the map looks at the epoch afterwards.
int detail::memory_map_base::state::degrade() noexcept {
  std::uint64_t const odd = 1;
  if (int const e = write_at(file.fd(), &odd, sizeof odd, offsetof(map_header, epoch)); e != 0) return e;
  auto const r = sys::fdatasync(file.fd()); // to the server, where others see it
  return r < 0 ? static_cast<int>(r) : 0;
}

// The tests' hooks are in the long way.
detail::quick_map detail::memory_map_base::state::quick() const noexcept {
  if (!sees_map || hooks::are_compiled) return {};
  return {.slots = slots,
          .epoch = &header->epoch,
          .me = {.number = me, .generation = generation, .forks = &sys::fork_count}};
}

void detail::memory_map_base::state::close() noexcept {
  bool const inherited = file.is_inherited();
  if (header != nullptr && !inherited) {
    // All guards have gone, so nothing is held.
    if (me != 0) users[me - 1].in_use.store(0, std::memory_order_release);
    hooks::step("close.not_in_use");
    (void)sys::munmap(header, layout::file_size(p_.slots));
  }
  header = nullptr;
  more.close(inherited);
  file.close(); // and with it all its locks
}

// ── recovering ─────────────────────────────────────────────────────────────────────────────────────────────

// 1, 0 or a negative errno.
int detail::memory_map_base::state::is_alive(std::uint64_t user) noexcept {
  if (user == me) return 1; // its own locks do not show
  if (user > layout::users) return unio::detail::native(error::damaged_lock_file);
  if (hooks::defect("stolen")) return 0; // takes who is slow for dead
  return byte_lock::is_locked(file.fd(), layout::user_bytes + user);
}

void detail::memory_map_base::state::recover_slots(std::uint64_t user) noexcept {
  std::uint64_t const bit = std::uint64_t{1} << ((user - 1) % 64);
  std::size_t const part = (user - 1) / 64;
  for (std::size_t i = 0; i != p_.slots; ++i) {
    map_slot& s = slots[i];
    std::uint64_t word = s.word.load(std::memory_order_seq_cst);
    while (owner_of(word) == user) {
      // Whoever waits finds it free, and is told.
      std::uint64_t const next = hooks::defect("untold") ? 0 : died_bit | (word & told_mask);
      if (s.word.compare_exchange_weak(word, next, std::memory_order_seq_cst)) {
        hooks::step("recover.word");
        wake(s.turn, INT_MAX);
      }
    }
    while (told_of(word) == user) {
      if (s.word.compare_exchange_weak(word, (word & ~told_mask) | died_bit, std::memory_order_seq_cst))
        hooks::step("recover.told");
    }
    if ((s.readers[part].load(std::memory_order_relaxed) & bit) != 0 && !hooks::defect("L13")) {
      s.readers[part].fetch_and(~bit, std::memory_order_seq_cst);
      hooks::step("recover.reader");
      wake(s.drain, INT_MAX);
    }
  }
  users[user - 1].in_use.store(0, std::memory_order_release);
}

// Nobody else has it open: none of those that are noted lives, and nobody sleeps. What is no number of a user is undone, too,
// and times of before a restart.
void detail::memory_map_base::state::recover_all() noexcept {
  for (std::size_t i = 0; i != p_.slots; ++i) {
    map_slot& s = slots[i];
    std::uint64_t const word = s.word.load(std::memory_order_relaxed);
    std::uint64_t const left = (word & (owner_mask | kept_mask)) != 0 ? died_bit : 0;
    if (word != left) s.word.store(left, std::memory_order_seq_cst);
    hooks::step("recover.all");
    for (std::atomic<std::uint64_t>& bits : s.readers)
      if (bits.load(std::memory_order_relaxed) != 0) bits.store(0, std::memory_order_seq_cst);
    if (s.fair_at_ns.load(std::memory_order_relaxed) != 0) s.fair_at_ns.store(0, std::memory_order_seq_cst);
  }
  for (std::uint64_t n = 0; n != layout::users; ++n) users[n].in_use.store(0, std::memory_order_release);
}

// Undoes what a user held that does not live. 0; -EAGAIN: it lives, or somebody else is at it; another negative errno. Does not wait:
// whoever is at it may have been stopped.
int detail::memory_map_base::state::recover(std::uint64_t user) noexcept {
  int const fd = more.take(file);
  if (fd < 0) return fd;
  int e = 0;
  // Holding its byte: nobody else recovers it, or takes the number meanwhile.
  if (!hooks::defect("stolen")) e = byte_lock::try_lock(fd, layout::user_bytes + user, lock_kind::exclusive);
  if (e == 0) {
    hooks::step("recover.dead");
    recover_slots(user);
    hooks::step("recover.done");
  }
  byte_lock::unlock_all(fd);
  more.give_back(fd);
  return e;
}

// Is the slot held by somebody who died? 1: was, look again; 0: no; negative: an errno.
int detail::memory_map_base::state::probe(map_slot& s, bool also_readers) noexcept {
  int recovered = 0;
  auto const look_after = [&](std::uint64_t user) {
    int const alive = is_alive(user);
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
    for (std::uint64_t bits = s.readers[part].load(std::memory_order_seq_cst); bits != 0; bits &= bits - 1) {
      auto const user = part * 64 + static_cast<unsigned>(__builtin_ctzll(bits)) + 1;
      if (int const e = look_after(user); e != 0) return e;
    }
  }
  return recovered;
}

// ── in the map ─────────────────────────────────────────────────────────────────────────────────────────────

inline int detail::memory_map_base::state::own(map_slot& s, waiting how, unsigned spins,
                                               bool& noted) noexcept {
  std::uint64_t nobody = 0;
  if (!s.word.compare_exchange_strong(nobody, me, std::memory_order_seq_cst)) [[unlikely]]
    return own_slowly(s, how, spins, noted);
  if (!has_readers(s)) [[likely]]
    return 0;
  wait_state w(how, spins);
  int const e = drain(s, w);
  noted |= (s.word.load(std::memory_order_relaxed) & died_bit) != 0; // of one that was told and shared it
  return e;
}

int detail::memory_map_base::state::own_slowly(map_slot& s, waiting how, unsigned spins,
                                               bool& noted) noexcept {
  wait_state w(how, spins);
  for (;;) {
    std::uint64_t word = s.word.load(std::memory_order_seq_cst);
    if (!is_free(s, word, w)) {
      if (int const e = await_release(s, w); e != 0) return e;
      continue;
    }
    // Who was woken cannot know whether others sleep still.
    std::uint64_t const next = me | (word & (kept_mask | waiting_bit)) | (w.has_slept() ? waiting_bit : 0);
    if (!s.word.compare_exchange_weak(word, next, std::memory_order_seq_cst)) continue;
    break;
  }
  hooks::step("own.before_readers");
  int const e = drain(s, w);
  noted |= (s.word.load(std::memory_order_relaxed) & died_bit) != 0;
  return e;
}

// The word is mine: waits until nobody shares it any more. If that fails it is nobody's again.
int detail::memory_map_base::state::drain(map_slot& s, wait_state& w) noexcept {
  while (has_readers(s)) {
    if (w.spin()) continue;
    int stop = w.over();
    std::int64_t const look_at = w.next_look();
    if (stop == 0 && w.sleeps()) {
      std::uint32_t const seen = s.drain.load(std::memory_order_seq_cst);
      if (!has_readers(s)) break;
      sleep_on(s.drain, seen, look_at);
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

inline void detail::memory_map_base::state::disown(map_slot& s) noexcept {
  std::uint64_t mine = me;
  if (!s.word.compare_exchange_strong(mine, 0, std::memory_order_seq_cst)) [[unlikely]]
    disown_slowly(s);
}

// Somebody sleeps for it, or there is a note for the next owner.
void detail::memory_map_base::state::disown_slowly(map_slot& s) noexcept {
  std::uint64_t word = s.word.load(std::memory_order_seq_cst);
  bool someone_sleeps = false;
  bool reserves = false;
  std::uint64_t const now = static_cast<std::uint64_t>(sys::steady_now());
  bool const is_due = now >= s.fair_at_ns.load(std::memory_order_relaxed);
  do {
    someone_sleeps = (word & waiting_bit) != 0;
    reserves = someone_sleeps && is_due;
    if (reserves) s.fair_at_ns.store(now + fair_after_ns, std::memory_order_relaxed);
  } while (!s.word.compare_exchange_weak(word, (word & kept_mask) | (reserves ? reserved_bit : 0),
                                         std::memory_order_seq_cst));
  hooks::step("disown.before_wake");
  if (!someone_sleeps) return;
  bool const woken = wake(s.turn, 1);
  if (!reserves || woken) return;
  // Nobody was there to take it: for everybody again, and for who began to sleep because of it.
  word = s.word.load(std::memory_order_seq_cst);
  while (owner_of(word) == 0 && (word & reserved_bit) != 0) {
    if (!s.word.compare_exchange_weak(word, word & kept_mask, std::memory_order_seq_cst)) continue;
    if ((word & waiting_bit) != 0) wake(s.turn, 1);
    return;
  }
}

// 0: look again; otherwise why to give up.
int detail::memory_map_base::state::await_release(map_slot& s, wait_state& w) noexcept {
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
    hooks::step("await.before_sleep");
    sleep_on(s.turn, seen, look_at);
    w.slept();
    hooks::step("await.woken");
  }
  if (stop == 0 && !w.wants_probe(look_at)) return 0;
  int const recovered = probe(s, false);
  if (recovered == 1) return 0;
  if (stop == 0 && recovered == 0) return 0;
  if (w.has_slept()) wake(s.turn, 1); // it may have been my turn
  return recovered < 0 ? recovered : stop;
}

int detail::memory_map_base::state::share(std::size_t i, waiting how, unsigned spins, bool& noted) noexcept {
  wait_state w(how, spins);
  while (!try_share(i, w, noted)) {
    if (int const e = await_release(slots[i], w); e != 0) return e;
  }
  if (w.has_slept()) wake(slots[i].turn, 1); // the next of those that sleep may share, too
  return 0;
}

bool detail::memory_map_base::state::try_share(std::size_t i, wait_state const& w, bool& noted) noexcept {
  map_slot& s = slots[i];
  sharers& here = sharing[i];
  here.lock();
  std::uint32_t const others = here.count();
  std::uint64_t word = s.word.load(std::memory_order_seq_cst);
  bool got = is_free(s, word, w);
  bool owner_waits = false;
  if (got && others == 0) {
    std::atomic<std::uint64_t>& bits = s.readers[(me - 1) / 64];
    std::uint64_t const bit = std::uint64_t{1} << ((me - 1) % 64);
    hooks::step("share.before_noting");
    bits.fetch_or(bit, std::memory_order_seq_cst);
    hooks::step("share.before_owner");
    if (!hooks::defect("no second look")) word = s.word.load(std::memory_order_seq_cst);
    got = owner_of(word) == 0;
    owner_waits = !got;
    if (!got) bits.fetch_and(~bit, std::memory_order_seq_cst);
  }
  here.unlock(got ? others + 1 : others);
  if (owner_waits) wake(s.drain, 1);
  if (!got) return false;
  noted |= (word & died_bit) != 0;
  // It was let go for one that slept: for this one.
  while (owner_of(word) == 0 && (word & reserved_bit) != 0 &&
         !s.word.compare_exchange_weak(word, word & ~reserved_bit, std::memory_order_seq_cst)) {
  }
  return true;
}

void detail::memory_map_base::state::unshare(std::size_t i) noexcept {
  map_slot& s = slots[i];
  sharers& here = sharing[i];
  here.lock();
  std::uint32_t const left = here.count() - 1;
  bool owner_waits = false;
  if (left == 0) {
    s.readers[(me - 1) / 64].fetch_and(~(std::uint64_t{1} << ((me - 1) % 64)), std::memory_order_seq_cst);
    owner_waits = owner_of(s.word.load(std::memory_order_seq_cst)) != 0;
  }
  here.unlock(left);
  if (owner_waits) wake(s.drain, 1);
}

inline void detail::memory_map_base::state::release(entity e) noexcept {
  if (e.exclusive) {
    disown(slots[e.value]);
  } else {
    unshare(e.value);
  }
}

// Takes the notes of deaths, now that all is granted: they are for one owner each. Who owns the slot is in the word, and noted again if
// it dies; who shares it is put there.
bool detail::memory_map_base::state::take_notes(entity_list const& entities) noexcept {
  bool died = false;
  for (entity const e : entities) {
    map_slot& s = slots[e.value];
    if (hooks::defect("told again")) return true;
    std::uint64_t word = s.word.load(std::memory_order_relaxed);
    std::uint64_t const told = e.exclusive ? 0 : me << told_shift;
    while ((word & died_bit) != 0 && (told == 0 || told_of(word) == 0)) {
      if (!s.word.compare_exchange_weak(word, (word & ~died_bit) | told, std::memory_order_seq_cst)) continue;
      died = true;
      break;
    }
  }
  return died;
}

// Who was told lets go in order.
void detail::memory_map_base::state::forget_told(map_slot& s) noexcept {
  std::uint64_t word = s.word.load(std::memory_order_relaxed);
  while (told_of(word) == me &&
         !s.word.compare_exchange_weak(word, word & ~told_mask, std::memory_order_seq_cst)) {
  }
}

constexpr int degraded_meanwhile = 1;

inline int detail::memory_map_base::state::lock_slot(entity e, waiting how, unsigned spins,
                                                     bool& noted) noexcept {
  return e.exclusive ? own(slots[e.value], how, spins, noted) : share(e.value, how, spins, noted);
}

inline int detail::memory_map_base::state::lock_in_map(holding& held, waiting how, unsigned spins) noexcept {
  bool noted = false;
  entity* const first = held.entities.begin();
  entity* const last = held.entities.end();
  int e = 0;
  entity* at = first;
  for (; at != last; ++at) {
    if (e = lock_slot(*at, how, spins, noted); e != 0) break;
    hooks::step("lock.slot");
  }
  if (e == 0 && epoch_is_odd()) e = degraded_meanwhile;
  if (e != 0) [[unlikely]] {
    while (at != first) release(*--at);
    return e;
  }
  if (noted) [[unlikely]]
    held.owner_died = take_notes(held.entities);
  return 0;
}

// ── degraded ───────────────────────────────────────────────────────────────────────────────────────────────

// The kernel's lock of each slot, and under it the map's: whoever holds that has held it since before the epoch changed. A user that
// sees the map goes on to note there what it holds, so that others are told of its death.
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
    e = byte_lock::lock_until(fd, layout::slot_bytes + at->value, kind, how.due_ns, how.spin);
    hooks::step("lock.byte");
    if (e == 0) e = sees_map ? lock_slot(*at, how, spins, noted) : await_map(*at, how, held.owner_died);
    if (e != 0) break;
    hooks::step("lock.slot");
  }
  if (e != 0) {
    while (sees_map && at != first) release(*--at);
    byte_lock::unlock_all(fd);
    more.give_back(fd);
    held.owner_died = false;
    return e;
  }
  held.words[0] = static_cast<std::uint64_t>(fd) + 1;
  if (noted) held.owner_died = take_notes(held.entities);
  return 0;
}

// A lock taken and given back makes NFS ask the server again (nfs(5), "Using file locks with NFS"); FUSE has to be told.
int detail::memory_map_base::state::read_from_afar(void* to, std::size_t n, std::uint64_t at) noexcept {
  if (int const e = byte_lock::lock(file.fd(), layout::sync_byte, lock_kind::exclusive); e != 0) return e;
  byte_lock::unlock(file.fd(), layout::sync_byte);
  if (int const e = file.refresh(); e != 0) return e;
  return read_at(file.fd(), to, n, at);
}

// Whoever holds the slot in the map has held it since before the epoch changed. This user cannot write there, so the note of a death
// stays for one who can.
int detail::memory_map_base::state::await_map(entity e, waiting how, bool& died) noexcept {
  pause wait(how.due_ns, how.spin);
  for (;;) {
    std::uint64_t seen[sizeof(map_slot) / sizeof(std::uint64_t)];
    if (int const r = read_from_afar(seen, sizeof seen, layout::slots_at + e.value * sizeof(map_slot));
        r != 0)
      return r;
    int in_the_way = 0;
    std::uint64_t const word = seen[offsetof(map_slot, word) / sizeof(std::uint64_t)];
    bool noted = (word & died_bit) != 0; // found by others already
    auto const look_at_user = [&](std::uint64_t user, bool owns) {
      int const alive = is_alive(user);
      if (alive < 0 || alive == 1) in_the_way = alive;
      if (alive == 0 && owns) noted = true;
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
      died |= noted;
      return 0;
    }
    if (int const stop = wait.next(); stop != 0) return stop;
  }
}

// ── locking ────────────────────────────────────────────────────────────────────────────────────────────────

int detail::memory_map_base::state::lock(holding& held, waiting how, unsigned spins) noexcept {
  if (is_inherited()) [[unlikely]]
    return unio::detail::native(error::inherited_by_fork);
  if (sees_map && !epoch_is_odd()) {
    int const e = lock_in_map(held, how, spins);
    if (e != degraded_meanwhile) return e;
    hooks::step("lock.degraded_meanwhile");
  }
  return lock_in_kernel(held, how, spins);
}

void detail::memory_map_base::state::unlock(holding& held) noexcept {
  if (is_inherited()) [[unlikely]]
    return;
  for (std::size_t i = held.entities.size(); sees_map && i != 0; --i) {
    entity const e = held.entities[i - 1];
    if (held.owner_died && !e.exclusive) forget_told(slots[e.value]);
    release(e);
    hooks::step("unlock.slot");
  }
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

int memory_map_base::open(path_handle const& base, path_view name, parameters p, map_visibility v) noexcept {
  state_.reset(new (std::nothrow) state);
  if (state_ == nullptr) return -ENOMEM;
  if (int const e = state_->open(base, name, p, v); e != 0) return e;
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
    r = unio::detail::to_error_code(failed);
  }
}

void memory_map_base::do_unlock(holding& held) noexcept { state_->unlock(held); }

void memory_map_base::disown(std::size_t slot) noexcept { state_->disown(slot); }

} // namespace detail
} // namespace unio::fs
