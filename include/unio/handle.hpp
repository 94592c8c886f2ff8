// unio/handle.hpp: an open descriptor, and the operations that every kind of handle has.
//
//   handle       owns one descriptor; its metadata, attributes and names
//   io_handle    a handle that bytes can be read from and written to
//   async_read, async_write, async_barrier, async_poll, async_close   the operations of every handle
//   async_receive, async_receive_many   reading into buffers of a pool

#pragma once

#include <unio/attributes.hpp>
#include <unio/detail/declared.hpp>
#include <unio/metadata.hpp>
#include <unio/naming.hpp>

#include <string>

namespace unio::inline v0_1 {

// Each operation is a class async_X: a value that describes the operation, made from a handle, the arguments
// of the verb X and a deadline; movable until it is started. It has `result_type`, result(), reset()
// (operation.hpp) and, where a request describes it, request() and reset(request). Unless they say otherwise:
//
//   Errors        condition::timed_out, would_block (deadline of zero), canceled: then nothing happened
//   Preconditions the handle is open
//   Cancellation  what was done nevertheless is returned: a transfer that moved bytes is a success, and a
//                 descriptor or lock that was obtained is not lost
//   Concurrency   as io_operation: one thread at a time, from start() on the one that runs its multiplexer;
//                 the atomic_ forms are started, polled and cancelled from any thread
//   Cost          no allocation, no copy

/// Waits until the handle is readable, writable or in an exceptional condition; moves nothing.
///
/// Returns        nothing
/// Preconditions  `what` is readiness::readable, writable or exceptional
/// Runs as        io_uring POLL_ADD · epoll · poll(2)
/// Source         docs/features.md H-02; poll(2)
UNIO_OPERATION(poll, void, (handle&, h), (readiness, what))

/// Closes a descriptor that it took from a handle, after cancelling the operations in flight on it.
///
/// Returns        nothing
/// Errors         as close(2); the descriptor is gone in any case
/// Cancellation   none: a close that has started is not undone
/// Destruction    if it was never started, the destructor closes the descriptor
/// Forms          co_close alone: no bounded or atomic one, since a close ends in any case
/// Runs as        io_uring CLOSE · close(2) on a thread that may block · close(2)
class async_close;

/// Owns one descriptor, which is close-on-exec from birth and never 0, 1 or 2.
///
/// Blocking       a call that has to wait runs multiplexer() while it does: the one set, or else the calling
///                thread's own, if there is one and it has anything to run when the wait begins. So the call
///                may deliver whatever is ready there, as run() would: receivers are called, coroutines
///                resumed, deadlines pass, posted work runs. They may make blocking calls of their own, which
///                are nested, and close the handle, which ends the call with condition::canceled. A call that
///                need not wait, or may not (a deadline of zero), delivers nothing on the thread's own; on
///                one that was set it may. So hold no lock that a receiver takes. One that was set and that
///                several threads may run is run by the calling one from then on, until that ends; if it
///                cannot be (EMFILE, ENOMEM), the call fails so, unless another thread has it by then
///  what waits    for a peer, a moment, a lock, a buffer, a word; and on files barrier() and what is to be
///                read past the cache. What else is done with files and names the thread does itself; until
///                then its own multiplexer (not the one set) stands still
///  no error      of the thread's own becomes the call's: one that cannot go on is left, and the call waits
///                without it. None is ever made for a blocking call
/// Thread safety  distinct: safe; shared: one read and one write at a time, nothing else. close() also while
///                other threads' multiplexers have operations on it
/// Cost           of all handles, where nothing else is said: one system call; no allocation
/// Moved-from     closed. Operations in flight continue: they hold the descriptor, not the handle. An
///                operation that is described but not started refers to the handle
/// Lifetime       a multiplexer given to set_multiplexer() outlives what is done with the handle: see
///                io_multiplexer. The handle itself may be closed, released and destroyed afterwards
/// Size           16 bytes
class UNIO_API handle {
 public:
  /// What the handle may be used for. A file opened for writing can be read too; an end of a pipe cannot.
  enum class mode : std::uint8_t { none, attributes, read, write, append };
  /// What to do when the name does or does not exist.
  enum class creation : std::uint8_t {
    open_existing,     ///< ENOENT if it does not exist
    only_if_not_exist, ///< EEXIST if it does
    if_needed,         ///< opens it, or creates it
    truncate_existing, ///< opens it with a length of 0; ENOENT if it does not exist
    always_new,        ///< creates a new inode and puts it in the place of the old one, atomically
  };
  /// What the system may keep in memory.
  enum class caching : std::uint8_t {
    none, ///< nothing (O_DIRECT, O_SYNC); buffers, offsets and sizes must be aligned for the device (EINVAL)
    only_metadata,      ///< O_DIRECT
    reads,              ///< reads; writes reach the device before they return (O_SYNC)
    reads_and_metadata, ///< as reads, but only what is needed to read the data back (O_DSYNC)
    all,                ///< everything
    safety_barriers,    ///< everything, with a barrier before close and after creation
    temporary,          ///< everything, and nothing need ever reach the device
  };
  enum class flag : std::uint8_t {
    none = 0,
    unlink_on_close = 1,  ///< the name goes when the handle is closed
    append_is_atomic = 2, ///< reserved for mode::append: always so on Linux
    beneath = 4,          ///< the name leads nowhere outside of its base: EXDEV; see path_handle
    no_symlinks = 8,      ///< no part of the name is a symbolic link: ELOOP
    same_mount = 16,      ///< no part of the name is on another mount than its base: EXDEV
  };

