// unio/detail/asio_file.hpp: one file of Asio's, and its operations. Part of asio_files.hpp; there is no
// guard.
//
// A file is a queue for each direction. The driver has the first of a queue, and of a random-access file all
// reads at once.

#include <fcntl.h>

#include <cstddef>
#include <cstdint>
#include <mutex>

UNIO_ASIO_BEGIN

class files_on_unio;
class file_on_unio;

// An operation on a file.
class file_op_on_unio : public reactor_on_unio::transfer {
  typedef decltype(reactor_op::ec_) failure;

 public:
  file_op_on_unio* next_in_driver_;
  file_op_on_unio* previous_in_driver_;
  file_on_unio* file_;
  bool writes_;

  void set_result() {
    std::int64_t const r = result();
    ec_ = reactor_on_unio::error_of(r);
    bytes_transferred_ = r < 0 ? 0 : static_cast<std::size_t>(r);
    if (r == 0 && !writes_) ec_ = error::eof;
  }

 protected:
  file_op_on_unio(failure const& success, perform_func_type perform, func_type complete, direction d, int fd,
                  const ::iovec* buffers, std::size_t n, int64_t offset)
      : transfer(success, perform, complete, &file_op_on_unio::over, d, fd, buffers, n, offset),
        next_in_driver_(0),
        previous_in_driver_(0),
        file_(0),
        writes_(d == unio::foreign_transfer::writes) {}

 private:
  static void over(transfer* t, op_queue<operation>& ops);
};

// From when it is opened until it is closed and nothing is under way.
class file_on_unio {
  friend class files_on_unio;
  friend class file_op_on_unio;

 public:
  // Its transfer is over. True: so is the file.
  bool over(file_op_on_unio* op, op_queue<operation>& ops) {
    std::lock_guard<std::mutex> const hold(lock_);
    remove(op);
    op->set_result();
    ops.push(op);
    // One that is over at once is followed by the next.
    for (file_op_on_unio* next = waiting_[op->writes_].front(); next != 0;
         next = waiting_[op->writes_].front()) {
      waiting_[op->writes_].pop();
      if (!begin(next)) break;
      ops.push(next);
    }
    return is_closed_ && in_driver_ == 0;
  }

 private:
  file_on_unio(files_on_unio& files, unio::foreign_reactor& driver, int fd, bool is_stream)
      : files_(files),
        driver_(driver),
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
  bool begin(file_op_on_unio* op) {
    op->file_ = this;
    op->previous_in_driver_ = 0;
    op->next_in_driver_ = in_driver_;
    if (in_driver_) in_driver_->previous_in_driver_ = op;
    in_driver_ = op;
    ++is_busy_[op->writes_];
    if (!driver_.start(*op, may_try_)) return false;
    remove(op);
    op->set_result();
    return true;
  }
  void remove(file_op_on_unio* op) {
    (op->previous_in_driver_ ? op->previous_in_driver_->next_in_driver_ : in_driver_) = op->next_in_driver_;
    if (op->next_in_driver_) op->next_in_driver_->previous_in_driver_ = op->previous_in_driver_;
    --is_busy_[op->writes_];
  }
  bool must_wait(file_op_on_unio const* op) const {
    if (!waiting_[op->writes_].empty()) return true;
    return is_busy_[op->writes_] != 0 && (is_stream_ || op->writes_);
  }
  // Those with that key, or all. False: a thread uses the number of the descriptor.
  bool cancel(void* key, bool all, op_queue<operation>& ops) {
    for (int i = 0; i < 2; ++i) {
      op_queue<file_op_on_unio> others;
      while (file_op_on_unio* op = waiting_[i].front()) {
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
    for (file_op_on_unio* op = in_driver_; op != 0; op = op->next_in_driver_)
      if (all || op->cancellation_key_ == key) is_free &= driver_.cancel(*op);
    return is_free;
  }

  files_on_unio& files_;
  unio::foreign_reactor& driver_;
  file_on_unio* next_; // of all of the service
  file_on_unio* previous_;
  std::mutex lock_;
  op_queue<file_op_on_unio> waiting_[2];
  file_op_on_unio* in_driver_;
  std::size_t is_busy_[2]; // how many the driver has
  int fd_;
  bool is_stream_;
  bool may_try_;
  bool is_closed_;
  bool closes_fd_; // what is under way needs the number
  bool is_shut_down_;
};

UNIO_ASIO_END
