// src/driver/foreign/foreign.hpp: what drives a foreign_reactor.
//
// A driver watches descriptors and waits. The reactor has the list of watches and the lock; it replaces its
// driver where that cannot go on: a second thread, a fork, io_uring forbidden.

#pragma once

#include <unio/extend/foreign_reactor.hpp>
#include <unio/result.hpp>

#include <cstdint>

namespace unio::inline v0_1::driver {

class foreign_transfers;

/// Reported of a watch that carries transfers: its stream has ended, perhaps after bytes. POLLRDHUP.
constexpr unsigned foreign_peer_ended = 0x2000;

/// Where a transfer is. Changed under the reactor's lock, but by the worker that has it.
enum class transfer_place : std::uint32_t {
  idle,        ///< not started, or reported
  queued,      ///< the ring is to get it
  in_kernel,   ///< the ring has it
  waiting,     ///< for its descriptor to be ready
  with_worker, ///< a worker has it, or will
  awaited,     ///< the same, and a thread sleeps until it is over
  over,        ///< it has its result, and is to be reported
};

/// The members of foreign_watch and of foreign_transfer. All but those that are atomic are read and changed
/// under the reactor's lock, or by the one that has the transfer.
struct foreign_access {
  static foreign_transfer*& next(foreign_transfer& t) noexcept { return t.next_transfer_; }
  static foreign_transfer*& previous(foreign_transfer& t) noexcept { return t.previous_transfer_; }
  static foreign_transfer*& next_queued(foreign_transfer& t) noexcept { return t.next_queued_; }
  static foreign_transfers*& owner(foreign_transfer& t) noexcept { return t.owner_; }
  static foreign_watch*& watch(foreign_transfer& t) noexcept { return t.watch_; }
  static foreign_entry& entry(foreign_transfer& t) noexcept { return t.entry_; }
  static std::int64_t& result(foreign_transfer& t) noexcept { return t.result_; }
  static std::uint64_t& worker_place(foreign_transfer& t) noexcept { return t.worker_place_; }
  static std::atomic<std::uint32_t>& place(foreign_transfer& t) noexcept { return t.place_; }
  static bool& is_cancelled(foreign_transfer& t) noexcept { return t.is_cancelled_; }
  static bool& is_connecting(foreign_transfer& t) noexcept { return t.is_connecting_; }

  static foreign_watch*& next(foreign_watch& w) noexcept { return w.next_; }
  static foreign_watch*& previous(foreign_watch& w) noexcept { return w.previous_; }
  static foreign_watch*& next_waiting(foreign_watch& w) noexcept { return w.next_waiting_; }
  static int& fd(foreign_watch& w) noexcept { return w.fd_; }
  static int& copy(foreign_watch& w) noexcept { return w.copy_; }
  /// The number that epoll knows it by.
  static int number(foreign_watch& w) noexcept { return w.copy_ >= 0 ? w.copy_ : w.fd_; }
  static std::atomic<std::uint16_t>& generation(foreign_watch& w) noexcept { return w.generation_; }
  static std::uint8_t& interest(foreign_watch& w) noexcept { return w.interest_; }
  static std::uint8_t& armed(foreign_watch& w) noexcept { return w.armed_; }
  static std::uint8_t& reports(foreign_watch& w) noexcept { return w.reports_; }
  static bool& is_waiting(foreign_watch& w) noexcept { return w.is_waiting_; }
  static std::atomic<bool>& is_added(foreign_watch& w) noexcept { return w.is_added_; }
  static bool& can_wait(foreign_watch& w) noexcept { return w.can_wait_; }
  static bool& is_kept(foreign_watch& w) noexcept { return w.is_kept_; }
  static std::atomic<bool>& carries(foreign_watch& w) noexcept { return w.carries_; }
  static std::atomic<std::uint8_t>& doubts(foreign_watch& w) noexcept { return w.doubts_; }
  static foreign_transfer*& transfers(foreign_watch& w) noexcept { return w.transfers_; }
  static std::uint8_t& kind(foreign_watch& w) noexcept { return w.kind_; }
  static bool& expects(foreign_watch& w) noexcept { return w.expects_; }
  static std::atomic<std::uint8_t>& unready(foreign_watch& w) noexcept { return w.unready_; }
  static std::atomic<std::uint32_t>& changes(foreign_watch& w) noexcept { return w.changes_; }
  static std::atomic<std::uint32_t>& socket(foreign_watch& w) noexcept { return w.changes_; }
};

inline void set_place(foreign_transfer& t, transfer_place p) noexcept {
  foreign_access::place(t).store(static_cast<std::uint32_t>(p), std::memory_order_relaxed);
}

/// A name for a watch, as it is now, in 64 bits: 45 of its address, 16 of its generation, and 3 for the
/// driver. User space has 47 bits of address; a watch is aligned to 8.
class foreign_tag {
 public:
  static std::uint64_t make(foreign_watch& w, unsigned extra = 0) noexcept {
    auto const address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&w));
    std::uint16_t const g = foreign_access::generation(w).load(std::memory_order_relaxed);
    return address << 16 | std::uint64_t{extra} << 16 | g;
  }
  /// Null if it was removed since. Of no watch at all: null too.
  static foreign_watch* find(std::uint64_t tag) noexcept {
    auto* const w = reinterpret_cast<foreign_watch*>(static_cast<std::uintptr_t>(tag >> 19 << 3));
    if (w == nullptr) return nullptr;
    // Relaxed: who removes it at this moment may see it reported once more, as remove() says.
    std::uint16_t const g = foreign_access::generation(*w).load(std::memory_order_relaxed);
    return g == static_cast<std::uint16_t>(tag) ? w : nullptr;
  }
  static unsigned extra(std::uint64_t tag) noexcept { return static_cast<unsigned>(tag >> 16) & 7; }

  /// A transfer is reported before its address may be another's, and so needs no generation.
  static std::uint64_t make(foreign_transfer& t) noexcept {
    auto const address = static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(&t));
    return address << 16 | std::uint64_t{of_transfer} << 16;
  }
  static bool is_of_transfer(std::uint64_t tag) noexcept { return (extra(tag) & of_transfer) != 0; }
  /// Null: it is of a watch.
  static foreign_transfer* find_transfer(std::uint64_t tag) noexcept {
    if (!is_of_transfer(tag)) return nullptr;
    return reinterpret_cast<foreign_transfer*>(static_cast<std::uintptr_t>(tag >> 19 << 3));
  }

 private:
  static constexpr unsigned of_transfer = 4;
};
static_assert(alignof(foreign_watch) >= 8 && alignof(foreign_transfer) >= 8);

