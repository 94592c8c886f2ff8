// unio/detail/asio_files.hpp: Asio's files over unio::foreign_reactor: all of a context. Part of
// asio_file_service.hpp; there is no guard.
//
// What is no file (a pipe, a terminal) is tried and waited for by the reactor instead.

#include "unio/detail/asio_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <new>

UNIO_ASIO_BEGIN

class files_on_unio {
  friend class file_op_on_unio;
  typedef decltype(reactor_op::ec_) failure;

 public:
  struct implementation {
    int descriptor_;
    descriptor_ops::state_type state_;
    file_on_unio* file_;                         // null: it is no file
    reactor_on_unio::per_descriptor_data watch_; // of what is no file
    bool is_stream_;
  };

  explicit files_on_unio(execution_context& context)
      : context_(context),
        scheduler_(use_service<scheduler>(context)),
        reactor_(use_service<epoll_reactor>(context)),
        first_(0) {
    reactor_.init_task();
  }

  void end_all() {
    reactor_.driver().end_transfers();
    op_queue<operation> ops;
    for (file_on_unio *f = first_, *next = 0; f != 0; f = next) {
      next = f->next_;
      while (file_op_on_unio* op = f->in_driver_) {
        f->remove(op);
        ops.push(op);
      }
      for (int i = 0; i < 2; ++i) ops.push(f->waiting_[i]);
      f->is_shut_down_ = true;
      if (f->is_closed_) end(f);
    }
    scheduler_.abandon_operations(ops);
  }

  static void construct(implementation& i) {
    i.descriptor_ = -1;
    i.state_ = 0;
    i.file_ = 0;
    i.watch_ = 0;
    i.is_stream_ = false;
  }
  // What it is to be opened as stays.
  static void forget(implementation& i) {
    bool const is_stream = i.is_stream_;
    construct(i);
    i.is_stream_ = is_stream;
  }
  static void move(implementation& to, implementation& from) {
    to = from;
    forget(from);
  }

  failure open(implementation& i, const char* path, int flags, failure& ec) {
    if (i.descriptor_ != -1) return ec = error::already_open;
    int const fd = descriptor_ops::open(path, flags, 0777, ec);
    if (fd < 0) return ec;
    if (assign(i, fd, ec)) {
      failure ignored;
      descriptor_ops::state_type state = 0;
      descriptor_ops::close(fd, state, ignored);
      return ec;
    }
    (void)::posix_fadvise(fd, 0, 0, i.is_stream_ ? POSIX_FADV_SEQUENTIAL : POSIX_FADV_RANDOM);
    return ec;
  }

  failure assign(implementation& i, int fd, failure& ec) {
    if (i.descriptor_ != -1) return ec = error::already_open;
    if (int const e = reactor_.register_descriptor(fd, i.watch_))
      return ec = failure(e, error::get_system_category());
    if (!i.watch_->can_wait()) {
      reactor_.deregister_descriptor(fd, i.watch_, false);
      reactor_.cleanup_descriptor_data(i.watch_);
      file_on_unio* const f = new (std::nothrow) file_on_unio(*this, reactor_.driver(), fd, i.is_stream_);
      if (!f) return ec = failure(ENOMEM, error::get_system_category());
      i.file_ = add(f);
    }
    i.descriptor_ = fd;
    i.state_ = descriptor_ops::possible_dup;
    return ec = failure();
  }

  failure close(implementation& i, failure& ec) {
    ec = failure();
    if (i.descriptor_ == -1) return ec;
    if (!leave(i, false)) descriptor_ops::close(i.descriptor_, i.state_, ec);
    forget(i);
    return ec;
  }

  int release(implementation& i) {
    int const fd = i.descriptor_;
    if (fd == -1) return fd;
    leave(i, true);
    forget(i);
    return fd;
  }

  failure cancel(implementation& i, failure& ec) {
    if (i.descriptor_ == -1) return ec = error::bad_descriptor;
    if (i.file_) {
      cancel(*i.file_, 0, true);
    } else {
      reactor_.cancel_ops(i.descriptor_, i.watch_);
    }
    return ec = failure();
  }

  // By a cancellation slot.
  class cancellation {
   public:
    cancellation(files_on_unio& files, implementation& i, bool writes)
        : files_(&files), implementation_(&i), writes_(writes) {}
    void operator()(cancellation_type_t type) {
      typedef cancellation_type all;
      if (!!(type & (all::terminal | all::partial | all::total)))
        files_->cancel_by_key(*implementation_, writes_, this);
    }

