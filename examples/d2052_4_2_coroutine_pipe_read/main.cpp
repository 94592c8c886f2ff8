// Shows     D2052R0 §4.2: a coroutine that reads a pipe as if it blocked. co_read takes the same arguments as
//           read.
// Run       build/release/examples/example_d2052_4_2_coroutine_pipe_read
// Read next ../d2052_4_2_awaitable/main.cpp: what co_read returns, written out

#include <unio/unio.hpp>

#include <chrono>
#include <coroutine>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <system_error>
#include <thread>
#include <utility>

namespace {

// A coroutine that begins at once and keeps its result until the caller asks for it.
class task {
 public:
  struct promise_type {
    std::error_code result;
    task get_return_object() { return task(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_never initial_suspend() noexcept { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_value(std::error_code e) noexcept { result = e; }
    void unhandled_exception() noexcept { std::terminate(); }
  };
  explicit task(std::coroutine_handle<promise_type> h) : coroutine_(h) {}
  task(task&& other) noexcept : coroutine_(std::exchange(other.coroutine_, nullptr)) {}
  ~task() {
    if (coroutine_) coroutine_.destroy();
  }
  [[nodiscard]] bool is_done() const { return coroutine_.done(); }
  [[nodiscard]] std::error_code result() const { return coroutine_.promise().result; }

 private:
  std::coroutine_handle<promise_type> coroutine_;
};

int numbers_read = 0;

// The listing: an endless loop, left at an error or the end of the stream.
task read_numbers(unio::pipe_handle& read_pipe) {
  int number = 0;
  unio::pipe_handle::buffer_type const buffer(&number, sizeof number);
  for (;;) {
    unio::io_result<unio::pipe_handle::buffers_type> r = co_await read_pipe.co_read({{buffer}, 0});
    if (!r) co_return r.error();
    if (r->empty()) co_return std::error_code(); // the end of the stream
    if (r->size() != 1 || r->front().size() != sizeof number) std::abort();
    std::printf("read %d\n", number);
    ++numbers_read;
  }
}

} // namespace

int main() {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  std::jthread const other([w = std::move(writer)]() mutable {
    for (int const n : {1, 2, 3}) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      w.write({unio::const_buffer(&n, sizeof n), 0}).value();
    }
    w.close().value();
  });

  task const t = read_numbers(reader); // returns when it suspends for the first time
  while (!t.is_done()) reader.multiplexer()->run().value();
  return numbers_read == 3 && !t.result() ? 0 : 1;
}