  handle() = default;
  handle(handle&& other) noexcept;
  handle& operator=(handle&& other) noexcept;
  ~handle();

  [[nodiscard]] bool is_open() const noexcept { return fd_ >= 0; }
  explicit operator bool() const noexcept { return is_open(); }
  [[nodiscard]] int native_handle() const noexcept { return fd_; }
  [[nodiscard]] handle_kind kind() const noexcept { return kind_; }

  /// Closes it: cancels the operations in flight on it, in every thread's multiplexer, waits until the last
  /// one has ended (receivers get condition::canceled; one that another thread calls may still be running),
  /// and only then closes the descriptor and frees its number. Other receivers are called only where a
  /// worker, a device or a peer decides how long it takes: of files, and of pages that are being sent.
  ///
  /// Returns        nothing; also for a closed handle
  /// Errors         as close(2); the descriptor is gone in any case
  /// Preconditions  if another thread's multiplexer has an operation on it, that thread runs its multiplexer
  ///                or is inside a close() of its own
  /// Cost           one system call; one more if the descriptor is registered with epoll
  result<void> close() noexcept;
  /// Gives up the descriptor without closing it, after cancelling the operations in flight on it.
  ///
  /// Returns        the descriptor; -1 if it is closed
  /// Cost           no system call; one if the descriptor is registered with epoll
  [[nodiscard]] int release() noexcept;
  /// A second handle on the same open description, close-on-exec, with no multiplexer set. Errors: EMFILE;
  /// EBADF if it is closed.
  [[nodiscard]] result<handle> clone() const noexcept;
  /// Its current path, as the kernel knows it: follows renames. Ends in " (deleted)" if it has no name.
  /// Errors: ENOENT without /proc; as readlink(2). Throws std::bad_alloc.
  [[nodiscard]] result<std::string> current_path() const;

  /// stat, try_stat, …, co_stat, …: see async_stat. For all metadata of stat(2): stat().
  UNIO_VERB_FORMS(stat, async_stat, (stat_fields, wanted, = stat_fields::basic))
  /// set_metadata, …: see async_set_metadata.
  UNIO_VERB_FORMS(set_metadata, async_set_metadata, (metadata_change const&, change))
  /// stat_volume, …: see async_stat_volume.
  UNIO_VERB_FORMS(stat_volume, async_stat_volume)
  /// What tells this inode from every other. Awaited: co_stat(stat_fields::identity), and id() of its result.
  /// Errors: as statx(2).
  [[nodiscard]] result<file_id> unique_id() const noexcept;
  /// get_attribute, …: see async_get_attribute.
  UNIO_VERB_FORMS(get_attribute, async_get_attribute, (path_view, attribute), (mutable_buffer, value))
  /// set_attribute, …: see async_set_attribute.
  UNIO_VERB_FORMS(set_attribute, async_set_attribute, (path_view, attribute), (const_buffer, value),
                  (attribute_mode, how))
  /// list_attributes, …: see async_list_attributes.
  UNIO_VERB_FORMS(list_attributes, async_list_attributes, (mutable_buffer, names))
  /// remove_attribute, …: see async_remove_attribute.
  UNIO_VERB_FORMS(remove_attribute, async_remove_attribute, (path_view, attribute))

