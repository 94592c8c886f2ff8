// Shows     *Coroutine-first asynchronous I/O* §5: an I/O object whose operation is allocated once, with it,
//           and is itself queued. Its implementation could be in a .cpp: only the awaitable is visible.
// Run       build/release/examples/example_coroutine_first_5_socket
// Read next ../coroutine_first_6_affine_awaitable/main.cpp

#include <unio/unio.hpp>

#include <coroutine>
#include <cstdio>
#include <memory>
#include <utility>

namespace {

// Simulates a device: it answers, later, with the next number.
class device {
 public:
  explicit device(unio::io_multiplexer& m) : state_(std::make_unique<state>(m)) {}

  class [[nodiscard]] awaitable;
  awaitable async_io() noexcept;

 private:
  // The node by which the multiplexer queues the answer, and its data.
  struct state : unio::work {
    explicit state(unio::io_multiplexer& m) noexcept : work(&answered), multiplexer(m) {}
    static void answered(unio::work& w, bool run) noexcept {
      auto& self = static_cast<state&>(w);
      if (run) ++self.value;
      self.executor.dispatch(self.waiting).resume(); // on the coroutine's executor
    }
    unio::io_multiplexer& multiplexer;
    unio::executor_ref executor;
    unio::resumption waiting;
    int value = 0;
  };
  std::unique_ptr<state> state_;
};

class device::awaitable {
 public:
  explicit awaitable(state& s) noexcept : state_(s) {}
  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h, unio::environment const& e) noexcept {
    state_.executor = e.executor;
    state_.waiting = unio::resumption(h, &e);
    state_.multiplexer.post(static_cast<unio::work&>(state_)); // a real device would be started here
  }
  int await_resume() noexcept { return state_.value; }

 private:
  state& state_;
};

device::awaitable device::async_io() noexcept { return awaitable(*state_); }

unio::task<int> use(device& d) {
  int sum = 0;
  for (int i = 0; i != 4; ++i) sum += co_await d.async_io();
  co_return sum;
}

} // namespace

int main() {
  device d(unio::this_thread::multiplexer());
  std::printf("1 + 2 + 3 + 4 = %d\n", unio::run(use(d)));
}
