// Shows     *Coroutine-first asynchronous I/O* §4: what an executor is, and executor_ref, which refers to
//           any. This one runs queued work on demand, on the thread that calls run().
// Run       build/release/examples/example_coroutine_first_4_executor
// Read next ../coroutine_first_5_socket/main.cpp, <unio/executor.hpp>

#include <unio/executor.hpp>
#include <unio/run.hpp>

#include <cstdio>

namespace {

class manual_context {
 public:
  // A few bytes that identify the place: copies are equal.
  class executor {
   public:
    explicit executor(manual_context& c) noexcept : context_(&c) {}
    // Inside run() a coroutine may run at once. Otherwise it is queued, by a node of its own.
    [[nodiscard]] std::coroutine_handle<> dispatch(unio::resumption& r) const noexcept {
      if (context_->running_) return r.handle();
      context_->push(r);
      return std::noop_coroutine();
    }
    void post(unio::work& w) const noexcept { context_->push(w); }
    bool operator==(executor const&) const = default;

   private:
    manual_context* context_;
  };

  [[nodiscard]] executor get_executor() noexcept { return executor(*this); }
  int run() {
    int n = 0;
    running_ = true;
    for (; first_ != nullptr; ++n) {
      unio::work& w = *first_;
      first_ = w.next;
      if (first_ == nullptr) last_ = nullptr;
      w();
    }
    running_ = false;
    return n;
  }

 private:
  void push(unio::work& w) noexcept {
    w.next = nullptr;
    (last_ != nullptr ? last_->next : first_) = &w;
    last_ = &w;
  }

  unio::work* first_ = nullptr;
  unio::work* last_ = nullptr;
  bool running_ = false;
};

static_assert(unio::is_executor<manual_context::executor>);

unio::task<> child() {
  std::puts("a child runs where its parent does");
  co_return;
}
unio::task<> parent() {
  co_await child();
  std::puts("and the parent goes on");
}

} // namespace

int main() {
  manual_context context;
  manual_context::executor const one = context.get_executor();
  manual_context::executor const two = context.get_executor();
  unio::executor_ref const any(one);
  unio::executor_ref const same(two);
  std::printf("two words, and equal: %s\n", sizeof any == 2 * sizeof(void*) && any == same ? "yes" : "no");

  unio::async_run(one, parent()); // queued
  std::printf("ran %d\n", context.run());
}
