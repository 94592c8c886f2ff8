// threads_posts_queue: the floor. A queue and nothing else: each producer has a ring of its own, consumers
// look at all of them and take up to 32 at a time, as moodycamel::ConcurrentQueue does. Nothing sleeps in it;
// who finds nothing yields its processor.

#include "posts.hpp"

#include <deque>

namespace {

using namespace threads_bench;

struct job {
  void (*run)(job&) noexcept;
  window::part* of;
};

void tell(job& j) noexcept { j.of->ran(); }

class lane {
 public:
  explicit lane(window& w) {
    for (unsigned i = 0; i < window::posts; ++i) jobs_[i] = {.run = &tell, .of = &w.part_of(i)};
  }

  // One thread. The window leaves room.
  void push(unsigned i) noexcept {
    const std::uint64_t at = end_.load(std::memory_order_relaxed);
    room_[at % window::posts].store(&jobs_[i], std::memory_order_relaxed);
    end_.store(at + 1, std::memory_order_release); // pairs with the acquire in run_some()
  }

  // Any thread. False: it is empty.
  bool run_some() noexcept {
    std::array<job*, 32> some;
    std::uint64_t from = begin_.load(std::memory_order_relaxed);
    std::uint64_t n = 0;
    do { // what is read here is another consumer's, or new, only if the exchange fails
      const std::uint64_t end = end_.load(std::memory_order_acquire);
      if (from >= end) return false;
      n = std::min<std::uint64_t>(end - from, some.size());
      for (std::uint64_t i = 0; i < n; ++i)
        some[i] = room_[(from + i) % window::posts].load(std::memory_order_relaxed);
    } while (
        !begin_.compare_exchange_weak(from, from + n, std::memory_order_acq_rel, std::memory_order_relaxed));
    for (std::uint64_t i = 0; i < n; ++i) some[i]->run(*some[i]);
    return true;
  }

 private:
  alignas(64) std::atomic<std::uint64_t> end_ = 0;
  alignas(64) std::atomic<std::uint64_t> begin_ = 0;
  alignas(64) std::array<std::atomic<job*>, window::posts> room_;
  std::array<job, window::posts> jobs_;
};

class queue {
 public:
  explicit queue(std::vector<window>& windows) : first_window_(windows.data()) {
    for (window& w : windows) lanes_.emplace_back(w);
  }
  auto poster(window& w) {
    return [to = &lanes_[static_cast<std::size_t>(&w - first_window_)]](unsigned i) { to->push(i); };
  }
  void run() noexcept {
    while (!is_over_.load(std::memory_order_acquire)) {
      bool did_something = false;
      for (lane& l : lanes_) did_something |= l.run_some();
      if (!did_something) std::this_thread::yield();
    }
  }
  void finish() noexcept { is_over_.store(true, std::memory_order_release); }

 private:
  window* first_window_;
  std::deque<lane> lanes_;
  std::atomic<bool> is_over_ = false;
};

sample to_a_thread(std::vector<window>& windows, std::uint64_t operations) {
  queue q(windows);
  return run_posts(
      windows, operations, [&](window& w) { return q.poster(w); }, [&] { q.run(); }, [&] { q.finish(); });
}

sample to_a_pool(std::vector<window>& windows, std::uint64_t operations) {
  queue q(windows);
  std::vector<std::jthread> consumers;
  for (int i = 0; i < threads; ++i) consumers.emplace_back([&] { q.run(); });
  return run_posts(windows, operations, [&](window& w) { return q.poster(w); }, [] {}, [&] { q.finish(); });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_posts(cases, "queue, C++", runs_on::one_thread, to_a_thread);
  add_posts(cases, "queue, C++", runs_on::pool, to_a_pool);
  return subject_main(argc, argv, cases);
}
