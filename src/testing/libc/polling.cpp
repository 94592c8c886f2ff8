// poll, select and epoll over what the world says of its descriptors.

#include "testing/libc/entry.hpp"

#include <poll.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/sysmacros.h>

#include <algorithm>
#include <csignal>
#include <ctime>

namespace unio::inline v0_1::testing::libc {

// What epoll(7) keeps for each number that was added.
struct registration {
  std::weak_ptr<open_file> file;
  int fd = -1;
  std::uint32_t events = 0;
  epoll_data_t data{};
  bool is_armed = true;
  // EPOLLET: what was told, and of what.
  std::uint32_t told = 0;
  std::uint64_t edges = 0;
  std::uint64_t blocked_reads = 0;
  std::uint64_t blocked_writes = 0;
};

struct epoll_set {
  std::vector<registration> all;
};

namespace {

constexpr std::uint32_t incoming = EPOLLIN | EPOLLPRI | EPOLLRDNORM | EPOLLRDBAND | EPOLLRDHUP;
constexpr std::uint32_t always = EPOLLERR | EPOLLHUP;
constexpr std::uint32_t with_exclusive =
    EPOLLIN | EPOLLOUT | EPOLLWAKEUP | EPOLLET | EPOLLEXCLUSIVE | always; // epoll_ctl(2)
constexpr int most_nested = 5;

static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR && EPOLLHUP == POLLHUP &&
              EPOLLRDHUP == POLLRDHUP);

bool is_span(timespec const* t) noexcept {
  return t == nullptr || (t->tv_sec >= 0 && t->tv_nsec >= 0 && t->tv_nsec < second);
}
std::int64_t of_ns(timespec const* t) noexcept { return t == nullptr ? -1 : to_ns(*t); }
std::int64_t of_ms(int ms) noexcept { return ms < 0 ? -1 : std::int64_t{ms} * 1'000'000; }

std::uint64_t edges_of(open_file const& f) noexcept {
  if (f.in_world >= 0) return answering_world()->edges(f.in_world);
  std::uint64_t all = 0;
  if (f.epoll == nullptr) return all;
  for (registration const& r : f.epoll->all)
    if (file_pointer const of = r.file.lock(); of != nullptr) all += edges_of(*of);
  return all;
}

// What of a registration is to be told now.
std::uint32_t news_of(registration& r) noexcept {
  file_pointer const f = r.file.lock();
  if (f == nullptr || !r.is_armed) return 0;
  std::uint32_t const ready = static_cast<std::uint16_t>(events_of(*f)) & (r.events | always);
  if ((r.events & EPOLLET) == 0) return ready;
  std::uint64_t const edges = edges_of(*f);
  r.told &= ready;
  if (edges >> 48 != r.edges >> 48) r.told = 0;
  if (edges != r.edges || f->blocked_reads != r.blocked_reads) r.told &= ~(incoming | always);
  if (f->blocked_writes != r.blocked_writes) r.told &= ~std::uint32_t{EPOLLOUT};
  return (ready & ~r.told) != 0 ? ready : 0;
}

void was_told(registration& r, std::uint32_t events) noexcept {
  if ((r.events & EPOLLONESHOT) != 0) r.is_armed = false;
  file_pointer const f = r.file.lock();
  if (f == nullptr || (r.events & EPOLLET) == 0) return;
  r.told |= events;
  r.edges = edges_of(*f);
  r.blocked_reads = f->blocked_reads;
  r.blocked_writes = f->blocked_writes;
}

bool has_news(epoll_set& s) noexcept {
  std::erase_if(s.all, [](registration const& r) { return r.file.expired(); });
  return std::ranges::any_of(s.all, [](registration& r) { return news_of(r) != 0; });
}

// What a thread waits for, for the report of a deadlock.
class waiting_text {
 public:
  explicit waiting_text(std::string text) : text_(std::move(text)) {
    if (simulated_threads != nullptr) simulated_threads->waits_in(text_.c_str());
  }
  waiting_text(waiting_text const&) = delete;
  waiting_text& operator=(waiting_text const&) = delete;
  ~waiting_text() {
    if (simulated_threads != nullptr) simulated_threads->waits_in(nullptr);
  }

