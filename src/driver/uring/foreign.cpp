// A foreign_reactor's driver on io_uring: for each descriptor a request that reports edges until it is
// removed (a multishot POLL_ADD), and one more for writing and for urgent data when that is first asked for;
// for each transfer its entry (transfers.hpp).
//
// Only the thread that waits touches the submission queue. What others add, arm and start is in a list, which
// the next wait() submits; a thread that waits already is woken for it.
//
// The end of the thread cancels its requests. One that was cancelled though its watch is there, or though its
// transfer was not cancelled, is made again. How requests are taken back: foreign_ring.hpp.

#include "driver/uring/foreign.hpp"

#include "driver/uring/foreign_ring.hpp"
#include "driver/uring/transfers.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/stat.h>

#include <cerrno>
#include <mutex>
#include <new>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

constexpr unsigned entries = 256;
constexpr std::uint64_t doorbell_tag = 0;

// The directions, by the place of their request.
constexpr unsigned reads = 0, writes = 1, urgent = 2;
constexpr std::uint8_t bit_of(unsigned direction) noexcept {
  return static_cast<std::uint8_t>(1U << direction);
}
constexpr unsigned mask_of(unsigned direction, unsigned interest) noexcept {
  constexpr unsigned masks[] = {foreign::readable, foreign::writable, foreign::exceptional};
  return interest & masks[direction];
}

// A ring does not look when it reports: it says what woke it. What brings bytes says that they may be urgent,
// and they may be gone. Who tries sees that; who waits does not (arm()).
constexpr int announced = POLLPRI | POLLRDBAND;

[[gnu::cold, gnu::noinline]] int what_there_is(foreign_watch& w, int result) noexcept {
  pollfd p{.fd = std::atomic_ref(foreign_access::fd(w)).load(std::memory_order_relaxed),
           .events = static_cast<short>(result & ~POLLRDBAND),
           .revents = 0};
  timespec const none{};
  std::int64_t const r = sys::poll(&p, 1, &none);
  if (r == 0) return 0;
  foreign_access::doubts(w).fetch_and(static_cast<std::uint8_t>(~result), std::memory_order_relaxed);
  return r == 1 && (p.revents & POLLNVAL) == 0 ? p.revents : result;
}

class foreign_uring final : public foreign_driver {
 public:
  foreign_uring(int doorbell_fd, foreign_lock& lock) noexcept : lock_(lock), doorbell_fd_(doorbell_fd) {}

  ~foreign_uring() override {
    if (numbers_ >= 0) sys::close(numbers_);
  }

  int open() noexcept { return requests_.open(entries); }

  int add(foreign_watch& w) noexcept override {
    struct stat s{};
    if (std::int64_t const r = sys::fstat(foreign_access::fd(w), &s); r < 0) return static_cast<int>(r);
    // Of other files their numbers say less: all eventfds have the same, and both ends of a pipe.
    auto const socket = S_ISSOCK(s.st_mode) ? static_cast<std::uint32_t>(s.st_ino) : 0;
    foreign_access::socket(w).store(socket, std::memory_order_relaxed);
    if (socket == 0)
      if (int const r = as_epoll_sees(foreign_access::fd(w), S_ISREG(s.st_mode)); r != 0) return r;
    order(w);
    return 0;
  }

  int arm(foreign_watch& w, unsigned news, unsigned asked) noexcept override {
    // What has a request already reports only changes from now on. Between them poll(2) says what there is.
    if (unsigned const had = asked & ~news; had != 0) {
      pollfd p{.fd = foreign_access::fd(w), .events = static_cast<short>(had), .revents = 0};
      timespec const none{};
      foreign_access::doubts(w).fetch_or(static_cast<std::uint8_t>(had), std::memory_order_relaxed);
      if (sys::poll(&p, 1, &none) == 1)
        foreign_access::reports(w) = static_cast<std::uint8_t>(foreign_access::reports(w) | p.revents);
    }
    if (news != 0 || asked == 0 || foreign_access::reports(w) != 0) order(w);
    return 0;
  }

