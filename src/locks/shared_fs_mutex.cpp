// Entities and requests: what the four mutexes share above the kernel.

#include "sys/due.hpp"

#include <unio/locks/shared_fs_mutex.hpp>
#include <unio/when.hpp>

#include <algorithm>

namespace unio::inline v0_1::fs {

using unio::detail::to_error_code;

// ── entities ───────────────────────────────────────────────────────────────────────────────────────────────

// FNV-1a, whose low bits are weak for short names, and the mixing step of splitmix64. Processes of different
// versions must agree on both: never change them.
entity entity_of(std::span<std::byte const> bytes, bool exclusive) noexcept {
  std::uint64_t h = 0xcbf29ce484222325;
  for (std::byte const b : bytes) h = (h ^ static_cast<std::uint64_t>(b)) * 0x100000001b3;
  h = (h ^ (h >> 30)) * 0xbf58476d1ce4e5b9;
  h = (h ^ (h >> 27)) * 0x94d049bb133111eb;
  return entity(h ^ (h >> 31), exclusive);
}

entity entity_of(std::string_view name, bool exclusive) noexcept {
  return entity_of(std::as_bytes(std::span(name.data(), name.size())), exclusive);
}

result<entity> random_entity(bool exclusive) noexcept {
  std::uint64_t v = 0;
  for (;;) {
    auto const n = sys::getrandom(&v, sizeof v, 0);
    if (n == sizeof v) return entity(v, exclusive);
    if (n < 0 && n != -EINTR) return to_error_code(static_cast<int>(n));
  }
}

namespace detail {

int entity_list::reserve(std::size_t n) noexcept {
  large_ = new (std::nothrow) entity[n];
  return large_ != nullptr ? 0 : -ENOMEM;
}

namespace {

// An entity as a number with the same order.
std::uint64_t key_of(entity e) noexcept { return std::uint64_t{e.value} << 1 | e.exclusive; }
entity of_key(std::uint64_t key) noexcept { return entity(key >> 1, (key & 1) != 0); }

// A sorting network for up to `Most`, because mispredicted branches dominate std::sort for so few. The
// exchanges are those of the odd-even merge sort (K. E. Batcher, "Sorting networks and their applications",
// 1968).
template <std::size_t Most, std::size_t N>
void sort_few(entity* entities, std::size_t n, std::uint8_t const (&exchanges)[N][2]) noexcept {
  std::uint64_t keys[Most];
  for (std::size_t i = 0; i != Most; ++i) keys[i] = i < n ? key_of(entities[i]) : ~std::uint64_t{0};
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    auto const exchange = [&](std::uint64_t& a, std::uint64_t& b) {
      std::uint64_t const low = std::min(a, b);
      b = std::max(a, b);
      a = low;
    };
    (exchange(keys[exchanges[I][0]], keys[exchanges[I][1]]), ...);
  }(std::make_index_sequence<N>());
  for (std::size_t i = 0; i != n; ++i) entities[i] = of_key(keys[i]);
}

constexpr std::uint8_t of_two[][2] = {{0, 1}};
constexpr std::uint8_t of_four[][2] = {{0, 1}, {2, 3}, {0, 2}, {1, 3}, {1, 2}};
constexpr std::uint8_t of_eight[][2] = {{0, 1}, {2, 3}, {4, 5}, {6, 7}, {0, 2}, {1, 3}, {4, 6},
                                        {5, 7}, {1, 2}, {5, 6}, {0, 4}, {1, 5}, {2, 6}, {3, 7},
                                        {2, 4}, {3, 5}, {1, 2}, {3, 4}, {5, 6}};

void sort(entity* entities, std::size_t n) noexcept {
  if (n == 2) {
    sort_few<2>(entities, 2, of_two);
  } else if (n <= 4) {
    sort_few<4>(entities, n, of_four);
  } else if (n <= 8) {
    sort_few<8>(entities, n, of_eight);
  } else {
    std::sort(entities, entities + n, [](entity a, entity b) { return key_of(a) < key_of(b); });
  }
}

} // namespace

void entity_list::sort_and_merge() noexcept {
  entity* const first = begin();
  sort(first, size_); // in one order: no cycle of waiters
  std::size_t kept = 0;
  for (std::size_t i = 1; i < size_; ++i) {
    if (first[i].value == first[kept].value) {
      first[kept].exclusive |= first[i].exclusive;
    } else {
      first[++kept] = first[i];
    }
  }
  size_ = kept + 1;
}

} // namespace detail

// ── requests ───────────────────────────────────────────────────────────────────────────────────────────────

detail::waiting detail::waiting_for(deadline d, bool spin) noexcept {
  // A moment of 0 would mean "do not wait".
  return {.due_ns = d.is_zero() ? 0 : std::max<std::int64_t>(sys::due(d), 1), .spin = spin};
}

result<entities_guard> shared_fs_mutex::lock(std::span<entity const> entities, deadline d,
                                             bool spin_not_sleep) noexcept {
  result<entities_guard> r;
  entities_guard& guard = *r;
  if (int const e = guard.held_.entities.assign(entities); e != 0) return unio::detail::failed(e, "lock");
  if (guard.held_.entities.empty()) return r;
  if (int const e = do_lock(guard.held_, detail::waiting_for(d, spin_not_sleep)); e != 0)
    return unio::detail::failed(e, "lock");
  guard.mutex_ = this;
  return r;
}

namespace {

task<result<entities_guard>> lock_by_trying(shared_fs_mutex& mutex, detail::entity_list entities,
                                            deadline d) {
  using namespace std::chrono_literals;
  auto const due = sys::due(d);
  std::chrono::nanoseconds pause = 50us;
  for (;;) {
    result<entities_guard> r = mutex.try_lock(std::span<entity const>(entities.begin(), entities.size()));
    if (r || r.error() != condition::would_block || d.is_zero()) co_return r;
    std::chrono::nanoseconds next = pause;
    if (due != deadline::forever) {
      std::chrono::nanoseconds const left(due - sys::steady_now());
      if (left <= 0ns) co_return unio::detail::failed(-ETIMEDOUT, "lock");
      next = std::min(next, left);
    }
    auto const slept = co_await co_sleep(next);
    if (!slept.has_value()) co_return unio::detail::failed(unio::detail::to_native(slept.error()), "lock");
    pause = std::min<std::chrono::nanoseconds>(pause * 2, 5ms);
  }
}

task<result<entities_guard>> failed(int code) { co_return unio::detail::failed(code, "lock"); }

} // namespace

task<result<entities_guard>> co_lock(shared_fs_mutex& mutex, std::span<entity const> entities, deadline d) {
  detail::entity_list copy;
  if (int const e = copy.assign(entities); e != 0) return failed(e);
  return lock_by_trying(mutex, std::move(copy), d);
}

task<result<entities_guard>> co_lock(shared_fs_mutex& mutex, entity e, deadline d) {
  return co_lock(mutex, std::span(&e, 1), d);
}

} // namespace unio::fs
