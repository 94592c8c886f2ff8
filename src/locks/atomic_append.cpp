// atomic_append: a queue in a file.
//
//   ask        lock the byte of a new id; append the record
//   wait       look at the records before it; while one conflicts and is not done: sleep on the byte of the
//              youngest
//   unlock     mark the record as done; unlock the byte
//
// The byte is locked before the record can be seen and unlocked after it is done, and the kernel unlocks it
// when its owner dies. So a record that is not done, but whose byte can be locked, belongs to a dead process:
// the user that finds it changes its state to "died", under recovery_byte. The next owner of one of its
// entities reports the death, and notes that in the record (told).
//
// The file may be cut off while it is in use (`: > lock`): then its records are gone, and only make_header(),
// alone, makes it a lock file again. A user that does not find its own record, or the one that it waits for,
// or that finds cells without content, looks at the header, which says so. What was appended since is cut
// off, too, or the queue would grow to where it seems whole.
//
// A cell lies within one page and appending is atomic on local filesystems, so a cell is seen whole or not at
// all. A request of several cells may be seen in part for a moment.

#include "locks/append_cells.hpp"
#include "locks/hooks.hpp"
#include "locks/lock_file.hpp"
#include "sys/descriptors.hpp"
#include "sys/ofd_lock.hpp"

#include <unio/locks/atomic_append.hpp>

#include <fcntl.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1::fs {

namespace layout = append_layout;
using layout::append_header;
using layout::cell;
using layout::cells_of_one;
using layout::conflicts;
using layout::find;
using layout::for_each_cell;
using layout::is_valid;
using layout::mix;
using layout::wanted;
using layout::was_cut_off;
using layout::write_state;

struct atomic_append::state {
  state() = default;
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state() { more.close(file.is_inherited()); }

  int open(path_handle const& base, path_view name, detail::waiting how) noexcept;
  int lock(detail::holding& held, detail::waiting how) noexcept;
  void unlock(detail::holding& held) noexcept;

 private:
  // A request of another user, as it was found.
  struct found {
    std::uint64_t at = 0; // 0: none
    std::uint64_t id = 0;
  };
  // The records before a request.
  struct seen {
    found obstacle;     // the youngest that it has to wait for
    bool notes = false; // there are deaths that may have to be reported to it
  };
  struct request {
    int fd = -1;
    std::uint64_t id = 0;
    std::uint64_t at = 0; // 0: where look() finds it
    std::uint64_t size = 0;
  };

  int check_header(bool& fresh) noexcept;
  static int check_not_cut_off(request& r) noexcept;
  int make_header(bool fresh) noexcept;

  int take_id(request& r) noexcept;
  int append(request& r, detail::entity_list const& entities, detail::waiting how, seen& first_look) noexcept;
  int fill_up(request const& r, detail::waiting how) noexcept;
  void finish(request const& r) noexcept;

  int look(request& r, detail::entity_list const& entities, seen& what) noexcept;
  int await_one(request& r, found const& other, detail::waiting how) noexcept;
  int bury(request const& r, found const& dead, detail::waiting how) noexcept;
  int bury_alone(request const& r, found const& dead) noexcept;
  int take_notes(request const& r, detail::entity_list const& entities, detail::waiting how,
                 bool& died) noexcept;
  static int note_told(request const& r, detail::entity_list const& entities, std::size_t i) noexcept;
  int carry_notes(request const& r, std::uint64_t from) noexcept;
  void move_on(request const& r) noexcept;

  lock_file file;
  descriptions more;
  std::uint64_t seed = 0;
  std::uint32_t pid = 0;
  std::atomic<std::uint64_t> asked{0};
  std::atomic<std::uint64_t> hinted{0};
  std::atomic<std::uint64_t> first{layout::cells_at}; // nothing before this counts: only grows
};

// ── opening ────────────────────────────────────────────────────────────────────────────────────────────────

int atomic_append::state::open(path_handle const& base, path_view name, detail::waiting how) noexcept {
  bool alone = false;
  result<lock_file> f = lock_file::join(base, name, how, alone, {.may_be_remote = false});
  if (!f) return to_native(f.error());
  file = std::move(*f);
  bool fresh = false;
  int e = check_header(fresh);
  if (e != 0) return e;
  if (fresh && !alone) return native(error::damaged_lock_file);
  if (alone) {
    if (e = make_header(fresh); e != 0) return e;
  }
  pid = static_cast<std::uint32_t>(::getpid());
  if (auto const r = sys::uninterrupted([&] { return sys::getrandom(&seed, sizeof seed, 0); }); r < 0)
    return static_cast<int>(r);
  return file.joined();
}

