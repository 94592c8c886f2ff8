// Shows     a queue in memory that two processes share, without a pipe, a lock or polling: one writer, one
//           reader, and two counters. Who finds the queue empty or full waits on the other's counter: the
//           writer blocks, the reader is a coroutine beside others. A system call is made only to wait and to
//           wake; a change that comes between looking and waiting ends the wait at once.
// Run       build/release/examples/example_shared_queue
// Read next <unio/futex.hpp>; for locks that survive a crash: <unio/locks/memory_map.hpp>

#include <unio/map_handle.hpp>
#include <unio/unio.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>

namespace {

using namespace std::chrono_literals;
using unio::futex_scope;

constexpr std::uint32_t numbers = 10'000;

// In the file that both map. Only the writer changes `written`, only the reader `read`.
struct queue {
  alignas(64) std::atomic<std::uint32_t> written;
  alignas(64) std::atomic<std::uint32_t> read;
  std::array<std::uint32_t, 64> places;
};

// First the change, then the wake-up.
void set(std::atomic<std::uint32_t>& counter, std::uint32_t n) {
  counter.store(n, std::memory_order_release);
  unio::futex(counter, futex_scope::processes).wake();
}

int write(queue& q) {
  unio::futex reader(q.read, futex_scope::processes);
  for (std::uint32_t n = 0; n != numbers; ++n) {
    std::uint32_t read = q.read.load(std::memory_order_acquire);
    while (n - read == q.places.size()) {
      auto const now = reader.wait(read, 10s); // until it is another number
      if (!now) return 1;
      read = *now;
    }
    q.places[n % q.places.size()] = n * n;
    set(q.written, n + 1);
  }
  return 0;
}

unio::task<bool> read(queue& q) {
  unio::futex writer(q.written, futex_scope::processes);
  bool fine = true;
  for (std::uint32_t n = 0; n != numbers;) {
    auto const written = co_await writer.co_wait(n, 10s); // at once if there is more
    if (!written) co_return false;
    for (; n != *written; ++n) fine = fine && q.places[n % q.places.size()] == n * n;
    set(q.read, n);
  }
  co_return fine;
}

} // namespace

int main() {
  auto file = unio::file_handle::temp_inode().value();
  file.truncate(sizeof(queue)).value();
  auto const map = unio::mapped<queue>::section(file, 0, 1, unio::map_access::write).value();
  pid_t const child = ::fork();
  if (child == 0) ::_exit(write(map[0]));
  bool const fine = unio::run(read(map[0]));
  int status = 0;
  bool const written = ::waitpid(child, &status, 0) == child && status == 0;
  std::printf("%u numbers passed between two processes\n", numbers);
  return fine && written ? 0 : 1;
}
