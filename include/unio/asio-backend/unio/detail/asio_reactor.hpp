// unio/detail/asio_reactor.hpp: the reactor of Asio over unio::foreign_reactor. The two epoll_reactor.hpp
// beside it include this, once for each namespace: there is no guard.
//
// Scheduling, strands, work and handlers stay Asio's. A reactor has a queue of operations for each descriptor
// and direction; it tries an operation where that is worth it, and performs what is queued when the driver
// says that the descriptor is ready. What is observable is as with Asio's own.
//
// C++11, as Asio is.

#include "unio/detail/asio_loop.hpp"
#include "unio/detail/asio_waiting.hpp"

#include <cstddef>

UNIO_ASIO_BEGIN

// All but what makes it a service of the context. A class of its own, because functions of it then have other
// names than Asio's.
class reactor_on_unio : public loop_on_unio {
 public:
  enum op_types { read_op = 0, write_op = 1, connect_op = 1, except_op = 2, max_ops = 3 };

  // A descriptor. As an operation it is what the scheduler runs when the descriptor is ready.
  class watched : public operation, public unio::foreign_watch {
    friend class reactor_on_unio;
    friend struct objects_on_unio<watched>;

    explicit watched(reactor_on_unio& r)
        : operation(&watched::run_ready),
#if UNIO_ASIO_VERSION >= 103300
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
      watches_ = unio::foreign::readable;
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

    // Whether there is nothing more until the descriptor is ready again. After an error there is: the next
    // operation has it too, and no readiness may come that says so.
    static bool has_exhausted(reactor_op::status s, reactor_op const& op) {
      return s == reactor_op::done_and_exhausted && !op.ec_;
    }

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
          reactor_op::status const status = op->perform();
          if (status == reactor_op::not_done) break;
          queued_[d].pop();
          done.add(op);
          if (has_exhausted(status, *op)) {
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
    waiting_ops<reactor_op> queued_[max_ops];
    bool try_first_[max_ops];
    unsigned watches_; // what for
    bool ended_;       // closed, or the reactor was shut down
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
  explicit reactor_on_unio(execution_context& context)
      : loop_on_unio(context, new objects_on_unio<watched>),
        watches_(static_cast<objects_on_unio<watched>&>(kept())) {
    list_by(&reactor_on_unio::list_waiting, this);
  }

  void end() {
    begin_shutdown();
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
    waiting_ops<reactor_op>& queue = data->queued_[direction];
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

  void run(long usec, op_queue<operation>& ops) {
    run_driver(usec, ops, [this, &ops](unio::foreign_event const& event) {
      if (event.watch == 0) {
        transfer* const t = static_cast<transfer*>(event.transfer);
        t->over_(t, ops);
        return;
      }
      watched* const w = static_cast<watched*>(event.watch);
      UNIO_ASIO(HANDLER_REACTOR_EVENTS)((context_, reinterpret_cast<uintmax_t>(w), tracked(event.what)));
      // The scheduler has run what was pushed here before this is called again.
      if (!ops.is_enqueued(w)) {
        w->task_result_ = event.what;
        ops.push(w);
      } else {
        w->task_result_ |= event.what;
      }
    });
  }

 private:
  // For unio::dump_pending, on any thread.
  static void list_waiting(void* loop, unio::foreign_list& all) {
    reactor_on_unio& self = *static_cast<reactor_on_unio*>(loop);
    guard hold(self.objects_lock_);
    for (watched* w = self.watches_.live; w; w = w->next_) w->list(all);
  }

  static void post_now(operation* op, bool is_continuation, const void* self) {
    static_cast<reactor_on_unio const*>(self)->post_immediate_completion(op, is_continuation);
  }

  // Nothing is queued yet. False: it is done, one way or the other.
  bool must_wait(watched& w, int direction, reactor_op* op, bool may_try) {
    bool const tries = may_try && (direction != read_op || w.queued_[except_op].empty());
    if (tries && w.try_first_[direction]) {
      reactor_op::status const status = op->perform();
      if (watched::has_exhausted(status, *op) && w.can_wait()) w.try_first_[direction] = false;
      if (status != reactor_op::not_done) return false;
    }
    if (!w.can_wait()) {
      op->ec_ = error::operation_not_supported;
      return false;
    }
    // After an attempt the driver reports what changes from now on; where there was none it has to look.
    static const unsigned wanted[max_ops] = {unio::foreign::readable, unio::foreign::writable,
                                             unio::foreign::exceptional};
    bool const is_new = (w.watches_ & wanted[direction]) == 0;
    if (tries && !is_new) return true;
    failure const e = translate(reactor_.arm(w, wanted[direction]));
    if (!e) w.watches_ |= wanted[direction];
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
    int const e = translate(reactor_.add(*data, descriptor, unio::foreign::readable)).value();
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
    guard hold(objects_lock_);
    return watches_.take(*this);
  }
  void give_back(watched* w) {
    guard hold(objects_lock_);
    watches_.give_back(w);
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

  objects_on_unio<watched>& watches_;
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

#include "unio/detail/asio_marks.hpp"