int atomic_append::state::check_header(bool& fresh) noexcept {
  struct stat s;
  if (auto const r = sys::fstat(file.fd(), &s); r < 0) return static_cast<int>(r);
  fresh = s.st_size == 0;
  if (fresh) return 0;
  if (static_cast<std::size_t>(s.st_size) < sizeof(append_header)) return native(error::not_a_lock_file);
  append_header h;
  if (int const e = read_at(file.fd(), &h, sizeof h, 0); e != 0) return e;
  if (int const e = check_magic(h.magic, layout::magic); e != 0) {
    int const cut_off = was_cut_off(file.fd(), static_cast<std::uint64_t>(s.st_size));
    fresh = cut_off == 1;
    return cut_off < 0 ? cut_off : fresh ? 0 : e;
  }
  if (h.version > layout::version) return native(error::newer_lock_file);
  if (h.version != layout::version || h.cell_size != sizeof(cell) ||
      s.st_size < static_cast<std::int64_t>(layout::cells_at))
    return native(error::damaged_lock_file);
  // Another file's contents, or this file's from before a restart that gave the device another number.
  if (h.device != file.device() || h.inode != file.inode()) {
    fresh = true;
  } else {
    // Others may have appended, and moved the hint on, since the length was read.
    if (auto const r = sys::fstat(file.fd(), &s); r < 0) return static_cast<int>(r);
    if (h.first < layout::cells_at || h.first % sizeof(cell) != 0) return native(error::damaged_lock_file);
    // After a power loss: the hint was on the disk before the length was. No record is left then.
    fresh = h.first > static_cast<std::uint64_t>(s.st_size);
    if (!fresh) first.store(h.first, std::memory_order_relaxed);
  }
  return 0;
}

// No other user has it open. Deaths that no user noticed are still to be reported, so the queue is emptied
// only if it contains none.
int atomic_append::state::make_header(bool fresh) noexcept {
  struct stat s;
  if (auto const r = sys::fstat(file.fd(), &s); r < 0) return static_cast<int>(r);
  std::uint64_t const from = first.load(std::memory_order_relaxed);
  bool all_done = true;
  if (!fresh && s.st_size > static_cast<std::int64_t>(from)) {
    int const e = for_each_cell(file.fd(), from, static_cast<std::uint64_t>(s.st_size),
                                [&](std::uint64_t, cell const& c) {
                                  if (c.number == 0 && c.state != layout::done) all_done = false;
                                  return all_done;
                                });
    if (e != 0) return e;
  }
  if (!all_done) return 0;
  if (auto const r = sys::uninterrupted([&] { return sys::ftruncate(file.fd(), 0); }); r < 0)
    return static_cast<int>(r);
  hooks::step("open.emptied");
  first.store(layout::cells_at, std::memory_order_relaxed);
  append_header h = {};
  std::memcpy(h.magic, layout::magic, sizeof h.magic);
  h.version = layout::version;
  h.cell_size = sizeof(cell);
  h.device = file.device();
  h.inode = file.inode();
  h.first = layout::cells_at;
  char page[layout::cells_at] = {};
  std::memcpy(page, &h, sizeof h);
  int const e = write_at(file.fd(), page, sizeof page, 0);
  if (e != 0) (void)sys::ftruncate(file.fd(), 0); // the partial header would be a foreign file
  return e;
}

// ── asking ─────────────────────────────────────────────────────────────────────────────────────────────────

int atomic_append::state::take_id(request& r) noexcept {
  for (int attempts = 0; attempts != 100; ++attempts) {
    r.id = mix(seed + asked.fetch_add(1, std::memory_order_relaxed)) & layout::id_mask;
    int const e = byte_lock::try_lock(r.fd, layout::request_bytes + r.id, lock_kind::exclusive);
    if (e != -EAGAIN) return e; // -EAGAIN: another request has the same id, once in 10^18
  }
  return -EBUSY;
}

