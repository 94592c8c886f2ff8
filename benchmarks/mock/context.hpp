// I/O that costs nothing: an operation queues its state, the context's loop pops and completes it.
//
// What remains is what composing costs, which is what the benchmark compares. After *Coroutine-first
// asynchronous I/O* §5.2, §10, §11.
#pragma once

#include <cstdint>

namespace mock {

/// The state of an operation, which carries its own link.
struct work {
  virtual void operator()() = 0;

  work* next = nullptr;

 protected:
  ~work() = default; // each derived class knows how it ends
};

class io_context {
 public:
  void post(work* w) {
    w->next = nullptr;
    if (tail_ != nullptr) [[unlikely]] { // a client has one operation at a time
      tail_->next = w;
    } else {
      head_ = w;
    }
    tail_ = w;
  }

  /// Completes what is queued until nothing is; returns how many that were. Defined in a file of its own, so
  /// that no compiler sees both the loop and what it calls: a kernel is not inlined either.
  std::uint64_t run();

 private:
  work* head_ = nullptr;
  work* tail_ = nullptr;
};

} // namespace mock
