#include "driver/epoll/direct_reads.hpp"

#include "sys/descriptors.hpp"
#include "sys/direct_reads.hpp"
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

} // namespace

struct direct_reads::state {
  struct slot {
    io_operation* op;
    std::uint64_t bytes;
  };

  state() noexcept {
    for (unsigned i = 0; i != most_in_kernel; ++i) free[i] = static_cast<std::uint8_t>(i);
  }
  state(state const&) = delete;
  state& operator=(state const&) = delete;
  ~state() { kernel.close(used() == 0); }
  [[nodiscard]] unsigned used() const noexcept { return most_in_kernel - free_count; }
  unsigned take(io_operation& op, std::uint64_t bytes) noexcept {
    unsigned const n = free[--free_count];
    slots[n] = {&op, bytes};
    return n;
  }
  slot give_back(std::uint64_t n) noexcept {
    free[free_count++] = static_cast<std::uint8_t>(n);
    return slots[n];
  }

  sys::direct_read_queue kernel;
  std::array<slot, most_in_kernel> slots;
  std::array<std::uint8_t, most_in_kernel> free;
  unsigned free_count = most_in_kernel;
};

direct_reads::direct_reads(int doorbell_fd) noexcept : doorbell_fd_(doorbell_fd) {}
direct_reads::~direct_reads() = default;

bool direct_reads::arm(io_operation& op) noexcept {
  if (is_missing_ || sys::is_read_by_threads(op.fd())) return false;
  iocb entry;
  std::uint64_t bytes = 0;
  if (op.is_multishot() || !prepare(op, entry, bytes)) return false;
  if (state_ == nullptr) {
    state_.reset(new (std::nothrow) state);
    if (state_ == nullptr) return false;
    if (state_->kernel.open() != 0) { // forbidden, or the system has no more of them
      is_missing_ = true;
      return false;
    }
  }
  if (static_cast<unsigned>(queued_.size()) + state_->used() >= most_in_kernel) return false;
  move(op, place::to_submit);
  queued_.push(op);
  return true;
}

bool direct_reads::withdraw(io_operation& op) noexcept {
  if (!queued_.contains(op)) return false;
  queued_.remove(op);
  return true;
}

// Of what may pass, nothing is learnt.
void direct_reads::refused(io_operation& op, std::int64_t why) noexcept {
  if (why == -ENOSYS || why == -EPERM) {
    is_missing_ = true;
  } else if (why != -EAGAIN) {
    sys::note_read_by_threads(op.fd()); // a filesystem that does not know RWF_NOWAIT, say
  }
}

void direct_reads::submit(engine& e) noexcept {
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
      entries[n].aio_data = state_->take(op, bytes);
      list[n] = &entries[n];
      operations[n++] = &op;
      sys::kernel_takes(&op);
    }
    for (unsigned begun = 0; begun != n;) {
      std::int64_t const r = is_missing_ ? -ENOSYS : state_->kernel.submit(list.data() + begun, n - begun);
      for (std::int64_t i = 0; i < r; ++i) move(*operations[begun++], place::in_kernel);
      e.statistics.submissions += static_cast<std::uint64_t>(std::max<std::int64_t>(r, 0));
      if (r > 0) continue;
      io_operation& op = *operations[begun];
      refused(op, r);
      (void)state_->give_back(entries[begun++].aio_data);
      move(op, place::at_hand);
      e.await_readiness(op, readiness::worker);
    }
  }
}

void direct_reads::take(engine& e) noexcept {
  if (state_ == nullptr) return;
  state_->kernel.take([&](std::uint64_t number, std::int64_t r) {
    auto const [op, bytes] = state_->give_back(number);
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

} // namespace unio::driver
