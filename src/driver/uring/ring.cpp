#include "driver/uring/ring.hpp"

#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/sanitizer.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/uio.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

constexpr std::uint32_t always = IORING_SETUP_CQSIZE | IORING_SETUP_CLAMP;

// From the best to the most modest; the first two are deferred. A kernel that does not know a flag says
// EINVAL; versions are not asked, for features are backported and broken independently of them.
constexpr std::uint32_t wishes[] = {
    always | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
        IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | sys::setup_no_sqarray,
    always | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_SINGLE_ISSUER |
        IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
    always | IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL | IORING_SETUP_COOP_TASKRUN |
        IORING_SETUP_TASKRUN_FLAG,
    always | IORING_SETUP_R_DISABLED,
};

// Without these the kernel is older than what the driver knows how to use: completions that are never
// dropped, one mapping, a timeout for waiting, and operations that wait for readiness inside the kernel. The
// last came with polls that report again and again, which have no feature of their own: where the doorbell
// cannot be one, a thread would never sleep. All are in Linux 5.13.
constexpr std::uint32_t needed = IORING_FEAT_NODROP | IORING_FEAT_SINGLE_MMAP | IORING_FEAT_EXT_ARG |
                                 IORING_FEAT_FAST_POLL | IORING_FEAT_RSRC_TAGS;

// From that Linux on the pages of the queues can be kept (ring::keep_results()), which has no feature of its
// own.
constexpr std::uint32_t keeps_results = sys::feature_recvsend_bundle;

constexpr unsigned completions_per_entry = 4;
constexpr unsigned fewest_entries = 8;

// Never the same for two threads of a process, as their ids may be.
std::uint64_t this_threads_number() noexcept {
  static constinit std::atomic<std::uint64_t> last{0};
  static thread_local std::uint64_t const number = last.fetch_add(1, std::memory_order_relaxed) + 1;
  return number;
}

} // namespace

ring::~ring() {
  if (!is_open_) return;
  if (end_fd_ >= 0) sys::close(end_fd_);
  if (results_fd_ >= 0) sys::close(results_fd_);
  if (is_inherited()) {
    // A child made by fork has none of the mappings, and may have others where they were.
    if (!has_left_) sys::close(ring_.ring_fd);
    return;
  }
  if (has_left_) {
    if (ring_.cq.khead != &nothing_) sys::munmap(ring_.sq.ring_ptr, ring_.sq.ring_sz);
    return;
  }
  unregister();
  sys::will_unmap();
  io_uring_queue_exit(&ring_);
}

bool ring::is_inherited() const noexcept { return fork_generation_ != sys::fork_generation(); }

// The registration keeps the ring alive, and its operations with it, until the thread ends. In another thread
// the same place is another ring's.
int ring::unregister() noexcept {
  if (!registered_) return 0;
  if (registered_by_ != this_threads_number()) return -EPERM;
  io_uring_rsrc_update update{};
  update.offset = static_cast<std::uint32_t>(enter_fd_);
  std::int64_t const r = sys::io_uring_register(ring_.ring_fd, IORING_UNREGISTER_RING_FDS, &update, 1);
  if (r < 0) return static_cast<int>(r);
  registered_ = false;
  enter_fd_ = ring_.ring_fd;
  return 0;
}

int ring::open(unsigned entries) noexcept { return open_as(wishes, entries, needed); }

int ring::open_deferred(unsigned entries) noexcept {
  int const e = open_as(std::span(wishes).first(2), entries, needed | keeps_results);
  if (e == -EINVAL) return -EOPNOTSUPP;
  return e < 0 ? e : prepare_end();
}

int ring::open_as(std::span<std::uint32_t const> wishes_in_order, unsigned entries,
                  std::uint32_t features) noexcept {
  int last = -EINVAL;
  for (std::uint32_t const wish : wishes_in_order) {
    for (unsigned n = entries;; n /= 2) {
      io_uring_params p{};
      p.flags = wish;
      p.cq_entries = std::max(2u, n == 1 ? 2u : n * completions_per_entry);
      last = sys::above_standard(sys::io_uring_setup(n, &p));
      if (last >= 0) {
        int const fd = last;
        if ((p.features & features) != features) {
          sys::close(fd);
          return -EOPNOTSUPP;
        }
        if (int const e = io_uring_queue_mmap(fd, &p, &ring_); e < 0) {
          sys::close(fd);
          return e;
        }
        sys::has_mapped();
        ring_.features = p.features;
        flags_ = p.flags;
        enter_fd_ = fd;
        is_open_ = true;
        no_iowait_ = (p.features & sys::feature_no_iowait) != 0;
        // The entries are submitted in the order of their places.
        if (!has(sys::setup_no_sqarray))
          for (unsigned i = 0; i < ring_.sq.ring_entries; ++i) ring_.sq.array[i] = i;
        // A forked child must not share them (P-08 of liburing#612): it gets no mapping at all.
        io_uring_ring_dontfork(&ring_);
        fork_generation_ = sys::fork_generation();
        return 0;
      }
      // Short of memory that may be locked (before Linux 5.12), or of contiguous memory: a smaller one may
      // fit.
      if (last != -ENOMEM || n <= fewest_entries) break;
    }
    if (last != -EINVAL) return last;
  }
  return last;
}

