// unio/detail/asio_completions.hpp: the service under Asio's sockets and descriptors for io_uring, over
// unio::foreign_reactor. The two io_uring_service.hpp include this, once for each namespace: there is no
// guard.
//
// Asio's operations fill in entries as for a ring of Asio's own. Each goes to the driver: a ring takes all
// of a turn in one call; with epoll the call that the entry stands for is made on readiness. An object has a
// queue for each direction; the driver has the first of a queue.
//
// C++11, as Asio is.

#include "unio/detail/asio_loop.hpp"
#include "unio/detail/asio_waiting.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>

UNIO_ASIO_BEGIN

class completions_on_unio : public loop_on_unio {
 public:
  enum op_types { read_op = 0, write_op = 1, except_op = 2, max_ops = 3 };

  class io_object : public unio::foreign_watch {
    friend class completions_on_unio;
    friend struct objects_on_unio<io_object>;

    // Operations of one direction. As a transfer it is the first of them.
    struct queue : unio::foreign_transfer {
      queue() : object(0), is_busy(false), is_cancelled(false), only_waits(false), is_internal(false) {}

      io_object* object;
      waiting_ops<io_uring_operation> ops;
      bool is_busy;      // the driver has the first
      bool is_cancelled; // the first
      bool only_waits;   // the first: when its descriptor is ready, it makes its call
      bool is_internal;  // the operation is a service's, and counts as no work
    };

    explicit io_object(completions_on_unio& service)
#if UNIO_ASIO_VERSION >= 103300
        : lock_(service.io_locking_, service.io_spins_),
#else
        : lock_(service.io_locking_),
#endif
          next_(0),
          previous_(0) {
      for (int i = 0; i < max_ops; ++i) queues_[i].object = this;
      begin();
    }
    void begin() {
      ended_ = false;
      given_up_ = false;
      for (int i = 0; i < max_ops; ++i) queues_[i].is_internal = false;
    }
    bool is_busy() const { return queues_[0].is_busy || queues_[1].is_busy || queues_[2].is_busy; }
    void list(unio::foreign_list& all) {
      static const unsigned what[max_ops] = {unio::foreign::readable, unio::foreign::writable,
                                             unio::foreign::exceptional};
      guard hold(lock_);
      for (int i = 0; i < max_ops; ++i)
        if (!queues_[i].is_internal) queues_[i].ops.list(*this, what[i], all);
    }

    mutex lock_;
    io_object* next_;
    io_object* previous_;
    queue queues_[max_ops];
    bool ended_;    // deregistered, or the service was shut down
    bool given_up_; // by its owner; the driver still has something
  };

  typedef io_object* per_io_object_data;

  explicit completions_on_unio(execution_context& context)
      : loop_on_unio(context, new objects_on_unio<io_object>),
        objects_(static_cast<objects_on_unio<io_object>&>(kept())) {
    list_by(&completions_on_unio::list_waiting, this);
  }

  void end() {
    begin_shutdown();
    reactor_.end_transfers();
    op_queue<operation> ops;
    while (io_object* o = objects_.live) {
      for (int i = 0; i < max_ops; ++i) {
        io_object::queue& q = o->queues_[i];
        // A connection that was accepted is closed with its operation.
        if (q.is_busy && !q.only_waits && q.result() > 0) has_ended(q, *q.ops.front());
        q.ops.move_all(ops);
        q.is_busy = false;
      }
      o->ended_ = true;
      reactor_.remove_before_close(*o); // its owner will say nothing any more
      give_back(o);
    }
    timers_.get_all_timers(ops);
    scheduler_.abandon_operations(ops);
  }

  void register_io_object(io_object*& data) {
    guard hold(objects_lock_);
    data = objects_.take(*this);
    data->begin();
  }
  void register_internal_io_object(io_object*& data, int type, io_uring_operation* op) {
    register_io_object(data);
    guard hold(data->lock_);
    io_object::queue& q = data->queues_[type];
    q.is_internal = true;
    q.ops.push(op);
    op_queue<operation> none;
    begin(q, none);
  }

  // A ring of unio's uses any memory.
  void register_buffers(const ::iovec*, unsigned) {}
  void unregister_buffers() {}

  void start_op(int type, io_object*& data, io_uring_operation* op, bool is_continuation) {
    if (!data) {
      op->ec_ = error::bad_descriptor;
      return post_immediate_completion(op, is_continuation);
    }
    guard hold(data->lock_);
    io_object::queue& q = data->queues_[type];
    if (data->ended_ || (q.ops.empty() && op->perform(false))) {
      hold.unlock();
      return post_immediate_completion(op, is_continuation);
    }
    bool const is_first = q.ops.empty();
    q.ops.push(op);
    if (is_first) {
      op_queue<operation> over;
      begin(q, over);
      if (!over.empty()) { // this one
        over.pop();
        hold.unlock();
        return post_immediate_completion(op, is_continuation);
      }
    }
    scheduler_.work_started();
  }

  void cancel_ops(io_object*& data) {
    if (!data) return;
    op_queue<operation> ops;
    guard hold(data->lock_);
    cancel_all(*data, ops);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }

