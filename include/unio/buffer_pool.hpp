// unio/buffer_pool.hpp: buffers that are lent where there is something to put into them.
//
//   buffer_pool   buffers of one size
//   pool_memory   whether rings register its memory
//   lent_buffer   one of them, until it is dropped
//
// A connection that waits holds no buffer: async_receive (handle.hpp) takes one when there is something to
// read. Where none is left it waits for one, in the order of arrival.

#pragma once

#include <unio/buffer.hpp>
#include <unio/config.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>

namespace unio::inline v0_1 {

class buffer_pool;
class lent_buffer;
namespace detail {
class pool_state;
pool_state* state_of(buffer_pool& pool) noexcept;
lent_buffer lent_of(pool_state& pool, std::byte* buffer, std::size_t bytes) noexcept;
} // namespace detail

/// A buffer of a pool, and how many bytes of it are in use. Goes back to the pool when it is destroyed.
///
/// Thread safety  distinct: safe, also of one pool; shared: const only. It may be dropped on any thread
/// Lifetime       may outlive its pool
/// Moved-from     empty
/// Cost           none; giving it back as the pool says
/// Size           24 bytes
class UNIO_API lent_buffer {
 public:
  /// None.
  lent_buffer() = default;
  lent_buffer(lent_buffer&& other) noexcept
      : pool_(std::exchange(other.pool_, nullptr)),
        data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)) {}
  lent_buffer& operator=(lent_buffer&& other) noexcept {
    lent_buffer gone(std::move(other));
    std::swap(pool_, gone.pool_);
    std::swap(data_, gone.data_);
    std::swap(size_, gone.size_);
    return *this;
  }
  ~lent_buffer() { reset(); }

  /// False: there is no buffer, as at the end of a stream.
  explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  /// Bytes in use.
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::byte* begin() const noexcept { return data_; }
  [[nodiscard]] std::byte* end() const noexcept { return data_ + size_; }
  /// Bytes that it has room for: the pool's size; 0 if there is none.
  [[nodiscard]] std::size_t capacity() const noexcept;
  /// Says how many bytes are in use. Preconditions: n <= capacity().
  void resize(std::size_t n) noexcept;
  /// Gives it back now. A waiting operation gets it; one of another thread is woken.
  void reset() noexcept {
    if (data_ != nullptr) give_back();
  }

 private:
  friend class detail::pool_state;
  friend lent_buffer detail::lent_of(detail::pool_state&, std::byte*, std::size_t) noexcept;
  lent_buffer(detail::pool_state& pool, std::byte* data, std::size_t size) noexcept
      : pool_(&pool), data_(data), size_(size) {}
  void give_back() noexcept;

  detail::pool_state* pool_ = nullptr;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// What the memory of a pool is for the kernel.
enum class pool_memory : std::uint8_t {
  ordinary,
  registered, ///< each ring that moves its bytes pins it: see buffer_pool
};

/// Buffers of one size, in one piece of memory that is touched only as far as they are used.
///
/// Running out is no error: operations wait for a buffer to come back, in the order of arrival, within their
/// deadlines; those with a deadline of zero yield condition::would_block. dump_pending() says so, and waits()
/// counts it. Tasks that keep buffers while they wait for more may wait for each other: the pool must have
/// more buffers than they keep.
///
/// On io_uring the kernel chooses the buffer that it reads into, among some that stand ready in each ring:
/// one request receives once, or many times (async_receive_many). They are as many as the pool has, at most
/// 64 for each thread that runs a ring, and come on top of count(): what stands ready in one ring is never
/// missing elsewhere. Where the kernel refuses that (before Linux 6.1, a filter, RLIMIT_MEMLOCK), it is done
/// as on epoll.
///
/// Registered memory. A ring registers the memory of a pool_memory::registered pool when it is first to read
/// a file or a pipe into one of its buffers, to write one to a file or a pipe, or to send one without copying
/// (one piece of memory; not a list). The kernel looks up its pages then, and not in each operation: that
/// pays for direct I/O and for what is sent without copying. What is received from a socket is copied anyway.
/// Nothing else changes: where the kernel (before Linux 5.19), a filter or RLIMIT_MEMLOCK says no, and
/// without io_uring, the memory is used as any other, and counters::registrations_refused tells.
///
/// Thread safety  all functions from any thread
/// Lifetime       must outlive the operations that use it: see async_receive. Buffers that are still lent
///                keep its memory
/// Memory         count() buffers, and those of the rings, of which only what is used takes any; 8 bytes for
///                each. A ring's stay until the pool ends. What a ring has registered is all in memory and
///                counts against RLIMIT_MEMLOCK, once for each ring; a ring gives it back when it next runs
///                an operation after the pool has ended
/// Alignment      a buffer begins at a multiple of 64; where size() is a multiple of 512 … 4096 bytes (a
///                power of two), at a multiple of that: for direct I/O
/// Cost           lending and giving back: an exchange under a lock that is held for a few instructions.
///                Registering: all of it is put into memory, some 0.4 ms for each MiB
/// Source         docs/features.md X-08, L-04; io_uring_register(2)
class UNIO_API buffer_pool {
 public:
  /// `count` buffers of `size` bytes.
  ///
  /// Throws         std::system_error: ENOMEM
  /// Preconditions  1 <= count <= max_count, 1 <= size <= max_size
  buffer_pool(std::size_t count, std::size_t size, pool_memory memory = pool_memory::ordinary);
  buffer_pool(buffer_pool const&) = delete;
  buffer_pool& operator=(buffer_pool const&) = delete;
  ~buffer_pool();

  static constexpr std::size_t max_count = std::size_t{1} << 24;
  static constexpr std::size_t max_size = std::size_t{1} << 30;

  /// How many it has, as it was made with.
  [[nodiscard]] std::size_t count() const noexcept;
  /// Bytes of each.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Whether rings register its memory. False also for a registered one where the process has too many of
  /// them: there may be 128 pieces of memory, one for each pool and each thread that receives into it.
  [[nodiscard]] bool is_registered() const noexcept;
  /// How many are lent now. May exceed count() for a while after operations were stopped that had received
  /// more: bytes beat a stop.
  [[nodiscard]] std::size_t lent() const noexcept;
  /// How many times an operation has had to wait for one.
  [[nodiscard]] std::uint64_t waits() const noexcept;
  /// A buffer to fill, with size() == 0; none if all are lent, or others wait for one. Never waits.
  [[nodiscard]] lent_buffer try_take() noexcept;

 private:
  friend detail::pool_state* detail::state_of(buffer_pool& pool) noexcept;
  detail::pool_state* state_;
};

inline detail::pool_state* detail::state_of(buffer_pool& pool) noexcept { return pool.state_; }
/// Null: none.
inline lent_buffer detail::lent_of(pool_state& pool, std::byte* buffer, std::size_t bytes) noexcept {
  return buffer != nullptr ? lent_buffer(pool, buffer, bytes) : lent_buffer();
}

} // namespace unio
