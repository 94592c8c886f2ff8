// ring_operations(): the operations of io_uring up to Linux 6.19, in the order of their numbers
// (include/uapi/linux/io_uring.h), with what unio does with each.
//
// A ring performs a call on names by one of the kernel's threads, which is slower than one of ours: see
// op/call.hpp.

#include "op/ring_operations.hpp"

#include "driver/choose.hpp"
#include "sys/kernel_abi.hpp"
#include "sys/multishot.hpp"

#include <unio/extend/raw_ring.hpp>

#include <array>
#include <iterator>

namespace unio::inline v0_1 {
namespace {

using op::ring_use;

constexpr bool used = true;
constexpr bool no = false;

constexpr char const by_workers[] = "no: our own threads, which are faster (names, attributes, space)";
constexpr char const by_call[] = "no: a system call, which never waits";
constexpr char const no_tables[] = "no: descriptors are not registered with rings";
constexpr char const by_sleep[] = "no: deadlines bound the sleep in io_uring_enter(2)";
constexpr char const by_rings[] = "no: a pool's buffers are in rings of their own";
constexpr char const large[] = "no: needs a ring with large entries";
constexpr char const by_posting[] = "no: post() rings a doorbell, which wakes as fast, on each driver";
constexpr char const raw[] = "raw ring only";

constexpr ring_use table[] = {
    {"NOP", used, "no_op"},
    {"READV", used, "read, of several buffers"},
    {"WRITEV", used, "write, of several buffers"},
    {"FSYNC", used, "barrier"},
    {"READ_FIXED", used, "read, into registered memory"},
    {"WRITE_FIXED", used, "write, from registered memory"},
    {"POLL_ADD", used, "poll; whatever else waits for readiness"},
    {"POLL_REMOVE", no, "no: ASYNC_CANCEL ends polls too"},
    {"SYNC_FILE_RANGE", used, "barrier, that does not wait"},
    {"SENDMSG", used, "send_to, send_handles"},
    {"RECVMSG", used, "receive_from, receive_handles"},
    {"TIMEOUT", no, by_sleep},
    {"TIMEOUT_REMOVE", no, by_sleep},
    {"ACCEPT", used, "accept, accept_many"},
    {"ASYNC_CANCEL", used, "cancel, deadlines, close"},
    {"LINK_TIMEOUT", no, by_sleep},
    {"CONNECT", used, "connect"},
    {"FALLOCATE", no, by_workers},
    {"OPENAT", no, by_workers},
    {"CLOSE", used, "close"},
    {"FILES_UPDATE", no, no_tables},
    {"STATX", no, by_workers},
    {"READ", used, "read, receive, wait_event, read_events"},
    {"WRITE", used, "write"},
    {"FADVISE", no, by_workers},
    {"MADVISE", no, by_workers},
    {"SEND", used, "write, to a socket"},
    {"RECV", used, "read and receive, from a socket"},
    {"OPENAT2", no, by_workers},
    {"EPOLL_CTL", no, "no: a ring needs no epoll"},
    {"SPLICE", used, "splice, of a regular file; between others splice(2) on readiness"},
    {"PROVIDE_BUFFERS", no, by_rings},
    {"REMOVE_BUFFERS", no, by_rings},
    {"TEE", no, "no: tee(2) on readiness; a ring always takes a kernel thread"},
    {"SHUTDOWN", no, by_call},
    {"RENAMEAT", no, by_workers},
    {"UNLINKAT", no, by_workers},
    {"MKDIRAT", no, by_workers},
    {"SYMLINKAT", no, by_workers},
    {"LINKAT", no, by_workers},
    {"MSG_RING", no, by_posting},
    {"FSETXATTR", no, by_workers},
    {"SETXATTR", no, by_workers},
    {"FGETXATTR", no, by_workers},
    {"GETXATTR", no, by_workers},
    {"SOCKET", no, by_call},
    {"URING_CMD", no, raw},
    {"SEND_ZC", used, "send_zero_copy"},
    {"SENDMSG_ZC", used, "send_zero_copy, of several buffers"},
    {"READ_MULTISHOT", used, "receive_many, from a pipe"},
    {"WAITID", no, "no: a process has a descriptor that becomes ready"},
    {"FUTEX_WAIT", used, "wait_on"},
    {"FUTEX_WAKE", no, by_call},
    {"FUTEX_WAITV", no, raw},
    {"FIXED_FD_INSTALL", no, no_tables},
    {"FTRUNCATE", no, by_workers},
    {"BIND", no, by_call},
    {"LISTEN", no, by_call},
    {"RECV_ZC", no, "no: needs a queue of a network card, and a ring with large completions"},
    {"EPOLL_WAIT", no, raw},
    {"READV_FIXED", no, "no: several buffers rarely lie in one piece of registered memory"},
    {"WRITEV_FIXED", no, "no: several buffers rarely lie in one piece of registered memory"},
    {"PIPE", no, by_call},
    {"NOP128", no, large},
    {"URING_CMD128", no, large},
};

constexpr bool is_at(unsigned number, std::string_view name) { return name == table[number].name; }
static_assert(is_at(IORING_OP_FSYNC, "FSYNC") && is_at(IORING_OP_READ, "READ"));
static_assert(is_at(IORING_OP_MSG_RING, "MSG_RING") && is_at(sys::op_sendmsg_zero_copy, "SENDMSG_ZC"));
static_assert(is_at(sys::op_read_multishot, "READ_MULTISHOT"));

} // namespace

char const* op::name_of_ring_operation(unsigned number) noexcept {
  return number < std::size(table) ? table[number].name : "of an unknown number";
}

std::vector<ring_operation> ring_operations() {
  std::array<bool, 256> known{};
  (void)driver::probe_ring(known); // without a ring none is known
  std::vector<ring_operation> all;
  for (unsigned i = 0; i != known.size(); ++i) {
    if (i < std::size(table)) {
      all.push_back({i, table[i].name, known[i], table[i].is_used, table[i].use});
    } else if (known[i]) {
      all.push_back({i, {}, true, false, raw});
    }
  }
  return all;
}

} // namespace unio
