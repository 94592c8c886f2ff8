#include "driver/choose.hpp"
#include "driver/registered_memory.hpp"
#include "handle/pool_state.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <unio/buffer_pool.hpp>
#include <unio/detail/operations.hpp>
#include <unio/error.hpp>
#include <unio/multiplexer.hpp>

#include <linux/futex.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <mutex>
#include <new>
#include <system_error>
#include <utility>

namespace unio::inline v0_1 {
namespace detail {
namespace {

// Buffers begin at multiples of this, so that no two share a line of the caches.
constexpr std::size_t alignment = 64;
constexpr int max_rings = 256;
constexpr std::size_t page = 4096;

std::byte* map(std::size_t bytes) noexcept {
  std::int64_t const r =
      sys::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  return r < 0 ? nullptr : reinterpret_cast<std::byte*>(r);
}

// The memory of the slots of one ring: the queue that its kernel reads, which begins a page; the slots; the
// buffers.
constexpr std::size_t slots_at = driver::buffer_slots::queue_bytes;
static_assert(slots_at + sizeof(driver::buffer_slots) <= page);

} // namespace

// All whose pools have ended and whose buffers are gone, oldest first. They are never destroyed for good.
struct pool_state::ended_ones {
  static constexpr std::size_t kept = 64;

  void add(pool_state& s) noexcept {
    std::lock_guard const held(lock);
    *(first != nullptr ? &last->next_ended_ : &first) = &s;
    last = &s;
    ++count;
  }
  // Null: no memory.
  pool_state* take_or_make() noexcept {
    pool_state* used = nullptr;
    {
      std::lock_guard const held(lock);
      if (count > kept) used = std::exchange(first, first->next_ended_), --count;
    }
    if (used == nullptr) return new (std::nothrow) pool_state;
    used->~pool_state();
    return new (used) pool_state;
  }

  sys::process_lock lock{sys::guarded::ended_pools};
  pool_state* first = nullptr;
  pool_state* last = nullptr;
  std::size_t count = 0;
  static constinit ended_ones all;
};
constinit pool_state::ended_ones pool_state::ended_ones::all;

pool_state* pool_state::make(std::size_t count, std::size_t size, pool_memory memory) noexcept {
  std::size_t const stride = (size + alignment - 1) / alignment * alignment;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, stride, &bytes)) return nullptr;
  auto* const made = ended_ones::all.take_or_make();
  if (made == nullptr) return nullptr;
  driver::let_rings_choose();
  made->count_ = count;
  made->size_ = size;
  made->stride_ = stride;
  made->bytes_ = bytes;
  made->free_ = reinterpret_cast<std::byte**>(map(made->max_free() * sizeof(std::byte*)));
  made->memory_ = made->free_ == nullptr ? nullptr : map(bytes);
  if (made->memory_ == nullptr) {
    made->destroy();
    return nullptr;
  }
  made->registered_ = memory == pool_memory::registered;
  made->offers_.store(made->registered_, std::memory_order_relaxed);
  made->offer(made->memory_, bytes);
  for (std::size_t i = count; i-- != 0;) made->free_[made->free_count_++] = made->memory_ + i * stride;
  return made;
}

std::size_t pool_state::max_free() const noexcept {
  return count_ + std::size_t{max_rings} * driver::buffer_slots::most;
}

// Rings may register it, in pieces of whole buffers. What is left out is used as any memory.
void pool_state::offer(std::byte* at, std::size_t bytes) noexcept {
  if (!registered_) return;
  std::size_t const most = driver::offered_memory::max_bytes / stride_ * stride_;
  for (; bytes != 0; at += std::min(bytes, most), bytes -= std::min(bytes, most))
    if (!driver::offered_memory::offer(at, std::min(bytes, most)))
      return offers_.store(false, std::memory_order_relaxed);
}

