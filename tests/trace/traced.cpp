// What scripts/check-trace records and watches.
//
//   traced N         two ends of a connection send each other a byte, N times; then a timer of 30 ms, and
//                    40 ms of computing
//   traced forever   the first, until it is killed
//   traced fork      10 times, in a child of fork as well
//   traced abort     ends by abort() while a read waits
//   traced reused    10 times; then closes what is recorded into, opens the file "foreign" by that number,
//                    and does the same on another thread
//   traced daemon    10 times, without its environment and its standard output, which must stay closed

#include <unio/unio.hpp>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <limits>
#include <string>
#include <string_view>
#include <thread>

namespace {

using namespace std::chrono_literals;

unio::task<> answer(unio::socket_handle& peer, long times) {
  std::array<char, 1> byte;
  for (long i = 0; i != times; ++i) {
    if (!co_await peer.co_read(byte)) co_return;
    if (!co_await peer.co_write(unio::const_buffer(byte.data(), 1))) co_return;
  }
}
unio::task<> ask(unio::socket_handle& peer, long times) {
  std::array<char, 1> byte = {};
  for (long i = 0; i != times; ++i) {
    if (!co_await peer.co_write(unio::const_buffer(byte.data(), 1))) co_return;
    if (!co_await peer.co_read(byte)) co_return;
  }
}
unio::task<> talk(long times) {
  auto pair = unio::socket_handle::pair().value();
  co_await unio::when_all(ask(pair.first, times), answer(pair.second, times));
}
unio::task<> waits() {
  (void)co_await unio::co_sleep(30ms);
  auto const end = std::chrono::steady_clock::now() + 40ms;
  while (std::chrono::steady_clock::now() < end) continue;
}
unio::task<> aborts() {
  auto pair = unio::socket_handle::pair().value();
  std::array<char, 1> byte;
  auto const read = [&]() -> unio::task<> { (void)co_await pair.first.co_read(byte); };
  auto const ends = []() -> unio::task<> {
    (void)co_await unio::co_sleep(1ms);
    std::abort();
  };
  co_await unio::when_all(read(), ends());
}

} // namespace

int main(int argc, char** argv) {
  std::string_view const what = argc > 1 ? argv[1] : "";
  if (what == "forever") {
    unio::run(talk(std::numeric_limits<long>::max()));
  } else if (what == "abort") {
    unio::run(aborts());
  } else if (what == "reused") {
    unio::run(talk(10));
    std::string const name = std::filesystem::absolute(std::getenv("UNIO_TRACE"));
    for (int fd = 3; fd != 100; ++fd) {
      std::error_code none;
      if (std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd), none) != name) continue;
      int const foreign = ::open("foreign", O_RDWR | O_CREAT | O_CLOEXEC, 0600);
      if (::dup2(foreign, fd) != fd) return 1;
      std::thread([] { unio::run(talk(10)); }).join();
      return ::lseek(fd, 0, SEEK_END) == 0 ? 0 : 1;
    }
    return 1;
  } else if (what == "daemon") {
    ::clearenv();
    ::close(STDOUT_FILENO);
    unio::run(talk(10));
    return ::write(STDOUT_FILENO, "lost", 4) == -1 ? 0 : 1;
  } else if (what == "fork") {
    unio::run(talk(10));
    pid_t const child = ::fork();
    if (child == 0) {
      auto const own = unio::io_multiplexer::best_available().value();
      unio::run(*own, talk(10));
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status == 0 ? 0 : 1;
  } else {
    unio::run(talk(std::atol(argv[1])));
    unio::run(waits());
  }
}
