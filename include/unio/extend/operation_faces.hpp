// unio/extend/operation_faces.hpp: what a driver knows of an operation, and what it keeps in it.
//
//   readiness, handle_kind    what operations wait for, and on what
//   readiness_set             the same of a descriptor, as a set
//   driver::operation_faces   the functions through which a driver runs an operation
//   driver::place             where an operation is
//   driver::operation_links   what a driver keeps in an operation
//
// For those who write an operation or a driver. Programs need the first and the third, for poll() and
// poll_any(), and nothing else.

#pragma once

#include <unio/config.hpp>
#include <unio/detail/flag_set.hpp>

#include <cstddef>
#include <cstdint>
#include <limits>

struct io_uring_sqe; // the kernel's; only ever named, never looked into, above src/

namespace unio::inline v0_1 {

class io_operation;
namespace detail {
struct failed_object;
} // namespace detail

/// What kind of thing a descriptor is, so that an operation knows which system call moves its bytes.
enum class handle_kind : std::uint8_t {
  none,
  path,
  file,
  mapped_file,
  pipe,
  named_pipe,
  stream_socket,
  listening_socket,
  event,
  datagram_socket,
  directory,
  process,
  signal,
  watch
};

/// A regular file: readiness means nothing for it.
constexpr bool is_file(handle_kind k) noexcept {
  return k == handle_kind::file || k == handle_kind::mapped_file;
}

/// What an operation that could not be performed at once waits for.
enum class readiness : std::uint8_t {
  nothing,     ///< it never waits
  readable,    ///< its descriptor to have something to read
  writable,    ///< its descriptor to have room
  exceptional, ///< urgent data or another exceptional condition
  time,        ///< its moment: the deadline is the result
  worker,      ///< a thread that may block, because readiness means nothing for its descriptor
  retry,       ///< a little time: the kernel offers nothing better to wait for
  resource,    ///< what others have and give back: see resource_faces
};

/// Whether that is the readiness of a descriptor.
constexpr bool waits_for_descriptor(readiness r) noexcept {
  return r == readiness::readable || r == readiness::writable || r == readiness::exceptional;
}

/// What a descriptor is waited for, or is ready for, as poll(2) means it. A set: combine with |, ask with
/// has(). Thread safety: a value. Cost: none.
enum class readiness_set : std::uint8_t {
  none = 0,
  readable = 1,    ///< POLLIN: a read would not wait. Also at the end of a stream, and for a connection
  writable = 2,    ///< POLLOUT: a write would not wait. Also when a connection is made, or was refused
  exceptional = 4, ///< POLLPRI: urgent data, a changed file of cgroup or sysfs
  error = 8,       ///< POLLERR: waited for in any case
  hang_up = 16,    ///< POLLHUP: waited for in any case
};
template <> inline constexpr bool detail::is_flag_set<readiness_set> = true;

namespace driver {

class buffer_slots;
class buffer_source;
class registered_memory;

/// How perform() may behave.
enum class attempt : std::uint8_t {
  nonblocking, ///< must not wait: -EAGAIN if it would
  blocking,    ///< may wait as long as the system call waits; only for what has no readiness to wait for
};

/// What complete() made of a result.
enum class outcome : std::uint8_t {
  finished, ///< the value is known and the kernel holds nothing any more
  holding,  ///< the value is known; a later completion says that the kernel has released the buffers
  released, ///< that completion: the value was known already
  more,     ///< a value is known and more will come
  pause,   ///< a value (an error for want of resources) is known; more will come if tried again after a while
  pending, ///< nothing is known yet; another completion follows
  again,   ///< nothing is known yet: wait for readiness and perform again
};

/// When start() tries perform() before it asks a driver.
enum class inline_attempt : std::uint8_t {
  never,     ///< the driver does it better
  predicted, ///< when it has lately been worth the system call on this descriptor
  always,    ///< it costs no system call, or always succeeds
};

/// Which way bytes go through the descriptor that an operation waits on.
enum class direction : std::uint8_t { in, out, either }; // either: as wants() says

/// How an operation waits for a resource that no descriptor stands for, such as a buffer of a pool. All on
/// the thread that runs it.
struct resource_faces {
  char const* name; ///< for dump_pending()
  /// Joins the queue. Once the resource is granted, work is posted to the operation's multiplexer that polls
  /// it. False: there is one again, and nothing was queued.
  bool (*enqueue)(io_operation&) noexcept;
  /// Whether it is granted. Then perform() uses it, or complete() gives it back.
  bool (*is_granted)(io_operation const&) noexcept;
  /// Leaves the queue, and takes back what was posted. What was granted stays so.
  void (*leave)(io_operation&) noexcept;
  /// The same without a multiplexer: blocks until it is granted or the moment has come, and leaves the queue.
  void (*block)(io_operation&, std::int64_t until) noexcept;