  /// The directory of its current name: see async_parent_of (path_handle.hpp).
  [[nodiscard]] result<path_handle> parent_path_handle() const noexcept;
  /// relink, …: another name in place of its current one; see async_relink.
  UNIO_VERB_FORMS(relink, async_relink, (path_handle const&, base), (path_view, name),
                  (relink_mode, how, = relink_mode::replace))
  /// link, …: one more name; see async_link_inode.
  UNIO_VERB_FORMS(link, async_link_inode, (path_handle const&, base), (path_view, name))
  /// unlink, …: removes its current name; see async_unlink_inode.
  UNIO_VERB_FORMS(unlink, async_unlink_inode)

  /// The multiplexer that runs its operations: the one set, or the calling thread's own.
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept;
  /// True if one was set.
  [[nodiscard]] bool has_multiplexer() const noexcept { return multiplexer_ != nullptr; }
  /// The one set, or null.
  [[nodiscard]] io_multiplexer* own_multiplexer() const noexcept { return multiplexer_; }
  /// Null: the calling thread's own. Preconditions: nothing is in flight.
  void set_multiplexer(io_multiplexer* m) noexcept { multiplexer_ = m; }

  /// Waits for readiness: poll, co_poll and their bounded forms. See async_poll.
  UNIO_VERB_FORMS(poll, async_poll, (readiness, what))
  /// Closes it as an operation: `co_await std::move(h).co_close()`. See async_close.
  [[nodiscard]] io_awaitable<async_close> co_close() && noexcept;

 protected:
  handle(int fd, handle_kind kind, caching c = caching::all) noexcept : fd_(fd), kind_(kind), caching_(c) {}
  static handle_kind moved(handle_kind k) noexcept;

