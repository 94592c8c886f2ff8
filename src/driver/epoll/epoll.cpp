// The backend on epoll: perform(), else wait for an edge and perform() again.
//
// A descriptor is registered once, edge-triggered and for both directions, when an operation first has to
// wait on it, and stays so until its handle is closed: one epoll_ctl(2) per connection. An edge can not be
// missed: an operation waits only after perform() said -EAGAIN, and what becomes ready after that raises an
// edge (epoll(7)); what became ready before the registration is reported by it.
//
// The event carries the descriptor and its generation, so that an edge of a descriptor that was closed while
// a duplicate lives on never reaches an operation on the number's next owner.
//
// A read of a TCP socket that got fewer bytes than it asked for has drained it (epoll(7), questions and
// answers): the next one waits for an edge, without another recv(2), unless such attempts have lately found
// what had come since. Whatever comes after that read makes an edge, an end and an error too
// (net/ipv4/tcp_input.c: tcp_data_ready, tcp_fin, tcp_reset). What came before may have been in the edge that
// brought the read, which does not come again: an end, or urgent data, at which a read stops. After such an
// edge reads are attempted until one finds nothing. A Unix socket's read stops at descriptors and where the
// sender changes, too, and no event says so (net/unix/af_unix.c, unix_stream_read_generic).
//
// Readiness means nothing for files. Reads that bypass the page cache go to the kernel (direct_reads.hpp),
// and the others to threads that may block.

#include "driver/epoll/epoll.hpp"

#include "driver/choose.hpp"
#include "driver/engine.hpp"
#include "driver/epoll/direct_reads.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <memory>
#include <new>

namespace unio::inline v0_1::driver {
namespace {

constexpr std::uint64_t doorbell_tag = ~std::uint64_t{0};
constexpr int events_per_call = 128;
constexpr std::uint32_t all_edges = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLPRI | EPOLLET;

class epoll_backend final : public backend {
 public:
  epoll_backend(int epoll_fd, int doorbell_fd, int why) noexcept
      : backend(doorbell_fd), epoll_fd_(epoll_fd), why_(why) {}
  ~epoll_backend() override { sys::close(epoll_fd_); }

  void arm(engine& e, io_operation& op, attempted how) noexcept override {
    readiness const wants = op.links.is.wants;
    if (how == attempted::with_others) return e.perform_later(op);
    if (wants == readiness::worker && read_directly(op)) return;
    bool const may_try = waits_for_descriptor(wants) || wants == readiness::retry;
    if (!may_try || how != attempted::no) return e.await_what_it_wants(op, wants);
    if (wants == readiness::readable && e.descriptors().find(op.fd())->reading.is_drained())
      return move(op, place::parked);
    if (!e.perform_now(op)) e.await_readiness(op);
  }

  // A peer that was just answered has asked again by the next turn more often than at once, and an attempt in
  // vain is a call.
  bool prefers_batch(engine& e, io_operation const& op) noexcept override {
    return e.has_company() && op.faces().wants(op) == readiness::readable;
  }

  void park(engine& e, io_operation& op) noexcept override {
    descriptor& d = *e.descriptors().find(op.fd());
    if (d.registered) return move(op, place::parked);
    epoll_event event{.events = all_edges, .data = {.u64 = tag(op.fd())}};
    std::int64_t r = sys::epoll_ctl(epoll_fd_, EPOLL_CTL_ADD, op.fd(), &event);
    // Left over from a number that was closed behind our back while a duplicate lives: it has to report
    // afresh.
    if (r == -EEXIST) r = sys::epoll_ctl(epoll_fd_, EPOLL_CTL_MOD, op.fd(), &event);
    if (r == -EPERM) return e.retry_later(op); // nothing is announced of it, as of a regular file
    if (r < 0) return e.process(op, static_cast<int>(r), 0);
    d.registered = true;
    move(op, place::parked);
    // What it is ready for now is the first thing that epoll reports.
    d.reading.set_empty();
    d.writing.set_empty();
    ++e.statistics.submissions;
  }

  // What is parked here just ends. A direct read that the kernel has cannot be taken back; nor can what the
  // ring before this still has.
  bool disarm(engine&, io_operation& op) noexcept override { return withdraw_direct(op); }

  bool release(io_operation& op) noexcept override {
    return op.links.is.where == place::parked || withdraw_direct(op);
  }
  [[nodiscard]] bool has_unsubmitted() const noexcept override { return has_direct_queued(); }
  void submit(engine& e) noexcept override {
    if (direct_ != nullptr) [[unlikely]]
      direct_->submit(e);
  }
  [[nodiscard]] bool has_news() const noexcept override { return sys::is_readable(epoll_fd_); }

  int reap(engine& e, std::int64_t until) noexcept override {
    timespec timeout{};
    if (direct_ != nullptr) [[unlikely]]
      direct_->submit(e);
    bool const sleeps = until != 0 && !e.before_sleep();
    if (sleeps) until = e.sleeps_until(until);
    if (sleeps && until != deadline::forever) {
      std::int64_t const left = std::max<std::int64_t>(0, until - now());
      timeout = {.tv_sec = left / 1'000'000'000, .tv_nsec = left % 1'000'000'000};
    }
    epoll_event events[events_per_call];
    std::int64_t const n = sys::epoll_wait(epoll_fd_, events, events_per_call,
                                           sleeps && until == deadline::forever ? nullptr : &timeout);
    if (sleeps) e.after_sleep();
    ++e.statistics.turns;
    if (direct_ != nullptr) [[unlikely]]
      direct_->take(e);
    if (n < 0) return n == -EINTR ? 0 : static_cast<int>(n);
    e.statistics.completions += static_cast<std::uint64_t>(n);
    for (std::int64_t i = 0; i < n; ++i)
      if (events[i].data.u64 != doorbell_tag) edge(e, events[i]);
    return n == events_per_call ? 1 : 0;
  }

