// src/sys/direct_reads.hpp: reads that the kernel makes while the thread does something else, without a ring
// and without another thread: io_submit(2).
//
//   as_direct_read      an entry for a ring as one for this, if it is a read at an offset
//   direct_read_queue   gives the kernel such reads, and takes what has become of them
//
// Only of descriptors that bypass the page cache (O_DIRECT): any other read the kernel makes within the call.
// With RWF_NOWAIT (Linux 4.13) the call does not wait for a filesystem or a full device either; such a read
// ends with -EAGAIN, and a call that may wait has to make it.
//
// What has ended stands in memory that the kernel maps for the process, a ring of io_event behind a header.
// Taking it from there costs no call; the kernel marks the header with a number for those that know it
// (fs/aio.c, struct aio_ring).
//
// The kernel gives such a ring up after some 30 ms, in which the thread would wait (a grace period of RCU).
// So up to 16 that are not used any more are kept for the next threads.

#pragma once

#include "sys/calls.hpp"

#include <linux/aio_abi.h>
#include <linux/io_uring.h>
#include <sys/uio.h>

#include <atomic>
#include <cstdint>

namespace unio::inline v0_1::sys {

/// False: it is something else. `bytes`: how many it asks for.
inline bool as_direct_read(io_uring_sqe const& from, iocb& to, std::uint64_t& bytes) noexcept {
  bool const one = from.opcode == IORING_OP_READ;
  if ((!one && from.opcode != IORING_OP_READV) || from.flags != 0) return false;
  if (static_cast<std::int64_t>(from.off) < 0) return false; // the file's position: calls may not overtake
  to = {};
  to.aio_lio_opcode = one ? IOCB_CMD_PREAD : IOCB_CMD_PREADV;
  to.aio_fildes = static_cast<std::uint32_t>(from.fd);
  to.aio_buf = from.addr;
  to.aio_nbytes = from.len;
  to.aio_offset = static_cast<std::int64_t>(from.off);
  to.aio_rw_flags = RWF_NOWAIT;
  bytes = from.len;
  if (one) return true;
  bytes = 0;
  auto const* const all = reinterpret_cast<iovec const*>(from.addr);
  for (std::uint32_t i = 0; i != from.len; ++i) bytes += all[i].iov_len;
  return true;
}

/// One thread uses it at a time, of the process that has opened it.
class direct_read_queue {
 public:
  static constexpr unsigned most = 128; ///< reads that the kernel has at once

  direct_read_queue() = default;
  direct_read_queue(direct_read_queue const&) = delete;
  direct_read_queue& operator=(direct_read_queue const&) = delete;
  /// Waits for what the kernel has. `unused`: it has nothing, and all that has ended was taken.
  void close(bool unused) noexcept;

  /// 0, or -errno.
  int open() noexcept;
  /// How many of them the kernel has taken, from the first on; or why not the first, -errno.
  std::int64_t submit(iocb** entries, unsigned n) const noexcept {
    return sys::io_submit(context_, static_cast<long>(n), entries);
  }
  /// Calls `ended(aio_data, result)` for each that has.
  template <class Ended> void take(Ended ended) noexcept {
    if (context_ == 0) return;
    auto* const h = reinterpret_cast<header*>(context_);
    auto const* const events = reinterpret_cast<io_event const*>(h + 1);
    // Acquire: the event, and what was read, were written before.
    while (h->head != std::atomic_ref(h->tail).load(std::memory_order_acquire)) {
      io_event const e = events[h->head];
      unsigned const next = h->head + 1 == h->count ? 0 : h->head + 1;
      std::atomic_ref(h->head).store(next, std::memory_order_release); // from here on it is the kernel's
      ended(e.data, static_cast<std::int64_t>(e.res));
    }
  }

 private:
  // struct aio_ring: head is the process's, tail the kernel's.
  struct header {
    std::uint32_t id, count, head, tail;
    std::uint32_t magic, compatible_features, incompatible_features, size;
  };
  static constexpr std::uint32_t expected_magic = 0xa10a10a1;

  unsigned long context_ = 0; ///< where it is mapped
  unsigned opened_in_ = 0;    ///< which process: sys::fork_generation()
};

} // namespace unio::sys