int ring::enable() noexcept {
  if (std::int64_t const r = sys::io_uring_register(ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
      r < 0)
    return static_cast<int>(r);
  // Saves looking the descriptor up on each call. A kernel that cannot is no worse off. A ring whose
  // operations are performed without entering must be able to end while the thread lives (prepare_end()).
  io_uring_rsrc_update update{};
  update.offset = ~0u;
  update.data = static_cast<std::uint64_t>(ring_.ring_fd);
  if (has(IORING_SETUP_DEFER_TASKRUN) && end_fd_ < 0 &&
      sys::io_uring_register(ring_.ring_fd, IORING_REGISTER_RING_FDS, &update, 1) == 1) {
    registered_ = true;
    registered_by_ = this_threads_number();
    enter_fd_ = static_cast<int>(update.offset);
  }
  return 0;
}

void ring::bound_workers(unsigned for_files, unsigned for_others) noexcept {
  unsigned most[2] = {for_files, for_others};
  sys::io_uring_register(ring_.ring_fd, IORING_REGISTER_IOWQ_MAX_WORKERS, most, 2);
}

void ring::pause() noexcept { sys::pause(); }

int ring::prepare_end() noexcept {
  if (end_fd_ >= 0) [[likely]]
    return 0;
  if (int const e = unregister(); e != 0) return e;
  int ends[2];
  if (std::int64_t const r = sys::pipe(ends, O_CLOEXEC | O_NONBLOCK); r < 0) return static_cast<int>(r);
  int const near = sys::above_standard(ends[0]);
  int far = sys::above_standard(ends[1]);
  std::int64_t r = std::min(near, far);
  if (r >= 0) r = sys::io_uring_register(ring_.ring_fd, IORING_REGISTER_FILES, &far, 1);
  if (far >= 0) sys::close(far);
  if (r >= 0) {
    end_fd_ = near;
    return 0;
  }
  if (near >= 0) sys::close(near);
  return static_cast<int>(r);
}

// A mapping of the ring keeps it from ending, but its pages may be kept: a pipe does (vmsplice(2)), and what
// the kernel writes into them later is read from it.
void ring::keep_results() noexcept {
  int ends[2];
  if (sys::pipe(ends, O_CLOEXEC | O_NONBLOCK) < 0) return;
  iovec const queues{.iov_base = ring_.sq.ring_ptr, .iov_len = ring_.sq.ring_sz};
  sys::fcntl(ends[1], F_SETPIPE_SZ, static_cast<long>(queues.iov_len)); // refused: it keeps the first of them
  std::int64_t const kept = sys::vmsplice(ends[1], &queues, 1, SPLICE_F_NONBLOCK);
  sys::close(ends[1]);
  results_fd_ = sys::above_standard(ends[0]);
  if (kept > 0 || results_fd_ < 0) return;
  sys::close(results_fd_); // before Linux 6.10 they are no pages that a pipe can hold
  results_fd_ = -1;
}

void ring::leave() noexcept {
  unregister();
  if (end_fd_ >= 0) keep_results();
  io_uring_sq const& sq = ring_.sq;
  sys::munmap(sq.sqes, sq.ring_entries * sizeof *sq.sqes);
  std::int64_t const place = sys::mmap(sq.ring_ptr, sq.ring_sz, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  if (place < 0) {
    sys::munmap(sq.ring_ptr, sq.ring_sz);
    ring_.cq.khead = ring_.cq.ktail = &nothing_;
  }
  sys::close(ring_.ring_fd);
  has_left_ = true;
}

bool ring::has_ended() noexcept {
  if (end_fd_ < 0) return true;
  if (!sys::is_readable(end_fd_)) return false;
  sys::close(std::exchange(end_fd_, -1));
  if (results_fd_ < 0) return true;
  auto* to = static_cast<std::byte*>(ring_.sq.ring_ptr);
  auto* const last = to + ring_.sq.ring_sz;
  while (to != last && ring_.cq.khead != &nothing_) {
    std::int64_t const n =
        sys::uninterrupted([&] { return sys::read(results_fd_, to, static_cast<std::size_t>(last - to)); });
    if (n <= 0) break;
    to += n;
  }
  sys::close(std::exchange(results_fd_, -1));
  return true;
}

} // namespace unio::driver
