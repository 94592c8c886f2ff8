// src/driver/engine.hpp: what the drivers have in common. One engine belongs to one thread.
//
// The engine takes operations through their life: tries them inline, hands them to its backend, keeps their
// deadlines, decodes what comes back, and calls receivers, always from a loop and never from inside another
// receiver, so that a million operations that complete at once use constant stack. A backend (epoll,
// io_uring, simulation) only says how to wait: arm, park, disarm, reap. It may be changed while operations
// are in flight: when io_uring is forbidden later.
//
//   start ──try──► settle ──────────────┐
//     │                                 ├─► ready ──► deliver ──► receiver
//     └─launch─► arm ─► … ─► process ───┘
//                 ▲              │
//                 └──── again ◄──┘

#pragma once

#include "driver/engine/state.hpp"
#include "driver/life.hpp"
#include "driver/registry.hpp"
#include "driver/remains.hpp"
#include "sys/fork.hpp"

#include <unio/multiplexer.hpp>

#include <algorithm>

namespace unio::inline v0_1::driver {

// io_multiplexer, the only one with virtual functions, is the first in memory. Made last, its table is never
// needed.
class engine final : public leaves_remains, public engine_state, public io_multiplexer {
 public:
  explicit engine(std::unique_ptr<backend> b, shared_state* shared = nullptr) noexcept;
  /// Cancels what is in flight and waits for it. On the thread that runs it, or with nothing in flight.
  ~engine() override;

  using io_multiplexer::post;
  void post(work& w) noexcept override;
  bool withdraw(work& w) noexcept override;
  void wake() noexcept override;
  [[nodiscard]] runner run_by() const noexcept override;
  unio::counters counters() const noexcept override { return statistics; }
  unio::capabilities capabilities() const override;

  void start(io_operation& op) noexcept override;
  io_status poll(io_operation& op) noexcept override;
  void cancel(io_operation& op) noexcept override;
  void forget(int fd) noexcept override;
  void finish(io_operation& op) noexcept override;
  void abandon(io_operation& op) noexcept override;
  void member_ended(io_operation& chain) noexcept override;
  bool hold_starts() noexcept override;
  void release_starts() noexcept override;

  /// From here on the calling thread is known to run it.
  void begin_to_run() noexcept { (void)ensure_bound(); }
  using io_multiplexer::adopt;
  /// Runs one that is unclaimed, whose multiplexer is this from now on.
  void take_over(io_operation& op) noexcept;
  void claim() noexcept {
    if (open_ && !leaves_) shared_->claim(*this);
  }
  enum class found : std::uint8_t { its_thread, waits, nothing, taken };
  /// Takes over what waits in `away`, whose thread is not there to go on with it, if there is anything to go
  /// on with. On this engine's thread. Returns what it has found there: its thread, something that may be
  /// taken later, nothing of the kind, or what it has taken.
  found take_from(engine& away, io_operation const* only = nullptr) noexcept;
  /// Goes on with what it runs, without waiting. On its own thread, which waits for another one. A wake()
  /// that comes in between is for the run() that follows.
  void go_on() noexcept;
  /// As shared_state::go_on_without(), of the calling thread's engine.
  void go_on_without(engine& other, io_operation const& op) noexcept;
  /// Its thread ends: what is in flight becomes unclaimed. No receiver is called, except those of operations
  /// that cannot be taken back.
  void hand_over() noexcept;
  /// The kernel has given one back.
  [[gnu::cold]] void came_back(io_operation& op) noexcept;
  /// The last requests of other threads, while none can leave more; what waited for them joins `batch`.
  void take_last_messages(operation_queue& batch) noexcept;
  /// False: no message is needed. From any thread, while `op` is this engine's.
  [[nodiscard]] bool leave_message(io_operation& op, io_operation::request r) noexcept {
    if (!op.ask(r)) return false;
    mail_.leave(op);
    return true;
  }
  void poke_if_run() noexcept { shared_->poke(); }
  /// A worker has performed `op`, whose outcome_value() is what the call returned. From any thread.
  void worker_done(io_operation& op) noexcept;
  /// What its destructor does on the thread that runs it; the engine itself may then be destroyed by another
  /// one.
  void close() noexcept { shut_down(); }
  /// After close(), when no other thread wakes it any more: gives back what it has of the kernel's. It may be
  /// asked where its operations have gone, and used again after open_again().
  void rest() noexcept;
  void open_again(std::unique_ptr<backend> b) noexcept;
  /// The same as next_due() while it sleeps, and when it has to look at what other threads do not go on with.
  [[nodiscard]] std::int64_t sleeps_until(std::int64_t until) const noexcept;
  /// Whether a blocking call that has to wait drives this. On its own thread.
  [[nodiscard]] bool has_to_move() noexcept;
  /// Takes a begun operation, which an attempt has found would wait, to its end. Its receiver is notified.
  /// False: this cannot go on, has not ended it, and no longer has it.
  bool drive(io_operation& op) noexcept;
  /// As run(), of one of several, in a call that waits for one thing: a wake() is for another run().
  result<int> run_in_call() noexcept;
  /// Nothing is pending here, nor on the engines with which it shares the count.
  [[nodiscard]] bool is_done() const noexcept;

