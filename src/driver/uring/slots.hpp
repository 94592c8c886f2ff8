// src/driver/uring/slots.hpp: names for operations that the kernel can hold without holding a pointer.
//
// user_data is a slot's number and its generation. A completion whose generation is not the slot's current one is of an
// operation that has gone, and reaches nobody (tokio#8112, mio CVE-2024-27308).

#pragma once

#include <unio/operation.hpp>

#include <cstdint>
#include <memory>
#include <new>

namespace unio::driver {

class slot_table {
 public:
  static constexpr std::uint32_t none = 0xffffffff;

  /// A slot for `op`, or `none` if there is no memory for more. Allocates when more are in use than ever before.
  std::uint32_t take(io_operation& op) noexcept {
    if (free_ == none && !grow()) return none;
    std::uint32_t const i = free_;
    slot& s = at(i);
    free_ = s.next_free;
    s.op = &op;
    return i;
  }
  void give_back(std::uint32_t i) noexcept {
    slot& s = at(i);
    s.op = nullptr;
    ++s.generation;
    s.next_free = free_;
    free_ = i;
  }
  [[nodiscard]] std::uint64_t user_data(std::uint32_t i) noexcept { return std::uint64_t{at(i).generation} << 32 | i; }
  /// The operation that `user_data` names, or null if it has gone.
  [[nodiscard]] io_operation* find(std::uint64_t user_data) noexcept {
    auto const i = static_cast<std::uint32_t>(user_data);
    if (i >= made_) return nullptr;
    slot const& s = at(i);
    return s.generation == user_data >> 32 ? s.op : nullptr;
  }

 private:
  struct slot {
    io_operation* op = nullptr;
    std::uint32_t generation = 1;
    std::uint32_t next_free = none;
  };
  static constexpr std::uint32_t page_size = 1024;
  static constexpr std::uint32_t max_pages = 4096;  // four million operations in flight

  slot& at(std::uint32_t i) noexcept { return pages_[i / page_size][i % page_size]; }

  bool grow() noexcept {
    if (made_ / page_size == max_pages) return false;
    std::unique_ptr<slot[]> page(new (std::nothrow) slot[page_size]);
    if (page == nullptr) return false;
    for (std::uint32_t i = 0; i < page_size; ++i) page[i].next_free = i + 1 < page_size ? made_ + i + 1 : free_;
    free_ = made_;
    pages_[made_ / page_size] = std::move(page);
    made_ += page_size;
    return true;
  }

  std::unique_ptr<slot[]> pages_[max_pages];
  std::uint32_t made_ = 0;
  std::uint32_t free_ = none;
};

}  // namespace unio::driver
