// Shows     D2052R0 §4.2: an awaitable made of an operation and a receiver, like unio::io_awaitable. Your own
//           may do something else with the result, such as resuming the coroutine on another executor.
// Run       build/release/examples/example_d2052_4_2_awaitable
// Read next ../d2052_4_3_connect_start/main.cpp, <unio/connect.hpp>

#include <unio/unio.hpp>

#include <array>
#include <coroutine>
#include <cstdio>
#include <exception>
#include <optional>
#include <string_view>

namespace {

// The receiver keeps the result and resumes the waiting coroutine. It does so in set_done and not in
// set_value as the paper has it: the coroutine may destroy the operation, which must not happen while the
// kernel still holds it.
template <class Result> struct awaitable_receiver {
  std::optional<Result> result;
  std::coroutine_handle<> coro;

  void set_value(Result&& r) { result.emplace(std::move(r)); }
  void set_done() {
    if (coro) coro.resume();
  }
};

template <class Sender> class my_awaitable {
  using result_type = typename Sender::result_type;

 public:
  explicit my_awaitable(Sender s) : state_(unio::connect(std::move(s), awaitable_receiver<result_type>{})) {}

  bool await_ready() noexcept {
    if (!state_.started()) state_.start();
    if (state_.finished()) return true; // it completed at once
    state_.poll();                      // a last look before suspending
    return state_.finished();
  }
  void await_suspend(std::coroutine_handle<> coro) noexcept { state_.receiver().coro = coro; }
  result_type await_resume() { return std::move(*state_.receiver().result); }

 private:
  unio::io_operation_connection<Sender, awaitable_receiver<result_type>> state_;
};

struct detached {
  struct promise_type {
    detached get_return_object() noexcept { return {}; }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_never final_suspend() noexcept { return {}; }
    void return_void() noexcept {}
    void unhandled_exception() noexcept { std::terminate(); }
  };
};

int reads_done = 0;

detached read_twice(unio::pipe_handle& pipe) {
  for (int i = 0; i < 2; ++i) {
    std::array<char, 16> room;
    auto const got = co_await my_awaitable(unio::async_read(pipe, room));
    std::printf("%.*s\n", static_cast<int>(got.bytes_transferred()), room.data());
    ++reads_done;
  }
}

} // namespace

int main() {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  writer.write(std::string_view("here already")).value();
  read_twice(reader); // reads once without suspending, then suspends
  if (reads_done != 1) return 1;
  writer.write(std::string_view("came later")).value();
  while (reads_done != 2) reader.multiplexer()->run().value();
}
