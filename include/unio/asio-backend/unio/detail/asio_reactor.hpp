// unio/detail/asio_reactor.hpp: the reactor of Asio over unio::foreign_reactor. The two epoll_reactor.hpp
// beside it include this, once for each namespace: there is no guard.
//
// Scheduling, strands, work and handlers stay Asio's. A reactor has a queue of operations for each descriptor
// and direction; it tries an operation where that is worth it, and performs what is queued when the driver
// says that the descriptor is ready. What is observable is as with Asio's own.
//
// C++11, as Asio is.

#if !UNIO_ASIO_IS_KNOWN && !defined(UNIO_ASIO_ANY)
#error "unio::asio knows Asio 1.22.1, 1.38.2, Boost 1.74, 1.81; -DUNIO_ASIO_ANY=1 tries it with this one"
#endif

#include "unio/detail/asio_waiting.hpp"

#include <unio/foreign_reactor.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <limits>
#include <system_error>

UNIO_ASIO_BEGIN

// All but what makes it a service of the context. A class of its own, because functions of it then have other
// names than Asio's.
class reactor_on_unio
#if UNIO_ASIO_VERSION >= 101900
    : public scheduler_task
#endif
{
  typedef decltype(reactor_op::ec_) failure;
#if UNIO_ASIO_VERSION >= 103800
  typedef conditionally_enabled_mutex<slim_mutex> mutex;
#else
  typedef conditionally_enabled_mutex mutex;
#endif
  typedef mutex::scoped_lock guard;

 public:
  enum op_types { read_op = 0, write_op = 1, connect_op = 1, except_op = 2, max_ops = 3 };

  // A descriptor. As an operation it is what the scheduler runs when the descriptor is ready.
  class watched : public operation, public unio::foreign_watch {
    friend class reactor_on_unio;

    explicit watched(reactor_on_unio& r)
        : operation(&watched::run_ready),
#if UNIO_ASIO_VERSION >= 103800
          lock_(r.io_locking_, r.io_spins_),
#else
          lock_(r.io_locking_),
#endif
          reactor_(r),
          next_(0),
          previous_(0) {
      begin();
    }
    void begin() {
      ended_ = false;
      watches_writing_ = false;
      for (int i = 0; i < max_ops; ++i) try_first_[i] = true;
    }
    void collect_all(op_queue<operation>& ops) {
      for (int i = 0; i < max_ops; ++i) queued_[i].move_all(ops);
    }
    void abort_all(op_queue<operation>& ops) {
      for (int i = 0; i < max_ops; ++i) {
        while (reactor_op* op = queued_[i].front()) {
          queued_[i].pop();
          op->ec_ = error::operation_aborted;
          ops.push(op);
        }
      }
    }
    void list(unio::foreign_list& all) {
      static const unsigned what[max_ops] = {unio::foreign::readable, unio::foreign::writable,
                                             unio::foreign::exceptional};
      guard hold(lock_);
      for (int i = 0; i < max_ops; ++i) queued_[i].list(*this, what[i], all);
    }

    static void run_ready(void* owner, operation* base, failure const& ec, std::size_t events) {
      if (owner == 0) return; // the scheduler ends; the reactor has the memory
      watched* const self = static_cast<watched*>(base);
      if (operation* first = self->perform_ready(static_cast<unsigned>(events)))
        first->complete(owner, ec, 0);
    }

    // What perform() finished goes to the scheduler even if a later one throws. The first is completed by the
    // caller, as the work that the scheduler counts for this call.
    struct finished {
      explicit finished(reactor_on_unio& r) : reactor(r), first(0) {}
      ~finished() {
        if (first == 0) {
          reactor.scheduler_.compensating_work_started();
        } else if (!others.empty()) {
          reactor.scheduler_.post_deferred_completions(others);
        }
      }
      void add(operation* op) {
        if (first == 0) {
          first = op;
        } else {
          others.push(op);
        }
      }
      reactor_on_unio& reactor;
      operation* first;
      op_queue<operation> others;
    };

    operation* perform_ready(unsigned events) {
      // Out-of-band data comes before what was sent after it.
      static const struct {
        int direction;
        unsigned ready;
      } order[max_ops] = {{except_op, unio::foreign::exceptional | unio::foreign::failed},
                          {write_op, unio::foreign::writable | unio::foreign::failed},
                          {read_op, unio::foreign::readable | unio::foreign::failed}};
      finished done(reactor_);
      guard hold(lock_);
      for (int i = 0; i < max_ops; ++i) {
        if ((events & order[i].ready) == 0) continue;
        int const d = order[i].direction;
        try_first_[d] = true;
        while (reactor_op* op = queued_[d].front()) {
          int const status = op->perform();
          if (status == reactor_op::not_done) break;
          queued_[d].pop();
          done.add(op);
          if (status == reactor_op::done_and_exhausted) {
            try_first_[d] = false;
            break;
          }
        }
      }
      return done.first;
    }

    mutex lock_;
    reactor_on_unio& reactor_;
    watched* next_;
    watched* previous_;
    waiting_ops queued_[max_ops];
    bool try_first_[max_ops];
    bool watches_writing_;
    bool ended_; // closed, or the reactor was shut down
  };

  typedef watched* per_descriptor_data;

  // A read or write of a file: made by the driver (asio_files.hpp), or, where readiness means something for
  // the descriptor, as any other operation.
  class transfer : public reactor_op, public unio::foreign_transfer {
    friend class reactor_on_unio;

   protected:
    typedef void (*on_over)(transfer*, op_queue<operation>& ops);
    transfer(failure const& success, perform_func_type perform, func_type complete, on_over over, direction d,
             int fd, const ::iovec* buffers, std::size_t n, int64_t offset)
        : reactor_op(success, perform, complete),
          unio::foreign_transfer(d, fd, buffers, static_cast<int>(n), offset),
          over_(over) {}

   private:
    on_over over_;
  };
  unio::foreign_reactor& driver() { return reactor_; }
  static failure error_of(std::int64_t result) {
    return failure(result < 0 ? static_cast<int>(-result) : 0, error::get_system_category());
  }

  explicit reactor_on_unio(execution_context& context)
      : context_(context),
        scheduler_(use_service<scheduler>(context)),
#if UNIO_ASIO_VERSION >= 103800
        lock_(config(context).get("reactor", "registration_locking", true),
              config(context).get("reactor", "registration_locking_spin_count", 0)),
        io_locking_(config(context).get("reactor", "io_locking", true)),
        io_spins_(config(context).get("reactor", "io_locking_spin_count", 0)),
        watches_lock_(lock_.enabled(), lock_.spin_count()),
#else
        lock_(UNIO_ASIO(CONCURRENCY_HINT_IS_LOCKING)(REACTOR_REGISTRATION, scheduler_.concurrency_hint())),
        io_locking_(UNIO_ASIO(CONCURRENCY_HINT_IS_LOCKING)(REACTOR_IO, scheduler_.concurrency_hint())),
        watches_lock_(lock_.enabled()),
#endif
        is_shut_down_(false),
        has_timers_(false) {
    throw_error(translate(reactor_.open()), "unio::foreign_reactor");
    if (io_locking_ && watches_lock_.enabled()) reactor_.list_by(&reactor_on_unio::list_waiting, this);
  }

  void end() {
    reactor_.list_by(0, 0);
    guard hold(lock_);
    is_shut_down_ = true;
    hold.unlock();
    op_queue<operation> ops;
    while (watched* w = watches_.live) {
      w->collect_all(ops);
      w->ended_ = true;
      reactor_.remove_before_close(*w); // its owner will say nothing any more
      give_back(w);
    }
    timers_.get_all_timers(ops);
    scheduler_.abandon_operations(ops);
  }

  void after_fork(execution_context::fork_event event) {
    if (event == execution_context::fork_child)
      throw_error(translate(reactor_.after_fork()), "unio::foreign_reactor after fork");
  }

  void init_task() { scheduler_.init_task(); }

  // Returns 0 or errno, as the two below.
  int register_descriptor(socket_type descriptor, per_descriptor_data& data) {
    return begin_watching(descriptor, data, read_op, 0);
  }
  int register_internal_descriptor(int direction, socket_type descriptor, per_descriptor_data& data,
                                   reactor_op* op) {
    return begin_watching(descriptor, data, direction, op);
  }

  void move_descriptor(socket_type, per_descriptor_data& target, per_descriptor_data& source) {
    target = source;
    source = 0;
  }

  void post_immediate_completion(operation* op, bool is_continuation) const {
    scheduler_.post_immediate_completion(op, is_continuation);
  }
  void start_op(int direction, socket_type descriptor, per_descriptor_data& data, reactor_op* op,
                bool is_continuation, bool may_try) {
    start_op(direction, descriptor, data, op, is_continuation, may_try, &reactor_on_unio::post_now, this);
  }

  void start_op(int direction, socket_type, per_descriptor_data& data, reactor_op* op, bool is_continuation,
                bool may_try, void (*on_immediate)(operation*, bool, const void*), const void* argument) {
    if (!data) {
      op->ec_ = error::bad_descriptor;
      return on_immediate(op, is_continuation, argument);
    }
    guard hold(data->lock_);
    if (data->ended_ || (data->queued_[direction].empty() && !must_wait(*data, direction, op, may_try))) {
      hold.unlock();
      return on_immediate(op, is_continuation, argument);
    }
    data->queued_[direction].push(op);
    scheduler_.work_started();
  }

  void cancel_ops(socket_type, per_descriptor_data& data) {
    if (!data) return;
    op_queue<operation> ops;
    guard hold(data->lock_);
    data->abort_all(ops);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }

#if UNIO_ASIO_VERSION >= 101900
  void cancel_ops_by_key(socket_type, per_descriptor_data& data, int direction, void* key) {
    if (!data) return;
    op_queue<operation> ops;
    guard hold(data->lock_);
    waiting_ops& queue = data->queued_[direction];
    for (std::size_t left = queue.size(); left != 0; --left) {
      reactor_op* const op = queue.front();
      if (op->cancellation_key_ != key) {
        queue.rotate();
        continue;
      }
      queue.pop();
      op->ec_ = error::operation_aborted;
      ops.push(op);
    }
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }
#endif

  void deregister_descriptor(socket_type descriptor, per_descriptor_data& data, bool closing) {
    op_queue<operation> ops;
    if (end_watching(descriptor, data, closing, true, ops)) scheduler_.post_deferred_completions(ops);
  }
  void deregister_internal_descriptor(socket_type descriptor, per_descriptor_data& data) {
    op_queue<operation> ops; // destroyed with this
    end_watching(descriptor, data, false, false, ops);
  }
  void cleanup_descriptor_data(per_descriptor_data& data) {
    if (data) give_back(data);
    data = 0;
  }

  template <class Queue> void add_timer_queue(Queue& queue) {
    guard hold(lock_);
    timers_.insert(&queue);
  }
  template <class Queue> void remove_timer_queue(Queue& queue) {
    guard hold(lock_);
    timers_.erase(&queue);
  }

  template <class Queue, class Time>
  void schedule_timer(Queue& queue, const Time& time, typename Queue::per_timer_data& timer, wait_op* op) {
    guard hold(lock_);
    if (is_shut_down_) return scheduler_.post_immediate_completion(op, false);
    bool const is_earliest = queue.enqueue_timer(time, timer, op);
    has_timers_.store(true, std::memory_order_relaxed);
    scheduler_.work_started();
    // A thread that waits has to wait for less.
    if (is_earliest) reactor_.interrupt();
  }

  template <class Queue>
  std::size_t cancel_timer(Queue& queue, typename Queue::per_timer_data& timer,
                           std::size_t most = (std::numeric_limits<std::size_t>::max)()) {
    op_queue<operation> ops;
    guard hold(lock_);
    std::size_t const n = queue.cancel_timer(timer, ops, most);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
    return n;
  }

#if UNIO_ASIO_VERSION >= 101900
  template <class Queue>
  void cancel_timer_by_key(Queue& queue, typename Queue::per_timer_data* timer, void* key) {
    op_queue<operation> ops;
    guard hold(lock_);
    queue.cancel_timer_by_key(timer, ops, key);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }
#endif

  template <class Queue>
  void move_timer(Queue& queue, typename Queue::per_timer_data& target,
                  typename Queue::per_timer_data& source) {
    op_queue<operation> ops;
    guard hold(lock_);
    queue.cancel_timer(target, ops);
    queue.move_timer(target, source);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }

  void run(long usec, op_queue<operation>& ops) {
    // A timer that is scheduled after this look interrupts the driver.
    bool const has_timers = has_timers_.load(std::memory_order_relaxed);
    if (has_timers && usec != 0) usec = time_to_timer(usec);
    unio::foreign_event events[128];
    std::size_t const n = reactor_.run(
        usec < 0 ? std::chrono::nanoseconds(-1) : std::chrono::nanoseconds(std::chrono::microseconds(usec)),
        events, sizeof events / sizeof *events);
    for (std::size_t i = 0; i < n; ++i) {
      if (events[i].watch == 0) {
        transfer* const t = static_cast<transfer*>(events[i].transfer);
        t->over_(t, ops);
        continue;
      }
      watched* const w = static_cast<watched*>(events[i].watch);
      UNIO_ASIO(HANDLER_REACTOR_EVENTS)((context_, reinterpret_cast<uintmax_t>(w), tracked(events[i].what)));
      // The scheduler has run what was pushed here before this is called again.
      if (!ops.is_enqueued(w)) {
        w->task_result_ = events[i].what;
        ops.push(w);
      } else {
        w->task_result_ |= events[i].what;
      }
    }
    if (has_timers) {
      guard hold(lock_);
      timers_.get_ready_timers(ops);
      if (timers_.all_empty()) has_timers_.store(false, std::memory_order_relaxed);
    }
  }

  void interrupt() { reactor_.interrupt(); }

 private:
  // For unio::dump_pending, on any thread.
  static void list_waiting(void* loop, unio::foreign_list& all) {
    reactor_on_unio& self = *static_cast<reactor_on_unio*>(loop);
    guard hold(self.watches_lock_);
    for (watched* w = self.watches_.live; w; w = w->next_) w->list(all);
  }

  static void post_now(operation* op, bool is_continuation, const void* self) {
    static_cast<reactor_on_unio const*>(self)->post_immediate_completion(op, is_continuation);
  }

  static failure translate(std::error_code const& e) {
    bool const is_errno = e.category() == std::system_category() || e.category() == std::generic_category();
    return failure(is_errno ? e.value() : e ? EINVAL : 0, error::get_system_category());
  }

  // Nothing is queued yet. False: it is done, one way or the other.
  bool must_wait(watched& w, int direction, reactor_op* op, bool may_try) {
    bool const tries = may_try && (direction != read_op || w.queued_[except_op].empty());
    if (tries && w.try_first_[direction]) {
      int const status = op->perform();
      if (status == reactor_op::done_and_exhausted && w.can_wait()) w.try_first_[direction] = false;
      if (status != reactor_op::not_done) return false;
    }
    if (!w.can_wait()) {
      op->ec_ = error::operation_not_supported;
      return false;
    }
    // After an attempt the driver reports what changes from now on; where there was none it has to look.
    static const unsigned wanted[max_ops] = {unio::foreign::readable, unio::foreign::writable,
                                             unio::foreign::exceptional};
    bool const is_new = direction == write_op && !w.watches_writing_;
    if (tries && !is_new) return true;
    failure const e = translate(reactor_.arm(w, wanted[direction]));
    if (is_new && !e) w.watches_writing_ = true;
    if (!e || !tries) return true;
    op->ec_ = e;
    return false;
  }

  int begin_watching(socket_type descriptor, per_descriptor_data& data, int direction, reactor_op* op) {
    data = take();
    UNIO_ASIO(HANDLER_REACTOR_REGISTRATION)
    ((context_, static_cast<uintmax_t>(descriptor), reinterpret_cast<uintmax_t>(data)));
    {
      guard hold(data->lock_);
      data->begin();
      if (op) data->queued_[direction].push(op);
    }
    unsigned const both = unio::foreign::readable | unio::foreign::exceptional;
    int const e = translate(reactor_.add(*data, descriptor, both)).value();
    if (e != 0 && op == 0) cleanup_descriptor_data(data);
    return e;
  }

  // False: the reactor was shut down, and has the memory of `data` already.
  bool end_watching(socket_type descriptor, per_descriptor_data& data, bool closing, bool aborts,
                    op_queue<operation>& ops) {
    if (!data) return false;
    guard hold(data->lock_);
    if (data->ended_) {
      data = 0;
      return false;
    }
    if (aborts) {
      data->abort_all(ops);
    } else {
      data->collect_all(ops);
    }
    data->ended_ = true;
    hold.unlock();
    if (closing) {
      reactor_.remove_before_close(*data);
    } else {
      reactor_.remove(*data);
    }
    UNIO_ASIO(HANDLER_REACTOR_DEREGISTRATION)
    ((context_, static_cast<uintmax_t>(descriptor), reinterpret_cast<uintmax_t>(data)));
    (void)descriptor;
    return true;
  }

  watched* take() {
    guard hold(watches_lock_);
    watched* w = watches_.free;
    if (w) {
      watches_.free = w->next_;
    } else {
      w = new watched(*this);
    }
    w->previous_ = 0;
    w->next_ = watches_.live;
    if (watches_.live) watches_.live->previous_ = w;
    watches_.live = w;
    return w;
  }
  // The memory stays, for an event of it may be under way.
  void give_back(watched* w) {
    guard hold(watches_lock_);
    (w->previous_ ? w->previous_->next_ : watches_.live) = w->next_;
    if (w->next_) w->next_->previous_ = w->previous_;
    w->next_ = watches_.free;
    watches_.free = w;
  }
  long time_to_timer(long usec) {
    // A clock that is set is noticed within five minutes.
    const long most = 5L * 60 * 1000 * 1000;
    guard hold(lock_);
    return timers_.wait_duration_usec(usec < 0 || usec > most ? most : usec);
  }

#if defined(ASIO_ENABLE_HANDLER_TRACKING) || defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING)
  static unsigned tracked(unsigned events) {
    unsigned mask = 0;
    if (events & unio::foreign::readable) mask |= UNIO_ASIO(HANDLER_REACTOR_READ_EVENT);
    if (events & unio::foreign::writable) mask |= UNIO_ASIO(HANDLER_REACTOR_WRITE_EVENT);
    if (events & unio::foreign::failed) mask |= UNIO_ASIO(HANDLER_REACTOR_ERROR_EVENT);
    return mask;
  }
#endif

  execution_context& context_;
  scheduler& scheduler_;
  mutex lock_; // of the timers
  bool io_locking_;
#if UNIO_ASIO_VERSION >= 103800
  int io_spins_;
#endif
  mutex watches_lock_; // of the two lists
  bool is_shut_down_;
  std::atomic<bool> has_timers_;
  timer_queue_set timers_;
  struct lists {
    lists() : live(0), free(0) {}
    ~lists() {
      delete_all(live);
      delete_all(free);
    }
    static void delete_all(watched* w) {
      while (w) {
        watched* const next = w->next_;
        delete w;
        w = next;
      }
    }
    watched* live;
    watched* free;
  } watches_;
  unio::foreign_reactor reactor_; // ends before the watches do
};

