// src/op/face.hpp: what the operations' files share: the tail of every decoder, and buffers as the kernel takes them.

#pragma once

#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <unio/buffer.hpp>
#include <unio/operation.hpp>

#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>

namespace unio::op {

/// sys::uninterrupted, as what perform() returns: no caller sees EINTR, and no call moves more than an int can say.
template <class Call> int uninterrupted(Call call) noexcept {
  return static_cast<int>(sys::uninterrupted(call));
}

/// The tail of a decoder, after bytes and the operation's own errors: a stop that hid nothing, "not yet", an error.
inline outcome decode_error(io_operation& op, int res) noexcept {
  if (res == -EAGAIN) return outcome::again;
  if (res == -EINTR && !op.links.is.cancel_wanted) return outcome::again;
  bool const stopped = res == -ECANCELED || res == -EINTR;
  op.set_outcome(stopped ? op.canceled_code() : res);
  return outcome::finished;
}

/// A value, or an error.
inline outcome decode(io_operation& op, int res) noexcept {
  if (res < 0) return decode_error(op, res);
  op.set_outcome(res);
  return outcome::finished;
}

inline constexpr std::size_t max_bytes = 0x7ffff000; // MAX_RW_COUNT: the most that one call moves
inline constexpr std::size_t max_vectors = 1024;     // UIO_MAXIOV

/// A list of buffers as readv(2) takes it. A list that was cut short inside its last buffer leaves that one out: the
/// caller's array is never changed, and moving less than asked is always allowed.
struct vectors {
  iovec const* data;
  int count;
};

template <class Buffer> vectors as_vectors(buffer_list<Buffer> const& list) noexcept {
  static_assert(sizeof(Buffer) == sizeof(iovec));
  std::size_t n = std::min(list.size(), max_vectors);
  if (n > 1 && n == list.size() && list[n - 1].size() != list.array()[n - 1].size()) --n;
  return {reinterpret_cast<iovec const*>(list.array()), static_cast<int>(n)};
}

/// True if the whole list is one piece of memory, which goes by the shorter system calls.
template <class Buffer> bool is_single(buffer_list<Buffer> const& list) noexcept {
  return list.size() == 1 || (list.size() == 2 && as_vectors(list).count == 1);
}

inline bool is_file(handle_kind k) noexcept {
  return k == handle_kind::file || k == handle_kind::mapped_file;
}

} // namespace unio::op
