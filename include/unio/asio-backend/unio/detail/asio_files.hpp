// unio/detail/asio_files.hpp: Asio's files over unio::foreign_reactor. The two io_uring_file_service.hpp
// include this, once for each namespace: there is no guard.
//
// A file is a queue for each direction. The driver has the first of a queue, and of a random-access file all
// reads at once. What is no file (a pipe, a terminal) is tried and waited for by the reactor instead.
//
// C++11, as Asio is.

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <type_traits>

UNIO_ASIO_BEGIN

class files_on_unio {
  typedef decltype(reactor_op::ec_) failure;
  typedef reactor_on_unio::transfer transfer;
  typedef transfer::direction direction;

 public:
  typedef int native_handle_type;

  // Of one file, from when it is opened until it is closed and nothing is under way.
  class file;

  // An operation. `Writes` is its direction.
  class file_op : public transfer {
   public:
    file_op* next_in_driver_;
    file_op* previous_in_driver_;
    file* file_;
    bool writes_;

    void set_result() {
      std::int64_t const r = result();
      ec_ = reactor_on_unio::error_of(r);
      bytes_transferred_ = r < 0 ? 0 : static_cast<std::size_t>(r);
      if (r == 0 && !writes_) ec_ = error::eof;
    }

   protected:
    file_op(failure const& success, perform_func_type perform, func_type complete, direction d, int fd,
            const ::iovec* buffers, std::size_t n, int64_t offset)
        : transfer(success, perform, complete, &file_op::over, d, fd, buffers, n, offset),
          next_in_driver_(0),
          previous_in_driver_(0),
          file_(0),
          writes_(d == unio::foreign_transfer::writes) {}

   private:
    static void over(transfer* t, op_queue<operation>& ops) {
      file_op* const op = static_cast<file_op*>(t);
      op->file_->over(op, ops);
    }
  };

  class file {
    friend class files_on_unio;

   public:
    // Its transfer is over.
    void over(file_op* op, op_queue<operation>& ops) {
      std::unique_lock<std::mutex> hold(lock_);
      remove(op);
      op->set_result();
      ops.push(op);
      // One that is over at once is followed by the next.
      for (file_op* next = waiting_[op->writes_].front(); next != 0; next = waiting_[op->writes_].front()) {
        waiting_[op->writes_].pop();
        if (!begin(next)) break;
        ops.push(next);
      }
      bool const ends = is_closed_ && in_driver_ == 0;
      hold.unlock();
      if (ends) files_.end(this);
    }

   private:
    file(files_on_unio& files, int fd, bool is_stream)
        : files_(files),
          next_(0),
          previous_(0),
          in_driver_(0),
          is_busy_(),
          fd_(fd),
          is_stream_(is_stream),
          may_try_(may_try(fd)),
          is_closed_(false),
          closes_fd_(false),
          is_shut_down_(false) {}

    // What passes by the page cache waits for the device.
    static bool may_try(int fd) {
      int const flags = ::fcntl(fd, F_GETFL);
      return flags != -1 && (flags & O_DIRECT) == 0;
    }

    // Under the lock, as those that follow. True: it is over.
    bool begin(file_op* op) {
      op->file_ = this;
      op->previous_in_driver_ = 0;
      op->next_in_driver_ = in_driver_;
      if (in_driver_) in_driver_->previous_in_driver_ = op;
      in_driver_ = op;
      ++is_busy_[op->writes_];
      if (!files_.reactor_.driver().start(*op, may_try_)) return false;
      remove(op);
      op->set_result();
      return true;
    }
    void remove(file_op* op) {
      (op->previous_in_driver_ ? op->previous_in_driver_->next_in_driver_ : in_driver_) = op->next_in_driver_;
      if (op->next_in_driver_) op->next_in_driver_->previous_in_driver_ = op->previous_in_driver_;
      --is_busy_[op->writes_];
    }
    bool must_wait(file_op const* op) const {
      if (!waiting_[op->writes_].empty()) return true;
      return is_busy_[op->writes_] != 0 && (is_stream_ || op->writes_);
    }
    // Those with that key, or all. False: a thread uses the number of the descriptor.
    bool cancel(void* key, bool all, op_queue<operation>& ops) {
      for (int i = 0; i < 2; ++i) {
        op_queue<file_op> others;
        while (file_op* op = waiting_[i].front()) {
          waiting_[i].pop();
          if (all || op->cancellation_key_ == key) {
            op->ec_ = error::operation_aborted;
            ops.push(op);
          } else {
            others.push(op);
          }
        }
        waiting_[i].push(others);
      }
      bool is_free = true;
      for (file_op* op = in_driver_; op != 0; op = op->next_in_driver_)
        if (all || op->cancellation_key_ == key) is_free &= files_.reactor_.driver().cancel(*op);
      return is_free;
    }