   private:
    files_on_unio* files_;
    implementation* implementation_;
    bool writes_;
  };

  void start(implementation& i, file_op_on_unio* op, bool is_continuation, bool is_empty) {
    if (is_empty) return reactor_.post_immediate_completion(op, is_continuation);
    if (i.descriptor_ == -1) {
      op->ec_ = error::bad_descriptor;
      return reactor_.post_immediate_completion(op, is_continuation);
    }
    if (!i.file_) return start_waiting(i, op, is_continuation);
    file_on_unio& f = *i.file_;
    std::unique_lock<std::mutex> hold(f.lock_);
    if (f.is_shut_down_) {
      hold.unlock();
      return reactor_.post_immediate_completion(op, is_continuation);
    }
    scheduler_.work_started();
    if (f.must_wait(op)) {
      f.waiting_[op->writes_].push(op);
    } else if (f.begin(op)) {
      hold.unlock();
      op_queue<operation> ops;
      ops.push(op);
      scheduler_.post_deferred_completions(ops);
    }
  }

  execution_context& context() { return context_; }

 private:
  // What is no file may be in blocking mode: attempts must not wait.
  void start_waiting(implementation& i, file_op_on_unio* op, bool is_continuation) {
    bool const never_waits =
        (i.state_ & descriptor_ops::non_blocking) != 0 ||
        descriptor_ops::set_internal_non_blocking(i.descriptor_, i.state_, true, op->ec_);
    if (!never_waits) return reactor_.post_immediate_completion(op, is_continuation);
    int const d = op->writes_ ? reactor_on_unio::write_op : reactor_on_unio::read_op;
    reactor_.start_op(d, i.descriptor_, i.watch_, op, is_continuation, true);
  }

  void cancel(file_on_unio& f, void* key, bool all) {
    op_queue<operation> ops;
    std::unique_lock<std::mutex> hold(f.lock_);
    f.cancel(key, all, ops);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }
  void cancel_by_key(implementation& i, bool writes, void* key) {
    if (i.file_) return cancel(*i.file_, key, false);
    int const d = writes ? reactor_on_unio::write_op : reactor_on_unio::read_op;
    reactor_.cancel_ops_by_key(i.descriptor_, i.watch_, d, key);
  }

  // True: what is under way uses the number of the descriptor, and closes it. `keeps`: waits for it instead.
  bool leave(implementation& i, bool keeps) {
    if (!i.file_) {
      reactor_.deregister_descriptor(i.descriptor_, i.watch_,
                                     !keeps && (i.state_ & descriptor_ops::possible_dup) == 0);
      reactor_.cleanup_descriptor_data(i.watch_);
      return false;
    }
    file_on_unio& f = *i.file_;
    op_queue<operation> ops;
    std::unique_lock<std::mutex> hold(f.lock_);
    bool const is_used = !f.cancel(0, true, ops);
    if (is_used && keeps)
      for (file_op_on_unio* op = f.in_driver_; op != 0; op = op->next_in_driver_)
        reactor_.driver().settle(*op);
    bool const closes = is_used && !keeps;
    f.is_closed_ = true;
    f.closes_fd_ = closes;
    bool const ends = f.in_driver_ == 0;
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
    if (ends) end(&f);
    return closes;
  }

  file_on_unio* add(file_on_unio* f) {
    std::lock_guard<std::mutex> const hold(lock_);
    f->next_ = first_;
    if (first_) first_->previous_ = f;
    return first_ = f;
  }
  void end(file_on_unio* f) {
    std::unique_lock<std::mutex> hold(lock_);
    (f->previous_ ? f->previous_->next_ : first_) = f->next_;
    if (f->next_) f->next_->previous_ = f->previous_;
    hold.unlock();
    if (f->closes_fd_) ::close(f->fd_);
    delete f;
  }

  execution_context& context_;
  scheduler& scheduler_;
  epoll_reactor& reactor_;
  std::mutex lock_; // of the list
  file_on_unio* first_;
};

inline void file_op_on_unio::over(transfer* t, op_queue<operation>& ops) {
  file_op_on_unio* const op = static_cast<file_op_on_unio*>(t);
  file_on_unio* const f = op->file_;
  if (f->over(op, ops)) f->files_.end(f);
}

UNIO_ASIO_END
