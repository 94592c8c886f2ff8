// Shows     operations and tasks as senders of the standard library: waited for on one thread, composed,
//           started on a thread pool; and a coroutine that awaits a sender. It needs a standard library that
//           has them or stdexec (-DUNIO_STDEXEC_DIR=…/include), and says so where there is neither.
// Run       build/release/examples/example_senders
// Read next <unio/execution.hpp>, ../run_a_task/main.cpp

#include <unio/execution.hpp>
#include <unio/unio.hpp>

#include <array>
#include <chrono>
#include <cstdio>
#include <string_view>

#if UNIO_HAS_EXECUTION

#if defined(__cpp_lib_senders)
namespace ex = std::execution;
using std::this_thread::sync_wait;
#else
namespace ex = stdexec;
using stdexec::sync_wait;
#endif

using namespace std::chrono_literals;

namespace {

unio::task<std::size_t> doubled(std::size_t n) {
  auto twice = ex::just(n) | ex::then([](std::size_t i) { return 2 * i; });
  co_return co_await std::move(twice);
}

} // namespace

int main() {
  unio::anonymous_pipe ends = unio::pipe_handle::anonymous().value();
  std::array<char, 16> room{};
  auto read = [&](unio::deadline d) { return unio::async_read(ends.reader, unio::mutable_buffer(room), d); };
  auto write = [&](std::string_view text) {
    return unio::async_write(ends.writer, unio::const_buffer(text));
  };

  // One thread, which sync_wait blocks, runs both, and the deadline.
  auto both = ex::when_all(read(1s), write("hello")) |
              ex::then([](auto got, auto const&) { return got.value().size(); });
  auto [bytes] = sync_wait(std::move(both)).value();
  std::printf("read %zu buffer\n", bytes);
  auto [late] = sync_wait(read(1ms)).value();
  std::printf("nothing more: %s\n", late.error().message().c_str());

  // A pool's scheduler: the operation waits on the pool's multiplexer.
  unio::thread_pool pool(2);
  ends.writer.write(std::string_view("hello, pool")).value();
  auto there = ex::starts_on(unio::as_scheduler(pool.executor()), read(1s)) |
               ex::let_value([](auto& got) { return doubled(got.bytes_transferred()); });
  auto [twice] = sync_wait(std::move(there)).value();
  std::printf("twice as many bytes: %zu\n", twice);

  // The same without the standard's sync_wait: this thread sleeps until something happens.
  unio::sync_wait(ex::when_all(read(1s), write("bye")));
  std::printf("and %zu\n", unio::sync_wait(doubled(3)));
  return bytes == 1 && twice == 22 && late.error() == unio::condition::timed_out ? 0 : 1;
}

#else

int main() {
  std::puts("no senders here: neither the standard library nor stdexec (-DUNIO_STDEXEC_DIR) has them");
  return 77;
}

#endif
