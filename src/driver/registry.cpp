#include "driver/registry.hpp"

#include "driver/engine.hpp"
#include "io/multiplexers.hpp"
#include "sys/descriptors.hpp"

#include <mutex>

namespace unio {
namespace driver {
namespace {

constinit std::mutex mutex;
constinit engine* first = nullptr;

} // namespace

std::mutex& registry::all_mutex() noexcept { return mutex; }

engine* registry::at(std::size_t index) noexcept {
  engine* e = first;
  while (e != nullptr && index-- != 0) e = e->next_engine_;
  return e;
}

void registry::enlist(engine& e) noexcept {
  std::lock_guard const lock(mutex);
  e.next_engine_ = first;
  if (first != nullptr) first->previous_engine_ = &e;
  first = &e;
  e.listed_ = true;
}

void registry::delist(engine& e) noexcept {
  std::lock_guard const lock(mutex);
  if (!e.listed_) return;
  e.listed_ = false;
  (e.previous_engine_ != nullptr ? e.previous_engine_->next_engine_ : first) = e.next_engine_;
  if (e.next_engine_ != nullptr) e.next_engine_->previous_engine_ = e.previous_engine_;
}

void registry::forget_in_others(int fd) noexcept {
  // One at a time: the request is posted under the lock, so that its engine still exists, and waited for without it. An
  // engine that ends meanwhile answers all the same.
  for (std::size_t index = 0;; ++index) {
    engine::forget_request request(fd);
    engine* here = nullptr;
    {
      std::lock_guard const lock(mutex);
      engine* const e = at(index);
      if (e == nullptr) return;
      bool const used = e->owner_.load(std::memory_order_relaxed) != nullptr && !e->inherited_by_fork();
      if (!used) continue;
      if (e->on_own_thread()) {
        here = e; // a thread may run more multiplexers than its own; nobody else ends this one meanwhile
      } else {
        request.self = e;
        e->post(request);
      }
    }
    if (here != nullptr) {
      here->forget(fd);
    } else {
      request.wait();
    }
  }
}

} // namespace driver

void detail::forget_everywhere(int fd, io_multiplexer* own) noexcept {
  if (own != nullptr) own->forget(fd);
  io_multiplexer* const mine = this_thread::multiplexer_if_any();
  if (mine != nullptr && mine != own) mine->forget(fd);
  if (sys::in_flight(fd) != 0) driver::registry::forget_in_others(fd);
}

} // namespace unio
