// unio/extend/held_starts.hpp: more handlers follow, so their operations go together.
//
//   held_starts   while it lives, operations are queued that would go to the kernel one by one
//
// A multiplexer knows in its own turn what else is ready, and gives a ring all that is started there in one
// system call. Of handlers that another loop calls, after run() or without it, it knows nothing: it tries
// each operation by a call of its own. That loop can say it.
//
//   for (;;) {
//     {
//       unio::held_starts const together(multiplexer);
//       call_the_handlers_that_are_ready(); // which start operations
//     }                                     // one call for all of them
//     multiplexer.try_run();
//     wait_for_more();
//   }

#pragma once

#include <unio/multiplexer.hpp>

namespace unio::inline v0_1 {

/// Says that the calling thread starts more operations on a multiplexer, before it waits or runs that.
///
/// Effects        on a ring, while one lives: what the thread starts there, and what a ring performs in one
///                call with others (reads, writes, datagrams of sockets), is not tried at once but queued
///                with all else that is for the ring. It goes to the kernel in one call, as soon as the last
///                has ended, an exception having left the scope or not; or sooner, when the thread runs the
///                multiplexer, or drives it in a blocking call, or when the ring's queue is full. Inside of a
///                receiver or of posted work: with the rest of the turn. With epoll: none. What the
///                operations yield is as without it; a receiver that would be notified inside of start() is
///                notified in a turn
/// Preconditions  it ends on the thread on which it began, which waits for nothing else before that (a wait
///                outside of unio holds up what is held)
/// Concurrency    on the thread that runs the multiplexer, or is the first to use it. On another one it has
///                no effect, nor on one of several that has not run it yet. Others may cancel, take over and
///                close what is held as anything else that was started; a thread that ends gives it to them
/// Fork           the child has it not, and the parent goes on
/// Thread safety  distinct: yes
/// Outlives       the multiplexer outlives it
/// Moved-from     cannot be moved
/// Size           8 bytes
/// Cost           some twenty instructions, and at the end one system call if anything is queued; no
///                allocation
/// Runs as        io_uring_enter(2) · epoll nothing
class held_starts {
 public:
  explicit held_starts(io_multiplexer& m) noexcept : multiplexer_(m.hold_starts() ? &m : nullptr) {}
  held_starts(held_starts const&) = delete;
  held_starts& operator=(held_starts const&) = delete;
  ~held_starts() {
    if (multiplexer_ != nullptr) multiplexer_->release_starts();
  }

 private:
  io_multiplexer* multiplexer_; // null: nothing is held
};

} // namespace unio