  bool remove(foreign_watch& w, std::uint64_t tag, bool closes) noexcept override {
    withdraw(w);
    epoll_event unused{};
    bool const is_socket = foreign_access::socket(w).load(std::memory_order_relaxed) != 0;
    if (!closes && !is_socket && foreign_access::can_wait(w) && numbers_ >= 0)
      sys::epoll_ctl(numbers_, EPOLL_CTL_DEL, foreign_access::fd(w), &unused);
    unsigned const armed = std::exchange(foreign_access::armed(w), std::uint8_t{0});
    if (armed == 0) return true;
    if (requests_.is_of_another()) return false;
    // All are in one system call; mostly there is but the first.
    auto const of = [tag](unsigned direction) { return tag | std::uint64_t{direction} << 16; };
    if (armed == bit_of(reads))
      (void)requests_.drop({tag});
    else
      (void)requests_.drop({tag, of(writes), of(urgent)});
    return true;
  }

  [[nodiscard]] bool makes_transfers() const noexcept override { return true; }
  void start(foreign_transfer& t) noexcept override {
    transfers_.push(t);
    has_orders_.store(true, std::memory_order_seq_cst);
  }
  bool cancel(foreign_transfer& t) noexcept override {
    if (transfers_.withdraw(t)) return true;
    transfers_.await_taken();
    if (!requests_.is_of_another()) (void)requests_.drop({foreign_tag::make(t)});
    return false;
  }
  [[nodiscard]] bool is_of_another() const noexcept override { return requests_.is_of_another(); }

  [[nodiscard]] bool has_orders() const noexcept override {
    return has_orders_.load(std::memory_order_seq_cst);
  }

  std::int64_t wait(std::int64_t timeout_ns, foreign_event* events, std::size_t n) noexcept override {
    std::size_t found = 0;
    // From here on a thread that gives an order sees that this one is to be woken, or this sees the order.
    if (has_orders_.load(std::memory_order_seq_cst) || !bell_is_armed_) [[unlikely]] {
      if (int const e = requests_.begin(); e < 0) return e;
      if (!submit_orders(events, n, found) || found != 0) timeout_ns = 0;
    }
    if (requests_.kernel.peek() != nullptr) {
      timeout_ns = 0;
      if (requests_.kernel.unsubmitted() == 0 && !requests_.kernel.has_overflown())
        return collect(events, n, found);
    } else if (timeout_ns == 0 && requests_.kernel.unsubmitted() == 0 && !has_news()) {
      return static_cast<std::int64_t>(found);
    }
    int const e = requests_.kernel.enter(timeout_ns == 0 ? 0 : 1, timeout_ns);
    if (!transfers_.entered()) [[unlikely]]
      take_back();
    std::int64_t const all = collect(events, n, found);
    return all != 0 ? all : e;
  }

  // A transfer's buffers are the kernel's until it has ended. What another thread runs is given up: the
  // kernel drops the requests later, which shows when nothing of the ring is left.
  bool leave() noexcept override {
    transfers_.forget_queued();
    if (!requests_.is_of_another() && requests_.drop_all() == 0) {
      while (transfers_.has_in_kernel() &&
             (requests_.kernel.peek() != nullptr || requests_.kernel.enter(1, 1'000'000) == 0))
        finish_transfers();
      if (!transfers_.has_in_kernel()) return true;
    }
    requests_.kernel.leave();
    if (!transfers_.has_in_kernel()) return false;
    while (!requests_.kernel.has_ended()) ring::pause();
    finish_transfers();
    return true;
  }
  bool has_left() noexcept override { return requests_.kernel.has_ended(); }
  void drop() noexcept override {
    if (!requests_.is_of_another()) (void)requests_.drop_all();
  }
  [[nodiscard]] bool is_ring() const noexcept override { return true; }
  [[nodiscard]] char const* name() const noexcept override { return "io_uring"; }

