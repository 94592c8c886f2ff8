// What the tests of sync.hpp and channel.hpp share: tasks that can be started and destroyed at any moment, on
// multiplexers of several threads.

#pragma once

#include "support/test.hpp"
#include "support/work.hpp"

#include <barrier>

namespace test {

/// So many times, or a tenth of it where a sanitizer looks on, which the pool of frames makes way for as
/// well.
constexpr int often(int times) { return UNIO_POOLS_FRAMES ? times : times / 10; }

inline std::unique_ptr<io_multiplexer> make_multiplexer() {
  return io_multiplexer::best_available(1).value();
}

/// Whether the calling coroutine runs where its environment says.
inline bool is_at_home(unio::environment const& e) {
  return e.executor.multiplexer()->run_by() == io_multiplexer::runner::this_thread;
}

/// A task that is started and destroyed by hand, suspended or not.
class chain : unio::detail::end_listener {
 public:
  chain(io_multiplexer& m, task<> t, unio::stop_token stop = {})
      : end_listener(&on_end), executor_(m.executor()), task_(std::move(t)) {
    environment_.executor = executor_;
    environment_.stop = stop;
    environment_.multiplexer = &m;
  }
  void start() {
    auto const child = task_.child();
    child.promise().set_environment(environment_);
    child.promise().set_continuation(static_cast<end_listener&>(*this));
    unio::detail::resume(child);
  }
  void destroy() { task_ = {}; }
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  static std::coroutine_handle<> on_end(end_listener& l) noexcept {
    static_cast<chain&>(l).ended_ = true;
    return std::noop_coroutine();
  }
  unio::multiplexer_executor executor_;
  unio::environment environment_;
  task<> task_;
  bool ended_ = false;
};

/// Runs what was posted to `m`, and what that posts.
inline void run_posted(io_multiplexer& m) {
  while (m.invoke_posted_items().value() > 0) continue;
}

/// Runs `make(i)` on a multiplexer and a thread of its own each, until all have ended. The multiplexers end
/// last: a task may still be posting to another's when that other one has ended.
template <class Make> void on_threads(int n, Make make) {
  std::vector<std::unique_ptr<io_multiplexer>> multiplexers;
  for (int i = 0; i != n; ++i) multiplexers.push_back(make_multiplexer());
  std::barrier begin(n);
  threads all(n, [&](int i) {
    begin.arrive_and_wait();
    unio::sync_wait(multiplexers[static_cast<std::size_t>(i)]->executor(), make(i));
  });
  all.join();
}

/// Spins for a while that differs from one time to the next.
inline void dither(unsigned n) {
  for (unsigned i = 0; i != n; ++i) asm volatile("");
}

/// `times` times: a task waits on this thread; a second thread grants what it waits for, a third stops it.
///
/// `before()`; `wait()` makes the task; `grant()`; `after()` looks at what has become of it.
template <class Before, class Wait, class Grant, class After>
void race_grant_against_stop(int times, Before before, Wait wait, Grant grant, After after) {
  auto m = make_multiplexer();
  std::unique_ptr<unio::stop_source> stop;
  std::barrier sync(3);
  auto each_time = [&](auto f) {
    for (int i = 0; i != times; ++i) {
      sync.arrive_and_wait();
      f(static_cast<unsigned>(i));
      sync.arrive_and_wait();
    }
  };
  std::jthread granter([&] {
    each_time([&](unsigned i) {
      dither(i * 37 % 1500);
      grant();
    });
  });
  std::jthread stopper([&] {
    each_time([&](unsigned i) {
      dither(i * 53 % 1500);
      stop->request_stop();
    });
  });
  for (int i = 0; i != times; ++i) {
    stop = std::make_unique<unio::stop_source>();
    before();
    sync.arrive_and_wait();
    unio::sync_wait(m->executor(), wait(), {.stop = stop->get_token()});
    sync.arrive_and_wait();
    after();
  }
}

} // namespace test