  // If it is memory to read into, of which a ring's kernel chooses (src/driver/buffer_slots.hpp).

  /// What it is taken from.
  buffer_source* (*source)(io_operation&) noexcept = nullptr;
  /// The kernel has read `res` bytes into a slot, or has come to the end or to an error (`slots` may be null
  /// then). They stay with the operation until perform() returns them, in their order.
  void (*arrived)(io_operation&, buffer_slots* slots, unsigned slot, int res) noexcept = nullptr;
  /// Whether perform() has something to return that has arrived.
  bool (*has_arrived)(io_operation const&) noexcept = nullptr;
  /// Reads into a buffer as that kernel does: >= 0, or -errno. For a simulated one.
  int (*read_into)(io_operation&, std::byte* buffer) noexcept = nullptr;
};

/// The faces of an operation: all that a driver needs to run it. One constant table per kind of operation
/// (src/op).
struct operation_faces {
  char const* name; ///< as in async_NAME
  inline_attempt tries = inline_attempt::predicted;
  bool interruptible = true;      ///< a deadline ends it; otherwise a deadline only bounds the wait to begin
  direction flow = direction::in; ///< for what is learnt of its descriptor

  /// Forgets what an earlier run left in its state.
  void (*begin)(io_operation&) noexcept = nullptr;
  /// What the ring is told; false: not for a ring. `will_wait`: an attempt has failed, or was predicted to.
  bool (*prepare)(io_operation&, io_uring_sqe&, bool will_wait) noexcept = nullptr;
  /// Changes what prepare() has made, if a ring performs it cheaper on memory that is registered with it, and
  /// `memory` has the memory of the entry (src/driver/registered_memory.hpp).
  void (*use_registered)(io_uring_sqe&, registered_memory& memory) noexcept = nullptr;
  /// What it waits for.
  readiness (*wants)(io_operation const&) noexcept;
  /// The system call: >= 0, or -errno.
  int (*perform)(io_operation&, attempt) noexcept;
  using performed = void (*)(io_operation&, int, void* context) noexcept;
  /// perform(nonblocking), and then, as its last act, a call of `performed` with the result: nothing stands
  /// between a short system call and what follows it. Only for an operation without begin() that moves bytes
  /// one way and has ended if the result is above 0.
  void (*perform_then)(io_operation&, performed, void* context) noexcept = nullptr;
  /// Results from here on are its value and its end, so that complete() need not be asked.
  int values_from = std::numeric_limits<int>::max();
  /// The only decoder of a result.
  outcome (*complete)(io_operation&, int res, unsigned flags) noexcept;
  /// Gives back what was obtained and is not wanted.
  void (*reclaim)(io_operation&) noexcept = nullptr;

  /// What it was to be done on, for the text of its failure. Null, or false: its descriptor.
  bool (*object)(io_operation const&, detail::failed_object&) noexcept = nullptr;
  /// Calls `f` for each descriptor that it may still use, if these are others than fd(), or more.
  void (*for_each_descriptor)(io_operation const&, void (*f)(int fd, void* context), void* context) = nullptr;
  /// The time that it waits for, if it does: steady clock, ns.
  std::int64_t (*moment)(io_operation const&) noexcept = nullptr;
  /// If it is made of other operations: the one that runs; of several, the one that is best looked at.
  io_operation& (*member)(io_operation&) noexcept = nullptr;
  /// All of them run at the same time, so that a blocking call has a multiplexer run the whole. Otherwise it
  /// makes a blocking call of each.
  bool members_together = false;
  /// Whether performing it together with others that wait is cheaper than performing it at once: it rarely
  /// has to wait, or rarely has anything to do yet.
  bool (*goes_with_others)(io_operation const&) noexcept = nullptr;
  /// If it may wait for a resource.
  resource_faces const* resource = nullptr;
  /// The kernel may keep its buffers longer than until the result: see outcome::holding.
  bool lends_buffers = false;
  /// Has the kernel release these buffers, at the price of the connection: its peer may take as long as it
  /// likes otherwise.
  void (*abort)(io_operation&) noexcept = nullptr;
  /// Of one that may want a worker: what cannot be done at once waits for a device. A blocking call then has
  /// the thread's own multiplexer run it, if that has others to run; any other call the thread makes itself.
  bool waits_for_device = false;
  /// The kernel had it, was asked to give it back and has not done it; another thread performs it now.
  void (*given_back)(io_operation&) noexcept = nullptr;
  /// Where it is no file's, all that a kernel does for it is to wait for readiness and then perform it. So
  /// another thread may take it while it waits, and the kernel be told to forget it.
  bool can_be_taken = false;
  /// Of several that a kernel performs on one object it wakes one at a time, which may be one that it is to
  /// forget. So where another thread may take it, it only waits for readiness there.
  bool waits_in_line = false;
  /// Whether its call changes the directory fd(), whose lock the kernel holds during the call: workers make
  /// such calls on one directory one after the other.
  bool changes_directory = false;