 private:
  // It refuses what no readiness can be asked of: most regular files, but not /proc/self/mounts, say; and a
  // number that another watch has, which a ring takes as often as it is given. Returns as add().
  [[nodiscard]] int as_epoll_sees(int fd, bool is_regular) noexcept {
    if (numbers_ < 0) numbers_ = sys::above_standard(sys::epoll_create(EPOLL_CLOEXEC));
    if (numbers_ < 0) return is_regular ? never_waits : 0;
    epoll_event event{};
    auto const r = static_cast<int>(sys::epoll_ctl(numbers_, EPOLL_CTL_ADD, fd, &event));
    return r == -EPERM ? never_waits : r;
  }

  /// Under the lock, as all that touches orders_.
  void order(foreign_watch& w) noexcept {
    if (std::exchange(foreign_access::is_waiting(w), true)) return;
    foreign_access::next_waiting(w) = std::exchange(orders_, &w);
    has_orders_.store(true, std::memory_order_seq_cst);
  }
  void withdraw(foreign_watch& w) noexcept {
    if (!std::exchange(foreign_access::is_waiting(w), false)) return;
    foreign_watch** at = &orders_;
    while (*at != &w) at = &foreign_access::next_waiting(**at);
    *at = foreign_access::next_waiting(w);
    has_orders_.store(orders_ != nullptr || transfers_.has_queued(), std::memory_order_relaxed);
  }

  // False: some are left.
  [[gnu::noinline]] bool submit_orders(foreign_event* events, std::size_t n, std::size_t& found) noexcept {
    std::scoped_lock const guard(lock_);
    if (!bell_is_armed_) bell_is_armed_ = requests_.watch(doorbell_fd_, foreign::readable, doorbell_tag);
    while (orders_ != nullptr) {
      foreign_watch& w = *orders_;
      for (unsigned const direction : {reads, writes, urgent}) {
        unsigned const mask = mask_of(direction, foreign_access::interest(w));
        if (mask == 0 || (foreign_access::armed(w) & bit_of(direction)) != 0) continue;
        if (!requests_.watch(foreign_access::fd(w), mask, foreign_tag::make(w, direction))) return false;
        foreign_access::armed(w) |= bit_of(direction);
      }
      if (foreign_access::reports(w) != 0) {
        if (found == n) return false;
        events[found++] = {&w, std::exchange(foreign_access::reports(w), std::uint8_t{0})};
      }
      orders_ = foreign_access::next_waiting(w);
      foreign_access::is_waiting(w) = false;
    }
    if (transfers_.has_queued()) {
      bound_kernel_threads();
      if (!transfers_.fill()) return false;
    }
    has_orders_.store(false, std::memory_order_relaxed);
    return bell_is_armed_;
  }

  void bound_kernel_threads() noexcept {
    if (std::exchange(has_bounded_, true)) return;
    constexpr unsigned as_they_are = 0;
    requests_.kernel.bound_workers(max_workers, as_they_are);
  }

  // Whether entering without waiting would bring something.
  [[nodiscard]] bool has_news() const noexcept {
    return requests_.kernel.has_overflown() || requests_.kernel.has_more();
  }

  void finish_transfers() noexcept {
    for (io_uring_cqe* c; (c = requests_.kernel.peek()) != nullptr; requests_.kernel.advance()) {
      foreign_transfer* const t = foreign_tag::find_transfer(c->user_data);
      if (t == nullptr) continue;
      std::int64_t result = c->res;
      ring_transfers::outcome const how = transfers_.ended(*t, result, c->flags);
      if (how == ring_transfers::outcome::again) set_place(*t, transfer_place::queued);
      if (how == ring_transfers::outcome::over) foreign_access::owner(*t)->finish_awake(*t, result);
    }
  }