  friend class async_close;
  friend struct testing::handle_maker;
  io_multiplexer* multiplexer_ = nullptr;
  int fd_ = -1;
  handle_kind kind_ = handle_kind::none;
  caching caching_ = caching::all;
};

template <> inline constexpr bool detail::is_flag_set<handle::flag> = true;

/// Reads until at least one byte has arrived.
///
/// Effects       fills `request.buffers` in order, from `request.offset` where the handle can seek
/// Returns       the buffers filled (1 byte … size of all; no buffer at the end of the stream, and at once if
///               the request has no room). A mapped file returns a view of its map instead
/// Errors        condition::timed_out, would_block, canceled (then no byte moved); otherwise as readv(2)
/// Preconditions the handle is open and readable
/// Buffers       the caller's; nothing else may touch them until the operation has finished
/// Concurrency   one read and one write per handle at a time; distinct handles are independent
/// Cancellation  bytes that arrived first are returned: a transfer is never reported as cancelled. A transfer
///               from a regular file that the kernel has begun is not interrupted
/// Cost          no allocation, no copy; one system call when ready, two more (poll, retry) for each wait
/// Runs as       io_uring READ, READV or RECV · epoll: read(2) or recv(2) on readiness; what is not cached of
///               a file by a thread that may block; a direct read by io_submit(2) · blocking the same
/// Source        D2052R0 §4.1; readv(2), recv(2)
class async_read;

/// Reads a stream into a buffer of a pool, which is taken only when there is something to read: a connection
/// that waits holds none.
///
/// Effects       fills one buffer as far as there are bytes
/// Returns       the buffer (1 byte … the pool's size); none at the end of the stream. It may be kept, and
///               dropped on any thread
/// Errors        condition::timed_out, would_block, canceled (then no byte moved); EINVAL for a regular file;
///               EFAULT (std::errc::bad_address) where the pool has ended, as long as fewer than 64 others
///               have; otherwise as read(2), recv(2)
/// Preconditions the handle is open and readable; the pool outlives the operation, which is checked of one
///               that waits for a buffer
/// Running out   where all buffers are lent it waits for one to come back, behind those that came before, and
///               within its deadline; counters::resource_waits and buffer_pool::waits() count it
/// Concurrency   one read or receive per handle at a time
/// Cancellation  bytes that arrived first are returned
/// Cost          no allocation, no copy; system calls as async_read, and one to look for bytes before each
///               wait for a buffer
/// Runs as       io_uring READ or RECV, into a buffer that the kernel chooses; where it may not (see
///               buffer_pool), and on epoll: read(2) or recv(2) on readiness
/// Source        docs/features.md X-08
class async_receive;

/// The same again and again, until the end of the stream, an error, a cancel or its deadline: set_value for
/// each buffer, then for what ended it (an empty buffer at the end of the stream), then set_done.
///
/// Concurrency   a receiver that keeps all buffers of a pool stops what receives into it, until it drops one
/// Runs as       as async_receive; on io_uring one request for many buffers, where a trial shows that the
///               kernel brings all bytes and the end so: of a Unix socket that Linux 6.18 does not
class async_receive_many;

/// Writes until at least one byte was taken. Otherwise as async_read.
///
/// Effects       takes from `request.buffers` in order, to `request.offset` where the handle can seek
/// Returns       the buffers taken (1 byte … size of all; none at once if the request is empty)
/// Errors        condition::timed_out, would_block, canceled (then no byte moved); EPIPE if the reading end
///               is closed, EFBIG at RLIMIT_FSIZE (neither raises a signal); otherwise as writev(2)
/// Preconditions the handle is open and writable
/// Buffers       the caller's; unio does not change them
/// Cancellation  bytes that were taken are reported. A write to a regular file that the kernel has begun is
///               not interrupted: there the deadline bounds the wait to begin
/// Cost          as async_read. On a pipe before Linux 6.18, and on a file under an RLIMIT_FSIZE, two more
///               calls block the signal. The first write to a file in each tick of the kernel's clock reads
///               that limit: one more call
/// Runs as       io_uring WRITE, WRITEV or SEND · epoll: write(2) or send(2) on readiness · blocking the same
/// Source        D2052R0 §4.1; writev(2), send(2)
UNIO_OPERATION(write, detail::requested<const_buffers>, (io_handle&, h), (io_request<const_buffers>, request))

/// What a barrier makes durable, and whether it waits for it.
enum class barrier_kind : std::uint8_t {
  nowait_data_only, ///< starts writing the data out; says nothing about when it is durable
  wait_data_only,   ///< the data, and what is needed to read it back, are durable (fdatasync)
  nowait_all,       ///< as nowait_data_only: Linux cannot start writing metadata without waiting
  wait_all,         ///< data and metadata are durable (fsync)
};

/// Orders earlier writes before later ones, and makes them durable if the kind says so.
///
/// Returns       nothing; on a pipe or a socket, which cannot be made durable, it succeeds without effect. Of
///               a directory, a path_handle too, the names in it are made durable; the kinds that do not wait
///               do nothing there
/// Errors        EIO, ENOSPC, EDQUOT as fsync(2): the kernel reports them once, so treat the data as lost.
///               EBADF of a closed handle, a path_handle that stands for the working directory too
/// Cancellation  none once it has begun; the deadline bounds the wait before that (try_barrier: would_block)
/// Cost          one system call; as slow as the device
/// Runs as       io_uring FSYNC, SYNC_FILE_RANGE · fsync(2) on a thread that may block · fsync(2)
/// Source        D2052R0 §4.2; fsync(2), sync_file_range(2)
UNIO_OPERATION(barrier, void, (handle&, h), (barrier_kind, what, = barrier_kind::wait_all))

/// A handle that bytes can be read from and written to, in every style, with the same arguments and results.
/// Thread safety, moved-from state, lifetime and size as handle.
class UNIO_API io_handle : public handle {
 public:
  using buffer_type = mutable_buffer;
  using const_buffer_type = const_buffer;
  using buffers_type = mutable_buffers;
  using const_buffers_type = const_buffers;

  io_handle() = default;
  /// Takes over a descriptor made elsewhere, makes it non-blocking and close-on-exec, and moves it above 2 if
  /// necessary. Non-blocking mode belongs to the open description: it affects other processes that share it,
  /// as a shell shares the terminal. Regular files stay as they are.
  ///
  /// Errors  EBADF; EISDIR; EPROTOTYPE (std::errc::wrong_protocol_type) for a socket that is no stream: bytes
  ///         of messages would be lost, and an empty message would read as the end; as fcntl(2). On failure
  ///         the descriptor is still the caller's
  /// Cost    up to eight system calls
  static result<io_handle> adopt(int fd) noexcept;

  /// The most buffers that one call takes. More are not an error: the rest is not moved.
  [[nodiscard]] static constexpr std::size_t max_buffers() noexcept { return 1024; }