    files_on_unio& files_;
    file* next_; // of all of the service
    file* previous_;
    std::mutex lock_;
    op_queue<file_op> waiting_[2];
    file_op* in_driver_;
    std::size_t is_busy_[2]; // how many the driver has
    int fd_;
    bool is_stream_;
    bool may_try_;
    bool is_closed_;
    bool closes_fd_; // what is under way needs the number
    bool is_shut_down_;
  };

  struct implementation {
    int descriptor_;
    descriptor_ops::state_type state_;
    file* file_;                                 // null: it is no file
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
    for (file *f = first_, *next = 0; f != 0; f = next) {
      next = f->next_;
      while (file_op* op = f->in_driver_) {
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
      file* const f = new (std::nothrow) file(*this, fd, i.is_stream_);
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

  void start(implementation& i, file_op* op, bool is_continuation, bool is_empty) {
    if (is_empty) return reactor_.post_immediate_completion(op, is_continuation);
    if (i.descriptor_ == -1) {
      op->ec_ = error::bad_descriptor;
      return reactor_.post_immediate_completion(op, is_continuation);
    }
    if (!i.file_) return start_waiting(i, op, is_continuation);
    file& f = *i.file_;
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
  void start_waiting(implementation& i, file_op* op, bool is_continuation) {
    bool const never_waits =
        (i.state_ & descriptor_ops::non_blocking) != 0 ||
        descriptor_ops::set_internal_non_blocking(i.descriptor_, i.state_, true, op->ec_);
    if (!never_waits) return reactor_.post_immediate_completion(op, is_continuation);
    int const d = op->writes_ ? reactor_on_unio::write_op : reactor_on_unio::read_op;
    reactor_.start_op(d, i.descriptor_, i.watch_, op, is_continuation, true);
  }

  void cancel(file& f, void* key, bool all) {
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
    file& f = *i.file_;
    op_queue<operation> ops;
    std::unique_lock<std::mutex> hold(f.lock_);
    bool const is_used = !f.cancel(0, true, ops);
    if (is_used && keeps)
      for (file_op* op = f.in_driver_; op != 0; op = op->next_in_driver_) reactor_.driver().settle(*op);
    bool const closes = is_used && !keeps;
    f.is_closed_ = true;
    f.closes_fd_ = closes;
    bool const ends = f.in_driver_ == 0;
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
    if (ends) end(&f);
    return closes;
  }

  file* add(file* f) {
    std::lock_guard<std::mutex> const hold(lock_);
    f->next_ = first_;
    if (first_) first_->previous_ = f;
    return first_ = f;
  }
  void end(file* f) {
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
  file* first_;
};

// The buffers of an operation, which it names to the driver: so they come before it.
template <class Buffers, bool Writes> struct unio_file_buffers {
  typedef typename std::conditional<Writes, const_buffer, mutable_buffer>::type element;
  typedef buffer_sequence_adapter<element, Buffers> adapter;
  explicit unio_file_buffers(Buffers const& b) : buffers_(b), adapter_(buffers_) {}
  Buffers buffers_;
  adapter adapter_;
};

template <class Buffers, class Handler, class IoExecutor, bool Writes>
class unio_file_op : private unio_file_buffers<Buffers, Writes>, public files_on_unio::file_op {
  typedef decltype(reactor_op::ec_) failure;

 public:
  typedef Handler handler_type;
  typedef IoExecutor io_executor_type;
  UNIO_ASIO(DEFINE_HANDLER_PTR)(unio_file_op);

  unio_file_op(failure const& success, int fd, int64_t offset, Buffers const& b, Handler& handler,
               IoExecutor const& executor)
      : unio_file_buffers<Buffers, Writes>(b),
        files_on_unio::file_op(success, &unio_file_op::attempt, &unio_file_op::complete,
                               Writes ? unio::foreign_transfer::writes : unio::foreign_transfer::reads, fd,
                               this->adapter_.buffers(), this->adapter_.count(), offset),
        fd_(fd),
        offset_(offset),
        handler_(static_cast<Handler&&>(handler)),
        work_(handler_, executor) {}

 private:
  // Of what is no file: the descriptor never blocks.
  static reactor_op::status attempt(reactor_op* base) {
    unio_file_op& o = *static_cast<unio_file_op*>(base);
    bool const at_position = o.offset_ == unio::foreign_transfer::at_position;
    return (at_position ? o.move(std::integral_constant<bool, Writes>())
                        : o.move_at(std::integral_constant<bool, Writes>()))
               ? done
               : not_done;
  }
  bool move(std::false_type) {
    return descriptor_ops::non_blocking_read(fd_, this->adapter_.buffers(), this->adapter_.count(), this->ec_,
                                             this->bytes_transferred_);
  }
  bool move(std::true_type) {
    return descriptor_ops::non_blocking_write(fd_, this->adapter_.buffers(), this->adapter_.count(),
                                              this->ec_, this->bytes_transferred_);
  }
  bool move_at(std::false_type) {
    return descriptor_ops::non_blocking_read_at(fd_, static_cast<uint64_t>(offset_), this->adapter_.buffers(),
                                                this->adapter_.count(), this->ec_, this->bytes_transferred_);
  }
  bool move_at(std::true_type) {
    return descriptor_ops::non_blocking_write_at(fd_, static_cast<uint64_t>(offset_),
                                                 this->adapter_.buffers(), this->adapter_.count(), this->ec_,
                                                 this->bytes_transferred_);
  }

  // The memory goes back before the handler runs, which may use it for its next operation.
  static void complete(void* owner, operation* base, failure const&, std::size_t) {
    unio_file_op* const o = static_cast<unio_file_op*>(base);
    ptr memory = {std::addressof(o->handler_), o, o};
    UNIO_ASIO(HANDLER_COMPLETION)((*o));
    handler_work<Handler, IoExecutor> work(static_cast<handler_work<Handler, IoExecutor>&&>(o->work_));
    binder2<Handler, failure, std::size_t> bound(o->handler_, o->ec_, o->bytes_transferred_);
    memory.h = std::addressof(bound.handler_);
    memory.reset();
    if (owner == 0) return;
    fenced_block barrier(fenced_block::half);
    UNIO_ASIO(HANDLER_INVOCATION_BEGIN)((bound.arg1_, bound.arg2_));
    work.complete(bound, bound.handler_);
    UNIO_ASIO(HANDLER_INVOCATION_END);
  }

  int fd_;
  int64_t offset_;
  Handler handler_;
  handler_work<Handler, IoExecutor> work_;
};

// The service of Asio's files, under the name by which they ask for it.
class io_uring_file_service : public execution_context_service_base<io_uring_file_service> {
  typedef decltype(reactor_op::ec_) failure;
  typedef files_on_unio::implementation base;

 public:
  typedef int native_handle_type;
  class implementation_type : public base {
    friend class io_uring_file_service;
  };

  explicit io_uring_file_service(execution_context& context)
      : execution_context_service_base<io_uring_file_service>(context), files_(context) {}
  void shutdown() { files_.end_all(); }

  void construct(implementation_type& i) { files_on_unio::construct(i); }
  void move_construct(implementation_type& i, implementation_type& from) { files_on_unio::move(i, from); }
  void move_assign(implementation_type& i, io_uring_file_service&, implementation_type& from) {
    destroy(i);
    files_on_unio::move(i, from);
  }
  void destroy(implementation_type& i) {
    failure ignored;
    files_.close(i, ignored);
  }

  failure open(implementation_type& i, const char* path, file_base::flags flags, failure& ec) {
    return files_.open(i, path, static_cast<int>(flags), ec);
  }
  failure assign(implementation_type& i, const native_handle_type& fd, failure& ec) {
    return files_.assign(i, fd, ec);
  }
  void set_is_stream(implementation_type& i, bool is_stream) { i.is_stream_ = is_stream; }
  bool is_open(const implementation_type& i) const { return i.descriptor_ != -1; }
  failure close(implementation_type& i, failure& ec) { return files_.close(i, ec); }
  native_handle_type native_handle(const implementation_type& i) const { return i.descriptor_; }
  native_handle_type release(implementation_type& i, failure& ec) {
    ec = failure();
    return files_.release(i);
  }
  failure cancel(implementation_type& i, failure& ec) { return files_.cancel(i, ec); }

  uint64_t size(const implementation_type& i, failure& ec) const {
    struct ::stat s;
    return result_of(::fstat(i.descriptor_, &s), ec) ? static_cast<uint64_t>(s.st_size) : 0;
  }
  failure resize(implementation_type& i, uint64_t n, failure& ec) {
    result_of(::ftruncate(i.descriptor_, static_cast<off_t>(n)), ec);
    return ec;
  }
  failure sync_all(implementation_type& i, failure& ec) {
    result_of(::fsync(i.descriptor_), ec);
    return ec;
  }
  failure sync_data(implementation_type& i, failure& ec) {
    result_of(::fdatasync(i.descriptor_), ec);
    return ec;
  }
  uint64_t seek(implementation_type& i, int64_t offset, file_base::seek_basis whence, failure& ec) {
    off_t const at = ::lseek(i.descriptor_, static_cast<off_t>(offset), static_cast<int>(whence));
    return result_of(at, ec) ? static_cast<uint64_t>(at) : 0;
  }

  template <class Buffers> std::size_t write_some(implementation_type& i, const Buffers& b, failure& ec) {
    buffer_sequence_adapter<const_buffer, Buffers> native(b);
    return descriptor_ops::sync_write(i.descriptor_, i.state_, native.buffers(), native.count(),
                                      native.all_empty(), ec);
  }
  template <class Buffers>
  std::size_t write_some_at(implementation_type& i, uint64_t at, const Buffers& b, failure& ec) {
    buffer_sequence_adapter<const_buffer, Buffers> native(b);
    return descriptor_ops::sync_write_at(i.descriptor_, i.state_, at, native.buffers(), native.count(),
                                         native.all_empty(), ec);
  }
  template <class Buffers> std::size_t read_some(implementation_type& i, const Buffers& b, failure& ec) {
    buffer_sequence_adapter<mutable_buffer, Buffers> native(b);
    return descriptor_ops::sync_read(i.descriptor_, i.state_, native.buffers(), native.count(),
                                     native.all_empty(), ec);
  }
  template <class Buffers>
  std::size_t read_some_at(implementation_type& i, uint64_t at, const Buffers& b, failure& ec) {
    buffer_sequence_adapter<mutable_buffer, Buffers> native(b);
    return descriptor_ops::sync_read_at(i.descriptor_, i.state_, at, native.buffers(), native.count(),
                                        native.all_empty(), ec);
  }

  template <class Buffers, class Handler, class IoExecutor>
  void async_write_some(implementation_type& i, const Buffers& b, Handler& handler,
                        const IoExecutor& executor) {
    start<true>(i, unio::foreign_transfer::at_position, b, handler, executor, "async_write_some");
  }
  template <class Buffers, class Handler, class IoExecutor>
  void async_write_some_at(implementation_type& i, uint64_t at, const Buffers& b, Handler& handler,
                           const IoExecutor& executor) {
    start<true>(i, static_cast<int64_t>(at), b, handler, executor, "async_write_some_at");
  }
  template <class Buffers, class Handler, class IoExecutor>
  void async_read_some(implementation_type& i, const Buffers& b, Handler& handler,
                       const IoExecutor& executor) {
    start<false>(i, unio::foreign_transfer::at_position, b, handler, executor, "async_read_some");
  }
  template <class Buffers, class Handler, class IoExecutor>
  void async_read_some_at(implementation_type& i, uint64_t at, const Buffers& b, Handler& handler,
                          const IoExecutor& executor) {
    start<false>(i, static_cast<int64_t>(at), b, handler, executor, "async_read_some_at");
  }

 private:
  // Whether a system call succeeded.
  static bool result_of(long long r, failure& ec) {
    ec = r < 0 ? failure(errno, error::get_system_category()) : failure();
    return r >= 0;
  }

  template <bool Writes, class Buffers, class Handler, class IoExecutor>
  void start(implementation_type& i, int64_t at, const Buffers& b, Handler& handler,
             const IoExecutor& executor, const char* name) {
    bool const is_continuation = UNIO_ASIO_IS_CONTINUATION(handler);
    typename associated_cancellation_slot<Handler>::type slot = get_associated_cancellation_slot(handler);
    typedef unio_file_op<Buffers, Handler, IoExecutor, Writes> op;
    typename op::ptr p = {std::addressof(handler), op::ptr::allocate(handler), 0};
    p.p = new (p.v) op(failure(), i.descriptor_, at, b, handler, executor);
    if (slot.is_connected())
      p.p->cancellation_key_ = &slot.template emplace<files_on_unio::cancellation>(files_, i, Writes);
    UNIO_ASIO(HANDLER_CREATION)((files_.context(), *p.p, "file", &i, i.descriptor_, name));
    (void)name;
    typedef typename unio_file_buffers<Buffers, Writes>::adapter adapter;
    files_.start(i, p.p, is_continuation, adapter::all_empty(b));
    p.v = p.p = 0;
  }

  files_on_unio files_;
};

UNIO_ASIO_END
