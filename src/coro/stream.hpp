// src/coro/stream.hpp: what whole transfers share: their deadline, the rest of a list of buffers, the bytes
// moved.

#pragma once

#include "sys/calls.hpp"
#include "sys/due.hpp"

#include <unio/stream.hpp>

#include <algorithm>
#include <cstring>

namespace unio::detail {

inline std::error_code system_error(int code) noexcept { return {code, std::system_category()}; }

/// The deadline of a whole transfer: a moment, once it has begun. Zero stays zero: do what can be done
/// without waiting.
class time_limit {
 public:
  explicit time_limit(deadline d) noexcept : deadline_(d) {
    if (d.is_none() || d.is_zero()) return;
    due_ns_ = sys::due(d);
    deadline_ = std::chrono::steady_clock::time_point(std::chrono::nanoseconds(due_ns_));
  }
  /// For the next transfer.
  [[nodiscard]] deadline next() const noexcept { return deadline_; }
  /// Checked because a source that always has data would never notice.
  [[nodiscard]] bool has_passed() const noexcept {
    return due_ns_ != deadline::forever && sys::steady_now() >= due_ns_;
  }

 private:
  deadline deadline_;
  std::int64_t due_ns_ = deadline::forever;
};

/// The rest of a list of buffers. The caller's array is not changed, so the rest of a partly moved buffer
/// goes alone.
template <class Buffer> class unmoved {
 public:
  explicit unmoved(buffer_list<Buffer> const& all) noexcept : all_(all), left_(all.bytes()) { skip_empty(); }

  [[nodiscard]] bool empty() const noexcept { return left_ == 0; }
  [[nodiscard]] std::size_t moved() const noexcept { return moved_; }
  /// What to move next: never empty, and does not begin with an empty buffer.
  [[nodiscard]] buffer_list<Buffer> next() const noexcept {
    Buffer const first = all_[index_];
    if (within_ != 0 || index_ + 1 == all_.size())
      return buffer_list<Buffer>(Buffer(first.data() + within_, first.size() - within_));
    return buffer_list<Buffer>(std::span<Buffer const>(all_.array() + index_, all_.size() - index_))
        .first(left_);
  }
  void advance(std::size_t n) noexcept {
    moved_ += n;
    left_ -= n;
    within_ += n;
    skip_empty();
  }

 private:
  void skip_empty() noexcept {
    while (index_ != all_.size() && within_ >= all_[index_].size()) within_ -= all_[index_++].size();
  }
  buffer_list<Buffer> all_;
  std::size_t left_;
  std::size_t moved_ = 0;
  std::size_t index_ = 0;
  std::size_t within_ = 0; // of the buffer at index_
};

/// How many bytes a transfer moved of `asked`.
template <class Buffer>
std::size_t bytes_moved(io_result<buffer_list<Buffer>> const& r, std::size_t asked) noexcept {
  std::size_t const n = r.has_value() ? r->bytes() : r.bytes_transferred();
  UNIO_EXPECTS(n <= asked, "a stream says that it moved more than it was asked to");
  return n;
}

/// Copies what a read returned to where it was wanted.
inline void bring(mutable_buffers const& got, mutable_buffers const& wanted) noexcept {
  if (got.empty() || got.front().data() == wanted.front().data()) return; // already there
  std::size_t at = 0;
  std::size_t within = 0;
  for (mutable_buffer piece : got) {
    while (!piece.empty()) {
      mutable_buffer const to = wanted[at];
      std::size_t const n = std::min(piece.size(), to.size() - within);
      if (n != 0) std::memmove(to.data() + within, piece.data(), n);
      piece = mutable_buffer(piece.data() + n, piece.size() - n);
      within += n;
      if (within == to.size()) ++at, within = 0;
    }
  }
}

/// How many bytes a read brought to where they were wanted.
inline std::size_t brought(io_result<mutable_buffers> const& got, mutable_buffers const& wanted) noexcept {
  if (got.has_value()) bring(*got, wanted);
  return bytes_moved(got, wanted.bytes());
}

/// A block of the pool, freed at the end of its scope.
class block {
 public:
  explicit block(std::size_t size) : data_(frame_pool::allocate(size)), size_(size) {}
  block(block const&) = delete;
  block& operator=(block const&) = delete;
  ~block() { frame_pool::deallocate(data_, size_); }
  [[nodiscard]] mutable_buffer first(std::size_t n) const noexcept { return {data_, n}; }

 private:
  void* data_;
  std::size_t size_;
};

} // namespace unio::detail