  [[nodiscard]] int wait_descriptor() noexcept override { return epoll_fd_; }
  [[nodiscard]] bool is_told(engine&) noexcept override { return !has_direct_queued(); }

  int look_at(engine& e, io_operation& op) noexcept override {
    if (op.links.submitted() || op.links.is.where == place::to_submit) { // or the ring before this has it
      if (direct_ == nullptr) return 0;
      direct_->submit(e);
      direct_->take(e);
      return 0;
    }
    move(op, place::at_hand);
    if (!e.perform_now(op)) e.await_readiness(op);
    return 0;
  }

  void unregister(int fd, descriptor&) noexcept override {
    epoll_event unused{};
    sys::epoll_ctl(epoll_fd_, EPOLL_CTL_DEL, fd, &unused);
  }

  void describe(capabilities& c) const noexcept override { c.driver = "epoll"; }
  [[nodiscard]] int why_no_ring() const noexcept override { return why_; }

 private:
  static std::uint64_t tag(int fd) noexcept {
    return std::uint64_t{sys::generation(fd)} << 32 | static_cast<std::uint32_t>(fd);
  }

  // Out of line: arm() needs no registers then.
  [[gnu::noinline]] bool read_directly(io_operation& op) noexcept {
    if (!sys::is_direct(op.fd())) return false;
    if (direct_ == nullptr) {
      auto* const make = direct_reads::make.load(std::memory_order_relaxed);
      if (make != nullptr) direct_.reset(make(doorbell_fd()));
    }
    return direct_ != nullptr && direct_->arm(op);
  }
  bool withdraw_direct(io_operation& op) noexcept { return direct_ != nullptr && direct_->withdraw(op); }
  [[nodiscard]] bool has_direct_queued() const noexcept {
    return direct_ != nullptr && direct_->has_queued();
  }

  void edge(engine& e, epoll_event const& event) noexcept {
    int const fd = static_cast<int>(event.data.u64 & 0xffffffff);
    descriptor* const d = e.descriptors().find(fd);
    if (d == nullptr || event.data.u64 != tag(fd)) {
      ++e.statistics.late_completions;
      return;
    }
    if ((event.events & EPOLLRDHUP) != 0) sys::note_waited(fd, sys::shut_down_bit, true);
    bool const ended = (event.events & (EPOLLHUP | EPOLLERR)) != 0;
    if (ended || (event.events & (EPOLLRDHUP | EPOLLPRI)) != 0) {
      d->reading.set_ready_to_the_end();
    } else if ((event.events & EPOLLIN) != 0) {
      d->is_tcp ? d->reading.set_ready_untried() : d->reading.set_ready();
    }
    if (ended || (event.events & EPOLLOUT) != 0) d->writing.set_ready();
    for (io_operation* op = d->in_flight; op != nullptr;) {
      io_operation* const next = op->links.next_on_handle;
      readiness const wants = op->links.is.wants;
      bool const waits_here =
          op->fd() == fd && what_follows(op->links.is.where, trigger::readiness) == reaction::perform;
      if (waits_here && (wants == readiness::exceptional || d->direction_of(*op).is_ready())) {
        move(*op, place::at_hand);
        op->set_fell_short(false);
        if (!e.perform_now(*op)) {
          e.await_readiness(*op);
        } else if (op->fell_short() && is_tcp(*d, fd)) {
          d->reading.set_drained();
        }
      }
      op = next;
    }
  }

  static bool is_tcp(descriptor& d, int fd) noexcept {
    if (!d.knows_protocol) [[unlikely]]
      ask_protocol(d, fd);
    return d.is_tcp;
  }
  [[gnu::noinline]] static void ask_protocol(descriptor& d, int fd) noexcept {
    d.knows_protocol = true;
    int protocol = 0;
    unsigned size = sizeof protocol;
    std::int64_t const r = sys::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size);
    d.is_tcp = r == 0 && protocol == IPPROTO_TCP;
  }

  int epoll_fd_;
  int why_;
  std::unique_ptr<direct_reads> direct_; // made for the first
};

} // namespace

int make_epoll_descriptor() noexcept { return sys::above_standard(sys::epoll_create(EPOLL_CLOEXEC)); }

[[gnu::cold]] result<std::unique_ptr<backend>> make_epoll(int why, int doorbell_fd, int epoll_fd) noexcept {
  if (epoll_fd < 0) epoll_fd = make_epoll_descriptor();
  if (epoll_fd < 0) return detail::to_error_code(epoll_fd);
  bool const is_engines = doorbell_fd >= 0;
  if (!is_engines) doorbell_fd = sys::above_standard(sys::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (doorbell_fd < 0) {
    sys::close(epoll_fd);
    return detail::to_error_code(doorbell_fd);
  }
  std::unique_ptr<backend> b(new (std::nothrow) epoll_backend(epoll_fd, doorbell_fd, why));
  if (b == nullptr) {
    sys::close(epoll_fd);
    if (!is_engines) sys::close(doorbell_fd);
    return std::make_error_code(std::errc::not_enough_memory);
  }
  if (is_engines) (void)b->give_doorbell();
  // Edge-triggered: each write is an edge of its own, so the counter need not be read back.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.u64 = doorbell_tag}};
  if (std::int64_t const r = sys::epoll_ctl(epoll_fd, EPOLL_CTL_ADD, doorbell_fd, &event); r < 0)
    return detail::to_error_code(static_cast<int>(r));
  return b;
}

} // namespace unio::driver
