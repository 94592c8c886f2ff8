// unio/detail/asio_file_service.hpp: the service of Asio's files, under the name by which they ask for it.
// The two io_uring_file_service.hpp include this, once for each namespace: there is no guard.
//
// C++11, as Asio is.

#include "unio/detail/asio_files.hpp"

#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <memory>
#include <type_traits>

UNIO_ASIO_BEGIN

// The buffers of an operation, which it names to the driver: so they come before it.
template <class Buffers, bool Writes> struct unio_file_buffers {
  typedef typename std::conditional<Writes, const_buffer, mutable_buffer>::type element;
  typedef buffer_sequence_adapter<element, Buffers> adapter;
  explicit unio_file_buffers(Buffers const& b) : buffers_(b), adapter_(buffers_) {}
  Buffers buffers_;
  adapter adapter_;
};

template <class Buffers, class Handler, class IoExecutor, bool Writes>
class unio_file_op : private unio_file_buffers<Buffers, Writes>, public file_op_on_unio {
  typedef decltype(reactor_op::ec_) failure;

 public:
  typedef Handler handler_type;
  typedef IoExecutor io_executor_type;
  UNIO_ASIO(DEFINE_HANDLER_PTR)(unio_file_op);

  unio_file_op(failure const& success, int fd, int64_t offset, Buffers const& b, Handler& handler,
               IoExecutor const& executor)
      : unio_file_buffers<Buffers, Writes>(b),
        file_op_on_unio(success, &unio_file_op::attempt, &unio_file_op::complete,
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
    start<true>(i, offset_of(at), b, handler, executor, "async_write_some_at");
  }
  template <class Buffers, class Handler, class IoExecutor>
  void async_read_some(implementation_type& i, const Buffers& b, Handler& handler,
                       const IoExecutor& executor) {
    start<false>(i, unio::foreign_transfer::at_position, b, handler, executor, "async_read_some");
  }
  template <class Buffers, class Handler, class IoExecutor>
  void async_read_some_at(implementation_type& i, uint64_t at, const Buffers& b, Handler& handler,
                          const IoExecutor& executor) {
    start<false>(i, offset_of(at), b, handler, executor, "async_read_some_at");
  }

 private:
  // The greatest is no offset: to the driver it is the file's position.
  static int64_t offset_of(uint64_t at) { return static_cast<int64_t>(~at != 0 ? at : at - 1); }

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