 private:
  std::string text_;
};

std::string in_words(int events) {
  std::string text;
  if ((events & POLLIN) != 0) text += " to read";
  if ((events & POLLOUT) != 0) text += text.empty() ? " to write" : " or write";
  return text.empty() ? " to end" : text;
}

std::string in_words(int fd, open_file const& f, int events) {
  std::string const name = f.in_world >= 0 ? answering_world()->name_for_people(f.in_world) : "an epoll";
  return std::to_string(fd) + in_words(events) + " (" + name + ")";
}

std::string called() { return current_call.name != nullptr ? current_call.name : "a call"; }

// Sleeps until ready() says how many are; a program without an event to come is at an end.
template <class Ready> std::int64_t sleep_until_ready(std::int64_t timeout_ns, Ready ready) noexcept {
  alone const inside;
  return answering_world()->poll(timeout_ns, ready);
}

// A signal that was blocked, and is not while a call waits: its handler runs, and the call ends.
class signal_mask {
 public:
  explicit signal_mask(sigset_t const* mask) noexcept : is_set_(mask != nullptr) {
    if (!is_set_) return;
    sigset_t pending;
    (void)sigpending(&pending);
    for (int s = 1; s < NSIG; ++s)
      interrupts_ = interrupts_ || (sigismember(&pending, s) == 1 && sigismember(mask, s) == 0);
    (void)pthread_sigmask(SIG_SETMASK, mask, &before_);
  }
  signal_mask(signal_mask const&) = delete;
  signal_mask& operator=(signal_mask const&) = delete;
  ~signal_mask() {
    if (is_set_) (void)pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  [[nodiscard]] bool interrupts() const noexcept { return interrupts_; }

 private:
  bool is_set_;
  bool interrupts_ = false;
  sigset_t before_{};
};

} // namespace

short events_of(open_file const& f) noexcept {
  if (f.epoll != nullptr) return has_news(*f.epoll) ? POLLIN | POLLRDNORM : 0;
  return answering_world()->poll_events(f.in_world);
}

std::int64_t wait_for(open_file const& f, int fd, short events, std::int64_t timeout_ns) noexcept {
  waiting_text const text(called() + " on " + in_words(fd, f, events));
  return sleep_until_ready(timeout_ns, [&]() noexcept -> std::int64_t {
    return (events_of(f) & (events | POLLERR | POLLHUP | POLLNVAL)) != 0 ? 1 : 0;
  });
}

namespace {

std::int64_t poll_now(pollfd* fds, nfds_t n, std::vector<file_pointer> const& files) noexcept {
  std::int64_t ready = 0;
  for (nfds_t i = 0; i != n; ++i) {
    pollfd& p = fds[i];
    p.revents = 0;
    if (files[i] != nullptr) {
      p.revents = static_cast<short>(events_of(*files[i]) & (p.events | POLLERR | POLLHUP | POLLNVAL));
    } else if (p.fd >= 0) {
      timespec now{};
      if (raw(SYS_ppoll, &p, 1U, &now, nullptr, 8UL) < 0) p.revents = POLLERR;
    }
    if (p.revents != 0) ++ready;
  }
  return ready;
}

std::int64_t poll_all(pollfd* fds, nfds_t n, std::int64_t timeout_ns, sigset_t const* mask) noexcept {
  rlimit most{};
  (void)::getrlimit(RLIMIT_NOFILE, &most);
  if (n > most.rlim_cur) return -EINVAL;
  std::vector<file_pointer> files(n);
  std::vector<nfds_t> may_fail;
  std::string words = called();
  for (nfds_t i = 0; i != n; ++i) {
    files[i] = fds[i].fd >= 0 ? find_file(fds[i].fd) : nullptr;
    if (files[i] == nullptr) continue;
    words +=
        (words.find(" on ") == words.npos ? " on " : ", ") + in_words(fds[i].fd, *files[i], fds[i].events);
    if (files[i]->is_nonblocking && fds[i].events != 0) may_fail.push_back(i);
  }
  signal_mask const signals(mask);
  if (signals.interrupts()) return -EINTR;
  waiting_text const text(std::move(words));
  // What is reported ready may not be (select(2)). A program that blocks then would be none that can help it.
  world& w = *answering_world();
  bool wakes_for_nothing = false;
  nfds_t which = 0;
  if (timeout_ns != 0 && !may_fail.empty() && w.options.spurious_wakeups) {
    alone const inside;
    wakes_for_nothing = w.random.one_in(8);
    which = may_fail[w.random.below(may_fail.size())];
  }
  return sleep_until_ready(timeout_ns, [&]() noexcept -> std::int64_t {
    std::int64_t const ready = poll_now(fds, n, files);
    if (ready != 0 || !wakes_for_nothing) return ready;
    fds[which].revents = static_cast<short>(fds[which].events & (POLLIN | POLLOUT));
    if (on_story != nullptr)
      on_story(("reports " + std::to_string(fds[which].fd) + " ready, which is not").c_str());
    return fds[which].revents != 0 ? 1 : 0;
  });
}

std::int64_t select_all(int n, fd_set* in, fd_set* out, fd_set* other, std::int64_t timeout_ns,
                        sigset_t const* mask) noexcept {
  if (n < 0 || n > FD_SETSIZE) return -EINVAL;
  std::vector<pollfd> fds;
  auto const is_in = [](fd_set const* s, int fd) { return s != nullptr && FD_ISSET(fd, s); };
  for (int fd = 0; fd != n; ++fd) {
    int const events =
        (is_in(in, fd) ? POLLIN : 0) | (is_in(out, fd) ? POLLOUT : 0) | (is_in(other, fd) ? POLLPRI : 0);
    if (events == 0) continue;
    if (find_file(fd) == nullptr && raw(SYS_fcntl, fd, 1, 0) < 0) return -EBADF;
    fds.push_back({.fd = fd, .events = static_cast<short>(events), .revents = 0});
  }
  std::int64_t const r = poll_all(fds.data(), fds.size(), timeout_ns, mask);
  if (r < 0) return r;
  for (fd_set* const s : {in, out, other})
    if (s != nullptr) FD_ZERO(s);
  int count = 0;
  auto const tell = [&](pollfd const& p, fd_set* s, int asked, int told) {
    if (s == nullptr || (p.events & asked) == 0 || (p.revents & told) == 0) return;
    FD_SET(p.fd, s);
    ++count;
  };
  for (pollfd const& p : fds) {
    tell(p, in, POLLIN, POLLIN | POLLHUP | POLLERR);
    tell(p, out, POLLOUT, POLLOUT | POLLERR);
    tell(p, other, POLLPRI, POLLPRI);
  }
  return count;
}

// A regular file, a directory, /dev/null: epoll(7) does not watch them.
bool is_never_watched(int fd) noexcept {
  struct stat s{};
  if (raw(SYS_fstat, fd, &s) < 0) return false;
  return S_ISREG(s.st_mode) || S_ISDIR(s.st_mode) || (S_ISCHR(s.st_mode) && s.st_rdev == ::makedev(1, 3));
}

// How many lie in each other from this one on; negative: `s` is among them.
int depth_to(epoll_set const& from, epoll_set const& s) noexcept {
  if (&from == &s) return -1;
  int deepest = 0;
  for (registration const& r : from.all) {
    file_pointer const f = r.file.lock();
    int const below = f != nullptr && f->epoll != nullptr ? depth_to(*f->epoll, s) : 0;
    if (below < 0) return below;
    deepest = std::max(deepest, below);
  }
  return deepest + 1;
}

std::int64_t refuse_real(int fd) noexcept {
  return raw(SYS_fcntl, fd, 1, 0) < 0 ? -EBADF : refuse("epoll_ctl(2) with a real descriptor");
}

std::int64_t epoll_change(epoll_set& s, int op, int fd, epoll_event const* e) noexcept {
  file_pointer const f = find_file(fd);
  if (f == nullptr) return is_never_watched(fd) ? -EPERM : refuse_real(fd);
  bool const is_exclusive = op != EPOLL_CTL_DEL && (e->events & EPOLLEXCLUSIVE) != 0;
  if (is_exclusive && (op == EPOLL_CTL_MOD || f->epoll != nullptr || (e->events & ~with_exclusive) != 0))
    return -EINVAL;
  if (f->epoll.get() == &s) return -EINVAL;
  std::erase_if(s.all, [](registration const& r) { return r.file.expired(); });
  auto const known =
      std::ranges::find_if(s.all, [&](registration const& r) { return r.fd == fd && r.file.lock() == f; });
  if (op == EPOLL_CTL_DEL) {
    if (known == s.all.end()) return -ENOENT;
    s.all.erase(known);
    return 0;
  }
  if (f->in_world >= 0) {
    struct stat st{};
    if (sys::fstat(f->in_world, &st) == 0 && (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))) return -EPERM;
  }
  if (op == EPOLL_CTL_ADD) {
    if (known != s.all.end()) return -EEXIST;
    if (f->epoll != nullptr && (depth_to(*f->epoll, s) < 0 || depth_to(*f->epoll, s) >= most_nested))
      return -ELOOP;
    registration r;
    r.file = f;
    r.fd = fd;
    r.events = e->events;
    r.data = e->data;
    s.all.push_back(r);
  } else if (op == EPOLL_CTL_MOD) {
    if (known == s.all.end()) return -ENOENT;
    if ((known->events & EPOLLEXCLUSIVE) != 0) return -EINVAL;
    known->events = e->events;
    known->data = e->data;
    known->is_armed = true;
    known->told = 0;
  } else {
    return -EINVAL;
  }
  if (simulated_threads != nullptr) simulated_threads->changed(); // who waits there looks again
  return 0;
}

std::int64_t epoll_look(epoll_set& s, epoll_event* events, int n, std::size_t start) noexcept {
  std::erase_if(s.all, [](registration const& r) { return r.file.expired(); });
  int found = 0;
  std::size_t const size = s.all.size();
  std::size_t next = start;
  for (std::size_t i = 0; i != size && found != n; ++i) {
    next = (start + i) % size;
    registration& r = s.all[next];
    std::uint32_t const news = news_of(r);
    if (news == 0) continue;
    events[found].events = news;
    events[found].data = r.data;
    ++found;
    was_told(r, news);
  }
  // What was told comes last from now on: a call with little room starves none (epoll_wait(2)).
  if (found == n && size > 1)
    std::ranges::rotate(s.all, s.all.begin() + static_cast<std::ptrdiff_t>((next + 1) % size));
  return found;
}

std::int64_t epoll_sleep(open_file& f, epoll_event* events, int n, std::int64_t timeout_ns,
                         sigset_t const* mask) noexcept {
  if (f.epoll == nullptr || n <= 0) return -EINVAL;
  std::shared_ptr<epoll_set> const s = f.epoll;
  signal_mask const signals(mask);
  if (signals.interrupts()) return -EINTR;
  std::string words = called() + " on";
  for (registration const& r : s->all)
    if (file_pointer const of = r.file.lock(); of != nullptr && r.is_armed)
      words += (words.ends_with(" on") ? " " : ", ") + in_words(r.fd, *of, static_cast<int>(r.events));
  if (words.ends_with(" on")) words += " nothing";
  waiting_text const text(std::move(words));
  world& w = *answering_world();
  std::size_t start = 0;
  if (w.options.reorder && s->all.size() > 1) {
    alone const inside;
    start = w.random.below(s->all.size());
  }
  return sleep_until_ready(timeout_ns, [&]() noexcept { return epoll_look(*s, events, n, start); });
}

} // namespace