// Buffers that were offered lie in `bytes` from `at`.
void pool_state::unmap(std::byte* at, std::size_t bytes) const noexcept {
  if (registered_) driver::offered_memory::withdraw(at, bytes);
  sys::munmap(at, bytes);
}

// Nothing is lent any more, and nothing reads into it.
void pool_state::release() noexcept {
  if (memory_ != nullptr) unmap(memory_, bytes_);
  memory_ = nullptr;
  if (free_ != nullptr) sys::munmap(free_, max_free() * sizeof(std::byte*));
  free_ = nullptr;
  count_ = free_count_ = 0; // none to lend
}

void pool_state::destroy() noexcept {
  release();
  while (driver::buffer_slots* const s = slots_) {
    slots_ = s->next;
    unmap(reinterpret_cast<std::byte*>(s) - slots_at, page + s->count() * stride_);
  }
  closed_.store(true, std::memory_order_relaxed); // it may have failed while it was made
  ended_ones::all.add(*this);
}

void pool_state::close() noexcept {
  lock_.lock();
  UNIO_EXPECTS(first_ == nullptr,
               "a buffer pool was destroyed while an operation waits for one of its buffers");
  closed_.store(true, std::memory_order_relaxed);
  end_if_last();
}

// Unlocks. A ring learns late that its slots are not needed: their memory waits for it.
void pool_state::end_if_last() noexcept {
  bool const is_last = closed_.load(std::memory_order_relaxed) && lent_.load(std::memory_order_relaxed) == 0;
  bool const is_used = rings_ != 0;
  if (is_last && is_used) release();
  lock_.unlock();
  if (is_last && !is_used) destroy();
}

std::uint64_t pool_state::waits() noexcept {
  std::lock_guard const lock(lock_);
  return waits_;
}

std::byte* pool_state::take() noexcept {
  std::lock_guard const lock(lock_);
  if (!has_one()) return nullptr;
  set_lent(lent() + 1);
  return free_[--free_count_];
}

// Unlocks. Until then an operation that ends finds itself queued, or posted.
void pool_state::grant_first(std::byte* buffer) noexcept {
  async_receive& w = *first_;
  unlink(w);
  bool const blocks = w.blocks();
  w.grant(buffer);
  if (blocks) {
    sys::futex(w.word(), FUTEX_WAKE_PRIVATE, 1, nullptr);
  } else {
    static_assert(sizeof(work) <= offsetof(driver::operation_links, next_on_handle));
    w.multiplexer()->post(*::new (static_cast<void*>(&w.links)) work(&async_receive::was_granted));
  }
  lock_.unlock();
}

void pool_state::give_back(std::byte* buffer) noexcept {
  lock_.lock();
  if (first_ != nullptr && lent() <= count_) [[unlikely]]
    return grant_first(buffer);
  if (free_ != nullptr) [[likely]]
    free_[free_count_++] = buffer; // null: a ring's, that was lent after the end
  set_lent(lent() - 1);
  if (!closed_.load(std::memory_order_relaxed)) [[likely]]
    return lock_.unlock();
  end_if_last();
}

bool pool_state::enqueue(async_receive& w, bool waits_in_call) noexcept {
  std::lock_guard const lock(lock_);
  if (has_one()) return false;   // then none waits
  if (has_ended()) return false; // none will come back: the next attempt reports that
  ++waits_;
  w.stand_behind(last_, waits_in_call);
  w.links.next = nullptr;
  if (last_ != nullptr) {
    last_->links.next = &w;
  } else {
    first_ = &w;
  }
  last_ = &w;
  return true;
}

bool pool_state::dequeue(async_receive& w) noexcept {
  std::lock_guard const lock(lock_);
  if (w.is_granted()) return false;
  unlink(w);
  w.leave();
  return true;
}

// ---- rings

