// src/driver/foreign/runner.hpp: the thread for which alone a foreign_reactor's ring works, and its end.

#pragma once

namespace unio::inline v0_1::driver {

/// A reactor's. Its functions are called by one thread at a time, which may hold the reactor's lock.
class foreign_runner {
 public:
  /// `ends(self)` is called when the thread that is bound ends, by that thread.
  foreign_runner(void (*ends)(void* self) noexcept, void* self) noexcept : ends_(ends), self_(self) {}
  foreign_runner(foreign_runner const&) = delete;
  foreign_runner& operator=(foreign_runner const&) = delete;
  ~foreign_runner() { end(); }
  /// For good. Not under the reactor's lock: waits for a call that is under way.
  void end() noexcept;

  /// Binds the calling thread, which is bound to it until that ends or unbind(). False: it is ending.
  bool bind() noexcept;
  void unbind() noexcept;

 private:
  struct of_thread;
  void unlink() noexcept;

  void (*const ends_)(void*) noexcept;
  void* const self_;
  of_thread* thread_ = nullptr; // guarded by the lock of all, as what follows
  foreign_runner* next_ = nullptr;
  foreign_runner* previous_ = nullptr;
  unsigned fork_generation_ = 0; // of which process the thread is
  bool is_being_called_ = false;
};

} // namespace unio::driver
