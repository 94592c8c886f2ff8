// threads_posts_unio: posts to a multiplexer that one thread runs, and to a pool.

#include "posts.hpp"
#include "support/unio_driver.hpp"

#include <unio/run.hpp>
#include <unio/thread_pool.hpp>
#include <unio/timer_handle.hpp>

#include <concepts>

namespace {

using namespace threads_bench;

// A node that the producer has, as an operation or a coroutine of its own would have it.
struct node : unio::work {
  explicit node(window::part& p) noexcept : work(&run), of(&p) {}
  static void run(unio::work& w, bool) noexcept { static_cast<node&>(w).of->ran(); }
  window::part* of;
};

template <class To> class nodes {
 public:
  nodes(To& to, window& w) : to_(to) {
    all_.reserve(window::posts);
    for (unsigned i = 0; i < window::posts; ++i) all_.emplace_back(w.part_of(i));
  }
  void operator()(unsigned i) { to_.post(all_[i]); }

 private:
  To& to_;
  std::vector<node> all_;
};

template <class To> class functions {
 public:
  functions(To& to, window& w) : to_(to), window_(w) {}
  void operator()(unsigned i) {
    auto const f = [p = &window_.part_of(i)] { p->ran(); };
    if constexpr (std::derived_from<To, unio::io_multiplexer>) {
      to_.post(f).value();
    } else {
      to_.post(f);
    }
  }

 private:
  To& to_;
  window& window_;
};

template <template <class> class How>
sample to_a_thread(std::string const& driver, std::vector<window>& windows, std::uint64_t operations) {
  const auto m = multiplexer_on(driver);
  unio::event_handle is_over = unio::event_handle::create().value();
  // What waits for the event keeps the thread asleep, as Asio's work guard does: run() returns where there is
  // nothing to wait for.
  return run_posts(
      windows, operations, [&](window& w) { return How<unio::io_multiplexer>(*m, w); },
      [&] { (void)unio::run(*m, is_over.co_wait()).value(); }, [&] { is_over.signal().value(); });
}

template <template <class> class How>
sample to_a_pool(std::string const& driver, std::vector<window>& windows, std::uint64_t operations) {
  choose_driver(driver);
  unio::thread_pool pool(threads);
  return run_posts(
      windows, operations, [&](window& w) { return How<unio::thread_pool>(pool, w); }, [] {}, [] {});
}

template <template <class> class How>
void add(std::vector<benchmark_case>& to, std::string const& subject, std::string const& driver) {
  add_posts(to, subject + ", " + driver, runs_on::one_thread,
            [driver](auto& windows, std::uint64_t n) { return to_a_thread<How>(driver, windows, n); });
  add_posts(to, subject + ", " + driver, runs_on::pool,
            [driver](auto& windows, std::uint64_t n) { return to_a_pool<How>(driver, windows, n); });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (char const* const driver : both_drivers) {
    add<nodes>(cases, "unio post", driver);
    add<functions>(cases, "unio post, function", driver);
  }
  return subject_main(argc, argv, cases);
}
