#include "driver/shared/members.hpp"

#include "driver/registry.hpp"
#include "sys/calls.hpp"
#include "sys/give_way.hpp"

#include <pthread.h>

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

// Which multiplexers a thread runs. Objects of the thread that are destroyed after this has ended them may
// run one again: then the thread's last act ends it (pthread_key_create(3)). So this is never destroyed.
struct members::entries {
  struct entry {
    last_found found;
    entry* next;
  };
  struct ender {
    bool is_made = false;
    ~ender();
  };
  entry* first = nullptr;
  bool have_ended = false;

  void add(entry& e) noexcept;
  void remove(std::uint64_t number) noexcept {
    for (entry** link = &first; *link != nullptr; link = &(*link)->next) {
      if ((*link)->found.number != number) continue;
      delete std::exchange(*link, (*link)->next);
      break;
    }
    last = {};
  }
  void end_all() noexcept {
    have_ended = true;
    while (first != nullptr) { // what ends may use others
      last_found const ends = first->found;
      members* m = nullptr;
      {
        std::lock_guard const lock(living_mutex);
        for (m = living; m != nullptr && m->number_ != ends.number;) m = m->next_living_;
        // end_membership() waits until this has returned.
        if (m != nullptr) m->retiring_.fetch_add(1, std::memory_order_relaxed);
      }
      if (m == nullptr) {
        remove(ends.number);
        continue;
      }
      m->retire(*ends.mine);
      m->let_end();
    }
  }
  static void end_late(void* all) noexcept { static_cast<entries*>(all)->end_all(); }
};

members::entries& members::this_threads() noexcept {
  static constinit thread_local entries e;
  return e;
}

members::entries::ender::~ender() { this_threads().end_all(); }

namespace {
constinit pthread_key_t at_the_very_end{};
constinit bool has_very_end = false;
} // namespace

void members::begin() noexcept {
  has_very_end = pthread_key_create(&at_the_very_end, &entries::end_late) == 0;
  registry::forget_unclaimed = &forget_unclaimed_in_all;
}

void members::entries::add(entry& e) noexcept {
  static thread_local ender at_end;
  if (!have_ended) {
    at_end.is_made = true;
  } else if (has_very_end) {
    (void)pthread_setspecific(at_the_very_end, this);
  }
  e.next = first;
  first = &e;
  last = e.found;
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
  sys::await_other([this] { return retiring_.load(std::memory_order_acquire) == 0 || inherited_by_fork(); });
}

// The newest that is older than that of the number, kept from ending until let_end(); or null.
members* members::keep_older_than(std::uint64_t number) noexcept {
  std::lock_guard const lock(living_mutex);
  members* m = living;
  while (m != nullptr && (m->number_ >= number || m->inherited_by_fork())) m = m->next_living_;
  if (m != nullptr) m->retiring_.fetch_add(1, std::memory_order_relaxed);
  return m;
}

void members::let_end() noexcept { retiring_.fetch_sub(1, std::memory_order_release); }

void members::forget_unclaimed_in_all(int fd) noexcept {
  for (std::uint64_t number = std::numeric_limits<std::uint64_t>::max();;) {
    members* const m = keep_older_than(number);
    if (m == nullptr) return;
    number = m->number_;
    m->forget_unclaimed(fd);
    m->let_end();
  }
}

void members::for_each_unclaimed(void (*f)(unclaimed_operations&, void* context), void* context) {
  struct kept {
    members* m;
    ~kept() { m->let_end(); }
  };
  for (std::uint64_t number = std::numeric_limits<std::uint64_t>::max();;) {
    members* const m = keep_older_than(number);
    if (m == nullptr) return;
    kept const until_done{m};
    number = m->number_;
    f(m->unclaimed_here(), context);
  }
}

bool members::join(slot& s) noexcept {
  auto* const e = new (std::nothrow) entries::entry{{number_, &s}, nullptr};
  if (e != nullptr) this_threads().add(*e);
  return e != nullptr;
}

void members::leave() noexcept { this_threads().remove(number_); }

namespace {
[[gnu::constructor(101)]] void begin() noexcept { members::begin(); }
} // namespace

slot* members::look_for_mine() const noexcept {
  last = {number_, nullptr};
  for (entries::entry const* e = this_threads().first; e != nullptr; e = e->next)
    if (e->found.number == number_) last = e->found;
  return last.mine;
}

} // namespace unio::driver
