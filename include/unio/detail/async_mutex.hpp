// unio/detail/async_mutex.hpp: a mutex and its guard.

#pragma once

#include <unio/sync.hpp>

namespace unio::inline v0_1 {

inline async_mutex::guard async_mutex::try_lock() noexcept {
  return permits_.try_lock() ? guard(permits_) : guard();
}
inline async_mutex::guard& async_mutex::guard::operator=(guard&& other) noexcept {
  if (this != &other) {
    unlock();
    held_ = std::exchange(other.held_, nullptr);
  }
  return *this;
}
inline void async_mutex::guard::unlock() noexcept {
  if (held_ != nullptr) std::exchange(held_, nullptr)->unlock();
}

} // namespace unio