  [[gnu::cold, gnu::noinline]] void take_back() noexcept {
    std::scoped_lock const guard(lock_);
    transfers_.take_back();
    has_orders_.store(true, std::memory_order_relaxed);
  }

  // Adds to the `found` that there are. Returns how many there are then.
  std::int64_t collect(foreign_event* events, std::size_t n, std::size_t found) noexcept {
    for (;;) {
      bool is_transfer = false;
      requests_.kernel.take_while([&](io_uring_cqe const& c) {
        std::uint64_t const tag = c.user_data;
        is_transfer = foreign_tag::is_of_transfer(tag);
        if (is_transfer || found == n) return false;
        bool const goes_on = (c.flags & IORING_CQE_F_MORE) != 0;
        if (foreign_watch* const w = foreign_tag::find(tag); w != nullptr) {
          int result = c.res;
          if (!goes_on) [[unlikely]]
            ended(*w, tag, result);
          int const doubts = announced | foreign_access::doubts(*w).load(std::memory_order_relaxed);
          if (result > 0 && (result & doubts) != 0) [[unlikely]]
            result = what_there_is(*w, result);
          if (result > 0) events[found++] = {w, static_cast<unsigned>(result), nullptr};
        } else if (tag == doorbell_tag && !goes_on) {
          bell_is_armed_ = false;
        }
        return true;
      });
      if (!is_transfer || found == n) [[likely]]
        return static_cast<std::int64_t>(found);
      found = collect_transfers(events, n, found);
    }
  }

  // The same, of those that follow each other.
  [[gnu::noinline]] std::size_t collect_transfers(foreign_event* events, std::size_t n,
                                                  std::size_t found) noexcept {
    std::scoped_lock const guard(lock_);
    for (io_uring_cqe* c; found != n && (c = requests_.kernel.peek()) != nullptr;
         requests_.kernel.advance()) {
      foreign_transfer* const t = foreign_tag::find_transfer(c->user_data);
      if (t == nullptr) break;
      std::int64_t result = c->res;
      switch (transfers_.ended(*t, result, c->flags)) {
        case ring_transfers::outcome::again:
          start(*t);
          break;
        case ring_transfers::outcome::given:
          break;
        case ring_transfers::outcome::over:
          events[found++] = foreign_access::owner(*t)->finish_reported(*t, result);
      }
    }
    return found;
  }

  // The kernel ended a request that was not dropped: its thread has ended, or memory was short.
  [[gnu::cold, gnu::noinline]] void ended(foreign_watch& w, std::uint64_t tag, int result) noexcept {
    std::scoped_lock const guard(lock_);
    if (foreign_tag::find(tag) != &w) return;
    foreign_access::armed(w) &= static_cast<std::uint8_t>(~bit_of(foreign_tag::extra(tag)));
    if (result >= 0 || result == -ECANCELED || result == -ENOMEM) return order(w);
    // It cannot be watched, because its number was closed without a word. Its waits are to see that.
    foreign_access::reports(w) = POLLERR;
    foreign_access::interest(w) = 0;
    order(w);
  }

  foreign_ring requests_;
  ring_transfers transfers_{requests_.kernel};
  foreign_lock& lock_;
  foreign_watch* orders_ = nullptr;
  std::atomic<bool> has_orders_{false};
  int doorbell_fd_;
  int numbers_ = -1;           // an epoll of the descriptors that are no sockets
  bool bell_is_armed_ = false; // of the thread that waits
  bool has_bounded_ = false;
};

} // namespace

result<std::unique_ptr<foreign_driver>> make_foreign_uring(int doorbell_fd, foreign_lock& lock) noexcept {
  std::unique_ptr<foreign_uring> made(new (std::nothrow) foreign_uring(doorbell_fd, lock));
  if (made == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  if (int const e = made->open(); e < 0) return detail::to_error_code(e);
  return made;
}

} // namespace unio::driver