  void cancel_ops_by_key(io_object*& data, int type, void* key) {
    if (!data) return;
    op_queue<operation> ops;
    guard hold(data->lock_);
    io_object::queue& q = data->queues_[type];
    for (std::size_t left = q.ops.size(), i = 0; i != left; ++i) {
      io_uring_operation* const op = q.ops.front();
      bool const is_it = op->cancellation_key_ == key;
      if (i == 0 || !is_it) {
        if (is_it) cancel_first(q);
        q.ops.rotate();
        continue;
      }
      q.ops.pop();
      op->ec_ = error::operation_aborted;
      ops.push(op);
    }
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }

  void deregister_io_object(io_object*& data) {
    if (!data) return;
    op_queue<operation> ops;
    guard hold(data->lock_);
    if (data->ended_) { // the service was shut down, and has the memory already
      data = 0;
      return;
    }
    cancel_all(*data, ops);
    data->ended_ = true;
    // Of a file a thread may be in the middle of a call, which has the number.
    for (int i = 0; i < max_ops; ++i)
      if (data->queues_[i].is_busy) reactor_.settle(data->queues_[i]);
    reactor_.remove(*data);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }
  void cleanup_io_object(io_object*& data) {
    if (!data) return;
    guard hold(data->lock_);
    bool const is_busy = data->is_busy();
    data->given_up_ = is_busy;
    hold.unlock();
    if (!is_busy) give_back(data);
    data = 0;
  }

  void run(long usec, op_queue<operation>& ops) {
    run_driver(usec, ops, [this, &ops](unio::foreign_event const& event) {
      over(*static_cast<io_object::queue*>(event.transfer), ops);
    });
  }

 private:
  static void list_waiting(void* loop, unio::foreign_list& all) {
    completions_on_unio& self = *static_cast<completions_on_unio*>(loop);
    guard hold(self.objects_lock_);
    for (io_object* o = self.objects_.live; o; o = o->next_) o->list(all);
  }

  void give_back(io_object* o) {
    guard hold(objects_lock_);
    objects_.give_back(o);
  }

  // Under the object's lock, as those that follow. The first of a queue, which the driver has not, is given
  // to it; what is over at once is taken out, and the next is first.
  void begin(io_object::queue& q, op_queue<operation>& ops) {
    while (io_uring_operation* op = q.ops.front()) {
      ::io_uring_sqe sqe;
      std::memset(&sqe, 0, sizeof sqe);
      op->prepare(&sqe);
      unio::foreign_entry entry;
      static_assert(sizeof entry == sizeof sqe, "an entry is what the kernel's headers say");
      std::memcpy(&entry, &sqe, sizeof entry);
      q.set_entry(entry);
      q.is_cancelled = false;
      q.only_waits = sqe.opcode == IORING_OP_POLL_ADD;
      q.is_busy = true;
      if (!reactor_.start(q, *q.object)) return;
      q.is_busy = false;
      if (has_ended(q, *op)) take_first(q, ops);
    }
  }

  // What the driver says of the first; false: it is to begin again.
  static bool has_ended(io_object::queue& q, io_uring_operation& op) {
    std::int64_t const r = q.result();
    op.ec_ = error_of(r);
    op.bytes_transferred_ = r < 0 ? 0 : static_cast<std::size_t>(r);
    // What was cancelled makes no call: its number may have been closed, and be another's.
    bool const is_over = q.is_cancelled && (r == -ECANCELED || q.only_waits);
    if (!is_over && op.perform(true)) return true;
    if (!q.is_cancelled) return false;
    op.ec_ = error::operation_aborted;
    op.bytes_transferred_ = 0;
    return true;
  }
  static void take_first(io_object::queue& q, op_queue<operation>& ops) {
    operation* const op = q.ops.front();
    q.ops.pop();
    if (q.is_internal) {
      op->destroy();
    } else {
      ops.push(op);
    }
  }

  // The driver has no longer what is first.
  void over(io_object::queue& q, op_queue<operation>& ops) {
    io_object* const o = q.object;
    guard hold(o->lock_);
    q.is_busy = false;
    io_uring_operation* const op = q.ops.front();
    if (op) {
      if (has_ended(q, *op)) take_first(q, ops);
      begin(q, ops);
    }
    bool const is_free = o->given_up_ && !o->is_busy();
    if (is_free) o->given_up_ = false;
    hold.unlock();
    if (is_free) give_back(o);
  }

  void cancel_first(io_object::queue& q) {
    if (!q.is_busy) return;
    q.is_cancelled = true;
    reactor_.cancel(q);
  }
  // The first of each queue is over when the driver says so; the others are now.
  void cancel_all(io_object& o, op_queue<operation>& ops) {
    for (int i = 0; i < max_ops; ++i) {
      io_object::queue& q = o.queues_[i];
      if (q.ops.empty()) continue;
      std::size_t others = q.ops.size() - 1;
      if (others != 0) q.ops.rotate();
      for (; others != 0; --others) {
        io_uring_operation* const op = q.ops.front();
        q.ops.pop();
        op->ec_ = error::operation_aborted;
        ops.push(op);
      }
      cancel_first(q);
    }
  }

  objects_on_unio<io_object>& objects_;
};

class io_uring_service : public execution_context_service_base<io_uring_service>, public completions_on_unio {
 public:
  explicit io_uring_service(execution_context& context)
      : execution_context_service_base<io_uring_service>(context), completions_on_unio(context) {}
  void shutdown() { end(); }
  void notify_fork(execution_context::fork_event event) {
    if (event == execution_context::fork_prepare) driver().before_fork();
    after_fork(event);
  }
};

UNIO_ASIO_END

#include "unio/detail/asio_marks.hpp"