int atomic_append::state::append(request& r, detail::entity_list const& entities, detail::waiting how,
                                 seen& first_look) noexcept {
  std::size_t const cells = (entities.size() + layout::entities_in_cell - 1) / layout::entities_in_cell;
  cell one;
  std::unique_ptr<cell[]> many;
  cell* const all = cells == 1 ? &one : (many.reset(new (std::nothrow) cell[cells]), many.get());
  if (all == nullptr) return -ENOMEM;
  entity const* next = entities.begin();
  for (std::size_t n = 0; n != cells; ++n) {
    cell& c = all[n];
    c = {};
    c.id = r.id;
    c.pid = pid;
    c.cells = static_cast<std::uint16_t>(cells);
    c.number = static_cast<std::uint16_t>(n);
    c.count =
        std::min<std::size_t>(layout::entities_in_cell, static_cast<std::size_t>(entities.end() - next));
    std::copy_n(next, c.count, c.entities);
    next += c.count;
    c.checksum = checksum_of(c);
  }
  r.size = cells * sizeof(cell);
  iovec const v{.iov_base = all, .iov_len = r.size};
  for (int attempts = 0; attempts != 100; ++attempts) {
    // At the current position, which then is the end of what was appended: pwritev2(2), RWF_APPEND.
    auto const n = sys::uninterrupted([&] { return sys::pwritev2(r.fd, &v, 1, -1, RWF_APPEND); });
    if (n < 0) return static_cast<int>(n);
    bool const is_whole = static_cast<std::uint64_t>(n) == r.size;
    if (is_whole) {
      int const e = look(r, entities, first_look);
      if (e != -ENOENT) return e;
    }
    // Truncated, or behind another truncated record: it must not become a record.
    auto const end = sys::lseek(r.fd, 0, SEEK_CUR);
    if (end < 0) return static_cast<int>(end);
    std::uint64_t const start = static_cast<std::uint64_t>(end - n);
    if (start % sizeof(cell) == 0 && static_cast<std::size_t>(n) >= sizeof(cell)) {
      if (int const e = write_state(r.fd, start, layout::done); e != 0) return e;
    }
    if (int const e = fill_up(r, how); e != 0) return e;
    if (!is_whole) return -ENOSPC;
  }
  return -EIO;
}

// Makes the file end where a record may begin, so that a partial record does not make all after it
// unreadable. Alone, since all users append whole records only.
int atomic_append::state::fill_up(request const& r, detail::waiting how) noexcept {
  if (int const e = byte_lock::lock_until(r.fd, layout::recovery_byte, lock_kind::exclusive, how); e != 0)
    return e;
  struct stat s;
  std::int64_t e = sys::fstat(r.fd, &s);
  std::uint64_t const beyond = static_cast<std::uint64_t>(s.st_size) % sizeof(cell);
  if (e == 0 && beyond != 0) {
    char zeros[sizeof(cell)] = {};
    iovec const fill{.iov_base = zeros, .iov_len = sizeof(cell) - beyond};
    e = sys::uninterrupted([&] { return sys::pwritev2(r.fd, &fill, 1, -1, RWF_APPEND); });
  }
  byte_lock::unlock(r.fd, layout::recovery_byte);
  return e < 0 ? static_cast<int>(e) : 0;
}

// ── waiting ────────────────────────────────────────────────────────────────────────────────────────────────

// 0, or error::damaged_lock_file for a file that has no header any more: then nothing of it is a record.
int atomic_append::state::check_not_cut_off(request& r) noexcept {
  append_header h;
  int e = read_at(r.fd, &h, sizeof h, 0);
  if (e == 0 && std::memcmp(h.magic, layout::magic, sizeof h.magic) == 0) return 0;
  if (e != 0 && e != native(error::damaged_lock_file)) return e;
  struct stat s;
  if (auto const f = sys::fstat(r.fd, &s); f < 0) return static_cast<int>(f);
  // Not if others have put something else in its place.
  if (was_cut_off(r.fd, static_cast<std::uint64_t>(s.st_size)) == 1) (void)sys::ftruncate(r.fd, 0);
  r.at = 0;
  return native(error::damaged_lock_file);
}

