// A checksum of a stream of bytes: FNV-1a over 64-bit words. It depends on the order of the bytes and not on
// how they were cut into pieces.

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

namespace tour {

class checksum {
 public:
  void add(std::span<std::byte const> bytes) noexcept {
    length_ += bytes.size();
    while (carried_ != 0 && !bytes.empty()) {
      carry(bytes.front());
      bytes = bytes.subspan(1);
    }
    for (; bytes.size() >= sizeof(std::uint64_t); bytes = bytes.subspan(sizeof(std::uint64_t))) {
      std::uint64_t word;
      std::memcpy(&word, bytes.data(), sizeof word);
      mix(word);
    }
    for (std::byte const b : bytes) carry(b);
  }

  /// Of all that was added, its length included.
  [[nodiscard]] std::uint64_t value() const noexcept {
    checksum whole = *this;
    whole.mix(word_);
    whole.mix(length_);
    return whole.hash_;
  }

 private:
  void mix(std::uint64_t word) noexcept { hash_ = (hash_ ^ word) * 0x100000001b3; }
  void carry(std::byte b) noexcept {
    word_ |= std::to_integer<std::uint64_t>(b) << (8 * carried_);
    if (++carried_ == sizeof word_) {
      mix(word_);
      word_ = 0;
      carried_ = 0;
    }
  }

  std::uint64_t hash_ = 0xcbf29ce484222325;
  std::uint64_t word_ = 0; // the bytes of a word that is not complete yet
  std::uint64_t length_ = 0;
  unsigned carried_ = 0;
};

} // namespace tour
