// src/driver/registry.hpp: every engine of the process.

#pragma once

#include <cstddef>
#include <mutex>
#include <string>

namespace unio::driver {

class engine;

/// A lock and a list, touched when an engine is made or destroyed, and when a descriptor is closed that another thread's
/// engine has an operation on.
class registry {
 public:
  static void enlist(engine& e) noexcept;
  static void delist(engine& e) noexcept;
  /// Has every engine but the calling thread's own cancel what it has on `fd` and forget it; waits for them.
  static void forget_in_others(int fd) noexcept;
  /// Has every engine write down what it has in flight, on its own thread.
  static void ask_all(std::string& text);

 private:
  static std::mutex& all_mutex() noexcept;
  /// The n-th of the list, or null. Under the lock.
  static engine* at(std::size_t index) noexcept;
};

} // namespace unio::driver
