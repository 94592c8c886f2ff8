#include "driver/uring/choosing.hpp"

#include "sys/descriptors.hpp"
#include "sys/multishot.hpp"
#include "sys/passing.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

// Tells the kernel of the slots, as a group of that number: 0 or -errno.
int add_buffers(int ring_fd, int number, buffer_slots const& slots) noexcept {
  io_uring_buf_reg group{};
  group.ring_addr = reinterpret_cast<std::uintptr_t>(slots.queue());
  group.ring_entries = slots.count();
  group.bgid = static_cast<std::uint16_t>(number);
  return static_cast<int>(sys::io_uring_register(ring_fd, IORING_REGISTER_PBUF_RING, &group, 1));
}

// Preconditions: no operation chooses among them.
void drop_buffers(int ring_fd, int number) noexcept {
  io_uring_buf_reg group{};
  group.bgid = static_cast<std::uint16_t>(number);
  sys::io_uring_register(ring_fd, IORING_UNREGISTER_PBUF_RING, &group, 1);
}

int find_group(buffer_groups& groups, int ring_fd, buffer_source& source, bool& may_choose) noexcept {
  return groups.find(
      source,
      [&](int number, buffer_slots const& slots) {
        may_choose = add_buffers(ring_fd, number, slots) == 0;
        return may_choose;
      },
      [&](int number) { drop_buffers(ring_fd, number); });
}

} // namespace

memory_table memory_table_of(ring& of_ring) noexcept {
  return {
      .kernel = &of_ring,
      .make = [](void* of) noexcept -> int {
        io_uring_rsrc_register table{};
        table.nr = offered_memory::most;
        table.flags = IORING_RSRC_REGISTER_SPARSE;
        int const fd = static_cast<ring*>(of)->fd();
        return static_cast<int>(sys::io_uring_register(fd, IORING_REGISTER_BUFFERS2, &table, sizeof table));
      },
      .set = [](void* of, unsigned number, std::uintptr_t at, std::size_t bytes) noexcept -> int {
        iovec const piece{.iov_base = reinterpret_cast<void*>(at), .iov_len = bytes};
        io_uring_rsrc_update2 update{};
        update.offset = number;
        update.data = reinterpret_cast<std::uintptr_t>(&piece);
        update.nr = 1;
        std::int64_t const r = sys::io_uring_register(static_cast<ring*>(of)->fd(),
                                                      IORING_REGISTER_BUFFERS_UPDATE, &update, sizeof update);
        return r < 0 ? static_cast<int>(r) : 0;
      }};
}

namespace {

constexpr unsigned buffers = 16; // three for each attempt

/// What is read from, and how the other end says that nothing more will come.
struct ends {
  int from = -1;
  int to = -1;

  explicit ends(bool is_socket) noexcept {
    int both[2];
    std::int64_t const r = is_socket
                               ? sys::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, both)
                               : sys::pipe(both, O_CLOEXEC | O_NONBLOCK);
    if (r < 0) {
      error = static_cast<int>(r);
    } else {
      from = both[0];
      to = both[1];
    }
  }
  ends(ends const&) = delete;
  ends& operator=(ends const&) = delete;
  ~ends() {
    if (from >= 0) sys::close(from);
    close();
  }
  /// 0 or -errno.
  int send_all() noexcept {
    std::int64_t const r = sys::write(to, "ab", 2);
    close();
    return r < 0 ? static_cast<int>(r) : 0;
  }
  void close() noexcept {
    if (to >= 0) sys::close(std::exchange(to, -1));
  }
  int error = 0;
};