  /// read, try_read, try_read_for, try_read_until, co_read, …: see async_read.
  UNIO_VERB_FORMS(read, async_read, (io_request<mutable_buffers>, request))
  /// receive, try_receive, …, co_receive, …: see async_receive. Of streams.
  UNIO_VERB_FORMS(receive, async_receive, (buffer_pool&, pool))
  /// write, try_write, …, co_write, …: see async_write.
  UNIO_VERB_FORMS(write, async_write, (io_request<const_buffers>, request))
  /// barrier, try_barrier, …, co_barrier, …: see async_barrier.
  UNIO_VERB_FORMS(barrier, async_barrier, (barrier_kind, what, = barrier_kind::wait_all))

 protected:
  using handle::handle;
};

UNIO_SENDER_FORMS(async_read, (io_handle&, h), (io_request<mutable_buffers>, request))
UNIO_SENDER_FORMS(async_receive, (io_handle&, h), (buffer_pool&, pool))
UNIO_SENDER_FORMS(async_receive_many, (io_handle&, h), (buffer_pool&, pool))

// ---- short functions, and how the operations of every handle are described --------------------------------

/// A mapped file moved into a handle without a map becomes a plain file.
inline handle_kind handle::moved(handle_kind k) noexcept {
  return k == handle_kind::mapped_file ? handle_kind::file : k;
}
inline handle::handle(handle&& other) noexcept
    : multiplexer_(std::exchange(other.multiplexer_, nullptr)),
      fd_(std::exchange(other.fd_, -1)),
      kind_(moved(other.kind_)),
      caching_(other.caching_) {}
inline handle::~handle() {
  if (fd_ >= 0) (void)close();
}
inline io_multiplexer* handle::multiplexer() const noexcept {
  return multiplexer_ != nullptr ? multiplexer_ : &this_thread::multiplexer();
}
inline io_awaitable<async_close> handle::co_close() && noexcept {
  return io_awaitable<async_close>(async_close(std::move(*this)));
}

inline async_read::async_read(io_handle& h, io_request<mutable_buffers> request, unio::deadline d) noexcept
    : operation_with(detail::read_faces, h, d), request_(request), source_(&h) {}
inline async_receive::async_receive(driver::operation_faces const& faces, io_handle& h, buffer_pool& pool,
                                    unio::deadline d) noexcept
    : operation_on(faces, h, d), pool_(detail::state_of(pool)) {}
inline async_receive::async_receive(io_handle& h, buffer_pool& pool, unio::deadline d) noexcept
    : async_receive(detail::receive_faces, h, pool, d) {}
inline async_receive_many::async_receive_many(io_handle& h, buffer_pool& pool, unio::deadline d) noexcept
    : async_receive(detail::receive_many_faces, h, pool, d) {
  set_multishot();
}
inline async_receive::result_type async_receive::result() noexcept {
  int const r = outcome_value();
  if (r < 0) return failed();
  auto const bytes = static_cast<std::size_t>(r);
  return {detail::lent_of(*pool_, take_filled(), bytes), bytes};
}
inline async_receive::async_receive(async_receive&& other) noexcept
    : operation_on(static_cast<operation_on&&>(other)),
      pool_waiter(static_cast<pool_waiter&&>(other)),
      pool_(other.pool_) {}
inline async_receive& async_receive::operator=(async_receive&& other) noexcept {
  if (this == &other) return *this;
  drop_filled();
  operation_on::operator=(static_cast<operation_on&&>(other));
  pool_waiter::operator=(static_cast<pool_waiter&&>(other));
  pool_ = other.pool_;
  return *this;
}
inline void async_receive::drop_filled() noexcept {
  if (std::byte* const buffer = take_filled(); buffer != nullptr) detail::lent_of(*pool_, buffer, 0).reset();
}
inline failure async_read::failed_at_once(io_handle const& h, int native_code) noexcept {
  if (native_code == -static_cast<int>(std::errc::resource_unavailable_try_again)) [[likely]]
    return {detail::to_error_code(native_code), detail::would_block_reading(h.native_handle())};
  return failed_reading(h.native_handle(), native_code);
}
inline int async_read::at_once(io_handle& h, io_request<mutable_buffers> const& request,
                               unio::deadline const& d) noexcept {
  if (h.own_multiplexer() != nullptr || request.buffers.size() != 1) return not_at_once;
  return read_at_once(h.native_handle(), h.kind(), request.buffers.front(), request.offset, d.is_zero());
}

} // namespace unio
