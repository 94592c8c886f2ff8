// The loop all subjects run in. Never compiled with link-time optimisation: see context.hpp.

#include "mock/context.hpp"

namespace mock {

std::uint64_t io_context::run() {
  std::uint64_t completed = 0;
  while (work* w = head_) {
    head_ = w->next;
    if (head_ == nullptr) tail_ = nullptr;
    ++completed;
    (*w)();
  }
  return completed;
}

} // namespace mock
