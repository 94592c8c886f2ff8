// Shows     *Coroutine-first asynchronous I/O* §6: the affine protocol. An awaitable is given the environment
//           of the awaiting coroutine, and resumes it on its executor, from whatever thread it completes on.
// Run       build/release/examples/example_coroutine_first_6_affine_awaitable
// Read next ../coroutine_first_7_run_on/main.cpp, docs/explanation/coroutines.md

#include <unio/unio.hpp>

#include <chrono>
#include <coroutine>
#include <cstdio>
#include <thread>

namespace {

// Computes on a thread of its own.
class thinking {
 public:
  explicit thinking(int about) noexcept : about_(about) {}
  thinking(thinking const&) = delete;
  ~thinking() {
    if (thread_.joinable()) thread_.join();
  }

  static bool await_ready() noexcept { return false; }
  void await_suspend(std::coroutine_handle<> h, unio::environment const& e) {
    back_ = unio::resumption(h, &e);
    executor_ = e.executor;
    thread_ = std::thread([this] {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      answer_ = about_ * 2;
      executor_.post(back_); // not dispatch: it must not resume here. May destroy this object
    });
  }
  int await_resume() noexcept { return answer_; }

 private:
  int about_;
  int answer_ = 0;
  unio::resumption back_;
  unio::executor_ref executor_;
  std::thread thread_;
};

// Nothing here mentions executors.
unio::task<bool> ask() {
  auto const before = std::this_thread::get_id();
  thinking about(21);
  int const answer = co_await about;
  std::printf("the answer is %d\n", answer);
  co_return std::this_thread::get_id() == before;
}

} // namespace

int main() {
  bool const came_back = unio::run(ask());
  std::printf("on the thread where it was asked: %s\n", came_back ? "yes" : "no");
  return came_back ? 0 : 1;
}
