// unio/fs/tree.hpp: what the algorithms on directory trees have in common. Link with unio::fs.
//
//   tree_failure    a name that something could not be done with, and why
//   tree_failures   the first of them, kept
//   tree_progress   how far an algorithm has come
//   tree_options    threads, mounts, and what ends it early
//
// An algorithm (walk, reduce, copy, …) is a blocking function that works on the calling thread and on helper
// threads of its own, which end before it returns. One directory is one task: two threads are never in the
// same directory, whose lock they would wait for. Names are resolved relative to descriptors of directories
// and never through a symbolic link, so that what others rename cannot lead out of the tree. Few
// descriptors are open at a time, at most a quarter of RLIMIT_NOFILE and never more than 512; a directory
// whose descriptor was closed is found again from the nearest one that is open, by `..` where that is
// shorter, and is compared by device and inode. So a tree may be deeper than PATH_MAX and than any stack.
//
// What cannot be done with one name is reported, and the rest goes on. The function's result is an error only
// if nothing was begun; otherwise a report, in which `ended` says why it ended early, if it did.
//
// The simulation refuses them.
//
// The awaited forms (co_walk, …) run the same function on a thread of their own. A stop of the coroutine ends
// it as options.stop does; no coroutine is resumed before all of its threads have ended.

#pragma once

#include <unio/deadline.hpp>
#include <unio/directory_entry.hpp>
#include <unio/file_handle.hpp>
#include <unio/result.hpp>
#include <unio/stop_token.hpp>
#include <unio/task.hpp>

#include <cstdint>
#include <memory>
#include <string_view>

namespace unio::inline v0_1::fs {

/// A name that something could not be done with.
struct tree_failure {
  std::string_view path;   ///< below the root of the tree; empty: the root. Valid during the call
  std::string_view what;   ///< what was tried: "open", "remove", …
  std::error_code why;     ///< EXDEV from "open": another mount, which was left alone
  std::string_view reason; ///< what is known beyond `why`, as "immutable"; empty: nothing
};

/// The first failures of an algorithm, with copies of their paths, and the number of all.
///
/// Thread safety  distinct: safe; shared: for readers
/// Cost           an allocation for each that is kept; one without memory is counted only
class UNIO_API tree_failures {
 public:
  static constexpr std::size_t most_kept = 16;

  [[nodiscard]] std::uint64_t count() const noexcept { return count_; }
  [[nodiscard]] std::size_t kept() const noexcept { return kept_; }
  [[nodiscard]] bool empty() const noexcept { return count_ == 0; }
  /// Preconditions  i < kept()
  [[nodiscard]] tree_failure operator[](std::size_t i) const noexcept;
  /// Counts a failure, and keeps a copy of it while there is room.
  void add(tree_failure const& f) noexcept;

 private:
  struct one {
    std::unique_ptr<char[]> path;
    std::size_t path_size = 0;
    std::string_view what; // of static storage, as is the reason
    std::string_view reason;
    std::error_code why;
  };
  std::unique_ptr<one[]> all_;
  std::size_t kept_ = 0;
  std::uint64_t count_ = 0;
};

/// How far an algorithm has come. Totals grow until total_is_known.
struct tree_progress {
  std::uint64_t entries = 0;       ///< done
  std::uint64_t bytes = 0;         ///< done
  std::uint64_t shared_bytes = 0;  ///< of these, storage that is shared instead of copied
  std::uint64_t total_entries = 0; ///< found so far
  std::uint64_t total_bytes = 0;
  bool total_is_known = false;
};

/// Is told what an algorithm does. Derive from it what you need.
///
/// Concurrency  failed() and progress() are called by one thread at a time, on any of the algorithm's
///              threads. They hold up the algorithm while they run
class UNIO_API tree_sink {
 public:
  /// Something failed, and the algorithm goes on.
  virtual void failed(tree_failure const&) noexcept {}
  /// Called at most every 20 ms while work is done, and once at the end.
  virtual void progress(tree_progress const&) noexcept {}

 protected:
  virtual ~tree_sink() = default;
};

struct tree_options {
  int threads = 0;           ///< with the caller's; 0: one for each processor, at most 8
  bool cross_mounts = false; ///< go into what is mounted below the root
  stop_token stop{};         ///< a stop ends it soon, with condition::canceled
};

} // namespace unio::fs
