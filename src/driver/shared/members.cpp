#include "driver/shared/members.hpp"

#include "sys/calls.hpp"

#include <limits>
#include <mutex>
#include <new>
#include <utility>

namespace unio::inline v0_1::driver {
namespace {

constinit sys::process_lock living_mutex(sys::guarded::shared_multiplexers);
constinit members* living = nullptr;
constinit std::uint64_t last_number = 0;

} // namespace

struct members::entries {
  struct entry {
    last_found found;
    entry* next;
  };
  entry* first = nullptr;

  void add(entry& e) noexcept {
    e.next = first;
    first = &e;
    last = e.found;
  }
  void remove(std::uint64_t number) noexcept {
    for (entry** link = &first; *link != nullptr; link = &(*link)->next) {
      if ((*link)->found.number != number) continue;
      delete std::exchange(*link, (*link)->next);
      break;
    }
    last = {};
  }
  ~entries() {
    while (first != nullptr) { // what ends may use others
      last_found const ends = first->found;
      members* m = nullptr;
      {
        std::lock_guard const lock(living_mutex);
        for (m = living; m != nullptr && m->number_ != ends.number;) m = m->next_living_;
        // end_membership() waits until this has returned.
        if (m != nullptr) m->retiring_.fetch_add(1, std::memory_order_relaxed);
      }
      if (m != nullptr) {
        m->retire(*ends.mine);
        m->retiring_.fetch_sub(1, std::memory_order_release);
      }
      remove(ends.number);
    }
  }
};

members::entries& members::this_threads() noexcept {
  static thread_local entries e;
  return e;
}

members::members() noexcept {
  std::lock_guard const lock(living_mutex);
  number_ = ++last_number;
  next_living_ = std::exchange(living, this);
}

void members::end_membership() noexcept {
  {
    std::lock_guard const lock(living_mutex);
    members** link = &living;
    while (*link != this) link = &(*link)->next_living_;
    *link = next_living_;
  }
  while (retiring_.load(std::memory_order_acquire) != 0 && !inherited_by_fork()) sys::sched_yield();
}

void members::forget_unclaimed_in_all(int fd) noexcept {
  for (std::uint64_t number = std::numeric_limits<std::uint64_t>::max();;) { // the newest first
    members* m = nullptr;
    {
      std::lock_guard const lock(living_mutex);
      for (m = living; m != nullptr && (m->number_ >= number || m->inherited_by_fork());) m = m->next_living_;
      if (m == nullptr) return;
      number = m->number_;
      m->retiring_.fetch_add(1, std::memory_order_relaxed);
    }
    m->forget_unclaimed(fd);
    m->retiring_.fetch_sub(1, std::memory_order_release);
  }
}

bool members::join(slot& s) noexcept {
  auto* const e = new (std::nothrow) entries::entry{{number_, &s}, nullptr};
  if (e != nullptr) this_threads().add(*e);
  return e != nullptr;
}

void members::leave() noexcept { this_threads().remove(number_); }

slot* members::look_for_mine() const noexcept {
  last = {number_, nullptr};
  for (entries::entry const* e = this_threads().first; e != nullptr; e = e->next)
    if (e->found.number == number_) last = e->found;
  return last.mine;
}

} // namespace unio::driver