class epoll_reactor : public execution_context_service_base<epoll_reactor>, public reactor_on_unio {
 public:
  explicit epoll_reactor(execution_context& context)
      : execution_context_service_base<epoll_reactor>(context), reactor_on_unio(context) {}
  void shutdown() { end(); }
  void notify_fork(execution_context::fork_event event) { after_fork(event); }
  // For Asio's services, which give the address of this class.
  static void call_post_immediate_completion(operation* op, bool is_continuation, const void* self) {
    static_cast<epoll_reactor const*>(self)->post_immediate_completion(op, is_continuation);
  }
};

UNIO_ASIO_END

// Each object that was compiled with Asio's own reactor has functions of these names, at every level of
// optimisation. Here they are thread-local variables, and no linker takes one for the other: a program has
// either kind of reactor, never half of each. The linker's message names the section.
extern "C" {
#define UNIO_ASIO_MARK \
  __attribute__((weak, used, section(".tbss.objects_with_unio_asio_and_with_stock_asio_in_one_program")))
extern __thread char UNIO_ASIO_MARK UNIO_ASIO_MARK_NAME(run) __asm__(UNIO_ASIO_MANGLED_RUN);
extern __thread char UNIO_ASIO_MARK UNIO_ASIO_MARK_NAME(interrupt) __asm__(UNIO_ASIO_MANGLED_INTERRUPT);
}
__thread char UNIO_ASIO_MARK_NAME(run);
__thread char UNIO_ASIO_MARK_NAME(interrupt);
#undef UNIO_ASIO_MARK
