// src/driver/buffer_slots.hpp: memory of which a ring's kernel chooses what it reads into.
//
//   buffer_source ──join──► buffer_slots ──stand──► the kernel reads ──► arrived ──take──► the caller's
//        │                       ▲
//        └─── another buffer ────┘
//
// A pool gives each ring that it is used with some slots, with a buffer in each. The kernel fills a buffer
// and says which slot it stood in; the caller gets the buffer, and the slot another one from the pool.
// Buffers never come back to a ring by themselves (netty#14788), so that they may be dropped on any thread:
// only the ring's thread touches its slots.
//
// * Slots are on top of what a pool lends. Buffers in them are free by definition: no ring keeps one from
//   another, and none has to be asked back. What the kernel has filled is lent when fewer than count() are;
//   otherwise the operation asks the kernel to stop and waits in the pool's queue, with its bytes.
// * An empty ring of buffers is no error. -ENOBUFS means that the operation reads by itself, into a buffer
//   of the pool; if there is none, it queues. The same for every error that is the ring's and not the
//   stream's.
// * Values do not hold up others: a completion for an operation with an undelivered value is appended to
//   what has arrived for it; the receiver gets one after the other, in its turns.
// * Bytes beat stops, even where all buffers are lent: then the count is exceeded for a while.
// * One request for many values is used where a trial, once per process, has brought the bytes and the end,
//   in both orders (uring/choosing.cpp); for Unix sockets only where it cannot lose their end.
// * Only rings with deferred task work have slots: their kernel reads nothing while no thread enters, so
//   that a ring that is forbidden has told all that it has read.

#pragma once

#include <linux/io_uring.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1::driver {

class buffer_slots;

/// What buffers are taken from. From any thread.
class buffer_source {
 public:
  /// Slots for one ring, each with a buffer; null: no memory, or too many rings have some.
  virtual buffer_slots* join() noexcept = 0;
  /// Puts buffers into empty slots, as far as there are some to spare.
  virtual void refill(buffer_slots& slots) noexcept = 0;
  /// The ring does not use them any more. `is_known`: nor does the kernel, and what it filled was taken.
  virtual void leave(buffer_slots& slots, bool is_known) noexcept = 0;
  /// No ring will read into its buffers any more: it waits for its slots to be given back.
  [[nodiscard]] virtual bool has_ended() const noexcept = 0;

 protected:
  ~buffer_source() = default;
};

/// The slots of one ring, and the queue that offers the kernel the buffers in them.
class buffer_slots {
 public:
  static constexpr unsigned most = 64;
  static constexpr std::size_t queue_bytes = most * sizeof(io_uring_buf);

  /// `queue`: a page of zeroes. `count`: a power of two. All are empty.
  buffer_slots(void* queue, unsigned count, std::uint32_t size) noexcept
      : queue_(static_cast<io_uring_buf*>(queue)), count_(count), size_(size) {
    for (unsigned i = 0; i != count; ++i) empty_[i] = static_cast<std::uint8_t>(i);
    empty_count_ = count;
  }

  [[nodiscard]] io_uring_buf const* queue() const noexcept { return queue_; }
  [[nodiscard]] unsigned count() const noexcept { return count_; }
  [[nodiscard]] unsigned empty_count() const noexcept { return empty_count_; }

  /// So many are empty that it is time to fill them: telling the kernel of several costs as much as of one.
  [[nodiscard]] bool wants_buffers() const noexcept {
    return empty_count_ >= (count_ >= 16 ? count_ / 8 : 1);
  }
  /// Puts buffers into empty slots, where the kernel may choose them: `n`, of which `take_one` gives each.
  template <class Take> void stand(unsigned n, Take take_one) noexcept {
    std::uint8_t const* empty = &empty_[empty_count_];
    empty_count_ -= n;
    for (; n != 0; --n) stand_in(*--empty, take_one());
    publish();
  }
  /// The kernel has chosen the slot and brought nothing: it stands again.
  void stand_again(unsigned slot) noexcept {
    stand_in(slot, slots_[slot]);
    publish();
  }
  /// The buffer of a slot that the kernel has filled.
  std::byte* take(unsigned slot) noexcept {
    empty_[empty_count_++] = static_cast<std::uint8_t>(slot);
    std::byte* const buffer = slots_[slot];
    slots_[slot] = nullptr;
    return buffer;
  }
  /// Of a ring that has none of them yet.
  void stand_anew() noexcept {
    tail_ = 0;
    for (unsigned i = 0; i != count_; ++i)
      if (slots_[i] != nullptr) stand_in(i, slots_[i]);
    publish();
  }

