// The two ends of a transfer. Neither knows what its bytes move through (ports.hpp), nor in which style it is
// run: it says what it wants next (request) and takes the result (take).
//
//   reading_end   reads until the end of the stream, or a limit; checksums what arrived
//   writing_end   writes what it was given
//
// A relay, which copies a file, is a reading end that passes what it read to a writing end and waits for it.

#pragma once

#include "checksum.hpp"
#include "ports.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <system_error>

namespace tour {

using bytes_view = std::span<std::byte const>;

template <class Port> class writing_end {
 public:
  using result_type = unio::io_result<unio::const_buffers>;
  enum class at_end { stay_open, close };

  writing_end(Port to, at_end what) : to_(to), what_(what) {}

  void give(bytes_view bytes) noexcept { left_ = bytes; }
  /// No more bytes will follow.
  void finish() noexcept {
    last_given_ = true;
    end_if_done();
  }

  void give_all(bytes_view bytes) noexcept {
    give(bytes);
    finish();
  }

  [[nodiscard]] bool is_drained() const noexcept { return left_.empty() || is_ended_; }
  [[nodiscard]] bool is_ready() const noexcept { return !is_drained(); }
  [[nodiscard]] bool is_ended() const noexcept { return is_ended_; }
  [[nodiscard]] std::error_code why() const noexcept { return why_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return written_; }

  [[nodiscard]] auto describe() noexcept { return to_.async_write(request()); }
  result_type perform() noexcept { return to_.write(request()); }
  auto co_perform() noexcept { return to_.co_write(request()); }
  void take(result_type&& r) noexcept {
    why_ = r.error();
    written_ += r.bytes_transferred();
    left_ = left_.subspan(r.bytes_transferred());
    if (why_) {
      end();
    } else {
      end_if_done();
    }
  }

 private:
  // A handle that cannot seek ignores the offset.
  [[nodiscard]] unio::io_request<unio::const_buffers> request() const noexcept {
    return {unio::const_buffer(left_.first(std::min(left_.size(), Port::chunk_bytes))), written_};
  }
  void end_if_done() noexcept {
    if (last_given_ && left_.empty()) end();
  }
  void end() noexcept {
    is_ended_ = true;
    if (what_ == at_end::close || why_) to_.close(); // the reader sees the end of the stream
  }

  Port to_;
  bytes_view left_;
  std::uint64_t written_ = 0;
  std::error_code why_;
  at_end what_;
  bool last_given_ = false;
  bool is_ended_ = false;
};

template <class Port> class reading_end {
 public:
  using result_type = unio::io_result<unio::mutable_buffers>;

  reading_end(Port from, std::span<std::byte> into, std::uint64_t limit, writing_end<Port>* relay) noexcept
      : from_(from),
        into_(into.first(std::min(into.size(), Port::chunk_bytes))),
        limit_(limit),
        relay_(relay) {
    if (limit == 0) end();
  }

  [[nodiscard]] bool is_ready() const noexcept {
    return !is_ended_ && (relay_ == nullptr || relay_->is_drained());
  }
  [[nodiscard]] bool is_ended() const noexcept { return is_ended_; }
  [[nodiscard]] std::error_code why() const noexcept { return why_; }
  [[nodiscard]] std::uint64_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::uint64_t sum() const noexcept { return sum_.value(); }

  [[nodiscard]] auto describe() noexcept { return from_.async_read(request()); }
  result_type perform() noexcept { return from_.read(request()); }
  auto co_perform() noexcept { return from_.co_read(request()); }
  void take(result_type&& r) noexcept {
    why_ = r.error();
    if (why_ || r.bytes_transferred() == 0) return end();
    for (unio::mutable_buffer const filled : *r) sum_.add({filled.data(), filled.size()});
    bytes_ += r.bytes_transferred();
    if (relay_ != nullptr) relay_->give({r->front().data(), r->front().size()});
    if (bytes_ == limit_) end();
  }

 private:
  [[nodiscard]] unio::io_request<unio::mutable_buffers> request() const noexcept {
    return {unio::mutable_buffer(into_.first(std::min<std::uint64_t>(into_.size(), limit_ - bytes_))),
            bytes_};
  }
  void end() noexcept {
    is_ended_ = true;
    if (relay_ != nullptr) relay_->finish();
    if (why_) from_.close(); // notifies the writer
  }

  Port from_;
  std::span<std::byte> into_;
  std::uint64_t limit_;
  std::uint64_t bytes_ = 0;
  checksum sum_;
  writing_end<Port>* relay_;
  std::error_code why_;
  bool is_ended_ = false;
};

} // namespace tour
