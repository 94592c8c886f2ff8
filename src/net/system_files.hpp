// src/net/system_files.hpp: the files by which a system says how names are looked up, read when they change.
//
//   files_reading   reads them, a piece at a time
//   own_lock        one of this process
//   system_files    what they say now

#pragma once

#include "net/config.hpp"
#include "sys/fork.hpp"
#include "sys/give_way.hpp"

#include <unio/handle.hpp>
#include <unio/task.hpp>

#include <atomic>
#include <memory>
#include <optional>
#include <string>

namespace unio::inline v0_1::net {

/// Reads the files that have changed since they were last read.
class files_reading {
 public:
  /// `before`: what they said then, or null.
  files_reading(resolver_options const& options, settings const* before);
  /// Reads and parses some kilobytes. True: that was the last of them.
  bool some();
  /// What they say. Preconditions: some() has returned true.
  std::shared_ptr<settings const> take() noexcept { return std::move(fresh_); }
  /// Whether some could not be looked at, for want of descriptors or memory: these say what they said before.
  [[nodiscard]] bool lacks_some() const noexcept { return lacks_some_; }
  /// Whether it can go on: no exception has left some(), and no file has changed since it was read.
  [[nodiscard]] bool can_go_on() const;

 private:
  static constexpr int n_files = 3;
  [[nodiscard]] std::string const& path(int file) const noexcept;
  bool read_some();
  bool open();
  bool read_piece();
  void parse();
  void complete();

  resolver_options const& options_;
  std::shared_ptr<settings> fresh_;
  std::shared_ptr<hosts_table> hosts_;
  std::optional<hosts_parser> parser_; // of hosts_
  io_handle file_;
  std::string text_; // read, and not parsed
  std::int64_t offset_ = 0;
  int current_ = 0; // which file
  bool is_open_ = false;
  bool is_whole_ = true;
  bool knows_all_; // of each file there is a version from before
  bool lacks_some_ = false;
};

/// A lock of this process that a forked child finds open, whichever thread of the parent held it.
class own_lock {
 public:
  enum class got : unsigned char {
    nothing,
    all,
    debris, ///< a thread of the parent's held it at the fork: what it protects may be half changed
  };

  [[nodiscard]] got try_lock() noexcept {
    unsigned const mine = sys::fork_generation() + 1;
    unsigned found = 0;
    if (holder_.compare_exchange_strong(found, mine, std::memory_order_acquire)) return got::all;
    if (found == mine || !holder_.compare_exchange_strong(found, mine, std::memory_order_acquire))
      return got::nothing;
    return got::debris;
  }
  got lock() noexcept {
    for (unsigned spins = 0;; ++spins) {
      if (got const g = try_lock(); g != got::nothing) return g;
      if (spins > 64) sys::give_way(spins);
    }
  }
  void unlock() noexcept { holder_.store(0, std::memory_order_release); } // pairs with try_lock()

 private:
  std::atomic<unsigned> holder_{0}; // 1 + the generation of the process that holds it
};

/// The settings, at most `check_every` old: then the files are looked at, and those read again that changed.
///
/// One caller reads; the others go on with what was known, or wait for it the first time, for a second at
/// most. What a caller leaves half read, because it was stopped or its time was over, the next one continues.
class system_files {
 public:
  explicit system_files(resolver_options const& options) noexcept : options_(options) {}
  /// If they are fresh; otherwise null.
  std::shared_ptr<settings const> if_fresh() noexcept;
  /// Reads what has changed. Blocks.
  std::shared_ptr<settings const> now();
  /// The same, letting others run after each piece. `limit` is a moment, none, or zero.
  ///
  /// Errors  condition::timed_out, canceled; would_block where another one reads them for the first time
  task<result<std::shared_ptr<settings const>>> co_now(deadline limit);

 private:
  class turn;
  std::shared_ptr<settings const> known() noexcept;
  void lock() noexcept;

  resolver_options const& options_;
  own_lock reading_;                          // unfinished_; held while files are read
  std::unique_ptr<files_reading> unfinished_; // there is one if it was left half read
  own_lock lock_;                             // the rest
  std::shared_ptr<settings const> current_;
  std::int64_t checked_ns_ = 0;
};

} // namespace unio::net