// ---- what takes the place of the C library's

UNIO_IN_PLACE(int, poll, (pollfd * fds, nfds_t n, int timeout)) {
  entry const e("poll(2)", UNIO_CALLER);
  if (!e.simulates()) {
    timespec t{.tv_sec = timeout / 1000, .tv_nsec = timeout % 1000 * 1'000'000};
    return answer<int>(raw(SYS_ppoll, fds, n, timeout < 0 ? nullptr : &t, nullptr, 8UL));
  }
  return answer<int>(poll_all(fds, n, of_ms(timeout), nullptr));
}
UNIO_ALSO(int, __poll_chk, (pollfd * fds, nfds_t n, int timeout, std::size_t), poll, (fds, n, timeout))

UNIO_IN_PLACE(int, ppoll, (pollfd * fds, nfds_t n, timespec const* timeout, sigset_t const* mask)) {
  entry const e("ppoll(2)", UNIO_CALLER);
  if (!e.simulates()) {
    timespec t = timeout != nullptr ? *timeout : timespec{};
    return answer<int>(raw(SYS_ppoll, fds, n, timeout == nullptr ? nullptr : &t, mask, 8UL));
  }
  return answer<int>(is_span(timeout) ? poll_all(fds, n, of_ns(timeout), mask) : -EINVAL);
}
UNIO_ALSO(int, __ppoll_chk,
          (pollfd * fds, nfds_t n, timespec const* timeout, sigset_t const* mask, std::size_t), ppoll,
          (fds, n, timeout, mask))

