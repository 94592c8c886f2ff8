#include "handle/pool_state.hpp"
#include "sys/calls.hpp"

#include <unio/buffer_pool.hpp>
#include <unio/error.hpp>
#include <unio/multiplexer.hpp>

#include <linux/futex.h>
#include <sys/mman.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <system_error>

namespace unio {
namespace detail {
namespace {

// Buffers begin at multiples of this, so that no two share a line of the caches.
constexpr std::size_t alignment = 64;

} // namespace

pool_state* pool_state::make(std::size_t count, std::size_t size) noexcept {
  std::size_t const stride = (size + alignment - 1) / alignment * alignment;
  std::size_t bytes = 0;
  if (__builtin_mul_overflow(count, stride, &bytes)) return nullptr;
  auto* const made = new (std::nothrow) pool_state;
  if (made == nullptr) return nullptr;
  made->free_ = new (std::nothrow) std::byte*[count];
  std::int64_t const memory = made->free_ == nullptr
                                  ? -ENOMEM
                                  : sys::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                              MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory < 0) {
    made->destroy();
    return nullptr;
  }
  made->memory_ = reinterpret_cast<std::byte*>(memory);
  made->bytes_ = bytes;
  made->count_ = count;
  made->size_ = size;
  for (std::size_t i = count; i-- != 0;) made->free_[made->free_count_++] = made->memory_ + i * stride;
  return made;
}

void pool_state::destroy() noexcept {
  if (memory_ != nullptr) sys::munmap(memory_, bytes_);
  delete[] free_;
  delete this;
}

void pool_state::close() noexcept {
  lock_.lock();
  UNIO_EXPECTS(first_ == nullptr,
               "a buffer pool was destroyed while an operation waits for one of its buffers");
  closed_ = true;
  bool const is_last = free_count_ == count_;
  lock_.unlock();
  if (is_last) destroy();
}

std::size_t pool_state::lent() noexcept {
  std::lock_guard const lock(lock_);
  return count_ - free_count_;
}

std::uint64_t pool_state::waits() noexcept {
  std::lock_guard const lock(lock_);
  return waits_;
}

std::byte* pool_state::take() noexcept {
  std::lock_guard const lock(lock_);
  return free_count_ != 0 ? free_[--free_count_] : nullptr;
}

void pool_state::give_back(std::byte* buffer) noexcept {
  lock_.lock();
  if (pool_waiter* const w = first_; w != nullptr) [[unlikely]] {
    unlink(*w);
    w->is_posted = w->runs != nullptr;
    w->granted.store(buffer, std::memory_order_release);
    // Under the lock: an operation that ends finds itself queued here, or posted.
    if (w->is_posted) {
      w->runs->post(*w);
    } else {
      w->woken.store(1, std::memory_order_release);
      sys::futex(reinterpret_cast<std::uint32_t*>(&w->woken), FUTEX_WAKE_PRIVATE, 1, nullptr);
    }
    return lock_.unlock();
  }
  free_[free_count_++] = buffer;
  bool const is_last = closed_ && free_count_ == count_;
  lock_.unlock();
  if (is_last) destroy();
}

bool pool_state::enqueue(pool_waiter& w) noexcept {
  std::lock_guard const lock(lock_);
  if (free_count_ != 0) return false; // then none waits
  ++waits_;
  w.granted.store(nullptr, std::memory_order_relaxed);
  w.woken.store(0, std::memory_order_relaxed);
  w.next_waiter = nullptr;
  w.previous_waiter = last_;
  (last_ != nullptr ? last_->next_waiter : first_) = &w;
  last_ = &w;
  return true;
}

bool pool_state::dequeue(pool_waiter& w) noexcept {
  std::lock_guard const lock(lock_);
  if (w.granted.load(std::memory_order_relaxed) != nullptr) return false;
  unlink(w);
  return true;
}

void pool_state::unlink(pool_waiter& w) noexcept {
  (w.previous_waiter != nullptr ? w.previous_waiter->next_waiter : first_) = w.next_waiter;
  (w.next_waiter != nullptr ? w.next_waiter->previous_waiter : last_) = w.previous_waiter;
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

buffer_pool::buffer_pool(std::size_t count, std::size_t size) {
  UNIO_EXPECTS(count >= 1 && count <= max_count, "a buffer pool has 1 to 2^24 buffers");
  UNIO_EXPECTS(size >= 1 && size <= max_size, "the buffers of a pool have 1 to 2^30 bytes");
  state_ = detail::pool_state::make(count, size);
  if (state_ == nullptr) detail::no_value(std::make_error_code(std::errc::not_enough_memory));
}
buffer_pool::~buffer_pool() { state_->close(); }

std::size_t buffer_pool::count() const noexcept { return state_->count(); }
std::size_t buffer_pool::size() const noexcept { return state_->size(); }
std::size_t buffer_pool::lent() const noexcept { return state_->lent(); }
std::uint64_t buffer_pool::waits() const noexcept { return state_->waits(); }

lent_buffer buffer_pool::try_take() noexcept {
  std::byte* const b = state_->take();
  return b != nullptr ? state_->lend(b, 0) : lent_buffer();
}

} // namespace unio
