// src/driver/registered_memory.hpp: memory that rings register, so that their kernel knows its pages.
//
//   pool ──offer──► offered_memory ◄──looks, when it has changed── registered_memory ──► a ring's kernel
//                  (the process's)                                 (one ring's, of its thread)
//
// A piece of memory has the same number in the process's list and in the table of each ring that registered
// it. A ring registers a piece when an operation first wants it, and gives it up when it sees that the piece
// has gone. An operation finds its piece by its address: so whatever memory it was given, lent or taken, in
// whole or in part, is registered memory if it lies in a piece.
//
// A piece goes only when nothing uses its memory. The kernel keeps the pages of a piece that was given up
// until the operations that it had begun have ended.
//
// * The lookup is made when the entry is, and the operation decides which entry becomes which
//   (use_registered in its table): the same operation runs on a ring that has the memory, on one that may
//   not have it, and on epoll. Before anything is offered it costs no instruction: the first offer changes
//   the marks by which each ring knows the entries of its kernel (known_entries in uring/ring.hpp).
// * What came and went a ring learns by a version, before it looks anything up. So memory that lies where a
//   pool's lay that has ended is never taken for it.
// * What is refused is any memory: by RLIMIT_MEMLOCK, a filter, or a kernel before 5.19. It is counted, and
//   tried again when the list has changed, not before: an attempt brings all of the piece into memory.
// * An option when the pool is made, not a member that is called later: buffers that are lent would lie in
//   memory that has been offered and in memory that has not, and their order of use would decide which.
// * Not for what a socket receives or sends with a copy: the kernel copies anyway, WRITE_FIXED on a socket
//   raises SIGPIPE, and READ_FIXED cannot leave out the attempt that is known to fail.

#pragma once

#include <unio/multiplexer.hpp>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace unio::inline v0_1::driver {

/// The memory of the process that rings may register. From any thread.
class offered_memory {
 public:
  static constexpr unsigned most = 128;
  static constexpr std::size_t max_bytes = std::size_t{1} << 30; // of a piece: io_uring/rsrc.c

  struct piece {
    std::uintptr_t at = 0;
    std::size_t bytes = 0;    // 0: none
    std::uint64_t serial = 0; // never the same for two pieces
    [[nodiscard]] bool has(std::uintptr_t a, std::size_t n) const noexcept {
      return n <= bytes && a - at <= bytes - n; // below its beginning the difference is very large
    }
  };
  using pieces = std::array<piece, most>;

  /// Changes with the list; 0: nothing was ever offered. Acquire: who uses memory knows that it was offered.
  [[nodiscard]] static std::uint64_t version() noexcept { return version_.load(std::memory_order_acquire); }
  /// False: there are too many pieces. Preconditions: 1 <= bytes <= max_bytes.
  static bool offer(std::byte* at, std::size_t bytes) noexcept;
  /// All pieces that begin in that memory. Before it is unmapped.
  static void withdraw(std::byte* at, std::size_t bytes) noexcept;
  /// Copies the list; returns its version.
  static std::uint64_t copy_to(pieces& to) noexcept;

 private:
  friend class registered_memory;
  struct user;
  static constinit std::atomic<std::uint64_t> version_;
  static constinit user const* user_; // null before the first offer: a program without has none of it
};

/// How a kernel is told. Number < offered_memory::most.
struct memory_table {
  void* kernel;
  /// Makes an empty table with room for offered_memory::most pieces: 0 or -errno.
  int (*make)(void* kernel) noexcept;
  /// Puts a piece there, or, with bytes == 0, nothing: 0 or -errno.
  int (*set)(void* kernel, unsigned number, std::uintptr_t at, std::size_t bytes) noexcept;
};

/// What one ring has registered. On its thread only.
class registered_memory {
 public:
  static constexpr int none = -1;

  explicit registered_memory(memory_table table) noexcept : table_(table) {}

  /// The number of the piece that has all of this, which is registered first if it is not; or `none`.
  int find(std::uintptr_t at, std::size_t bytes) noexcept;
  /// Gives up what has gone.
  void look() noexcept;
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  void count_in(counters& c) noexcept { counted_ = &c; }

 private:
  struct known {
    offered_memory::pieces pieces;
    std::array<std::uint64_t, offered_memory::most> serials{}; // of what is registered in each place
    std::array<std::uint64_t, offered_memory::most> refused{}; // of what the kernel would not register
    std::array<std::size_t, offered_memory::most> bytes{};     // of what is registered
  };

  friend class offered_memory;
  int find_known(std::uintptr_t at, std::size_t bytes) noexcept;
  bool seek(std::uintptr_t at, std::size_t bytes) noexcept;
  bool add(unsigned number) noexcept;
  void look_again() noexcept;

  memory_table table_;
  counters* counted_ = nullptr;
  std::unique_ptr<known> known_; // null until something is offered
  std::uint64_t version_ = 0;
  unsigned last_ = 0; // the one that was found last
  unsigned end_ = 0;  // of the pieces that there are
  std::size_t bytes_ = 0;
  enum class table_state : std::uint8_t { none, made, refused } state_ = table_state::none;
};

/// What rings do with what is offered.
struct offered_memory::user {
  void (registered_memory::*look_again)() noexcept;
  int (registered_memory::*find)(std::uintptr_t at, std::size_t bytes) noexcept;
};

inline void registered_memory::look() noexcept {
  if (version_ != offered_memory::version()) (this->*offered_memory::user_->look_again)();
}

inline int registered_memory::find(std::uintptr_t at, std::size_t bytes) noexcept {
  look();
  return known_ != nullptr ? (this->*offered_memory::user_->find)(at, bytes) : none;
}

} // namespace unio::driver
