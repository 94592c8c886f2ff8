// One thread of a harness that asks for entities, under the eyes of the oracle.

#pragma once

#include "crash/algorithms.hpp"
#include "crash/oracle.hpp"

#include <unio/locks/shared_fs_mutex.hpp>

#include <chrono>
#include <memory>
#include <span>
#include <string>

namespace crash {

/// Time that this thread spent neither running nor waiting for a processor: what a busy machine takes is
/// nobody's mistake.
class sleep_clock {
 public:
  sleep_clock();
  ~sleep_clock();
  sleep_clock(sleep_clock const&) = delete;
  sleep_clock& operator=(sleep_clock const&) = delete;
  /// Begins anew.
  void start() noexcept;
  [[nodiscard]] std::chrono::nanoseconds elapsed() const noexcept;
  /// Of elapsed(): waited for a processor, as the kernel says. Nothing where it does not.
  [[nodiscard]] std::chrono::nanoseconds starved() const noexcept;

 private:
  int fd_ = -1;
  std::int64_t began_ns_ = 0;
  std::int64_t starved_ns_ = 0;
  [[nodiscard]] std::int64_t read_starved() const noexcept;
};

enum class how { tries, within, waits, spins };

class worker {
 public:
  worker(oracle& o, algorithm const& a) : worker(o, a, o.begin(a)) {}
  /// `number`: what o.begin() said, before this process was forked.
  worker(oracle& o, algorithm const& a, unsigned number) : oracle_(o), algorithm_(a), me_(number) {}
  ~worker();
  worker(worker const&) = delete;
  worker& operator=(worker const&) = delete;

  /// Complains, and returns false, if it cannot.
  bool open(std::string const& directory, unsigned user);
  /// Takes part in one that was opened already.
  void use(std::shared_ptr<unio::fs::shared_fs_mutex> m) { mutex_ = std::move(m); }
  [[nodiscard]] std::shared_ptr<unio::fs::shared_fs_mutex> const& mutex() const { return mutex_; }
  void close() { mutex_.reset(); }
  /// It may be stopped: what takes long is no mistake.
  void ignore_time() noexcept { is_timed_ = false; }

  /// Asks; if it was granted: enters, calls `inside`, leaves, gives back. False: refused, as it may be.
  /// Complains of an error, of a try that waited, of a deadline that was not kept.
  template <class F>
  bool request(std::span<unio::fs::entity const> entities, how h, std::chrono::nanoseconds span, F&& inside) {
    if (!acquire(entities, h, span)) return false;
    inside();
    give_back();
    return true;
  }
  bool acquire(std::span<unio::fs::entity const> entities, how h, std::chrono::nanoseconds span = {});
  void give_back();

  [[nodiscard]] unsigned number() const noexcept { return me_; }

 private:
  oracle& oracle_;
  algorithm const& algorithm_;
  unsigned me_;
  bool is_timed_ = true;
  unsigned slow_tries_ = 0; // one after the other
  unsigned late_ = 0;
  std::shared_ptr<unio::fs::shared_fs_mutex> mutex_;
  sleep_clock clock_;
  unio::fs::entities_guard held_;
  wanted wanted_;
};

} // namespace crash