// Looks at the records before this request. Its own is found on the way, which saves a call. -ENOENT: it is
// not where a record may begin. Records before the oldest that is not done are not looked at again.
int atomic_append::state::look(request& r, detail::entity_list const& entities, seen& what) noexcept {
  what.obstacle = {};
  std::uint64_t const from = first.load(std::memory_order_relaxed);
  std::uint64_t const to = r.at != 0 ? r.at : ~std::uint64_t{0};
  std::uint64_t all_done_before = to;
  found current;
  std::uint64_t its_state = layout::done;
  bool gaps = false;
  auto const look_at = [&](std::uint64_t at, cell const& c) {
    if (c.number == 0) {
      if (c.id == r.id && r.at == 0) {
        r.at = at;
        return false;
      }
      current = {at, c.id};
      its_state = c.state;
      if (its_state != layout::done) all_done_before = std::min(all_done_before, at);
    }
    if (its_state == layout::done || c.id != current.id || !conflicts(c, entities)) return true;
    if (its_state == layout::died) what.notes = true;
    if (its_state == layout::waiting_or_held) what.obstacle = current;
    return true;
  };
  if (int const e = for_each_cell(r.fd, from, to, look_at, &gaps); e != 0) return e;
  if (gaps) {
    if (int const e = check_not_cut_off(r); e != 0) return e;
  }
  if (r.at == 0) return -ENOENT;
  all_done_before = std::min(all_done_before, r.at);
  std::uint64_t before = from;
  while (before < all_done_before &&
         !first.compare_exchange_weak(before, all_done_before, std::memory_order_relaxed)) {
  }
  return 0;
}

int atomic_append::state::await_one(request& r, found const& other, detail::waiting how) noexcept {
  std::uint64_t const byte = layout::request_bytes + other.id;
  hooks::step("await.before_sleep");
  if (int const e = byte_lock::lock_until(r.fd, byte, lock_kind::shared, how); e != 0) return e;
  byte_lock::unlock(r.fd, byte);
  cell c;
  int const e = read_at(r.fd, &c, sizeof c, other.at);
  if (e == native(error::damaged_lock_file) || (e == 0 && c.id != other.id)) return check_not_cut_off(r);
  if (e != 0) return e;
  return c.state == layout::waiting_or_held ? bury(r, other, how) : 0;
}

// The requesting process has died.
int atomic_append::state::bury(request const& r, found const& dead, detail::waiting how) noexcept {
  if (int const e = byte_lock::lock_until(r.fd, layout::recovery_byte, lock_kind::exclusive, how); e != 0)
    return e;
  hooks::step("bury.alone");
  int const e = bury_alone(r, dead);
  byte_lock::unlock(r.fd, layout::recovery_byte);
  return e;
}

// With the lock on recovery_byte. If it cannot have had its turn the death need not be reported.
int atomic_append::state::bury_alone(request const& r, found const& dead) noexcept {
  cell c;
  int e = read_at(r.fd, &c, sizeof c, dead.at);
  if (e != 0 || c.id != dead.id || c.state != layout::waiting_or_held) return e;
  layout::state becomes = layout::died;
  cells_of_one all;
  e = all.read(r.fd, dead.at, c.cells);
  // Killed while it appended: the kernel ends a write of several pages then (generic_perform_write()).
  bool const is_part =
      e == native(error::damaged_lock_file) ||
      (e == 0 && !std::ranges::all_of(all.get(), [&](cell const& x) { return is_valid(x) && x.id == c.id; }));
  if (is_part) {
    becomes = layout::done;
  } else if (e == 0) {
    detail::entity_list its;
    e = list(all.get(), wanted::all, its);
    request as_it = {.fd = r.fd, .id = c.id, .at = dead.at, .size = all.bytes()};
    seen before;
    if (e == 0) e = look(as_it, its, before);
    if (before.obstacle.at != 0) becomes = layout::done; // it was still waiting: states only grow
  }
  if (e == 0 || is_part) e = write_state(r.fd, dead.at, becomes);
  hooks::step("bury.buried");
  return e;
}

