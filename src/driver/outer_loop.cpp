// The descriptor for another loop: an epoll of its own, which has the driver's (a ring, or its epoll) and a
// timer for the deadlines that the kernel does not know.

#include "driver/engine.hpp"
#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/timer_descriptor.hpp"
#include "sys/watching.hpp"

#include <unio/outer_loop.hpp>

#include <fcntl.h>
#include <sys/epoll.h>

#include <algorithm>
#include <utility>

namespace unio::inline v0_1 {
static_assert(sizeof(outer_loop) == 32);

namespace {

failure refused(int native_code) noexcept { return detail::failed(native_code, "outer_loop"); }

} // namespace

outer_loop::outer_loop(outer_loop&& other) noexcept
    : multiplexer_(std::exchange(other.multiplexer_, nullptr)),
      epoll_fd_(std::exchange(other.epoll_fd_, -1)),
      timer_fd_(std::exchange(other.timer_fd_, -1)),
      driver_fd_(std::exchange(other.driver_fd_, -1)),
      has_moment_(std::exchange(other.has_moment_, false)),
      moment_(other.moment_) {}

outer_loop& outer_loop::operator=(outer_loop&& other) noexcept {
  outer_loop taken(std::move(other)); // which may be this one
  std::swap(multiplexer_, taken.multiplexer_);
  std::swap(epoll_fd_, taken.epoll_fd_);
  std::swap(timer_fd_, taken.timer_fd_);
  std::swap(driver_fd_, taken.driver_fd_);
  std::swap(has_moment_, taken.has_moment_);
  std::swap(moment_, taken.moment_);
  return *this;
}

outer_loop::~outer_loop() {
  if (epoll_fd_ >= 0) sys::close(epoll_fd_);
  if (timer_fd_ >= 0) sys::close(timer_fd_);
}

result<outer_loop> outer_loop::create(io_multiplexer& m) noexcept {
  if (m.is_shared()) return refused(-EOPNOTSUPP);
  driver::engine* const e = driver::registry::find(m);
  if (e == nullptr) { // one that could not be made says why; or a stranger's
    auto const works = m.complete_io(0);
    return works ? refused(-EOPNOTSUPP) : works.error();
  }
  driver::engine::outer_wait const now = e->before_outer_wait();
  if (now.error != 0) return refused(now.error);
  outer_loop made;
  made.multiplexer_ = &m;
  made.timer_fd_ = sys::above_standard(sys::make_timer_descriptor());
  if (made.timer_fd_ < 0) return refused(made.timer_fd_);
  made.epoll_fd_ = sys::above_standard(sys::epoll_create(EPOLL_CLOEXEC));
  if (made.epoll_fd_ < 0) return refused(made.epoll_fd_);
  if (int const r = sys::watch_readable(made.epoll_fd_, made.timer_fd_); r < 0) return refused(r);
  if (auto const armed = made.before_wait(); !armed) return armed.error();
  return made;
}

result<std::chrono::nanoseconds> outer_loop::before_wait() noexcept {
  using std::chrono::nanoseconds;
  UNIO_EXPECTS(epoll_fd_ >= 0, "an outer_loop that was moved from has nothing to wait for");
  // A thread's own multiplexer, or one of one thread: create() has looked.
  auto& e = static_cast<driver::engine&>(*multiplexer_);
  driver::engine::outer_wait const w = e.before_outer_wait();
  if (w.error != 0) return refused(w.error);
  if (w.until == 0) return nanoseconds(0);
  if (w.descriptor != driver_fd_) { // the ring was forbidden and has gone
    epoll_event unused{};
    if (driver_fd_ >= 0) sys::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, driver_fd_, &unused);
    driver_fd_ = -1;
    if (int const r = sys::watch_readable(epoll_fd_, w.descriptor); r < 0) return refused(r);
    driver_fd_ = w.descriptor;
  }
  bool const ends = w.until != deadline::forever;
  if (ends != has_moment_ || (ends && w.until != moment_)) {
    if (int const r = sys::set_timer_descriptor(timer_fd_, ends ? w.until : -1); r < 0) return refused(r);
    has_moment_ = ends;
    moment_ = w.until;
  }
  if (!ends) return nanoseconds::max();
  return nanoseconds(std::max<std::int64_t>(0, w.until - e.now()));
}

} // namespace unio
