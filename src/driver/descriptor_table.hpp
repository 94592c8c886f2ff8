// src/driver/descriptor_table.hpp: what one multiplexer knows of each descriptor.

#pragma once

#include "sys/descriptors.hpp"
#include "sys/reservation.hpp"

#include <unio/operation.hpp>

#include <cstdint>

namespace unio::inline v0_1::driver {

/// The adaptive inline attempt: whether trying the system call at once has lately been worth it, for one
/// direction of one descriptor.
///
/// A hit adds one, up to 3; a miss takes three. Below zero the driver is asked at once, except for every 32nd
/// operation, which tries again. A driver that learns when readiness changes (epoll) knows better: empty
/// until then. It may also know that a read which fell short has drained the descriptor: where the attempt
/// after such a read was in vain, none is made after the next 31.
class predictor {
 public:
  [[nodiscard]] bool worth_trying() noexcept {
    if (score_ >= 0) [[likely]]
      return true;
    if (score_ <= drained || ++skipped_ < 32) return false;
    skipped_ = 0;
    return true;
  }
  void hit() noexcept {
    if (score_ < surest) score_ = score_ < 0 ? std::int8_t{0} : static_cast<std::int8_t>(score_ + 1);
  }
  void miss() noexcept { score_ = score_ > 0 ? static_cast<std::int8_t>(score_ - 3) : std::int8_t{-2}; }
  void set_empty() noexcept {
    was_in_vain_ = score_ < surest;
    score_ = empty;
  }
  void set_ready() noexcept { score_ = surest; }
  /// The same where the first attempt shall be noted.
  void set_ready_untried() noexcept { score_ = untried; }
  /// Ready, and so until an attempt finds nothing: what a read that falls short leaves may be an end.
  void set_ready_to_the_end() noexcept { score_ = to_the_end; }
  void set_drained() noexcept {
    if (score_ == to_the_end || !was_in_vain_) return;
    skipped_ = (skipped_ + 1U) % 32;
    if (skipped_ != 0) score_ = drained;
  }
  [[nodiscard]] bool is_drained() const noexcept { return score_ == drained; }
  [[nodiscard]] bool is_ready() const noexcept { return score_ >= 0; }
  /// Another hit would tell nothing new.
  [[nodiscard]] bool is_sure() const noexcept { return score_ >= surest; }

 private:
  static constexpr std::int8_t empty = -128;
  static constexpr std::int8_t drained = -127;
  static constexpr std::int8_t untried = 2;
  static constexpr std::int8_t surest = 3;
  static constexpr std::int8_t to_the_end = 4;
  std::int8_t score_ = 0;
  std::uint8_t skipped_ : 7 = 0;
  std::uint8_t was_in_vain_ : 1 = false; ///< the last attempt that found nothing came after no hit
};

struct descriptor {
  io_operation* in_flight = nullptr;    ///< operations on it, through operation_links::next_on_handle
  std::uint32_t generation : 29 = 0;    ///< of the number, when the rest was learnt
  std::uint32_t registered : 1 = false; ///< epoll knows it, and says when it becomes ready
  std::uint32_t knows_protocol : 1 = false;
  std::uint32_t is_tcp : 1 = false; ///< if its protocol is known
  predictor reading;
  predictor writing;

  static constexpr std::uint32_t all_generations = ~std::uint32_t{0} >> 3;

  predictor& direction_of(io_operation const& op) noexcept {
    direction flow = op.faces().flow;
    if (flow == direction::either)
      flow = op.faces().wants(op) == readiness::writable ? direction::out : direction::in;
    return one_way(flow);
  }
  /// The same for what goes one way only.
  predictor& one_way(direction flow) noexcept { return flow == direction::out ? writing : reading; }
  /// An attempt found nothing.
  void missed(io_operation const& op) noexcept {
    if (op.faces().flow == direction::either) {
      readiness const wants = op.faces().wants(op);
      if (wants != readiness::readable && wants != readiness::writable)
        return; // says nothing about either direction
    }
    if (registered) {
      direction_of(op).set_empty();
    } else {
      direction_of(op).miss();
    }
  }
};

static_assert(sizeof(descriptor) == 16); // each connection has one

/// Descriptors by number. Numbers above a million share entries with lower ones, and what is known is that of
/// the one that was looked at last.
class descriptor_table {
 public:
  /// Null when there is no address space for the table.
  descriptor* find(int fd) noexcept {
    if (fd < 0 || !entries_) [[unlikely]]
      return fd < 0 ? &none_ : nullptr;
    std::size_t const i = index_of(fd);
    if (i >= used_) used_ = i + 1;
    descriptor& d = entries_[i];
    if (std::uint32_t const g = generation_of(fd); d.generation != g) [[unlikely]] {
      // The number stands for something else than when we last looked. Operations that are still in flight on
      // it (a clash of numbers above a million) stay listed.
      io_operation* const in_flight = d.in_flight;
      d = descriptor{};
      d.in_flight = in_flight;
      d.generation = g & descriptor::all_generations;
    }
    return &d;
  }

  /// What find() returned before, if that still holds; otherwise null.
  descriptor* find_known(int fd) noexcept {
    if (fd < 0) return &none_;
    std::size_t const i = index_of(fd);
    if (i >= used_) [[unlikely]]
      return nullptr;
    descriptor& d = entries_[i];
    return d.generation == generation_of(fd) ? &d : nullptr;
  }

  /// Where operations on it are listed, whatever the number has come to stand for. Preconditions: one is.
  descriptor& find_listed(int fd) noexcept { return fd < 0 ? none_ : entries_[index_of(fd)]; }

  template <class F> void for_each(F f) {
    f(none_);
    for (std::size_t i = 0; i < used_; ++i) f(entries_[i]);
  }

 private:
  static std::size_t index_of(int fd) noexcept {
    return static_cast<std::uint32_t>(fd) & (sys::descriptor_table_size - 1);
  }
  // Numbers that share an entry share their generation in the process's table too, and differ here.
  static std::uint32_t generation_of(int fd) noexcept {
    std::uint32_t const millions = static_cast<std::uint32_t>(fd) & ~(sys::descriptor_table_size - 1);
    return (sys::generation(fd) + millions) & descriptor::all_generations;
  }

  descriptor none_;      // operations without a descriptor
  std::size_t used_ = 0; // entries from here on were never looked at
  sys::reservation<descriptor, sys::descriptor_table_size> entries_;
};

} // namespace unio::driver
