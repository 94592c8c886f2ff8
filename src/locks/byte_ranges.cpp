// unio::fs::byte_ranges: the lock file, the kernel's locks on its bytes, and the notes that reveal a death.
//
// A note says: an exclusive owner of this entity has not unlocked. It is written after the lock was taken and
// wiped before it is released, so a new owner that finds one has outlived the previous owner. A word changes
// as follows (id: value + 1):
//
// clang-format off
//
//   0         → id          its exclusive owner; by compare-and-swap, as entities share words
//   id        → 0           its exclusive owner unlocks
//   id        → id          a new exclusive owner finds it and gets the report; the note is now its own
//   id        → id | told   a shared owner finds it; the one that wins the compare-and-swap gets the report
//   id | told → 0           that shared owner unlocks
//   id | told → id          an exclusive owner finds it: that shared owner has died, too
//
// clang-format on
//
// Notes are written when all entities of a request are locked. A process that dies earlier has owned nothing
// and leaves the notes of others as they were; so does a request that fails.

#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"
#include "locks/ranges_layout.hpp"
#include "sys/descriptors.hpp"

#include <unio/locks/byte_ranges.hpp>

#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1::fs {

using namespace ranges_layout;

namespace {

std::uint64_t checksum_of(ranges_header const& h) noexcept {
  return entity_of(std::string_view(reinterpret_cast<char const*>(&h), offsetof(ranges_header, checksum)))
      .value;
}

ranges_header our_header() noexcept {
  ranges_header h = {};
  std::memcpy(h.magic, magic, sizeof h.magic);
  h.version = version;
  h.header_size = notes_at;
  h.buckets = 1U << bucket_bits;
  h.words = words_in_bucket;
  h.checksum = checksum_of(h);
  return h;
}

// Checks the first `n` bytes of a file: 0 if it is one of ours.
int check(ranges_header const& h, std::size_t n) noexcept {
  if (n < sizeof h.magic) return native(error::not_a_lock_file);
  if (int const e = check_magic(h.magic, magic); e != 0) return e;
  if (n < sizeof h || h.checksum != checksum_of(h)) return native(error::damaged_lock_file);
  if (h.version > version) return native(error::newer_lock_file);
  ranges_header const ours = our_header();
  return std::memcmp(&h, &ours, sizeof h) == 0 ? 0 : native(error::different_lock_file);
}

// Its length, or 0 if it has nothing yet, and the verdict on its header.
struct contents {
  std::int64_t size = 0;
  int verdict = 0; // as check()
};

int look(lock_file const& file, contents& found) noexcept {
  int const fd = file.fd();
  struct stat s;
  if (int const e = file.status(s); e < 0) return e;
  ranges_header h = {};
  iovec const v{.iov_base = &h, .iov_len = sizeof h};
  auto const n = sys::uninterrupted([&] { return sys::preadv2(fd, &v, 1, 0, 0); });
  if (n < 0) return static_cast<int>(n);
  found = {.size = s.st_size, .verdict = check(h, static_cast<std::size_t>(n))};
  // A power loss came before the header was on the disk.
  if (found.size == sizeof h && n == sizeof h && is_zero(&h, sizeof h)) found.size = 0;
  return 0;
}

// With the lock on `making_byte`. The process may be killed after any step.
int make(lock_file const& file) noexcept {
  int const fd = file.fd();
  contents found;
  if (int const e = look(file, found); e != 0) return e;
  if (found.size == 0) {
    hooks::step("byte_ranges.empty");
    ranges_header const h = our_header();
    if (int const e = write_header(fd, &h, sizeof h, true); e != 0) return e;
    found.size = notes_at;
    hooks::step("byte_ranges.header_written");
  } else if (found.verdict != 0) {
    return found.verdict;
  }
  return found.size > static_cast<std::int64_t>(file_bytes) ? native(error::damaged_lock_file) : 0;
}

constexpr std::uint64_t id_of(entity e) noexcept { return e.value + 1; }
using word = std::atomic_ref<std::uint64_t>;

} // namespace

struct byte_ranges::state {
  ~state() {
    free.close(file.is_inherited());
    if (notes != nullptr) sys::munmap(notes, file_bytes);
  }

  int prepare(detail::waiting how) noexcept;
  int make_notes() noexcept;
  int find_notes(lock_file const& f, bool may_change, bool& are_ours) const noexcept;
  int map(lock_file const& f) noexcept;
  [[nodiscard]] notes_header our_notes() const noexcept;

  // The words that may hold the note of `id`.
  std::span<std::uint64_t, words_in_bucket> bucket(std::uint64_t id) const noexcept {
    constexpr std::uint64_t golden = 0x9e3779b97f4a7c15; // spreads consecutive values
    auto const at = notes_at / sizeof *notes + ((id * golden) >> (64 - bucket_bits)) * words_in_bucket;
    return std::span<std::uint64_t, words_in_bucket>(notes + at, words_in_bucket);
  }
  bool note(entity e) noexcept;
  bool tell(entity e) noexcept;
  void wipe(entity e, std::uint64_t mark) noexcept;

