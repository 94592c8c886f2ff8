#include "driver/foreign/transfers.hpp"

#include "driver/choose.hpp"
#include "driver/foreign/perform.hpp"
#include "driver/workers.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/give_way.hpp"

#include <linux/futex.h>

#include <cerrno>

namespace unio::inline v0_1::driver {
namespace {

transfer_place place_of(foreign_transfer& t) noexcept {
  return static_cast<transfer_place>(foreign_access::place(t).load(std::memory_order_acquire));
}
std::uint32_t* word_of(foreign_transfer& t) noexcept {
  return reinterpret_cast<std::uint32_t*>(&foreign_access::place(t));
}

// Its link in the list of those that wait for the same watch.
foreign_transfer** find_in(foreign_watch& w, foreign_transfer& t) noexcept {
  foreign_transfer** at = &foreign_access::transfers(w);
  while (*at != &t) at = &foreign_access::next_queued(**at);
  return at;
}

} // namespace

void foreign_sleeper::wake() noexcept {
  std::uint64_t const one = 1;
  (void)sys::write(doorbell, &one, sizeof one);
}

// The last worker may have reported and not left yet.
foreign_transfers::~foreign_transfers() {
  sys::await_other([this] { return lent_.load(std::memory_order_acquire) == 0; });
}

bool foreign_transfers::make_at_once(foreign_transfer& t) noexcept {
  std::int64_t const r = read_cached(t);
  if (r == -EAGAIN) return false;
  foreign_access::result(t) = r;
  return true;
}

bool foreign_transfers::begin(foreign_transfer& t, foreign_driver& d) noexcept {
  foreign_access::owner(t) = this;
  foreign_access::is_cancelled(t) = false;
  add(t);
  if (!d.makes_transfers()) return to_worker(t);
  d.start(t);
  return true;
}

int foreign_transfers::wait(foreign_transfer& t, foreign_driver& d) noexcept {
  foreign_watch& w = *foreign_access::watch(t);
  unsigned const wanted = readiness_of(t);
  unsigned const had = foreign_access::interest(w);
  if (unsigned const news = wanted & ~had; news != 0) {
    foreign_access::interest(w) = static_cast<std::uint8_t>(had | news);
    if (int const e = d.arm(w, news, news); e < 0) {
      foreign_access::interest(w) = static_cast<std::uint8_t>(had);
      return e;
    }
  }
  foreign_access::unready(w).fetch_or(static_cast<std::uint8_t>(wanted), std::memory_order_relaxed);
  foreign_access::owner(t) = this;
  foreign_access::is_cancelled(t) = false;
  foreign_access::next_queued(t) = nullptr;
  set_place(t, transfer_place::waiting);
  add(t);
  foreign_transfer** end = &foreign_access::transfers(w);
  while (*end != nullptr) end = &foreign_access::next_queued(**end);
  *end = &t;
  return 0;
}

void foreign_transfers::ready(foreign_watch& w, unsigned what) noexcept {
  if ((what & (foreign::exceptional | foreign_peer_ended)) != 0) [[unlikely]]
    has_had_more(w);
  if ((what & foreign::failed) != 0) what |= foreign::readable | foreign::exceptional | foreign::writable;
  std::atomic<std::uint8_t>& unready = foreign_access::unready(w);
  unready.fetch_and(static_cast<std::uint8_t>(~what), std::memory_order_relaxed);
  // Release: pairs with the acquire of who makes a call outside of the lock.
  foreign_access::changes(w).fetch_add(1, std::memory_order_release);
  for (foreign_transfer** at = &foreign_access::transfers(w); *at != nullptr;) {
    foreign_transfer& t = **at;
    unsigned const wanted = readiness_of(t);
    std::int64_t r = -EAGAIN;
    if ((wanted & what & ~unready.load(std::memory_order_relaxed)) != 0) {
      r = perform_unwaiting(t);
      if (r == -EAGAIN || has_emptied(t, r))
        unready.fetch_or(static_cast<std::uint8_t>(wanted), std::memory_order_relaxed);
    }
    if (r == -EAGAIN) {
      at = &foreign_access::next_queued(t);
    } else {
      *at = foreign_access::next_queued(t);
      finish_awake(t, r);
    }
  }
}

void foreign_transfers::withdraw(foreign_watch& w) noexcept {
  for (foreign_transfer* t = foreign_access::transfers(w); t != nullptr; t = foreign_access::next_queued(*t))
    set_place(*t, transfer_place::queued);
  foreign_access::transfers(w) = nullptr;
}

bool foreign_transfers::cancel(foreign_transfer& t, foreign_driver& d) noexcept {
  foreign_access::is_cancelled(t) = true;
  switch (place_of(t)) {
    case transfer_place::waiting:
      *find_in(*foreign_access::watch(t), t) = foreign_access::next_queued(t);
      finish(t, -ECANCELED);
      return true;
    case transfer_place::queued:
    case transfer_place::in_kernel:
      if (d.cancel(t)) finish(t, -ECANCELED);
      return true;
    case transfer_place::with_worker:
    case transfer_place::awaited:
      if (!take_from_workers(t)) return false;
      finish(t, -ECANCELED);
      lent_.fetch_sub(1, std::memory_order_relaxed);
      return true;
    default:
      return true;
  }
}

bool foreign_transfers::is_to_begin_again(foreign_transfer& t, foreign_driver& d) noexcept {
  transfer_place const place = place_of(t);
  if (place == transfer_place::in_kernel) { // of a ring that was given up, and that could not keep results
    finish(t, -ENOTRECOVERABLE);
    return false;
  }
  if (place != transfer_place::queued) return false;
  if (foreign_access::is_cancelled(t)) {
    finish(t, -ECANCELED);
  } else if (d.makes_transfers()) {
    d.start(t);
  } else if (foreign_access::watch(t) == nullptr) {
    give_or_make(t);
  } else {
    return true;
  }
  return false;
}

// A watch that was added just now reports what it is ready for.
void foreign_transfers::wait_again(foreign_transfer& t, foreign_driver& d, int added) noexcept {
  if (added >= 0 && !foreign_access::watch(t)->can_wait()) {
    if (is_of_file(t)) return give_or_make(t);
    return finish(t, perform_unwaiting(t));
  }
  remove(t);
  int const e = added < 0 ? added : wait(t, d);
  if (e == 0) return;
  add(t);
  finish(t, e);
}

// What a worker was about to bring is not in the inbox, whatever its place says.
void foreign_transfers::leave_parent() noexcept {
  collect();
  for (foreign_transfer* t = first_; t != nullptr; t = foreign_access::next(*t))
    set_place(*t, transfer_place::queued);
  for (foreign_transfer* t = reports_; t != nullptr; t = foreign_access::next_queued(*t))
    set_place(*t, transfer_place::over);
  lent_.store(0, std::memory_order_relaxed);
}

void foreign_transfers::cancel_all(foreign_driver& d) noexcept {
  for (foreign_transfer* t = first_; t != nullptr; t = foreign_access::next(*t)) (void)cancel(*t, d);
}

std::size_t foreign_transfers::report(foreign_event* events, std::size_t n) noexcept {
  collect();
  std::size_t found = 0;
  while (found != n && reports_ != nullptr) {
    foreign_transfer& t = *reports_;
    reports_ = foreign_access::next_queued(t);
    remove(t);
    set_place(t, transfer_place::idle);
    events[found++] = {nullptr, 0, &t};
  }
  return found;
}

void foreign_transfers::finish_awake(foreign_transfer& t, std::int64_t result) noexcept {
  foreign_access::result(t) = result;
  // Release: pairs with the acquire in place_of(), by which settle() sees that the call has ended.
  std::uint32_t const was = foreign_access::place(t).exchange(
      static_cast<std::uint32_t>(transfer_place::over), std::memory_order_acq_rel);
  if (was == static_cast<std::uint32_t>(transfer_place::awaited)) [[unlikely]]
    sys::past_tests::futex(word_of(t), FUTEX_WAKE_PRIVATE, 1, nullptr);
  over_.push(t);
}

foreign_event foreign_transfers::finish_reported(foreign_transfer& t, std::int64_t result) noexcept {
  foreign_access::result(t) = result;
  remove(t);
  set_place(t, transfer_place::idle);
  return {nullptr, 0, &t};
}

void foreign_transfers::make_now(foreign_transfer& t) noexcept {
  foreign_transfers& owner = *foreign_access::owner(t);
  owner.finish(t, perform_on_file(t, 0));
  owner.lent_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in the destructor
}

void foreign_transfers::settle(foreign_transfer& t) noexcept {
  for (;;) {
    auto is = static_cast<std::uint32_t>(transfer_place::with_worker);
    auto const awaited = static_cast<std::uint32_t>(transfer_place::awaited);
    if (!foreign_access::place(t).compare_exchange_strong(is, awaited, std::memory_order_acq_rel) &&
        is != awaited)
      return;
    sys::past_tests::futex(word_of(t), FUTEX_WAIT_BITSET_PRIVATE, awaited, nullptr);
  }
}

void foreign_transfers::add(foreign_transfer& t) noexcept {
  foreign_access::previous(t) = nullptr;
  foreign_access::next(t) = first_;
  if (first_ != nullptr) foreign_access::previous(*first_) = &t;
  first_ = &t;
}
void foreign_transfers::remove(foreign_transfer& t) noexcept {
  foreign_transfer* const next = foreign_access::next(t);
  foreign_transfer* const previous = foreign_access::previous(t);
  (previous != nullptr ? foreign_access::next(*previous) : first_) = next;
  if (next != nullptr) foreign_access::previous(*next) = previous;
}

bool foreign_transfers::to_worker(foreign_transfer& t) noexcept {
  set_place(t, transfer_place::with_worker);
  lent_.fetch_add(1, std::memory_order_relaxed);
  // A simulated file has no call that takes long, and its threads are no others.
  return simulated_backend == nullptr && give_to_worker(t);
}

void foreign_transfers::collect() noexcept {
  foreign_transfer* const more = over_.take();
  foreign_transfer** end = &reports_;
  while (*end != nullptr) end = &foreign_access::next_queued(**end);
  *end = more;
}

} // namespace unio::driver