// It is this request's turn: reports deaths of owners of its entities, each to one owner.
int atomic_append::state::take_notes(request const& r, detail::entity_list const& entities,
                                     detail::waiting how, bool& died) noexcept {
  if (int const e = byte_lock::lock_until(r.fd, layout::recovery_byte, lock_kind::exclusive, how); e != 0)
    return e;
  found current;
  std::uint64_t its_state = layout::done;
  bool all_told = true;
  int failed = 0;
  auto const finish_current = [&] {
    if (its_state == layout::died && all_told && failed == 0)
      failed = write_state(r.fd, current.at, layout::done);
  };
  int const e =
      for_each_cell(r.fd, first.load(std::memory_order_relaxed), r.at, [&](std::uint64_t at, cell const& c) {
        if (c.number == 0) {
          finish_current();
          current = {at, c.id};
          its_state = c.state;
          all_told = true;
        }
        if (its_state != layout::died || c.id != current.id) return failed == 0;
        std::uint64_t told = c.told;
        for (std::size_t i = 0; i != c.count; ++i) {
          entity const lost = c.entities[i];
          std::uint64_t const bit = std::uint64_t{1} << i;
          // A sharer changed nothing, unless it was to repair what another owner had left behind.
          if (lost.exclusive == 0 && (c.told & bit << layout::was_told_shift) == 0) told |= bit;
          entity const* const mine = find(entities, lost.value);
          if ((told & bit) != 0 || mine == nullptr) continue;
          if (failed = note_told(r, entities, static_cast<std::size_t>(mine - entities.begin())); failed != 0)
            return false;
          told |= bit;
          died = true;
        }
        if (told != c.told) failed = write_at(r.fd, &told, sizeof told, at + offsetof(cell, told));
        hooks::step("notes.told");
        std::uint64_t const all = (std::uint64_t{1} << c.count) - 1;
        all_told &= (told & all) == all;
        return failed == 0;
      });
  finish_current();
  byte_lock::unlock(r.fd, layout::recovery_byte);
  return e != 0 ? e : failed;
}

// Notes in its own record that a death was reported to it for entity `i`, in case it dies too. For entities
// that it owns exclusively its death is reported anyway.
int atomic_append::state::note_told(request const& r, detail::entity_list const& entities,
                                    std::size_t i) noexcept {
  if (entities[i].exclusive != 0) return 0;
  std::uint64_t const at = r.at + i / layout::entities_in_cell * sizeof(cell) + offsetof(cell, told);
  std::uint64_t told = 0;
  if (int const e = read_at(r.fd, &told, sizeof told, at); e != 0) return e;
  told |= std::uint64_t{1} << (layout::was_told_shift + i % layout::entities_in_cell);
  return write_at(r.fd, &told, sizeof told, at);
}

// ── unlocking ──────────────────────────────────────────────────────────────────────────────────────────────

// If it cannot be marked as done (EIO) the next in line takes it for dead: a report too many, but nothing
// hangs.
void atomic_append::state::finish(request const& r) noexcept {
  if (r.at != 0) (void)write_state(r.fd, r.at, layout::done); // 0: the file was cut off
  hooks::step("unlock.done");
  byte_lock::unlock_all(r.fd);
  hooks::step("unlock.unlocked");
}

// An unreported death would keep everything after it from being forgotten: it is moved to the end, unless a
// request in between must get the report. Requests that come later are behind the copy and find both, until
// the first is done.
int atomic_append::state::carry_notes(request const& r, std::uint64_t from) noexcept {
  cell c;
  if (int const e = read_at(r.fd, &c, sizeof c, from); e != 0) return e;
  if (!is_valid(c) || c.number != 0) return 0;
  // Nobody may ever ask for what it held.
  if (c.state == layout::waiting_or_held && sys::ofd_is_locked(r.fd, layout::request_bytes + c.id) == 0)
    return bury_alone(r, {from, c.id});
  if (c.state != layout::died) return 0;
  cells_of_one all;
  if (int const e = all.read(r.fd, from, c.cells); e != 0) return e;
  std::size_t const size = all.bytes();
  all.get()[0].state = layout::done; // the copy reports nothing before the original is done
  iovec const v{.iov_base = all.get().data(), .iov_len = size};
  auto const n = sys::uninterrupted([&] { return sys::pwritev2(r.fd, &v, 1, -1, RWF_APPEND); });
  auto const end = sys::lseek(r.fd, 0, SEEK_CUR);
  hooks::step("carry.copied");
  if (n < 0 || end < 0) return static_cast<int>(std::min(n, end));
  if (n != static_cast<std::int64_t>(size) || end % std::int64_t{sizeof(cell)} != 0) return -ENOSPC;
  std::uint64_t const copy = static_cast<std::uint64_t>(end) - size;

  detail::entity_list untold;
  if (int const e = list(all.get(), wanted::untold, untold); e != 0) return e;
  bool is_wanted = false;
  std::uint64_t its_state = layout::done;
  int e = for_each_cell(r.fd, from, copy, [&](std::uint64_t, cell const& other) {
    if (other.number == 0) its_state = other.state;
    is_wanted = its_state == layout::waiting_or_held && conflicts(other, untold);
    return !is_wanted;
  });
  if (e != 0 || is_wanted) return e;
  e = write_state(r.fd, copy, layout::died);
  hooks::step("carry.noted");
  return e != 0 ? e : write_state(r.fd, from, layout::done);
}