  // What has arrived in a slot, and the slot that was filled after it, for a caller's list.
  struct filled {
    std::uint32_t bytes = 0;
    std::uint16_t next = 0;
  };
  filled& in(unsigned slot) noexcept { return filled_[slot]; }

  buffer_slots* next = nullptr; ///< the source's
  bool in_use = false;          ///< the source's
  bool is_lost = false;         ///< a kernel may still know them

 private:
  void stand_in(unsigned i, std::byte* buffer) noexcept {
    slots_[i] = buffer;
    io_uring_buf& e = queue_[tail_ & (count_ - 1)];
    e.addr = reinterpret_cast<std::uintptr_t>(buffer);
    e.len = size_;
    e.bid = static_cast<std::uint16_t>(i);
    ++tail_;
  }
  // The tail is where the first entry has room for it (struct io_uring_buf_ring). Release: pairs with the
  // kernel's acquire.
  void publish() noexcept { std::atomic_ref(queue_[0].resv).store(tail_, std::memory_order_release); }

  io_uring_buf* queue_;
  std::uint16_t tail_ = 0;
  unsigned count_;
  std::uint32_t size_; // of each buffer
  unsigned empty_count_ = 0;
  std::array<std::byte*, most> slots_{};
  std::array<filled, most> filled_{};
  std::array<std::uint8_t, most> empty_{};
};

/// The slots that one ring has, by the numbers under which its kernel knows them.
class buffer_groups {
 public:
  static constexpr int most = 16;
  static constexpr int none = -1;

  /// The number for the buffers of a source; `none`: no room, or no memory. `add(number, slots)` tells the
  /// kernel of new ones and returns whether it could, `drop(number)` of those that have gone.
  template <class Add, class Drop> int find(buffer_source& source, Add add, Drop drop) noexcept {
    if (int const known = number_of(source); known != none) {
      if (slots(known)->wants_buffers()) source.refill(*slots(known));
      return known;
    }
    int number = none;
    for (int i = 0; i != most; ++i) {
      group& g = groups_[static_cast<unsigned>(i)];
      if (g.source != nullptr && g.source->has_ended()) {
        drop(i);
        give_back(g, true);
      }
      if (g.source == nullptr && number == none) number = i;
    }
    if (number == none) return none;
    buffer_slots* const slots = source.join();
    if (slots == nullptr) return none;
    slots->stand_anew();
    if (!add(number, *slots)) {
      source.leave(*slots, true);
      return none;
    }
    groups_[static_cast<unsigned>(number)] = {&source, slots};
    last_ = number;
    return number;
  }
  /// Of a source that was found before.
  [[nodiscard]] buffer_slots* slots_of(buffer_source& source) noexcept {
    int const number = number_of(source);
    return number != none ? slots(number) : nullptr;
  }
  [[nodiscard]] buffer_slots* slots(int number) const noexcept {
    return groups_[static_cast<unsigned>(number)].slots;
  }
  void leave_all(bool is_known) noexcept {
    for (group& g : groups_)
      if (g.source != nullptr) give_back(g, is_known);
  }

 private:
  struct group {
    buffer_source* source = nullptr;
    buffer_slots* slots = nullptr;
  };
  int number_of(buffer_source const& source) noexcept {
    if (groups_[static_cast<unsigned>(last_)].source == &source) [[likely]]
      return last_;
    for (int i = 0; i != most; ++i)
      if (groups_[static_cast<unsigned>(i)].source == &source) return last_ = i;
    return none;
  }
  static void give_back(group& g, bool is_known) noexcept {
    g.source->leave(*g.slots, is_known);
    g = {};
  }

  std::array<group, most> groups_{};
  int last_ = 0; // the one that was asked for last
};

} // namespace unio::driver