UNIO_IN_PLACE(int, pselect,
              (int n, fd_set* in, fd_set* out, fd_set* other, timespec const* timeout,
               sigset_t const* mask)) {
  entry const e("pselect(2)", UNIO_CALLER);
  if (!e.simulates()) {
    struct {
      sigset_t const* mask;
      std::size_t size;
    } const signals{mask, 8};
    timespec t = timeout != nullptr ? *timeout : timespec{};
    return answer<int>(raw(SYS_pselect6, n, in, out, other, timeout == nullptr ? nullptr : &t, &signals));
  }
  return answer<int>(is_span(timeout) ? select_all(n, in, out, other, of_ns(timeout), mask) : -EINVAL);
}

UNIO_IN_PLACE(int, select, (int n, fd_set* in, fd_set* out, fd_set* other, timeval* timeout)) {
  entry const e("select(2)", UNIO_CALLER);
  timespec t{};
  if (timeout != nullptr && (timeout->tv_sec < 0 || timeout->tv_usec < 0)) return answer<int>(-EINVAL);
  if (timeout != nullptr) // of a whole second and more microseconds, too
    t = {.tv_sec = timeout->tv_sec + timeout->tv_usec / 1'000'000,
         .tv_nsec = timeout->tv_usec % 1'000'000 * 1000};
  std::int64_t r = 0;
  if (!e.simulates()) {
    r = raw(SYS_pselect6, n, in, out, other, timeout == nullptr ? nullptr : &t, nullptr);
  } else {
    std::int64_t const begin = answering_world()->now();
    r = select_all(n, in, out, other, timeout == nullptr ? -1 : to_ns(t), nullptr);
    std::int64_t const left = std::max<std::int64_t>(0, to_ns(t) - (answering_world()->now() - begin));
    t = {.tv_sec = left / second, .tv_nsec = left % second};
  }
  if (timeout != nullptr) *timeout = {.tv_sec = t.tv_sec, .tv_usec = t.tv_nsec / 1000}; // select(2), VERSIONS
  return answer<int>(r);
}