driver::buffer_slots* pool_state::make_slots() noexcept {
  auto const count =
      static_cast<unsigned>(std::bit_floor(std::min<std::size_t>(count_, driver::buffer_slots::most)));
  std::byte* const memory = map(page + count * stride_);
  if (memory == nullptr) return nullptr;
  auto* const made =
      new (memory + slots_at) driver::buffer_slots(memory, count, static_cast<std::uint32_t>(size_));
  offer(memory + page, count * stride_);
  std::byte* buffer = memory + page;
  made->stand(count, [&] { return std::exchange(buffer, buffer + stride_); });
  return made;
}

driver::buffer_slots* pool_state::join() noexcept {
  std::lock_guard const lock(lock_);
  if (closed_.load(std::memory_order_relaxed)) return nullptr;
  driver::buffer_slots* s = slots_;
  while (s != nullptr && (s->in_use || s->is_lost)) s = s->next;
  if (s == nullptr) {
    if (made_ == max_rings || (s = make_slots()) == nullptr) return nullptr;
    ++made_;
    s->next = std::exchange(slots_, s);
  }
  s->in_use = true;
  ++rings_;
  return s;
}

void pool_state::leave(driver::buffer_slots& slots, bool is_known) noexcept {
  lock_.lock();
  slots.in_use = false;
  slots.is_lost = !is_known;
  --rings_;
  end_if_last();
}

void pool_state::refill(driver::buffer_slots& slots) noexcept {
  std::lock_guard const lock(lock_);
  fill(slots);
}

// What is free beyond those that may be lent was taken from slots.
void pool_state::fill(driver::buffer_slots& slots) noexcept {
  std::size_t const to_lend = has_one() ? count_ - lent() : 0;
  std::size_t const spare = free_count_ > to_lend && slots.in_use ? free_count_ - to_lend : 0;
  auto const n = static_cast<unsigned>(std::min<std::size_t>(spare, slots.empty_count()));
  if (n == 0) return;
  std::byte** next = free_ + free_count_;
  slots.stand(n, [&next] { return *--next; });
  free_count_ -= n;
}

void pool_state::unlink(async_receive& w) noexcept {
  async_receive* const before = w.previous_waiter();
  auto* const after = static_cast<async_receive*>(w.links.next);
  if (before != nullptr) {
    before->links.next = after;
  } else {
    first_ = after;
  }
  if (after != nullptr) {
    after->stand_behind(before, after->blocks());
  } else {
    last_ = before;
  }
}

} // namespace detail

std::size_t lent_buffer::capacity() const noexcept { return pool_ != nullptr ? pool_->size() : 0; }

void lent_buffer::resize(std::size_t n) noexcept {
  UNIO_EXPECTS(n <= capacity(), "a lent buffer has no room for that");
  size_ = n;
}

void lent_buffer::give_back() noexcept {
  std::exchange(pool_, nullptr)->give_back(std::exchange(data_, nullptr));
  size_ = 0;
}

buffer_pool::buffer_pool(std::size_t count, std::size_t size, pool_memory memory) {
  UNIO_EXPECTS(count >= 1 && count <= max_count, "a buffer pool has 1 to 2^24 buffers");
  UNIO_EXPECTS(size >= 1 && size <= max_size, "the buffers of a pool have 1 to 2^30 bytes");
  state_ = detail::pool_state::make(count, size, memory);
  if (state_ == nullptr) detail::no_value(std::make_error_code(std::errc::not_enough_memory));
}
buffer_pool::~buffer_pool() { state_->close(); }

std::size_t buffer_pool::count() const noexcept { return state_->count(); }
std::size_t buffer_pool::size() const noexcept { return state_->size(); }
bool buffer_pool::is_registered() const noexcept { return state_->is_registered(); }
std::size_t buffer_pool::lent() const noexcept { return state_->lent(); }
std::uint64_t buffer_pool::waits() const noexcept { return state_->waits(); }

lent_buffer buffer_pool::try_take() noexcept {
  std::byte* const b = state_->take();
  return b != nullptr ? state_->lend(b, 0) : lent_buffer();
}

} // namespace unio
