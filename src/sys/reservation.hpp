// src/sys/reservation.hpp: an array of its largest possible size, of which only touched pages take memory.
// Growing is a page fault and not an allocation, and elements never move.

#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <type_traits>

namespace unio::inline v0_1::sys {

/// `Count` elements of zeroes in address space of their own; null if there is no address space (RLIMIT_AS).
template <class T, std::size_t Count> class reservation {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  reservation() noexcept {
    void* const p = ::mmap(nullptr, Count * sizeof(T), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    data_ = p == MAP_FAILED ? nullptr : static_cast<T*>(p);
  }
  reservation(reservation const&) = delete;
  reservation& operator=(reservation const&) = delete;
  ~reservation() {
    if (data_ != nullptr) ::munmap(data_, Count * sizeof(T));
  }

  explicit operator bool() const noexcept { return data_ != nullptr; }
  [[nodiscard]] static constexpr std::size_t size() noexcept { return Count; }
  T& operator[](std::size_t i) const noexcept { return data_[i]; }

 private:
  T* data_;
};

} // namespace unio::sys
