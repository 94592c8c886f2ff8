// Shows     unio within a loop of the program's own, on epoll(7): tasks and the program's own descriptors
//           side by side on one thread. The loop watches one descriptor of unio's, and calls try_run() and
//           before_wait() each time round.
// Run       build/release/examples/example_epoll_loop
// Read next <unio/outer_loop.hpp>, ../glib_loop/main.cpp, docs/howto/other-loops.md

#include <unio/outer_loop.hpp>
#include <unio/unio.hpp>

#include <sys/epoll.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <thread>

using namespace std::chrono_literals;

namespace {

unio::task<> count(std::atomic<bool>& ended) {
  for (int i = 1; i != 4; ++i) {
    (void)co_await unio::co_sleep(10ms);
    std::printf("task: %d\n", i);
  }
  ended = true;
  ended.notify_one();
}

// ---- the loop ---------------------------------------------------------------------------------------------

class loop {
 public:
  loop() : epoll_(::epoll_create1(EPOLL_CLOEXEC)), unio_(unio::outer_loop::create().value()) {
    watch(unio_.descriptor());
  }
  loop(loop const&) = delete;
  loop& operator=(loop const&) = delete;
  ~loop() { ::close(epoll_); }

  void watch(int fd) const {
    epoll_event e{.events = EPOLLIN, .data = {.fd = fd}};
    ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &e);
  }

  template <class Handler, class Done> void run(Handler handle, Done done) {
    for (;;) {
      unio_.multiplexer().try_run().value(); // 1. all that unio has to do
      if (done()) return;
      auto const time = unio_.before_wait().value(); // 2. nothing is left; now what comes is reported
      int const timeout_ms = time == 0ns ? 0 : -1;   // the descriptor has the deadlines, too
      epoll_event events[16];
      int const n = ::epoll_wait(epoll_, events, 16, timeout_ms); // 3.
      for (int i = 0; i < n; ++i)
        if (events[i].data.fd != unio_.descriptor()) handle(events[i].data.fd);
    }
  }

 private:
  int epoll_;
  unio::outer_loop unio_;
};

} // namespace

int main() {
  int pipe[2];
  if (::pipe(pipe) != 0) return 1;
  loop all;
  all.watch(pipe[0]); // the program's own
  int lines = 0;
  std::atomic<bool> ended = false;
  bool posted = false;
  unio::async_run(unio::this_thread::multiplexer(), count(ended));
  unio::io_multiplexer& here = unio::this_thread::multiplexer();
  std::thread other([&] {
    std::this_thread::sleep_for(15ms);
    for (int i = 0; i != 2; ++i)
      if (::write(pipe[1], "x", 1) != 1) return;
    ended.wait(false);
    std::this_thread::sleep_for(5ms); // the loop sleeps again, and nothing else will wake it
    (void)here.post([&] { posted = true; });
  });
  auto const handle = [&](int fd) {
    char c = 0;
    if (::read(fd, &c, 1) == 1) std::printf("the program's own: %d\n", ++lines);
  };
  all.run(handle, [&] { return ended && posted && lines == 2; });
  other.join();
  ::close(pipe[0]);
  ::close(pipe[1]);
  std::puts("all of it ran on one thread");
}
