// src/fs/growing.hpp: storage that grows and reports when there is no more, for the algorithms on trees.
//
//   growing       an array of plain values
//   inode_table   values by device and inode

#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1::fs::trees {

/// An array that grows by half. Keeps its storage when it is cleared.
template <class T> class growing {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  growing() = default;
  growing(growing&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        room_(std::exchange(other.room_, 0)) {}
  growing& operator=(growing&&) = delete;
  ~growing() { std::free(data_); }

  [[nodiscard]] T* data() noexcept { return data_; }
  [[nodiscard]] T const* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return data_[i]; }
  [[nodiscard]] T const& operator[](std::size_t i) const noexcept { return data_[i]; }
  [[nodiscard]] T* begin() noexcept { return data_; }
  [[nodiscard]] T* end() noexcept { return data_ + size_; }

  void clear() noexcept { size_ = 0; }
  /// False: no memory; nothing has changed.
  [[nodiscard]] bool resize(std::size_t n) noexcept {
    if (n > room_) {
      std::size_t const room = n + n / 2 + 16;
      void* const p = std::realloc(static_cast<void*>(data_), room * sizeof(T));
      if (p == nullptr) return false;
      data_ = static_cast<T*>(p);
      room_ = room;
    }
    size_ = n;
    return true;
  }
  [[nodiscard]] bool push(T const& v) noexcept {
    if (!resize(size_ + 1)) return false;
    data_[size_ - 1] = v;
    return true;
  }
  [[nodiscard]] bool append(T const* v, std::size_t n) noexcept {
    std::size_t const at = size_;
    if (!resize(size_ + n)) return false;
    if (n != 0) std::memcpy(static_cast<void*>(data_ + at), v, n * sizeof(T));
    return true;
  }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t room_ = 0;
};

struct inode_id {
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  bool operator==(inode_id const&) const = default;
};

/// Values by device and inode. Pointers to them last until the next find_or_add().
template <class T> class inode_table {
  struct slot {
    inode_id id;
    bool used;
    T value;
  };

 public:
  /// The value of `id`; `added`: it is new, a copy of T(). Null: no memory.
  T* find_or_add(inode_id id, bool& added) noexcept {
    added = false;
    if ((count_ + 1) * 2 > slots_.size() && !grow()) return nullptr;
    slot& s = at(id);
    if (!s.used) {
      s = {id, true, T()};
      ++count_;
      added = true;
    }
    return &s.value;
  }
  /// The value of `id`, or null.
  T* find(inode_id id) noexcept {
    slot* const s = count_ != 0 ? &at(id) : nullptr;
    return s != nullptr && s->used ? &s->value : nullptr;
  }
  [[nodiscard]] std::size_t size() const noexcept { return count_; }

 private:
  slot& at(inode_id id) noexcept {
    std::uint64_t h = (id.inode ^ (id.device << 32)) * 0x9e3779b97f4a7c15U;
    std::size_t const mask = slots_.size() - 1;
    for (std::size_t i = (h ^ (h >> 29)) & mask;; i = (i + 1) & mask)
      if (!slots_[i].used || slots_[i].id == id) return slots_[i];
  }
  bool grow() noexcept {
    growing<slot> old(std::move(slots_));
    std::size_t const n = old.size() == 0 ? 64 : old.size() * 2;
    new (&slots_) growing<slot>();
    if (!slots_.resize(n)) {
      new (&slots_) growing<slot>(std::move(old));
      return false;
    }
    std::memset(static_cast<void*>(slots_.data()), 0, n * sizeof(slot));
    for (slot const& s : old)
      if (s.used) at(s.id) = s;
    return true;
  }

  growing<slot> slots_; // a power of two, at most half of them used
  std::size_t count_ = 0;
};

} // namespace unio::fs::trees