// Now and then: tells later users where to begin, and frees storage.
void atomic_append::state::move_on(request const& r) noexcept {
  constexpr std::uint64_t step = 256 * 1024;
  std::uint64_t const now = first.load(std::memory_order_relaxed);
  if (r.at - now > step && byte_lock::try_lock(r.fd, layout::recovery_byte, lock_kind::exclusive) == 0) {
    (void)carry_notes(r, now);
    byte_lock::unlock(r.fd, layout::recovery_byte);
  }
  std::uint64_t before = hinted.load(std::memory_order_relaxed);
  if (now < before + step || !hinted.compare_exchange_strong(before, now, std::memory_order_relaxed)) return;
  if (byte_lock::try_lock(r.fd, layout::recovery_byte, lock_kind::exclusive) != 0) return;
  std::uint64_t in_file = 0;
  if (read_at(r.fd, &in_file, sizeof in_file, offsetof(append_header, first)) == 0 && in_file < now &&
      write_at(r.fd, &now, sizeof now, offsetof(append_header, first)) == 0) {
    hooks::step("move_on.hinted");
    std::uint64_t const end = now / 4096 * 4096; // the page in use is kept
    if (end > layout::cells_at)
      (void)sys::fallocate(r.fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                           static_cast<std::int64_t>(layout::cells_at),
                           static_cast<std::int64_t>(end - layout::cells_at));
  }
  byte_lock::unlock(r.fd, layout::recovery_byte);
}

int atomic_append::state::lock(detail::holding& held, detail::waiting how) noexcept {
  if (file.is_inherited()) return native(error::inherited_by_fork);
  if (held.entities.size() > most_entities) return native(error::too_many_entities);
  request r;
  r.fd = more.take(file);
  if (r.fd < 0) return r.fd;
  int e = take_id(r);
  hooks::step("lock.has_id");
  seen before;
  if (e == 0) e = append(r, held.entities, how, before);
  if (e == 0) {
    hooks::step("lock.appended");
    while (e == 0 && before.obstacle.at != 0) {
      e = await_one(r, before.obstacle, how);
      if (e == 0) e = look(r, held.entities, before);
    }
    if (e == 0) hooks::step("lock.granted");
    if (e == 0 && before.notes) e = take_notes(r, held.entities, how, held.owner_died);
    if (e != 0) finish(r);
  }
  if (e != 0) {
    byte_lock::unlock_all(r.fd);
    more.give_back(r.fd);
    return e;
  }
  held.words[0] = static_cast<std::uint64_t>(r.fd);
  held.words[1] = r.at;
  return 0;
}

void atomic_append::state::unlock(detail::holding& held) noexcept {
  if (file.is_inherited()) return; // the child's copy: its descriptors are closed
  request const r = {.fd = static_cast<int>(held.words[0]), .id = 0, .at = held.words[1], .size = 0};
  finish(r);
  move_on(r);
  more.give_back(r.fd);
}

// ── the class ──────────────────────────────────────────────────────────────────────────────────────────────

atomic_append::atomic_append() noexcept = default;
atomic_append::atomic_append(atomic_append&& other) noexcept = default;
atomic_append& atomic_append::operator=(atomic_append&& other) noexcept = default;
atomic_append::~atomic_append() = default;

result<atomic_append> atomic_append::open(path_handle const& base, path_view name, deadline d) noexcept {
  atomic_append m;
  m.state_.reset(new (std::nothrow) state);
  if (m.state_ == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  if (int const e = m.state_->open(base, name, detail::waiting_for(d)); e != 0)
    return unio::detail::failed_on(e, "atomic_append::open", name.c_str(), name.size());
  return m;
}

int atomic_append::do_lock(detail::holding& held, detail::waiting how) noexcept {
  held.entities.canonicalize();
  return state_->lock(held, how);
}
void atomic_append::do_unlock(detail::holding& held) noexcept { state_->unlock(held); }

} // namespace unio::fs