  /// Posted work will run: until it has run, and may have started something, something is pending for the
  /// other threads (count_landed).
  void count_work() noexcept;

  /// Around what the engine's thread does with it, and around receivers and posted work (several.hpp).
  class inside;
  class outside;

  /// How a loop of another kind may wait where this would sleep.
  struct outer_wait {
    int error;          ///< 0, or a negative native code
    int descriptor;     ///< becomes readable with what comes; unless `until` is 0
    std::int64_t until; ///< at most until then: steady clock, ns; 0: there is something to do
  };
  /// Gives the kernel what was started; from then on what comes makes the descriptor readable. On its thread.
  outer_wait before_outer_wait() noexcept;

  /// On its own thread.
  template <class F> void for_each_in_flight(F f);

  // For the backend.

  /// A result: >= 0, or a negative native code; and the flags of its completion.
  void process(io_operation& op, int res, unsigned flags) noexcept;
  /// The same of one that is_simple, without flags.
  void performed(io_operation& op, int res) noexcept;
  /// Tries perform() and processes the result. False: it would have waited.
  bool perform_now(io_operation& op) noexcept;
  /// Waits for whatever the operation wants, without a ring.
  void await_readiness(io_operation& op) noexcept;
  void await_readiness(io_operation& op, readiness wants) noexcept;
  /// The same where its links say so already.
  void await_what_it_wants(io_operation& op, readiness wants) noexcept;
  /// Gives the backend of now one that another had, and did not begin.
  void arm_again(io_operation& op) noexcept;
  /// The kernel has brought something for an operation that it goes on with.
  void bring(io_operation& op) noexcept;
  /// Performs it in the next turn, or before.
  void perform_later(io_operation& op) noexcept {
    move(op, place::later);
    turn_.push_later(op);
  }
  /// Has a thread that may block perform it.
  void to_worker(io_operation& op) noexcept;
  /// Performs it again after a while: nothing tells when it can go on.
  void retry_later(io_operation& op) noexcept;
  /// True if run() must not sleep. Otherwise other threads ring the doorbell until after_sleep().
  bool before_sleep() noexcept;
  void after_sleep() noexcept;

  result<int> do_complete_io(int max_items, std::int64_t until) noexcept override;
  [[gnu::cold]] result<int> do_timeout_io(int max_items, std::int64_t until) noexcept override;
  [[gnu::cold]] result<int> do_invoke_posted(int max_items, std::int64_t until) noexcept override;
  result<int> do_run(int max_items, std::int64_t until) noexcept override;

 private:
  class bound;
  class notification;

