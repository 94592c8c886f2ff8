// src/driver/engine/state.hpp: what an engine has (its backend, the parts that have rules of their own, what
// it counts), and what can be asked of it. What it does is in driver/engine.hpp.

#pragma once

#include "driver/backend.hpp"
#include "driver/engine/shared_state.hpp"
#include "driver/mailbox.hpp"
#include "driver/owners_lock.hpp"
#include "driver/patience.hpp"
#include "driver/queues.hpp"
#include "driver/turn.hpp"

#include <unio/multiplexer.hpp>

#include <atomic>
#include <cstdint>
#include <memory>

namespace unio::inline v0_1::driver {

class engine_state {
 public:
  [[nodiscard]] bool on_own_thread() const noexcept;
  [[nodiscard]] bool inherited_by_fork() const noexcept;
  [[nodiscard]] std::int64_t now() const noexcept { return backend_->now(); }
  descriptor_table& descriptors() noexcept;
  [[nodiscard]] std::uint64_t in_flight() const noexcept { return in_flight_; }
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] bool has_ready() const noexcept;
  [[nodiscard]] bool has_results() const noexcept { return turn_.has_results(); }
  /// When the next of the deadlines is due, which may have come since a turn began.
  [[nodiscard]] std::int64_t next_due() const noexcept;
  /// A receiver is running, and others were ready when its turn began.
  [[nodiscard]] bool has_company() const noexcept { return turn_.has_company(); }
  /// The thread has said that it starts more, before it waits or runs this.
  [[nodiscard]] bool holds_starts() const noexcept { return turn_.holds_starts(); }
  /// Posted work begins: what a coroutine that it resumes may complete inline.
  void begin_work(bool is_alone) noexcept { turn_.begin_work(is_alone); }
  /// True if there is a value to deliver first: a second completion must not be processed on top of it.
  [[nodiscard]] static bool has_undelivered(io_operation const& op) noexcept {
    return op.links.is.undelivered != 0;
  }
  /// Others may take over what waits here.
  [[nodiscard]] bool is_one_of_several() const noexcept { return shared_ != nullptr; }
  /// Its thread ends, and what comes back from the kernel is for another.
  [[nodiscard]] bool gives_away() const noexcept { return gives_away_; }

  // From any thread.

  /// Something waits in the shared state: wakes this engine if it sleeps. Returns whether it slept.
  bool poke() noexcept { return mail_.poke(); }
  /// On its way to sleep, or asleep, and not yet woken.
  [[nodiscard]] bool is_asleep() const noexcept { return mail_.is_asleep(); }
  /// Changes whenever the thread calls a receiver, or leaves the engine after it has slept there, so that one
  /// that stays away can be told.
  [[nodiscard]] unsigned trips() const noexcept { return trips_.load(std::memory_order_relaxed); }

  unio::counters statistics;

 protected:
  /// `shared`: what several have in common, or null.
  engine_state(std::unique_ptr<backend> b, shared_state* shared) noexcept;
  ~engine_state() = default;

  /// One whose thread ends, or that takes in what it needs, only waits for that.
  [[nodiscard]] bool sleeps_with_others() const noexcept;
  [[nodiscard]] bool has_posted() const noexcept;
  // As any_of(); see take_messages().
  [[nodiscard]] std::uintptr_t any_posted_here() const noexcept;
  [[nodiscard]] std::uintptr_t any_brought() const noexcept;

  std::unique_ptr<backend> backend_;
  std::unique_ptr<backend> leaving_; ///< the one before, while the kernel may be performing what it was given
  shared_state* shared_;

  turn turn_;
  /// A receiver of a value that is not the last runs, other threads look, or events are recorded.
  bool is_watched_;
  deadline_queue deadlines_;
  descriptor_table descriptors_;
  std::uint64_t in_flight_ = 0;
  std::uint64_t several_descriptors_ = 0; ///< operations in flight that use others than fd() as well
  std::uint64_t deferred_ = 0;            ///< ends that wait for another thread's request to arrive
  int landed_ = 0;                        ///< pending in the shared state, and not in flight
  bool counts_work_ = false;              ///< one of these is posted work
  int delivered_ = 0;                     ///< values delivered since the last do_… returned
  int values_ = 0;                        ///< of what that returned: values delivered, without posted work
  bool notified_end_ = false;             ///< an end was delivered without a value
  bool took_wake_ = false;                ///< a turn has ended because of wake()
  int known_results_ = -1;                ///< in take_in(), alone: results that waited when it began
  unsigned looks_ = 0;                    ///< of poll(), in vain
  bool in_call_ = false;                  ///< the innermost turn is of a call that waits for one thing
  patience for_workers_;                  ///< whether to sleep at once while a worker has something
  std::int64_t given_at_ = 0;             ///< when a worker was given something last
  bool closing_ = false;
  bool leaves_ = false;     ///< its thread ends
  bool gives_away_ = false; ///< and what comes back from the kernel is for another
  bool bound_ = false;
  bool open_ = false;  ///< bound without an error, and not closing
  bool fails_ = false; ///< the kernel could not be asked the last time
  int bind_error_ = 0;

  unsigned depth_ = 0;     ///< how often its thread is inside
  bool has_woken_ = false; ///< and has called no receiver since
  work_queue posted_now_;  ///< of this turn, not yet run
  work_queue posted_here_; ///< by this thread: no lock, no wake-up
  // What other threads write shares no cache line with what only the engine's own does.
  alignas(64) mailbox<> mail_; ///< its doorbell is the backends', and stays the same when they change
  /// Its thread's token; null: the first one that uses it will be; its own address: none (rest()).
  alignas(64) std::atomic<void const*> owner_{nullptr};
  owners_lock<> inside_;
  std::atomic<bool> keeps_lock_{false}; ///< its thread is outside, with nothing to take: `inside_` is locked
  std::atomic<unsigned> trips_{0};
  unsigned fork_generation_;
};

} // namespace unio::driver
