// src/driver/descriptor_table.hpp: what one multiplexer knows of each descriptor.

#pragma once

#include "sys/descriptors.hpp"

#include <unio/operation.hpp>

#include <array>
#include <cstdint>
#include <memory>
#include <new>

namespace unio::driver {

/// The adaptive inline attempt: whether trying the system call at once has lately been worth it on a descriptor.
///
/// A hit adds one, up to 3; a miss takes three. Below zero the driver is asked at once, until it finds that it was ready
/// all along (note_ready), or for every 32nd operation, which tries again.
class predictor {
 public:
  [[nodiscard]] bool worth_trying() noexcept {
    if (score_ >= 0) return true;
    if (++skipped_ < 32) return false;
    skipped_ = 0;
    return true;
  }
  void hit() noexcept { score_ = score_ < 0 ? std::int8_t{0} : score_ < 3 ? static_cast<std::int8_t>(score_ + 1) : score_; }
  void miss() noexcept { score_ = score_ > 0 ? static_cast<std::int8_t>(score_ - 3) : std::int8_t{-2}; }
  void note_ready() noexcept {
    if (score_ < 0) ++score_;
  }

 private:
  std::int8_t score_ = 0;
  std::uint8_t skipped_ = 0;
};

struct descriptor {
  io_operation* in_flight = nullptr;  ///< operations on it, through operation_links::next_on_handle
  std::uint32_t generation = 0;       ///< of the number, when the rest was learnt
  predictor reading;
  predictor writing;
  bool registered = false;   ///< epoll knows it
  bool readable = true;      ///< epoll: not known to be empty
  bool writable = true;      ///< epoll: not known to be full
};

/// Descriptors by number, in pages made when first touched. Numbers above a million share entries with lower ones: what
/// is kept is only ever a hint, or checked against the operation's own descriptor.
class descriptor_table {
 public:
  /// Null when there is no memory.
  descriptor* find(int fd) noexcept {
    if (fd < 0) return &none_;
    auto const i = static_cast<std::uint32_t>(fd) & (sys::descriptor_table_size - 1);
    std::unique_ptr<page>& p = pages_[i / page_size];
    if (p == nullptr) {
      p.reset(new (std::nothrow) page);
      if (p == nullptr) return nullptr;
    }
    descriptor& d = (*p)[i % page_size];
    if (std::uint32_t const g = sys::generation(fd); d.generation != g) {
      // The number stands for something else than when we last looked. Operations that are still in flight on it (a
      // clash of numbers above a million) stay listed.
      io_operation* const in_flight = d.in_flight;
      d = descriptor{};
      d.in_flight = in_flight;
      d.generation = g;
    }
    return &d;
  }

  template <class F>
  void for_each(F f) {
    f(none_);
    for (std::unique_ptr<page>& p : pages_)
      if (p != nullptr)
        for (descriptor& d : *p) f(d);
  }

 private:
  static constexpr std::size_t page_size = 128;
  using page = std::array<descriptor, page_size>;

  descriptor none_;  // operations without a descriptor
  std::array<std::unique_ptr<page>, sys::descriptor_table_size / page_size> pages_;
};

}  // namespace unio::driver
