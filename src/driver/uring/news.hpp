// src/driver/uring/news.hpp: how a loop of another kind learns what a ring with deferred task work has for
// its thread.
//
// Nothing wakes who polls such a ring before its thread enters (io_uring/io_uring.c,
// io_req_local_work_add): an eventfd that is registered with it is signalled there, when the first piece of
// work is added. Two things it does not say:
//
// * Work that is added because another eventfd was written to is signalled later, after a grace period of
//   RCU, and from Linux 6.11 on once only for each registration (io_uring/eventfd.c, __io_eventfd_signal; the
//   bit is never cleared). So it is registered anew after each call that may have taken work in. The doorbell
//   is such an eventfd, and is waited for itself.
// * Work on top of other work. It is looked for after what was said has been taken back.

#pragma once

#include <cstdint>

namespace unio::inline v0_1::driver {

class ring;

class ring_news {
 public:
  ring_news() = default;
  ring_news(ring_news const&) = delete;
  ring_news& operator=(ring_news const&) = delete;
  ~ring_news();

  /// What is readable once the ring has something, or the doorbell was rung; made when it is first asked for.
  /// Or -errno. On the ring's own thread, as the next.
  int descriptor(ring& r, int doorbell_fd) noexcept;
  /// Takes back what was said before. `turns`: how often the ring was entered. False: the ring has something
  /// already, or the next cannot be said: descriptor() tells why.
  bool renew(ring const& r, int doorbell_fd, std::uint64_t turns) noexcept;

 private:
  int make(int doorbell_fd) noexcept;
  int enlist(ring const& r) noexcept;

  int epoll_fd_ = -1; // has the other, and the doorbell
  int eventfd_ = -1;
  bool enlisted_ = false;
  std::uint64_t turns_ = 0; // when it was registered
};

} // namespace unio::driver
