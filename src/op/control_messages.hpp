// src/op/control_messages.hpp: reading what the kernel says of a message apart from its bytes.
//
// Nothing in the bytes is trusted: a header that is cut, a length that lies outside, a value that is shorter
// than its type. What cannot be read is as if it were not there.

#pragma once

#include <sys/socket.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace unio::inline v0_1::op {

struct control_message {
  int level = 0;
  int type = 0;
  std::span<std::byte const> data;

  [[nodiscard]] bool is(int l, int t) const noexcept { return level == l && type == t; }
  /// Copies the value out, which need not be aligned. False: it is too short.
  template <class T> bool get(T& value) const noexcept {
    if (data.size() < sizeof(T)) return false;
    std::memcpy(&value, data.data(), sizeof(T));
    return true;
  }
};

/// One control message after the other.
class control_messages {
 public:
  explicit control_messages(std::span<std::byte const> bytes) noexcept : rest_(bytes) {}

  /// False: there is none left.
  bool next(control_message& m) noexcept {
    cmsghdr header;
    if (rest_.size() < sizeof(header)) return false;
    std::memcpy(&header, rest_.data(), sizeof(header));
    if (header.cmsg_len < sizeof(header)) return false;
    std::size_t const size = std::min<std::size_t>(header.cmsg_len, rest_.size());
    m = {header.cmsg_level, header.cmsg_type, rest_.subspan(sizeof(header), size - sizeof(header))};
    // No more is skipped than there is: a length near the greatest number would wrap when it is rounded up.
    rest_ = rest_.subspan(std::min(CMSG_ALIGN(size), rest_.size()));
    return true;
  }

 private:
  std::span<std::byte const> rest_;
};

/// Writes control messages into memory that is large enough: what is written is bounded by the callers.
class control_writer {
 public:
  explicit control_writer(std::span<std::byte> memory) noexcept : memory_(memory) {}

  void put(int level, int type, void const* value, std::size_t size) noexcept {
    if (memory_.size() - used_ < CMSG_SPACE(size)) return;
    cmsghdr header{};
    header.cmsg_len = CMSG_LEN(size);
    header.cmsg_level = level;
    header.cmsg_type = type;
    std::byte* const at = memory_.data() + used_;
    std::memset(at, 0, CMSG_SPACE(size)); // the padding goes to the kernel too
    std::memcpy(at, &header, sizeof(header));
    std::memcpy(at + CMSG_LEN(0), value, size);
    used_ += CMSG_SPACE(size);
  }
  template <class T> void put(int level, int type, T const& value) noexcept {
    put(level, type, &value, sizeof(value));
  }
  [[nodiscard]] std::size_t size() const noexcept { return used_; }

 private:
  std::span<std::byte> memory_;
  std::size_t used_ = 0;
};

} // namespace unio::op
