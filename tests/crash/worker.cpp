// worker.hpp's own.

#include "crash/worker.hpp"

#include <fcntl.h>
#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace crash {

namespace {

using namespace std::chrono_literals;

// Beyond these nothing is called slow; a machine may well take longer than a mutex.
constexpr auto try_may_take = 50ms;
constexpr auto deadline_may_be_missed_by = 250ms;
constexpr unsigned too_often = 3;

std::int64_t steady_ns() noexcept {
  timespec t;
  ::clock_gettime(CLOCK_MONOTONIC, &t);
  return std::int64_t{t.tv_sec} * 1'000'000'000 + t.tv_nsec;
}

long milliseconds(std::chrono::nanoseconds t) noexcept { return static_cast<long>(t / 1ms); }

} // namespace

sleep_clock::sleep_clock() : fd_(::open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC)) {}
sleep_clock::~sleep_clock() { ::close(fd_); }

// "time on a processor, time waiting for one, slices": Documentation/scheduler/sched-stats.rst
std::int64_t sleep_clock::read_starved() const noexcept {
  char text[64] = {};
  if (::pread(fd_, text, sizeof text - 1, 0) <= 0) return 0;
  char* rest = nullptr;
  (void)std::strtoll(text, &rest, 10);
  return std::strtoll(rest, nullptr, 10);
}

void sleep_clock::start() noexcept {
  starved_ns_ = read_starved();
  began_ns_ = steady_ns();
}
std::chrono::nanoseconds sleep_clock::elapsed() const noexcept {
  return std::chrono::nanoseconds(steady_ns() - began_ns_);
}
std::chrono::nanoseconds sleep_clock::starved() const noexcept {
  return std::chrono::nanoseconds(read_starved() - starved_ns_);
}

worker::~worker() {
  if (held_) give_back();
  oracle_.end(me_);
}

bool worker::open(std::string const& directory, unsigned user) {
  std::string why;
  mutex_ = algorithm_.open(directory, user, why);
  if (mutex_ == nullptr) oracle_.complain("error: open: %s", why.c_str());
  return mutex_ != nullptr;
}

bool worker::acquire(std::span<unio::fs::entity const> entities, how h, std::chrono::nanoseconds span) {
  using unio::condition;
  wanted_ = wanted::of(algorithm_, entities);
  oracle_.wants(me_, wanted_);
  unio::deadline d;
  if (h == how::tries) d = unio::deadline::zero();
  if (h != how::tries && span != 0ns) d = unio::deadline(span);
  if (h != how::waits) clock_.start();
  auto r = algorithm_.lock(*mutex_, entities, d, h == how::spins);
  // Once may be the disk's or the machine's mistake; a mutex that waits too long does so each time.
  if (is_timed_ && h == how::tries) {
    bool const is_slow =
        clock_.elapsed() > try_may_take && clock_.elapsed() - clock_.starved() > try_may_take;
    slow_tries_ = is_slow ? slow_tries_ + 1 : 0;
    if (slow_tries_ == too_often)
      oracle_.complain("try_lock waited: %ld ms, %ld of them for a processor", milliseconds(clock_.elapsed()),
                       milliseconds(clock_.starved()));
  }
  if (is_timed_ && h != how::tries && span != 0ns) {
    auto const took = clock_.elapsed();
    auto const most = span + deadline_may_be_missed_by;
    late_ = took > most && took - clock_.starved() > most ? late_ + 1 : 0;
    if (late_ == too_often)
      oracle_.complain("deadline of %ld ms missed: %ld ms, %ld of them for a processor", milliseconds(span),
                       milliseconds(took), milliseconds(clock_.starved()));
    if (!r && r.error() == condition::timed_out && took < span)
      oracle_.complain("timed out after %ld of %ld us", static_cast<long>(took / 1us),
                       static_cast<long>(span / 1us));
  }
  if (!r) {
    oracle_.wants_nothing(me_);
    bool const may_fail = h == how::tries ? r.error() == condition::would_block
                                          : span != 0ns && r.error() == condition::timed_out;
    if (may_fail) {
      ++oracle_.refusals;
    } else {
      oracle_.complain("error: lock: %s", r.error().message().c_str());
    }
    return false;
  }
  held_ = std::move(*r);
  oracle_.enter(me_, wanted_, held_.owner_died());
  return true;
}

void worker::give_back() {
  oracle_.leave(me_, wanted_);
  held_.unlock();
  oracle_.wants_nothing(me_);
}

} // namespace crash
