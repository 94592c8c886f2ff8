// src/coro/stream.hpp: what whole transfers share: the rest of a list of buffers, the bytes moved, a turn for
// others.

#pragma once

#include <unio/detail/time_limit.hpp>
#include <unio/stream.hpp>
#include <unio/task.hpp>

#include <algorithm>
#include <cstring>

namespace unio::inline v0_1::detail {

inline std::error_code system_error(int code) noexcept { return {code, std::system_category()}; }

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

/// Answers a question of a buffered_awaitable in a later turn.
template <class Question> task<typename Question::answer_type> give_a_turn(Question q) {
  co_await co_yield_now();
  typename Question::answer_type a;
  if (q.at_once(a)) co_return a;
  co_return co_await q.slowly(false);
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
