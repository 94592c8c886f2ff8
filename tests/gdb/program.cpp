// What scripts/check-gdb has gdb look at: coroutines that wait in each of the ways that a chain may lead
// through, and values. It stops in look(). Compare with `expected`, which has its lines' numbers.

#include "driver/engine.hpp" // types of the library, which itself may have no debug information

#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>

using namespace std::chrono_literals;

// With external linkage, so that the optimiser keeps them.

unio::io_multiplexer* multiplexer = nullptr;
unio::task<int>* unstarted = nullptr;
unio::task<int>* empty = nullptr;
unio::io_operation* operation = nullptr;
unio::io_operation* described = nullptr;
unio::driver::engine* engine = nullptr;
struct shown {
  unio::result<int>* five;
  unio::result<int>* refused;
  unio::result<int>* ended;
  unio::result<void>* success;
  unio::io_result<int>* some;
};
shown values;
void* innermost = nullptr; // a frame

namespace {

[[gnu::noinline]] void look() { asm volatile("" ::: "memory"); }

// Awaited to learn the frame of the coroutine.
struct own_frame {
  bool await_ready() const noexcept { return false; }
  bool await_suspend(std::coroutine_handle<> h, unio::environment const&) const noexcept {
    innermost = h.address();
    return false;
  }
  void await_resume() const noexcept {}
};

} // namespace

unio::task<std::size_t> inner(unio::pipe_handle& from) {
  std::array<char, 8> bytes;
  co_await own_frame();
  auto const r = co_await from.co_read(bytes, 100s);
  co_return r.bytes_transferred();
}
unio::task<int> middle(unio::pipe_handle& from) { co_return static_cast<int>(co_await inner(from)); }
unio::task<int> asleep() { co_return (co_await unio::co_sleep(90s)).has_value() ? 1 : 0; }
unio::task<> both(unio::pipe_handle& from) { (void)co_await unio::when_all(middle(from), asleep()); }
unio::task<> bounded(unio::pipe_handle& from) { (void)co_await unio::timeout(80s, both(from)); }
unio::task<> moved_to(unio::pipe_handle& from) {
  co_await unio::run_on(unio::inline_executor(), bounded(from));
}
template <class T> unio::task<T> templated(unio::pipe_handle& from) {
  co_await moved_to(from);
  co_return T();
}

unio::task<> in_a_group(unio::pipe_handle& from) {
  unio::task_group group(co_await unio::this_coro::environment);
  group.start(middle(from));
  (void)co_await group.co_join();
}

// Of a coroutine that knows nothing of unio's environment.
struct foreign {
  struct promise_type {
    long first_member = 0; // not unio's: must not be taken for a continuation
    static foreign get_return_object() noexcept { return {}; }
    static std::suspend_never initial_suspend() noexcept { return {}; }
    static std::suspend_never final_suspend() noexcept { return {}; }
    static void return_void() noexcept {}
    static void unhandled_exception() noexcept {}
  };
};
foreign of_another_library(unio::pipe_handle& from) {
  std::array<char, 8> bytes;
  (void)co_await from.co_read(bytes, 60s);
}

unio::task<> looks() {
  (void)co_await unio::co_sleep(10ms);
  look();
}

struct receiver {
  void set_value(unio::io_result<unio::mutable_buffers>) noexcept {}
  void set_done() noexcept {}
};

int main() {
  ::setenv("UNIO_DRIVER", "epoll", 1);
  multiplexer = &unio::this_thread::multiplexer();
  engine = dynamic_cast<unio::driver::engine*>(multiplexer);
  auto chained = unio::pipe_handle::anonymous().value();
  auto grouped = unio::pipe_handle::anonymous().value();
  auto others = unio::pipe_handle::anonymous().value();
  auto received = unio::pipe_handle::anonymous().value();

  unio::task<int> never = asleep();
  unio::task<int> none;
  unstarted = &never;
  empty = &none;
  unio::result<int> five = 5;
  unio::result<int> refused = std::error_code(ECONNREFUSED, std::system_category());
  unio::result<int> ended = unio::make_error_code(unio::error::multiplexer_destroyed);
  unio::result<void> success;
  unio::io_result<int> some(7, 3);
  values = {&five, &refused, &ended, &success, &some};

  std::array<char, 8> bytes;
  auto op = unio::connect(unio::async_read(received.reader, bytes, 70s), receiver());
  unio::async_read unused(received.reader, bytes);
  operation = &op;
  described = &unused;
  op.start();

  unio::stop_source stop;
  int left = 2;
  auto const says = [&left](auto const&) { --left; };
  unio::async_run(*multiplexer, templated<long>(chained.reader), says, {.stop = stop.get_token()});
  unio::async_run(*multiplexer, in_a_group(grouped.reader), says, {.stop = stop.get_token()});
  of_another_library(others.reader);
  unio::run(looks());
  (void)others.writer.write(unio::const_buffer("x", 1));
  stop.request_stop();
  while (left != 0) multiplexer->run().value();
  std::puts("ended");
}
