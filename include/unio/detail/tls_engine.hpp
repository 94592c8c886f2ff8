// unio/detail/tls_engine.hpp: the queues of bytes on the network's side of an engine.

#pragma once

#include <unio/buffer.hpp>

#include <cstddef>

namespace unio::inline v0_1::detail {

struct tls_hooks; // what OpenSSL calls

/// A block of the frame pool with bytes in the middle; none while it has none.
class tls_bytes {
 public:
  tls_bytes() = default;
  tls_bytes(tls_bytes const&) = delete;
  tls_bytes& operator=(tls_bytes const&) = delete;
  ~tls_bytes() { release(); }

  [[nodiscard]] std::size_t size() const noexcept { return end_ - begin_; }
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] std::byte const* data() const noexcept { return data_ + begin_; }
  [[nodiscard]] mutable_buffer room() const noexcept { return {data_ + end_, capacity_ - end_}; }
  void filled(std::size_t n) noexcept { end_ += n; }
  void taken(std::size_t n) noexcept { begin_ += n; }
  /// Room for `n` bytes after those that are there. False: there is no memory.
  [[nodiscard]] bool reserve(std::size_t n) noexcept;
  /// Gives an empty block back.
  void release_if_empty() noexcept {
    if (begin_ == end_) release();
  }
  void swap(tls_bytes& other) noexcept;

 private:
  void release() noexcept;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
};

} // namespace unio::detail
