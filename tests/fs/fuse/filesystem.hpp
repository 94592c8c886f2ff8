// A filesystem in memory, served through FUSE by a child process, whose operations fail as a test tells them
// to.
//
//   test::fuse::filesystem fs({.machines = 2});       two mounts of the same files, each with caches of its
//                                                     own
//   if (!fs.is_mounted()) GTEST_SKIP() << fs.why_not();
//   fs->lock_error = ENOLCK;                          from now on
//   … fs.path(0) …
//
// Nothing stays behind, however the test ends: mounts lie in a mount namespace of this process and are
// detached by the destructor; the server ends with this process, and after a minute at most, which ends what
// waits for it with ENOTCONN.

#pragma once

#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace test::fuse {

/// What a server does wrong. Shared with it; an error of 0 is none.
struct switches {
  std::atomic<int> lookup_error{0};
  std::atomic<int> open_error{0}; // of files, also of new ones
  std::atomic<int> attributes_error{0};
  std::atomic<int> lock_error{0};
  std::atomic<int> read_error{0};
  std::atomic<int> write_error{0};
  std::atomic<int> fallocate_error{0}; // ENOSYS: the kernel does not ask again, and says EOPNOTSUPP
  std::atomic<int> open_directory_error{0};
  std::atomic<int> list_error{0};
  std::atomic<int> unlink_error{0};
  std::atomic<int> rmdir_error{0};
  std::atomic<int> mkdir_error{0};
  std::atomic<int> flush_error{0};        // what close(2) of a file says: see options::flushes
  std::atomic<bool> spoils_writes{false}; // stores another first byte, without an error
  char victim[32] = {}; // only requests about what has this name fail; empty: all. Set while nobody asks
  std::atomic<long> room{
      -1}; // how many bytes may still be written: what is beyond is cut off; -1: any number

  // How many answers about attributes to machine 0 are kept until it asks again, about the same file: then
  // they come first, and are old.
  std::atomic<int> answers_to_keep{0};
  std::atomic<int> answers_kept{0};

  // What the server was asked for: each request, and those for locks.
  std::atomic<long> requests{0};
  std::atomic<long> lock_requests{0};
  std::atomic<long> locks_held{0}; // ranges, of whomever
};

struct options {
  int machines = 1;
  bool locks_here = false; // the kernel of each machine has locks of its own: the server knows none
  double cached_for = 0;   // seconds for which names, attributes and contents are believed without a question
  bool keeps_locks =
      false; // of a closed file until they are unlocked: a server that has only heard of POSIX locks
  bool renames_removed = false; // what is removed stays by another name, as on NFS while it is open
  bool flushes = false;         // it is asked about each close(2)
  bool direct = false;          // nothing is cached, and nothing can be mapped shared
};

class filesystem {
 public:
  explicit filesystem(options o = {});
  filesystem(filesystem const&) = delete;
  filesystem& operator=(filesystem const&) = delete;
  ~filesystem();

  [[nodiscard]] bool is_mounted() const { return why_not_.empty(); }
  /// Why nothing could be mounted.
  [[nodiscard]] std::string const& why_not() const { return why_not_; }
  /// The root, as machine `i` sees it.
  [[nodiscard]] std::string path(int i = 0) const { return mountpoints_ / std::to_string(i); }
  switches* operator->() const { return switches_; }
  /// As if it had crashed.
  void kill_server() { server_->kill(); }
  /// From now on, of what has this name; nullptr: of everything. An error of 0 is none.
  void fail(std::atomic<int> switches::* what, int error, char const* name = nullptr) const {
    std::strncpy(switches_->victim, name != nullptr ? name : "", sizeof switches_->victim - 1);
    switches_->*what = error;
  }

 private:
  temporary_directory mountpoints_;
  switches* switches_;
  int machines_;
  std::string why_not_;
  std::optional<process> server_;
};

} // namespace test::fuse