  lock_file file;
  descriptions free;
  std::uint64_t* notes = nullptr; // their whole file, or nullptr on remote filesystems
};

int byte_ranges::state::prepare(detail::waiting how) noexcept {
  int const fd = file.fd();
  contents found;
  if (int const e = look(file, found); e != 0) return e;
  bool is_ready = found.verdict == 0 && found.size <= static_cast<std::int64_t>(file_bytes);
  lock_file beside;
  if (is_ready && !file.is_remote()) {
    // Their maker may not have opened them to this user yet; an error is decided under the lock.
    result<lock_file> f = file.open_beside("notes", nullptr);
    is_ready = f.has_value();
    if (is_ready) {
      beside = std::move(*f);
      if (int const e = find_notes(beside, false, is_ready); e != 0) return e;
    }
  }
  // Locked in any case: on a filesystem without locks, opening has to fail.
  int e = is_ready ? byte_lock::try_lock(fd, making_byte, lock_kind::exclusive)
                   : byte_lock::lock_until(fd, making_byte, lock_kind::exclusive, how);
  bool const is_made_by_others = e == -EAGAIN && is_ready;
  if (e != 0 && !is_made_by_others) return e;
  if (!is_made_by_others) hooks::step("byte_ranges.making");
  if (is_ready) {
    if (!is_made_by_others) byte_lock::unlock_all(fd);
    return file.is_remote() ? 0 : map(beside);
  }
  e = file.refresh();
  if (e == 0) e = make(file);
  if (e == 0 && !file.is_remote()) e = make_notes();
  byte_lock::unlock_all(fd);
  return e;
}

// With the lock on `making_byte`. Notes of another lock file are never changed: that may have been removed,
// and still have users.
int byte_ranges::state::make_notes() noexcept {
  for (int attempts = 0; attempts != 3; ++attempts) {
    bool made = false;
    result<lock_file> f = file.open_beside("notes", &made);
    if (!f) return to_native(f.error());
    if (made) {
      int e = reserve(f->fd(), 0, file_bytes);
      hooks::step("byte_ranges.room_made");
      notes_header const h = our_notes();
      if (e == 0) e = write_at(f->fd(), &h, sizeof h, 0);
      hooks::step("byte_ranges.notes_made");
      if (e == 0) return map(*f);
      (void)sys::ftruncate(f->fd(), 0); // no user maps it
      return e;
    }
    bool are_ours = false;
    if (int const e = find_notes(*f, true, are_ours); e != 0) return e;
    if (are_ours) return map(*f);
    if (int const e = f->remove_name(); e != 0) return e;
    hooks::step("byte_ranges.notes_removed");
  }
  return -EBUSY;
}

notes_header byte_ranges::state::our_notes() const noexcept {
  notes_header h = {};
  std::memcpy(h.magic, notes_magic, sizeof h.magic);
  h.device = file.device();
  h.inode = file.inode();
  h.buckets = 1U << bucket_bits;
  h.words = words_in_bucket;
  return h;
}

// 0, or why it may not be removed. `may_change`: with the lock on `making_byte`.
int byte_ranges::state::find_notes(lock_file const& f, bool may_change, bool& are_ours) const noexcept {
  struct stat s;
  are_ours = false;
  if (auto const e = sys::fstat(f.fd(), &s); e < 0) return static_cast<int>(e);
  int const unfinished = is_unfinished(f.fd(), static_cast<std::uint64_t>(s.st_size), file_bytes);
  if (unfinished != 0) return std::min(unfinished, 0);
  notes_header h = {};
  std::size_t const n = std::min(sizeof h, static_cast<std::size_t>(s.st_size));
  if (int const e = read_at(f.fd(), &h, n, 0); e != 0) return e;
  notes_header const ours = our_notes();
  if (std::memcmp(h.magic, ours.magic, sizeof h.magic) != 0) return native(error::not_a_lock_file);
  if (s.st_size != static_cast<std::int64_t>(file_bytes)) return 0;
  are_ours = std::memcmp(&h, &ours, sizeof h) == 0;
  // The device number may differ after a restart.
  h.device = ours.device;
  bool const are_renumbered =
      !are_ours && may_change && std::memcmp(&h, &ours, sizeof h) == 0 && s.st_dev == file.device();
  if (!are_renumbered) return 0;
  are_ours = true;
  return write_at(f.fd(), &ours.device, sizeof ours.device, offsetof(notes_header, device));
}

