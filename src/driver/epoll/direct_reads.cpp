#include "driver/epoll/direct_reads.hpp"

#include "sys/descriptors.hpp"
#include "sys/direct_reads.hpp"
#include "sys/passing.hpp"
#include "sys/sanitizer.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <new>

namespace unio::inline v0_1::driver {
namespace {

constexpr unsigned most_in_kernel = sys::direct_read_queue::most;
constexpr unsigned most_per_call = 32;

bool prepare(io_operation& op, iocb& to, std::uint64_t& bytes) noexcept {
  io_uring_sqe entry{};
  return op.faces().prepare != nullptr && op.faces().prepare(op, entry, false) &&
         sys::as_direct_read(entry, to, bytes);
}

class kernels_reads final : public direct_reads {
 public:
  explicit kernels_reads(int doorbell_fd) noexcept : doorbell_fd_(doorbell_fd) {
    for (unsigned i = 0; i != most_in_kernel; ++i) free_[i] = static_cast<std::uint8_t>(i);
  }
  kernels_reads(kernels_reads const&) = delete;
  kernels_reads& operator=(kernels_reads const&) = delete;
  ~kernels_reads() override { kernel_.close(used() == 0); }

  bool arm(io_operation& op) noexcept override;
  bool withdraw(io_operation& op) noexcept override;
  void submit(engine& e) noexcept override;
  void take(engine& e) noexcept override;

 private:
  struct slot {
    io_operation* op;
    std::uint64_t bytes;
  };

  [[nodiscard]] unsigned used() const noexcept { return most_in_kernel - free_count_; }
  unsigned take_slot(io_operation& op, std::uint64_t bytes) noexcept {
    unsigned const n = free_[--free_count_];
    slots_[n] = {&op, bytes};
    return n;
  }
  slot give_back(std::uint64_t n) noexcept {
    free_[free_count_++] = static_cast<std::uint8_t>(n);
    return slots_[n];
  }
  void refused(io_operation& op, std::int64_t why) noexcept;

  sys::direct_read_queue kernel_; // open from the first read on that the kernel may take
  std::array<slot, most_in_kernel> slots_;
  std::array<std::uint8_t, most_in_kernel> free_;
  unsigned free_count_ = most_in_kernel;
  int doorbell_fd_;
  bool is_open_ = false;
  bool is_missing_ = false;
};

bool kernels_reads::arm(io_operation& op) noexcept {
  if (is_missing_ || sys::is_read_by_threads(op.fd())) return false;
  iocb entry;
  std::uint64_t bytes = 0;
  if (op.is_multishot() || !prepare(op, entry, bytes)) return false;
  if (!is_open_) {
    int const e = kernel_.open();
    is_open_ = e == 0;
    is_missing_ = e != 0 && !sys::may_pass(e); // forbidden, say; the system may have no more of them for now
    if (!is_open_) return false;
  }
  if (static_cast<unsigned>(queued_.size()) + used() >= most_in_kernel) return false;
  move(op, place::to_submit);
  queued_.push(op);
  return true;
}

bool kernels_reads::withdraw(io_operation& op) noexcept {
  if (!queued_.contains(op)) return false;
  queued_.remove(op);
  return true;
}

// Of what may pass, nothing is learnt.
void kernels_reads::refused(io_operation& op, std::int64_t why) noexcept {
  if (why == -ENOSYS || why == -EPERM) {
    is_missing_ = true;
  } else if (why != -EAGAIN) {
    sys::note_read_by_threads(op.fd()); // a filesystem that does not know RWF_NOWAIT, say
  }
}

void kernels_reads::submit(engine& e) noexcept {
  while (!queued_.empty()) {
    std::array<iocb, most_per_call> entries;
    std::array<iocb*, most_per_call> list;
    std::array<io_operation*, most_per_call> operations;
    unsigned n = 0;
    while (n != most_per_call && !queued_.empty()) {
      io_operation& op = *queued_.pop();
      std::uint64_t bytes = 0;
      (void)prepare(op, entries[n], bytes); // as in arm()
      entries[n].aio_flags = IOCB_FLAG_RESFD;
      entries[n].aio_resfd = static_cast<std::uint32_t>(doorbell_fd_);
      entries[n].aio_data = take_slot(op, bytes);
      list[n] = &entries[n];
      operations[n++] = &op;
      sys::kernel_takes(&op);
    }
    for (unsigned begun = 0; begun != n;) {
      std::int64_t const r = is_missing_ ? -ENOSYS : kernel_.submit(list.data() + begun, n - begun);
      for (std::int64_t i = 0; i < r; ++i) move(*operations[begun++], place::in_kernel);
      e.statistics.submissions += static_cast<std::uint64_t>(std::max<std::int64_t>(r, 0));
      if (r > 0) continue;
      io_operation& op = *operations[begun];
      refused(op, r);
      (void)give_back(entries[begun++].aio_data);
      move(op, place::at_hand);
      e.await_readiness(op, readiness::worker);
    }
  }
}

void kernels_reads::take(engine& e) noexcept {
  kernel_.take([&](std::uint64_t number, std::int64_t r) {
    auto const [op, bytes] = give_back(number);
    sys::kernel_gives_back(op);
    ++e.statistics.completions;
    move(*op, place::at_hand);
    bool const is_to_end = op->links.is.cancel_wanted || op->links.is.timed_out;
    bool const fell_short = r > 0 && static_cast<std::uint64_t>(r) < bytes;
    if (is_to_end && r == -EAGAIN) return e.process(*op, -ECANCELED, 0);
    if (is_to_end || (!fell_short && r != -EAGAIN)) return e.process(*op, static_cast<int>(r), 0);
    // It would have had to wait, or the file ends there: a call that may wait reads all of it.
    e.gives_away() ? e.came_back(*op) : e.await_readiness(*op, readiness::worker);
  });
}

} // namespace

constinit std::atomic<direct_reads::maker> direct_reads::make{nullptr};

} // namespace unio::driver

void unio::sys::note_direct(int fd) noexcept {
  // Relaxed: a thread that reads by the descriptor knows that it was noted.
  driver::direct_reads::make.store(
      [](int doorbell_fd) noexcept -> driver::direct_reads* {
        return new (std::nothrow) driver::kernels_reads(doorbell_fd);
      },
      std::memory_order_relaxed);
  note_waited(fd, direct_bit, true);
}
