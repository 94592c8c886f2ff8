// A foreign_reactor's driver on epoll.
//
// A descriptor is registered when it is added, edge-triggered; for writing when that is first asked for, for
// on many sockets each read of the peer is such an edge. Nothing is said to the kernel before a close: that
// ends the registration, unless a duplicate lives on, whose events the tag makes strangers.

#include "driver/epoll/epoll.hpp"

#include "driver/choose.hpp"
#include "driver/foreign/foreign.hpp"
#include "sys/calls.hpp"
#include "sys/sanitizer.hpp"

#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <span>

namespace unio::inline v0_1::driver {
namespace {

static_assert(foreign_peer_ended == EPOLLRDHUP);

constexpr std::size_t events_per_call = 128;

class foreign_epoll final : public foreign_driver {
 public:
  explicit foreign_epoll(int epoll_fd) noexcept : epoll_fd_(epoll_fd) {}
  ~foreign_epoll() override { sys::close(epoll_fd_); }

  int add(foreign_watch& w) noexcept override {
    std::int64_t const r = tell(EPOLL_CTL_ADD, w);
    return r == -EPERM ? never_waits : static_cast<int>(r);
  }

  int arm(foreign_watch& w, unsigned, unsigned) noexcept override {
    return static_cast<int>(tell(EPOLL_CTL_MOD, w));
  }

  bool remove(foreign_watch& w, std::uint64_t, bool closes) noexcept override {
    epoll_event unused{};
    bool const is_copied = foreign_access::copy(w) >= 0; // another number is closed
    if ((!closes || is_copied) && foreign_access::can_wait(w))
      sys::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, foreign_access::number(w), &unused);
    return true;
  }

  std::int64_t wait(std::int64_t timeout_ns, foreign_event* events, std::size_t n) noexcept override {
    static constexpr timespec at_once{};
    timespec later;
    timespec const* timeout = &at_once;
    if (timeout_ns > 0) {
      later = {.tv_sec = timeout_ns / 1'000'000'000, .tv_nsec = timeout_ns % 1'000'000'000};
      timeout = &later;
    } else if (timeout_ns < 0) {
      timeout = nullptr;
    }
    epoll_event ready[events_per_call];
    std::int64_t const r =
        sys::epoll_wait(epoll_fd_, ready, static_cast<int>(std::min(n, events_per_call)), timeout);
    if (r <= 0) return r;
    sys::kernel_gives_back(this);
    foreign_event* to = events;
    for (epoll_event const& e : std::span(ready, static_cast<std::size_t>(r)))
      if (foreign_watch* const w = foreign_tag::find(e.data.u64); w != nullptr)
        *to++ = {w, e.events, nullptr};
    return to - events;
  }

  [[nodiscard]] char const* name() const noexcept override { return "epoll"; }

 private:
  std::int64_t tell(int what, foreign_watch& w) noexcept {
    unsigned const more =
        foreign_access::carries(w).load(std::memory_order_relaxed) ? EPOLLET | foreign_peer_ended : EPOLLET;
    epoll_event event{.events = foreign_access::interest(w) | more, .data = {.u64 = foreign_tag::make(w)}};
    sys::kernel_takes(this); // what the thread that waits reads of the watch
    return sys::epoll_ctl(epoll_fd_, what, foreign_access::number(w), &event);
  }

  int epoll_fd_;
};

} // namespace

result<std::unique_ptr<foreign_driver>> make_foreign_epoll(int doorbell) noexcept {
  int const fd = make_epoll_descriptor();
  if (fd < 0) return detail::to_error_code(fd);
  std::unique_ptr<foreign_driver> made(new (std::nothrow) foreign_epoll(fd));
  if (made == nullptr) {
    sys::close(fd);
    return std::make_error_code(std::errc::not_enough_memory);
  }
  // Its tag is no watch's: it wakes, and is not reported. Each write is an edge of its own.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = 0}};
  if (std::int64_t const r = sys::epoll_ctl(fd, EPOLL_CTL_ADD, doorbell, &event); r < 0)
    return detail::to_error_code(static_cast<int>(r));
  return made;
}

} // namespace unio::driver