// Two buffers' worth of bytes, and the end right behind them: one request for many values has to bring all
// three, whether they come before it or after it, and though the ring is not entered in between.
//
// Linux 6.7 leaves what does not fit into the first buffer of a pipe until more comes (fixed in 6.8,
// "io_uring/rw: ensure poll based multishot read retries appropriately"); CVE-2026-23473 never brings the end
// of a socket (liburing#1549). Linux 6.18 loses the end of a Unix socket which comes, with bytes before it,
// between the attempt to receive and the beginning of the wait. Then the wait finds both, receives the bytes,
// and receives again only if the socket says that there is more: TCP counts its end as that, a Unix socket
// does not. A request that waits without an attempt shows it each time.
//
// Returns 1 if it does, 0 if it does not, or -errno of what could not be tried.
int brings_all(ring& r, ends& e, io_uring_sqe const& request, bool is_late) noexcept {
  io_uring_sqe* const sqe = r.get();
  if (sqe == nullptr) return -EAGAIN;
  if (is_late)
    if (int const error = e.send_all(); error != 0) return error;
  *sqe = request;
  sqe->fd = e.from;
  sqe->flags = IOSQE_BUFFER_SELECT;
  if (int const error = r.enter(0, 0); error != 0) return error;
  if (!is_late)
    if (int const error = e.send_all(); error != 0) return error;
  int bytes = 0;
  constexpr int most_calls = 8;
  std::int64_t const wait_ns = is_late ? 100'000 : 2'000'000; // all is there
  for (int calls = 0; calls != most_calls; ++calls) {
    if (int const error = r.peek() == nullptr ? r.enter(1, wait_ns) : 0; error != 0) return error;
    io_uring_cqe const* const cqe = r.peek();
    if (cqe == nullptr) continue;
    int const res = cqe->res;
    bool const more = (cqe->flags & IORING_CQE_F_MORE) != 0;
    bool const chosen = (cqe->flags & IORING_CQE_F_BUFFER) != 0;
    r.advance();
    if (res == -ENOMEM) return res;
    if (res <= 0 || !more || !chosen) return res == 0 && bytes == 2 ? 1 : 0;
    bytes += res;
  }
  return 0;
}

// 0, or -errno of what could not be tried.
int try_many(ring& r, io_uring_sqe const& request, bool is_socket, bool only_late,
             std::atomic<bool>& works) noexcept {
  bool all = true;
  for (bool const is_late : {true, false}) {
    if (only_late && !is_late) break;
    ends e(is_socket);
    if (e.error != 0) return e.error;
    int const brings = all ? brings_all(r, e, request, is_late) : 0;
    if (brings < 0) return brings;
    all = brings != 0;
  }
  works.store(all, std::memory_order_relaxed);
  return 0;
}

int try_to_choose() noexcept {
  ring r;
  if (int const e = r.open(buffers); e != 0) return e;
  if (int const e = r.enable(); e != 0) return e;
  constexpr std::size_t page = 4096;
  std::int64_t const memory =
      sys::mmap(nullptr, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory < 0) return static_cast<int>(memory);
  auto* const at = reinterpret_cast<std::byte*>(memory);
  buffer_slots slots(at, buffers, 1);
  std::byte* next = at + page;
  slots.stand(buffers, [&] { return --next; });
  int error = add_buffers(r.fd(), 0, slots);
  io_uring_sqe receive{}, read{};
  io_uring_prep_recv_multishot(&receive, -1, nullptr, 0, 0);
  read.opcode = sys::op_read_multishot;
  read.off = ~std::uint64_t{0};
  if (error == 0) error = try_many(r, receive, true, false, sys::kernel_receives_many);
  if (error == 0) error = try_many(r, read, false, false, sys::kernel_reads_many);
  receive.ioprio |= IORING_RECVSEND_POLL_FIRST;
  if (error == 0) error = try_many(r, receive, true, true, sys::kernel_receives_all_of_unix);
  // Nothing that was left unfinished may read into memory that is gone.
  drop_buffers(r.fd(), 0);
  sys::munmap(at, page);
  return error;
}

buffer_chooser::answer can_choose_buffers() noexcept {
  using answer = buffer_chooser::answer;
  static std::atomic<answer> known{answer::unknown}; // relaxed: every thread finds the same
  answer a = known.load(std::memory_order_relaxed);
  if (a != answer::unknown) return a;
  int const e = try_to_choose();
  if (!sys::may_pass(e)) known.store(a = e == 0 ? answer::yes : answer::no, std::memory_order_relaxed);
  return a;
}

} // namespace

constinit std::atomic<buffer_chooser const*> chooser{nullptr};

void set_chooser() noexcept {
  static constexpr buffer_chooser made = {can_choose_buffers, find_group};
  chooser.store(&made, std::memory_order_relaxed); // constant; who uses a source knows that it was made
}

} // namespace unio::driver
