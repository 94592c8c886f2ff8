// threads_tasks_unio: coroutines, and functions that are posted, on unio::thread_pool.

#include "support/unio_driver.hpp"
#include "tasks.hpp"

#include <unio/channel.hpp>
#include <unio/frames.hpp>
#include <unio/run.hpp>
#include <unio/task.hpp>
#include <unio/thread_pool.hpp>
#include <unio/when.hpp>

#include <array>
#include <memory>

namespace {

using namespace threads_bench;

// ---- coroutines -------------------------------------------------------------------------------------------

// A task that others may take begins with a fork: it is queued, and the one that started it continues.
unio::task<std::uint64_t> skynet(std::uint64_t first, std::uint64_t leaves) {
  co_await unio::co_fork();
  if (leaves == 1) co_return first;
  std::array<unio::task<std::uint64_t>, children> parts;
  std::uint64_t const each = leaves / children;
  for (unsigned i = 0; i < children; ++i) parts[i] = skynet(first + i * each, each);
  std::uint64_t total = 0;
  auto values = co_await unio::when_all(parts);
  for (std::uint64_t const v : values) total += v;
  co_return total;
}

unio::task<std::uint64_t> fib(std::uint64_t n);
unio::task<std::uint64_t> forked_fib(std::uint64_t n) {
  co_await unio::co_fork();
  if (n < 2) co_return n;
  auto const [a, b] = co_await unio::when_all(forked_fib(n - 1), fib(n - 2));
  co_return a + b;
}
unio::task<std::uint64_t> fib(std::uint64_t n) {
  if (n < 2) co_return n;
  auto const [a, b] = co_await unio::when_all(forked_fib(n - 1), fib(n - 2));
  co_return a + b;
}

using channel = unio::channel<std::uint64_t>;

unio::task<> pass_on(channel& from, channel& to, std::uint64_t rounds) {
  for (; rounds != 0; --rounds) {
    std::uint64_t const hops = (co_await from.co_receive()).value();
    (co_await to.co_send(hops + 1)).value();
  }
}

class ring {
 public:
  explicit ring(unio::thread_pool& pool) : pool_(&pool) {
    for (std::size_t i = 0; i < ring_size; ++i) channels_.push_back(std::make_unique<channel>(1));
    all_.resize(ring_size);
  }
  std::uint64_t operator()(std::uint64_t rounds) {
    for (std::size_t i = 0; i < ring_size; ++i)
      all_[i] = pass_on(*channels_[i], *channels_[(i + 1) % ring_size], rounds);
    channels_[0]->try_send(0).value();
    unio::sync_wait(pool_->executor(), unio::when_all(all_));
    return channels_[0]->try_receive().value();
  }

 private:
  unio::thread_pool* pool_;
  std::vector<std::unique_ptr<channel>> channels_;
  std::vector<unio::task<>> all_;
};

// ---- functions that are posted ----------------------------------------------------------------------------

struct poster {
  unio::thread_pool& pool;
  template <class F> void post(F f) { pool.post(f); }
  static void* allocate(std::size_t bytes) { return unio::frame_pool::allocate(bytes); }
  static void deallocate(void* p, std::size_t bytes) noexcept { unio::frame_pool::deallocate(p, bytes); }
};

std::unique_ptr<unio::thread_pool> pool_on(std::string const& driver) {
  choose_driver(driver);
  return std::make_unique<unio::thread_pool>(threads);
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (std::string const driver : both_drivers) {
    const auto on_pool = [driver](std::uint64_t tasks, std::uint64_t expected, auto prepare) {
      const auto pool = pool_on(driver);
      return run_tasks(tasks, expected, prepare(*pool));
    };
    const auto awaited = [](auto coroutine) {
      return [=](unio::thread_pool& pool, std::uint64_t n) {
        return unio::sync_wait(pool.executor(), coroutine(n));
      };
    };
    const std::string subject = "unio awaited, " + driver;
    add_trees(cases, subject, on_pool, awaited([](std::uint64_t leaves) { return skynet(0, leaves); }),
              awaited(fib));
    add_ring(cases, subject, on_pool, [](unio::thread_pool& pool) { return ring(pool); });
    add_callbacks<poster>(cases, "unio callbacks, " + driver, [driver] { return pool_on(driver); });
  }
  return subject_main(argc, argv, cases);
}