  /// Nothing of what few need: it has one descriptor, which stays the same, waits for that or for nothing,
  /// and ends with its value. Asked once, where each of these would be.
  bool is_simple = begin == nullptr && for_each_descriptor == nullptr && moment == nullptr &&
                   member == nullptr && resource == nullptr && !lends_buffers && !waits_in_line;
};

/// Where an operation is. `move()` in src/driver/life.hpp changes it, and the table there says what each
/// trigger does in each place.
enum class place : std::uint8_t {
  idle,         ///< no driver has it: described, being tried, or finished
  ready,        ///< it has ended without a driver; its receiver is notified next
  at_hand,      ///< the engine is working on it
  to_try,       ///< goes to the kernel in the next turn, together with others: it may not have to wait
  to_submit,    ///< goes to the kernel in the next turn
  to_poll,      ///< its readiness is asked of the kernel in the next turn
  in_kernel,    ///< the kernel performs it
  polled,       ///< the kernel waits for readiness on its behalf
  parked,       ///< waits for an edge of its descriptor
  later,        ///< performed in the next turn
  with_worker,  ///< a thread that may block performs it, or will
  queued,       ///< waits for a resource, in its queue
  with_members, ///< waits for the operations that it is made of
  timed,        ///< waits for its moment
  retrying,     ///< performed again at a moment: nothing tells when it is worth it
  yielded,      ///< goes to the driver again, once its receiver has been notified of a value
  unclaimed,    ///< waits for a thread that runs its multiplexer
  landed,       ///< it has ended; its receiver is notified next
};
inline constexpr int place_count = static_cast<int>(place::landed) + 1;

enum class queue_name : std::uint8_t; // src/driver/queues.hpp

/// What a driver keeps in an operation that it runs. The pointers mean nothing until the driver sets them;
/// start() clears the marks alone. An operation is in at most one queue at a time.
///
/// Thread safety  the driver's, on the thread that runs it
struct operation_links {
  io_operation* next; ///< in its queue
  union {
    io_operation* previous;
    std::int64_t deadline_due;  ///< its deadline, while it is `retrying`: then it is in no queue
    std::uint64_t worker_place; ///< where workers find it, while it is `with_worker`: nor is it then
  };
  io_operation* next_on_handle; ///< all in flight on one descriptor
  io_operation* previous_on_handle;
  io_operation* heap_child; ///< deadline queue: a pairing heap
  io_operation* heap_sibling;
  io_operation* heap_previous;
  std::int64_t due;   ///< when to look at it next: its deadline or a retry; steady clock, ns
  std::uint32_t slot; ///< the driver's number for it

  struct marks {
    queue_name queue : 5 = {};                ///< which queue it is in
    readiness wants : 3 = readiness::nothing; ///< what it waits for, while the driver has it
    std::uint8_t undelivered = 0; ///< what its receiver is still to be notified of: io_operation::stage
    place where = place::idle;
    bool in_heap : 1 = false; ///< of deadlines
    bool cancel_wanted : 1 = false;
    bool timed_out : 1 = false;
    bool with_next : 1 = false;  ///< while it is `unclaimed`: the thread that takes it takes the next as well
    bool asked_back : 1 = false; ///< while the kernel has it: its thread ends, and another will run it
    /// How many times in a row it found no resources or had to be tried again, as far as that matters.
    std::uint8_t pauses : 3 = 0;
  };
  marks is;

  /// A driver has it, and has to be asked before it can end.
  [[nodiscard]] bool in_flight() const noexcept {
    return is.where >= place::at_hand && is.where < place::landed;
  }
  /// Closing one of its descriptors waits until its receiver has been notified.
  [[nodiscard]] bool counts_as_in_flight() const noexcept { return is.where >= place::at_hand; }
  /// The kernel knows it.
  [[nodiscard]] bool submitted() const noexcept {
    return is.where == place::in_kernel || is.where == place::polled;
  }
};

} // namespace driver
} // namespace unio
