// unio/poll_any.hpp: waiting until at least one of several handles is ready.
//
//   poll_entry       a handle, what it is waited for, and what was found
//   async_poll_any   waits until one of several is ready; its forms: poll_any, try_poll_any, co_poll_any, …
//
//   using enum unio::readiness_set;
//   unio::poll_entry ends[] = {{client, readable}, {server, readable | writable}};
//   co_await unio::co_poll_any(ends);
//   for (unio::poll_entry const& e : ends)
//     if (e.is_ready()) …                                    // e.found() says for what
//
// What is waited for and found: readable, writable, exceptional; found in any case: error, hang_up
// (readiness_set, of unio/extend/operation_faces.hpp).
//
// One handle alone: handle::poll. Descriptors of others: unio/foreign_handle.hpp. What runs in coroutines of
// its own has no need of this: each waits for its own handle.

#pragma once

#include <unio/handle.hpp>

#include <cstddef>
#include <cstdint>
#include <span>

namespace unio::inline v0_1 {

class async_poll_any;
namespace detail {
extern UNIO_API driver::operation_faces const poll_entry_faces, poll_any_faces;
} // namespace detail

/// A handle, what it is waited for, and what was found. Has the state of that wait, which needs no other
/// memory.
///
/// Thread safety  as io_operation: in use from the start of the wait until that has finished
/// Lifetime       it knows the descriptor that the handle had when it was made. So the handle may be moved;
///                once it was closed, make another entry
/// Moved-from     has no descriptor
/// Size           144 bytes
class UNIO_API poll_entry : io_operation {
 public:
  poll_entry() = default;
  poll_entry(handle const& h, readiness_set wanted) noexcept
      : io_operation(detail::poll_entry_faces, h.kind(), h.native_handle(), h.own_multiplexer(), {}),
        wanted_(wanted) {}
  poll_entry(poll_entry&&) = default;
  poll_entry& operator=(poll_entry&&) = default;
  ~poll_entry() { abandon(); }

  /// What it is waited for. `none`: for errors and hang-ups, as in any case.
  [[nodiscard]] readiness_set wanted() const noexcept { return wanted_; }
  /// Preconditions: it is not being waited for.
  void set_wanted(readiness_set what) noexcept { wanted_ = what; }
  /// What the last wait has found: what of the set it is ready for; `error` and `hang_up` where they are so.
  [[nodiscard]] readiness_set found() const noexcept { return found_; }
  [[nodiscard]] bool is_ready() const noexcept { return found_ != readiness_set::none; }
  /// The descriptor; -1 if there is none.
  [[nodiscard]] int native_handle() const noexcept { return fd(); }

 private:
  friend struct detail::poll_access;
  async_poll_any* whole_ = nullptr;
  readiness_set wanted_ = readiness_set::none;
  readiness_set found_ = readiness_set::none;
  bool runs_ = false;
  bool is_looked_at_ = false; // just now, together with the others
  bool only_looks_ = false;   // nothing tells when it is ready
};

/// Waits until at least one of several handles is ready for what it is waited for. Moves nothing.
///
/// Effects        each entry's found() is what was found
/// Returns        how many entries have found something (1 … all): all that are ready when it ends, at least
/// Errors         condition::timed_out, would_block (deadline of zero), canceled: then none has; EBADF: one
///                has no descriptor, or one that was closed behind its back; error::no_handles: there is no
///                entry, and the wait would not end; error::too_many_handles: more than `most`; ENOMEM;
///                EINVAL: more than RLIMIT_NOFILE
/// Preconditions  the handles are open; those that were given a multiplexer were given the same one. An entry
///                is in one wait at a time. A handle may be in several entries, and in several waits
/// Buffers        the entries are the caller's, and stay where they are until the operation has finished
/// Concurrency    as io_operation. What was found may be gone when the caller comes to it, if others use the
///                handle
/// Cancellation   readiness that came first is returned
/// Closing        the handle of an entry cancels the wait
/// Cost           no allocation; O(entries). One system call if one of them is ready. Otherwise each entry
///                waits as an async_poll does, and is withdrawn when one is ready, at the price of one more
///                call for all: on a ring two entries in its queue; with epoll a system call the first time
///                that the handle is waited for, and none later
/// Runs as        poll(2), then io_uring POLL_ADD · poll(2), then epoll · blocking poll(2). In a simulation
///                an entry that is waited for several things is looked at from time to time
/// Source         docs/features.md H-02; poll(2)
class UNIO_API async_poll_any : public io_operation, public detail::standard_sender<async_poll_any> {
 public:
  using result_type = io_result<std::size_t>;
  static constexpr std::size_t most = 1024; ///< entries of one wait

  async_poll_any() = default;
  explicit async_poll_any(std::span<poll_entry> entries, unio::deadline d = {}) noexcept;
  [[nodiscard]] std::span<poll_entry> entries() const noexcept { return entries_; }
  [[nodiscard]] result_type result() const noexcept {
    if (outcome_value() < 0) return failed();
    return static_cast<std::size_t>(outcome_value());
  }

 private:
  friend struct detail::poll_access;
  std::span<poll_entry> entries_;
  std::uint32_t running_ = 0; // entries that wait
  int why_ = 0;               // what ends it before one is ready: a negative code
  bool waits_ = false;        // none was ready
  bool starts_ = false;
  bool stops_ = false;
};

/// poll_any, try_poll_any, …, co_poll_any, …: see async_poll_any.
UNIO_FREE_VERB_FORMS(poll_any, async_poll_any, (std::span<poll_entry>, entries))
UNIO_SENDER_FORMS(async_poll_any, (std::span<poll_entry>, entries))

} // namespace unio