UNIO_IN_PLACE(int, epoll_create1, (int flags)) {
  entry const e("epoll_create1(2)", UNIO_CALLER);
  if (!e.simulates()) return answer<int>(raw(SYS_epoll_create1, flags));
  if ((flags & ~EPOLL_CLOEXEC) != 0) return answer<int>(-EINVAL);
  auto f = std::make_shared<open_file>();
  f->epoll = std::make_shared<epoll_set>();
  return answer<int>(add_file(std::move(f), (flags & EPOLL_CLOEXEC) != 0));
}
UNIO_IN_PLACE(int, epoll_create, (int size)) {
  return size <= 0 ? answer<int>(-EINVAL) : in_place_of_epoll_create1(0);
}

UNIO_IN_PLACE(int, epoll_ctl, (int epoll, int op, int fd, epoll_event* event)) {
  entry const e("epoll_ctl(2)", UNIO_CALLER);
  file_pointer const f = e.file(epoll);
  if (f == nullptr) return answer<int>(raw(SYS_epoll_ctl, epoll, op, fd, event));
  return answer<int>(f->epoll == nullptr ? -EINVAL : epoll_change(*f->epoll, op, fd, event));
}

UNIO_IN_PLACE(int, epoll_pwait, (int epoll, epoll_event* events, int n, int timeout, sigset_t const* mask)) {
  entry const e("epoll_wait(2)", UNIO_CALLER);
  file_pointer const f = e.file(epoll);
  if (f == nullptr) return answer<int>(raw(SYS_epoll_pwait, epoll, events, n, timeout, mask, 8UL));
  return answer<int>(epoll_sleep(*f, events, n, of_ms(timeout), mask));
}
UNIO_ALSO(int, epoll_wait, (int epoll, epoll_event* events, int n, int timeout), epoll_pwait,
          (epoll, events, n, timeout, nullptr))

UNIO_IN_PLACE(int, epoll_pwait2,
              (int epoll, epoll_event* events, int n, timespec const* timeout, sigset_t const* mask)) {
  entry const e("epoll_pwait2(2)", UNIO_CALLER);
  file_pointer const f = e.file(epoll);
  if (f == nullptr) return answer<int>(raw(SYS_epoll_pwait2, epoll, events, n, timeout, mask, 8UL));
  return answer<int>(is_span(timeout) ? epoll_sleep(*f, events, n, of_ns(timeout), mask) : -EINVAL);
}

} // namespace unio::testing::libc