int byte_ranges::state::map(lock_file const& f) noexcept {
  auto const at = sys::mmap(nullptr, file_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, f.fd(), 0);
  if (at < 0 && at > -4096) return static_cast<int>(at);
  notes = reinterpret_cast<std::uint64_t*>(at);
  return 0;
}

// Writes the note of an entity held exclusively. Returns whether there was one.
bool byte_ranges::state::note(entity e) noexcept {
  std::uint64_t const id = id_of(e);
  for (std::uint64_t& w : bucket(id)) {
    if ((word(w).load(std::memory_order_acquire) & ~told_bit) != id) continue;
    word(w).store(id, std::memory_order_release);
    return true;
  }
  for (std::uint64_t& w : bucket(id)) {
    std::uint64_t empty = word(w).load(std::memory_order_relaxed);
    // Acquire; pairs with the release in wipe(), usually for the same entity.
    if (empty == 0 && word(w).compare_exchange_strong(empty, id, std::memory_order_acq_rel)) break;
  }
  return false;
}

// Whether there is a note of a shared entity, and this user is the first to find it.
bool byte_ranges::state::tell(entity e) noexcept {
  std::uint64_t const id = id_of(e);
  for (std::uint64_t& w : bucket(id)) {
    std::uint64_t found = word(w).load(std::memory_order_acquire);
    if (found == id) return word(w).compare_exchange_strong(found, id | told_bit, std::memory_order_acq_rel);
  }
  return false;
}

void byte_ranges::state::wipe(entity e, std::uint64_t mark) noexcept {
  for (std::uint64_t& w : bucket(id_of(e))) {
    if (word(w).load(std::memory_order_relaxed) != (id_of(e) | mark)) continue;
    word(w).store(0, std::memory_order_release);
    return;
  }
}

byte_ranges::byte_ranges(std::unique_ptr<state> s) noexcept : state_(std::move(s)) {}
byte_ranges::byte_ranges(byte_ranges&& other) noexcept = default;
byte_ranges& byte_ranges::operator=(byte_ranges&& other) noexcept = default;
byte_ranges::~byte_ranges() = default;

result<byte_ranges> byte_ranges::open(path_handle const& base, path_view name, deadline d) noexcept {
  auto const not_opened = [&](int e) {
    return unio::detail::failed_on(e, "byte_ranges::open", name.c_str(), name.size());
  };
  std::unique_ptr<state> s(new (std::nothrow) state);
  if (s == nullptr) return not_opened(-ENOMEM);
  result<lock_file> file = lock_file::open(base, name, {.beside = "notes"});
  if (!file) return not_opened(unio::detail::to_native(file.error()));
  s->file = std::move(*file);
  if (int const e = s->prepare(detail::waiting_for(d)); e != 0) return not_opened(e);
  return byte_ranges(std::move(s));
}

// held.words: the descriptor; how many shared entities came with a report of a death. They are put first.
int byte_ranges::do_lock(detail::holding& held, detail::waiting how) noexcept {
  state& s = *state_;
  if (s.file.is_inherited()) return native(error::inherited_by_fork);
  detail::entity_list& entities = held.entities;
  entities.canonicalize();
  if (entities[entities.size() - 1].value > greatest_value) return -EINVAL;
  int const fd = s.free.take(s.file);
  if (fd < 0) return fd;
  for (entity const e : entities) {
    hooks::step("byte_ranges.before_lock");
    auto const kind = e.exclusive ? lock_kind::exclusive : lock_kind::shared;
    if (int const code = byte_lock::lock_until(fd, e.value, kind, how); code != 0) {
      byte_lock::unlock_all(fd);
      s.free.give_back(fd);
      return code;
    }
  }
  hooks::step("byte_ranges.locked");
  held.words[0] = static_cast<std::uint64_t>(fd);
  if (s.notes == nullptr) return 0;
  for (std::size_t i = 0; i != entities.size(); ++i) {
    if (entities[i].exclusive) {
      if (s.note(entities[i])) held.owner_died = true;
    } else if (s.tell(entities[i])) {
      held.owner_died = true;
      std::swap(entities[i], entities[held.words[1]++]);
    }
    hooks::step("byte_ranges.noted");
  }
  return 0;
}

void byte_ranges::do_unlock(detail::holding& held) noexcept {
  state& s = *state_;
  if (s.file.is_inherited()) return;
  if (s.notes != nullptr) {
    for (std::size_t i = 0; i != held.entities.size(); ++i) {
      entity const e = held.entities[i];
      if (e.exclusive) {
        s.wipe(e, 0);
      } else if (i < held.words[1]) {
        s.wipe(e, told_bit);
      }
      hooks::step("byte_ranges.wiped");
    }
  }
  auto const fd = static_cast<int>(held.words[0]);
  byte_lock::unlock_all(fd);
  hooks::step("byte_ranges.unlocked");
  s.free.give_back(fd);
}

} // namespace unio::fs
