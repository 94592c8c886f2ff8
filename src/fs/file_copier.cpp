// One file of a copy: its contents, what it weighs against its source, and what has no contents.

#include "fs/file_copier.hpp"

#include "sys/give_way.hpp"

#include <sys/sysmacros.h>
#include <unistd.h>

#include <ctime>
#include <memory>

namespace unio::inline v0_1::fs::trees {
namespace {

constexpr std::size_t page = 4096;

// Whether what is written now may get the time of modification that is in `a`. The kernel's clock for these
// goes by ticks, of at most 10 ms, and a filesystem may cut them further: exfat to 10 ms, ext3 to seconds,
// vfat to two. The zeros at their end show it.
bool is_of_now(attributes const& a) noexcept {
  constexpr std::int64_t second = 1'000'000'000, tick = 10'000'000;
  timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  std::int64_t const s = now.tv_sec - a.modified_s;
  if (s < -1 || s > 2) return false;
  std::int64_t cut = a.modified_ns == 0 ? 2 * second : 1;
  while (a.modified_ns % (10 * cut) == 0 && cut < second) cut *= 10;
  std::int64_t const age = s * second + now.tv_nsec - a.modified_ns;
  return age > -tick && age < cut;
}

} // namespace

int file_copier::await_next_time(attributes const& a, void* asked, asked_whether_to_end must_end) noexcept {
  while (noted != nullptr && is_of_now(a)) {
    if (must_end(asked)) return -ECANCELED;
    sys::give_way(sys::yields_before_sleep);
  }
  return 0;
}

int file_copier::contents(int from, int to, attributes const& a, std::byte* buffer, void* asked,
                          asked_whether_to_end must_end) noexcept {
  // Files of procfs have no size, and a device without a number.
  bool const is_empty = a.size == 0 && (a.id.device >> 32) != 0;
  if (is_empty) return 0;
  struct context {
    file_copier* self;
    void* asked;
    asked_whether_to_end must_end;
  } with{this, asked, must_end};
  sys::extents_copy c;
  c.from = from;
  c.to = to;
  c.size = static_cast<std::int64_t>(a.size);
  c.to_is_empty = true;
  c.may_have_holes = a.blocks * 512 < a.size;
  c.hints = &hints;
  c.buffer = buffer;
  c.buffer_bytes = buffer != nullptr ? copy_buffer : 0;
  c.context = &with;
  c.progress = [](void* p, std::int64_t n) {
    auto& w = *static_cast<context*>(p);
    w.self->report.bytes.fetch_add(static_cast<std::uint64_t>(n), std::memory_order_relaxed);
    w.self->report.tell();
    return w.must_end(w.asked) ? -ECANCELED : 0;
  };
  int const e = sys::copy_extents(c);
  if (c.shared != 0)
    report.shared_bytes.fetch_add(static_cast<std::uint64_t>(c.shared), std::memory_order_relaxed);
  auto const used = static_cast<copy_method>(c.rung);
  copy_method before = method.load(std::memory_order_relaxed);
  while (used > before && !method.compare_exchange_weak(before, used, std::memory_order_relaxed)) continue;
  return e == 0 && options.verify ? verify(from, to, buffer, asked, must_end) : e;
}

int file_copier::verify(int from, int to, std::byte* buffer, void* asked,
                        asked_whether_to_end must_end) noexcept {
  struct aligned_delete {
    void operator()(std::byte* p) const noexcept { ::operator delete[](p, std::align_val_t{page}); }
  };
  std::unique_ptr<std::byte[], aligned_delete> own;
  if (buffer == nullptr) {
    own.reset(new (std::align_val_t{page}, std::nothrow) std::byte[copy_buffer]);
    if (own == nullptr) return -ENOMEM;
    buffer = own.get();
  }
  if (int const e = unio::detail::make_durable(to); e != 0) return e;
  auto const flags = sys::fcntl(to, F_GETFL, 0);
  int same = -EINVAL;
  if (flags >= 0 && sys::fcntl(to, F_SETFL, static_cast<long>(flags | O_DIRECT)) == 0) {
    same = same_contents(from, to, buffer, copy_buffer, asked, must_end);
    (void)sys::fcntl(to, F_SETFL, static_cast<long>(flags));
  }
  if (same == -EINVAL) { // no direct I/O here, or with more alignment
    verified_in_cache.fetch_add(1, std::memory_order_relaxed);
    (void)sys::fadvise(to, 0, 0, POSIX_FADV_DONTNEED);
    same = same_contents(from, to, buffer, copy_buffer, asked, must_end);
  }
  return same > 0 ? 0 : same == 0 ? -EIO : same;
}

void file_copier::report_refusals(std::string_view path, refusals const& r) noexcept {
  if (r.owner != 0) report.fail(path, "set the owner", r.owner);
  if (r.mode != 0) report.fail(path, "set the mode", r.mode);
  if (r.attributes != 0) report.fail(path, "list the attributes", r.attributes);
  if (r.attribute != 0) report.fail(path, "copy an attribute", r.attribute);
  if (r.times != 0) report.fail(path, "set the times", r.times);
}

int file_copier::make_special(int in, char const* from, int out, char const* to, attributes const& a,
                              refusals& refused) noexcept {
  if (S_ISLNK(a.mode)) {
    char target[unio::detail::longest_path + 2];
    auto const n = sys::readlinkat(in, from, target, sizeof target - 1);
    if (n < 0) return static_cast<int>(n);
    target[n] = '\0';
    if (auto const e = sys::symlinkat(target, out, to); e < 0) return static_cast<int>(e);
  } else {
    auto const device = static_cast<unsigned>(makedev(a.device_major, a.device_minor));
    if (auto const e = sys::mknodat(out, to, a.mode, device); e < 0) return static_cast<int>(e);
  }
  refused = set_metadata(-1, -1, out, to, a, known, false, lost);
  // Of a link only root may set any (xattr(7)).
  bool const may_have_attributes = !S_ISLNK(a.mode) || known.owner == 0;
  if (may_have_attributes)
    refused.attributes = copy_attributes_of_special(in, from, out, to, a.mode, refused, lost);
  return 0;
}

} // namespace unio::fs::trees