/// Its functions but wait() are called under the reactor's lock.
class foreign_driver {
 public:
  foreign_driver() = default;
  foreign_driver(foreign_driver const&) = delete;
  foreign_driver& operator=(foreign_driver const&) = delete;
  virtual ~foreign_driver() = default;

  /// Watches it for its interest. Returns 0, `never_waits` or -errno; -EEXIST: its number is registered
  /// already, and arm() makes that its registration.
  virtual int add(foreign_watch& w) noexcept = 0;
  static constexpr int never_waits = 1;
  /// Its interest has grown by `news`; what of `asked` it is ready for is to be reported. Returns 0 or
  /// -errno.
  virtual int arm(foreign_watch& w, unsigned news, unsigned asked) noexcept = 0;
  /// The generation has changed already; `tag` is of the one before. False: only the thread that runs it can.
  virtual bool remove(foreign_watch& w, std::uint64_t tag, bool closes) noexcept = 0;
  /// Whether it makes transfers, by the two functions that follow. Otherwise they wait for their watch, and a
  /// file's are made by workers.
  [[nodiscard]] virtual bool makes_transfers() const noexcept { return false; }
  /// Its place becomes `queued`.
  virtual void start(foreign_transfer&) noexcept {}
  /// Its place is `queued` or `in_kernel`. True: the kernel will not get it. Otherwise it is over
  /// soon, as every transfer that the kernel has.
  virtual bool cancel(foreign_transfer&) noexcept { return false; }
  /// Whether what was added, armed or started waits for wait() to be called. By other threads too.
  [[nodiscard]] virtual bool has_orders() const noexcept { return false; }
  /// Collects up to `n` events into `events`, waits if there is none. timeout_ns < 0: for ever. Returns how
  /// many, or -errno if there is none.
  virtual std::int64_t wait(std::int64_t timeout_ns, foreign_event* events, std::size_t n) noexcept = 0;
  /// Another takes its place: of the transfers that it had each is over, or `queued` for the other. True:
  /// nothing of it keeps a descriptor open. False: not before has_left().
  virtual bool leave() noexcept { return true; }
  virtual bool has_left() noexcept { return true; }
  /// By the thread that runs it: the kernel drops what it has of it, and is asked again with the next wait()
  /// for what is not removed or cancelled.
  virtual void drop() noexcept {}
  /// Whether only another thread, which runs it, can take back what the kernel has of it. No wait() but that
  /// thread's works.
  [[nodiscard]] virtual bool is_of_another() const noexcept { return false; }
  /// Whether it works for one thread alone.
  [[nodiscard]] virtual bool is_ring() const noexcept { return false; }
  [[nodiscard]] virtual char const* name() const noexcept = 0;
};

/// The thread that runs the reactor, and who wakes it.
struct foreign_sleeper {
  enum place : std::uint8_t { away, inside, asleep }; ///< not in the driver; there; there, and may wait
  int doorbell = -1;
  std::atomic<place> runner{away};
  /// Preceded by what it is woken for, in the order that reactor.cpp describes.
  void wake_if_asleep() noexcept {
    if (runner.load(std::memory_order_seq_cst) == asleep) wake();
  }
  void wake() noexcept;
};

/// A loop that says what waits in it.
class foreign_loop {
 public:
  explicit foreign_loop(foreign_reactor const& r) noexcept : reactor_(r) {}
  foreign_loop(foreign_loop const&) = delete;
  foreign_loop& operator=(foreign_loop const&) = delete;
  ~foreign_loop() { list_by(nullptr, nullptr); }
  /// Null: it says nothing, once this has returned.
  void list_by(foreign_lister lister, void* loop) noexcept;
  /// Calls `head` and then the lister of each.
  static void list_all(void (*head)(foreign_list& list, foreign_reactor const& r), foreign_list& list);

 private:
  foreign_reactor const& reactor_;
  foreign_lister lister_ = nullptr;
  void* loop_ = nullptr;
  foreign_loop* next_ = nullptr; // of all that have a lister
  foreign_loop* previous_ = nullptr;
};

/// Who runs the reactor.
enum class foreign_use : std::uint8_t { by_one_thread, by_several };

} // namespace unio::driver