  int ensure_bound() noexcept;
  [[gnu::cold, gnu::noinline]] int bind() noexcept;
  template <class Call> result<int> within_turn(Call call) noexcept;
  [[gnu::noinline]] result<int> run_part(int max_items, std::int64_t until, bool only_moments) noexcept;
  [[gnu::noinline]] result<int> run_turns(int max_items, std::int64_t until, bool* woken) noexcept;
  struct turned {
    bool is_over = true; ///< it has something to return
    int n = 0;
    int error = 0;
  };
  turned turn_once(bound const& b, bool limited, std::int64_t until, bool is_plain) noexcept;
  [[nodiscard]] bool take_wake() noexcept;
  [[nodiscard]] bool take_wake_now() noexcept;
  int ask_backend(std::int64_t until) noexcept;
  int reap(std::int64_t until) noexcept;
  [[gnu::noinline]] int reap_again(bound const& b, int reaped, bool timers) noexcept;
  int fetch(bound const& b, std::int64_t until, bool timers, bool is_plain) noexcept;
  [[gnu::noinline]] int fetch_apart(bound const& b, std::int64_t until, bool timers) noexcept;
  int change_backend(int why) noexcept;
  std::int64_t reap_leaving(std::int64_t until) noexcept;
  void look_at(io_operation& op) noexcept;
  [[gnu::cold]] void shut_down() noexcept;
  [[gnu::noinline]] void start_with_care(io_operation& op) noexcept;
  void begin(io_operation& op, descriptor* known) noexcept;
  [[nodiscard, gnu::noinline]] static bool worth_trying(io_operation const& op, descriptor& d) noexcept;
  [[nodiscard]] bool goes_with_others(io_operation const& op) noexcept;
  static void tried_bytes(io_operation& op, int res, void* engine_that_tried) noexcept;
  void tried(io_operation& op, int res) noexcept;
  void tried(io_operation& op, descriptor& d, int res) noexcept;
  void fail(io_operation& op, int code) noexcept;
  void launch(io_operation& op, descriptor& d, attempted how) noexcept;
  [[gnu::noinline]] void launch_simply(io_operation& op, descriptor& d, attempted how) noexcept;
  [[gnu::noinline]] void launch_with_care(io_operation& op, descriptor& d, attempted how) noexcept;
  void take_off(io_operation& op, descriptor& d) noexcept;
  void arm(io_operation& op, attempted how, readiness wants) noexcept;
  [[gnu::noinline]] void decoded(io_operation& op, outcome o, unsigned flags) noexcept;
  void land(io_operation& op) noexcept;
  void decode_simply(io_operation& op, int res) noexcept;
  void end_simply(io_operation& op) noexcept;
  static void leave_flight(io_operation& op) noexcept;
  void settle(io_operation& op, unsigned events) noexcept;
  void settle_inline(io_operation& op) noexcept;
  template <class Delivered> void settle_with(io_operation& op, Delivered delivered) noexcept;
  void settle_recorded(io_operation& op) noexcept;
  void deliver(io_operation& op) noexcept;
  [[gnu::noinline]] void deliver_apart(io_operation& op) noexcept;
  [[gnu::noinline]] void deliver_atomic(io_operation& op) noexcept;
  [[gnu::noinline]] void deliver_with_care(io_operation& op) noexcept;
  void put_off_end(bool was_counted) noexcept;
  void deliver_value(io_operation& op) noexcept;
  [[gnu::noinline]] void notify_of_value(io_operation& op) noexcept;
  [[gnu::noinline]] void deliver_inline() noexcept;
  int serve(bound const& b, int due_first, bool ticks, bool is_plain) noexcept;
  [[gnu::noinline]] int serve_rounds(bound const& b, int due_first, int left, bool ticks) noexcept;
  [[gnu::noinline]] int serve_apart(bound const& b, int due_first, bool ticks) noexcept;
  [[gnu::noinline]] void serve_due(bound const& b) noexcept;
  static void list(io_operation& op, descriptor& d) noexcept;
  void unlist(io_operation& op, int fd) noexcept;
  void relist(io_operation& op, int old_fd) noexcept;
  descriptor& unready(io_operation& op, descriptor& d) noexcept;
  void enqueue(io_operation& op) noexcept;
  void granted(io_operation& op) noexcept;
  void restart(io_operation& op) noexcept;
  void go_on_with(io_operation& op) noexcept;
  void after_value(io_operation& op) noexcept;
  bool take_back(io_operation& op) noexcept;
  void worker_returned(io_operation& op, int res) noexcept;
  bool linger_for_workers() noexcept;
  bool linger_now() noexcept;
  [[gnu::cold]] void retry_after(io_operation& op, int milliseconds) noexcept;
  void expire_one(io_operation& op, std::int64_t now_ns) noexcept;
  [[gnu::cold]] void want_buffers(io_operation& op) noexcept;
  void expire() noexcept;
  void expire_first_ones() noexcept;
  void expire_first_ones(bound const& b) noexcept;
  void take_messages(bool is_plain = false) noexcept;
  void wait_for_others() noexcept;
  void wait_for_its_thread(io_operation const& op, unsigned times) noexcept;
  void pass_wake_on() noexcept;
  void end_what_stays() noexcept;
  bool ask_for_all_back(bool again) noexcept;
  bool ask_back(io_operation& op) noexcept;
  void give_away(io_operation& op, operation_queue& batch) noexcept;
  [[nodiscard]] bool has_news() const noexcept;
  [[nodiscard]] static bool can_be_taken(io_operation const& op) noexcept;
  bool release(io_operation& op) noexcept;
  [[nodiscard]] bool has_some_for_others() noexcept;
  void give_what_waits(operation_queue& batch, io_operation const* only) noexcept;
  void pass_on_messages(operation_queue& batch, io_operation const* only) noexcept;
  engine* enter() noexcept;
  void leave() noexcept;
  void count_trip() noexcept;
  unsigned go() noexcept;
  void come_back(unsigned depth) noexcept;
  void lock() noexcept;
  void give_away_all(operation_queue& batch) noexcept;
  void give_away_posted() noexcept;
  [[nodiscard]] bool is_elsewhere(io_operation const& op) const noexcept;
  [[nodiscard]] bool is_notifying(io_operation const& op) const noexcept;
  void take_messages_now() noexcept;
  [[gnu::noinline]] void perform_what_was_put_off() noexcept;
  int take_delivered() noexcept;
  void deliver_now(io_operation& op) noexcept;
  void poll_member(io_operation& member) noexcept;
  void count_landed() noexcept;
  void discount_landed() noexcept;
  int run_posted(bound const& b, int at_most) noexcept;
  int run_posted_again(bound const& b) noexcept;
  int run_posted_anew(bound const& b) noexcept;
  void take_posted() noexcept;
  void drop_posted() noexcept;
  work* next_to_drop() noexcept;
  template <class IsWanted> io_operation* find_in_flight(int fd, IsWanted is_wanted) noexcept;
  [[nodiscard]] io_operation* result_of(io_operation& op) noexcept;
  [[gnu::cold]] void take_in(bool alone) noexcept;
  /// Of a call that waits for one thing, which takes no wake(). Returns whether it was of one before.
  bool be_in_call(bool on) noexcept;
  template <class Reached, class Failed> int reach(Reached reached, Failed failed) noexcept;
  template <class Reached> void reach(Reached reached) noexcept;
  template <class Failed> void take_to_end(io_operation& op, Failed failed) noexcept;
  void forget_here(int fd) noexcept;
  void unregister(descriptor& d, int fd) noexcept;
  void cancel_all_on(int fd) noexcept;

  /// The innermost receiver of a value that is not the last, while it runs.
  notification* notifying_ = nullptr;
  closing_member in_registry_{*this};
};

} // namespace unio::driver

#include "driver/engine/several.hpp"
#include "driver/engine/trip.hpp"
