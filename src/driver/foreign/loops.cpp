// The foreign loops of the process that say what waits in them, for unio::dump_pending.

#include "driver/foreign/foreign.hpp"
#include "sys/fork.hpp"

#include <mutex>

namespace unio::inline v0_1::driver {
namespace {

// Held while loops are asked: until then none of them ends.
constinit sys::process_lock mutex(sys::guarded::foreign_loops);
constinit foreign_loop* first = nullptr; // guarded by it

} // namespace

void foreign_loop::list_by(foreign_lister lister, void* loop) noexcept {
  std::lock_guard const lock(mutex);
  bool const was_listed = lister_ != nullptr;
  lister_ = lister;
  loop_ = loop;
  if (was_listed == (lister != nullptr)) return;
  if (lister == nullptr) {
    (previous_ != nullptr ? previous_->next_ : first) = next_;
    if (next_ != nullptr) next_->previous_ = previous_;
    return;
  }
  next_ = first;
  previous_ = nullptr;
  if (first != nullptr) first->previous_ = this;
  first = this;
}

void foreign_loop::list_all(void (*head)(foreign_list& list, foreign_reactor const& r), foreign_list& list) {
  std::lock_guard const lock(mutex);
  for (foreign_loop* l = first; l != nullptr; l = l->next_) {
    head(list, l->reactor_);
    l->lister_(l->loop_, list);
  }
}

} // namespace unio::driver
