// src/fs/crew.hpp: threads that go through one or two directory trees, a directory at a time.
//
// What all algorithms on trees share: the directories that wait, who has which descriptor open, and the end.
// An algorithm derives from `crew` and says what is done in a directory (visit), and after all that is in it
// has been done (left).
//
//   pending ──pop──► visit ──► its own reference dropped ──► left ──► freed, the parent's reference dropped
//              │ make, push children: each holds a reference of its parent
//
// A directory's node lives until all below it has ended, so that there is always a way up. Its descriptors
// may be closed (the oldest that is not in use first); use() opens them again from the nearest
// ancestor that has one, and compares device and inode with those before. climb() opens the parent's by "..".

#pragma once

#include "fs/growing.hpp"

#include <unio/fs/tree.hpp>

#include <pthread.h>

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <string_view>

namespace unio::inline v0_1::fs::trees {

/// A directory that waits, is being visited, or has something below it that is.
struct node {
  node* parent; // null: the root
  node* next;   // in a list
  node* older;  // among the nodes with a descriptor that is not in use
  node* newer;
  int fd[2];      // in one tree, and in the other if there are two
  inode_id id[2]; // where is_known
  std::uint32_t references;
  std::uint32_t users;
  std::uint32_t depth;
  std::uint16_t units; // of its storage
  std::uint16_t name_size;
  bool is_known[2];
  bool is_idle; // in the list of `older` and `newer`
  bool is_held; // its storage stays until the end
  char* name;   // zero-terminated, behind `extra`

  template <class T> [[nodiscard]] T& extra() noexcept {
    static_assert(alignof(T) <= 8);
    return *std::launder(reinterpret_cast<T*>(this + 1));
  }
};

/// Of a node's storage. A name may be as long as a path: vfat, exFAT, NTFS and FUSE have longer ones than
/// NAME_MAX.
inline constexpr std::size_t most_units = 160;

/// A list by `next`.
struct node_list {
  node* first = nullptr;
  node* last = nullptr;
  std::size_t size = 0;
  void push(node& n) noexcept {
    n.next = nullptr;
    (last != nullptr ? last->next : first) = &n;
    last = &n;
    ++size;
  }
};

struct crew_settings {
  int threads = 0;
  int sides = 1;
  std::size_t extra = 0;          ///< bytes of the algorithm's own in each node
  std::size_t buffer = 64U << 10; ///< for getdents64(2), each thread
  std::size_t spare = 0;          ///< bytes behind that buffer, for the algorithm
  bool cross_mounts = false;
  bool follow_links = false;
  bool depth_first = false;
  bool verify = false; ///< a directory that is opened again is the same inode
  bool climb = false;  ///< finds a parent by ".." when the last of its children has ended
  stop_token stop{};
  stop_token second_stop{};
  std::int64_t due = deadline::forever;
};

class crew;

/// One of its threads.
struct worker {
  crew* owner = nullptr;
  int index = 0;
  pthread_t thread{};
  std::byte* buffer = nullptr;
  growing<char> path;  // of open()
  growing<char> shown; // of path()
  node const* shown_node = nullptr;
  std::size_t shown_size = 0;
  node* free[most_units] = {}; // by units
  std::byte* chunk = nullptr;
  std::size_t chunk_left = 0;
};

inline constexpr std::uint32_t spins = 200; ///< before a thread sleeps, or does what another might

/// See the top of the file.
class crew {
 public:
  static constexpr int most_threads = 64;

  explicit crew(crew_settings const& s) noexcept;
  crew(crew const&) = delete;
  crew& operator=(crew const&) = delete;
  virtual ~crew();

  /// Takes the descriptors of the roots, which it closes. Returns 0 or a negative code.
  [[nodiscard]] int begin(int fd, int other_fd = -1) noexcept;
  /// Goes through all of it. Returns 0, or the code that ended it early.
  int run() noexcept;

  [[nodiscard]] int threads() const noexcept { return threads_; }
  /// The code that has ended it early, or 0.
  [[nodiscard]] int ended() const noexcept { return ended_.load(std::memory_order_relaxed); }
  [[nodiscard]] node& root() noexcept { return *root_; }

  /// The path of a name in `n`, below the root, zero-terminated. Lasts until the worker's next call.
  std::string_view path(worker& w, node const& n, std::string_view name) noexcept;

 protected:
  /// 0, or a negative code that ends all.
  virtual int visit(worker& w, node& n) noexcept = 0;
  /// 0; a negative code that ends all; 1: visit it again.
  virtual int left(worker&, node&) noexcept { return 0; }

  /// A node for a directory in `parent`, which push() is to be given. Null: no memory.
  node* make(worker& w, node& parent, std::string_view name) noexcept;
  void push(node_list& children) noexcept;

  /// Its descriptor in tree `side`, which stays open until unuse(); or a negative code.
  int use(worker& w, node& n, int side = 0) noexcept;
  void unuse(node& n) noexcept;
  /// Has its storage stay until the end, so that use() works after it has been left.
  void hold(node& n) noexcept;

  /// Reads entries into w.buffer. Returns their bytes, 0 at the end, or a negative code.
  std::int64_t read(worker& w, int fd) const noexcept;
  /// Whether a stop was requested, the time is over, or end() was called.
  bool must_end() noexcept;
  void end(int code) noexcept;

  crew_settings settings_;

 private:
  void work(worker& w) noexcept;
  bool give_buffer(worker& w) const noexcept;
  void start_helper() noexcept;
  void finish(worker& w, node* n) noexcept;
  void climb(node& n) noexcept;
  int open(worker& w, node const& from, node const& n, int side) noexcept;
  int open_pieces(int base, char* path, std::size_t size, bool is_one) const noexcept;
  int install(node& n, int side, int fd) noexcept;
  void make_idle(node& n) noexcept;
  void make_busy(node& n) noexcept;
  bool evict() noexcept;
  void close_all(node& n) noexcept;
  [[nodiscard]] std::size_t units_for(std::size_t name) const noexcept {
    return (sizeof(node) + settings_.extra + name + 1 + 31) / 32;
  }

  int threads_;
  worker* workers_ = nullptr;
  node* root_ = nullptr;
  std::atomic<int> ended_{0};
  std::atomic<bool> done_{false};
  std::atomic<std::size_t> pending_{0};

  std::mutex mutex_; // for all below
  std::condition_variable wake_;
  node_list queue_;
  node* oldest_ = nullptr;
  node* newest_ = nullptr;
  node* freed_[most_units] = {};
  std::byte* chunks_ = nullptr;
  int open_ = 0;
  int most_open_;
  int started_ = 1;
  int asleep_ = 0;
};

/// 0, or the negative code of what `fd` is no directory for.
int identify(int fd, inode_id& id) noexcept;

} // namespace unio::fs::trees
