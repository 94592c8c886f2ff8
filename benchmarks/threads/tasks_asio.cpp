// threads_tasks_asio: coroutines, and functions that are posted, on asio::thread_pool.

#include "tasks.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/concurrent_channel.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/recycling_allocator.hpp>
#include <boost/asio/thread_pool.hpp>
#include <boost/asio/use_future.hpp>
#include <exception>
#include <latch>
#include <memory>

namespace {

using namespace threads_bench;
namespace asio = boost::asio;

// ---- coroutines -------------------------------------------------------------------------------------------

// With the executor's own type, as in benchmarks/yield: any_io_executor would cost more each time.
using executor = asio::thread_pool::executor_type;
template <class T> using awaitable = asio::awaitable<T, executor>;

void check(std::exception_ptr const& e) {
  if (e) std::rethrow_exception(e);
}

// A coroutine that other threads may take begins with a post: co_spawn() runs it at once on a thread of the
// pool.
awaitable<std::uint64_t> skynet(executor pool, std::uint64_t first, std::uint64_t leaves) {
  co_await asio::post(pool, asio::deferred);
  if (leaves == 1) co_return first;
  std::uint64_t const each = leaves / children;
  auto const part = [&](unsigned i) {
    return asio::co_spawn(pool, skynet(pool, first + i * each, each), asio::deferred);
  };
  std::vector<decltype(part(0))> parts;
  parts.reserve(children);
  for (unsigned i = 0; i < children; ++i) parts.push_back(part(i));
  auto const [order, errors, values] = co_await asio::experimental::make_parallel_group(std::move(parts))
                                           .async_wait(asio::experimental::wait_for_all(), asio::deferred);
  std::uint64_t total = 0;
  for (unsigned i = 0; i < children; ++i) {
    check(errors[i]);
    total += values[i];
  }
  co_return total;
}

awaitable<std::uint64_t> fib(executor pool, std::uint64_t n, bool is_forked) {
  if (is_forked) co_await asio::post(pool, asio::deferred);
  if (n < 2) co_return n;
  auto const [order, e, a, f, b] = co_await asio::experimental::make_parallel_group(
                                       asio::co_spawn(pool, fib(pool, n - 1, true), asio::deferred),
                                       asio::co_spawn(pool, fib(pool, n - 2, false), asio::deferred))
                                       .async_wait(asio::experimental::wait_for_all(), asio::deferred);
  check(e);
  check(f);
  co_return a + b;
}

using error = boost::system::error_code;
using channel = asio::experimental::concurrent_channel<executor, void(error, std::uint64_t)>;

awaitable<void> pass_on(channel& from, channel& to, std::uint64_t rounds) {
  for (; rounds != 0; --rounds) {
    std::uint64_t const hops = co_await from.async_receive(asio::deferred);
    co_await to.async_send(error(), hops + 1, asio::deferred);
  }
}

class ring {
 public:
  explicit ring(asio::thread_pool& pool) : pool_(pool.get_executor()) {
    for (std::size_t i = 0; i < ring_size; ++i) channels_.push_back(std::make_unique<channel>(pool_, 1));
  }
  std::uint64_t operator()(std::uint64_t rounds) {
    std::latch running(ring_size);
    for (std::size_t i = 0; i < ring_size; ++i)
      asio::co_spawn(pool_, pass_on(*channels_[i], *channels_[(i + 1) % ring_size], rounds),
                     [&](std::exception_ptr const& e) {
                       check(e);
                       running.count_down();
                     });
    channels_[0]->try_send(error(), 0);
    running.wait();
    std::uint64_t hops = 0;
    channels_[0]->try_receive([&](error, std::uint64_t n) { hops = n; });
    return hops;
  }

 private:
  executor pool_;
  std::vector<std::unique_ptr<channel>> channels_;
};

// ---- functions that are posted ----------------------------------------------------------------------------

struct poster {
  asio::thread_pool& pool;
  template <class F> void post(F f) { asio::post(pool, f); }
  static void* allocate(std::size_t bytes) { return asio::recycling_allocator<char>().allocate(bytes); }
  static void deallocate(void* p, std::size_t bytes) noexcept {
    asio::recycling_allocator<char>().deallocate(static_cast<char*>(p), bytes);
  }
};

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  const auto on_pool = [](std::uint64_t tasks, std::uint64_t expected, auto prepare) {
    asio::thread_pool pool(threads);
    return run_tasks(tasks, expected, prepare(pool));
  };
  const auto awaited = [](auto coroutine) {
    return [=](asio::thread_pool& pool, std::uint64_t n) {
      return asio::co_spawn(pool, coroutine(pool.get_executor(), n), asio::use_future).get();
    };
  };
  add_trees(cases, "asio coroutines", on_pool,
            awaited([](executor pool, std::uint64_t leaves) { return skynet(pool, 0, leaves); }),
            awaited([](executor pool, std::uint64_t n) { return fib(pool, n, false); }));
  add_ring(cases, "asio coroutines", on_pool, [](asio::thread_pool& pool) { return ring(pool); });
  add_callbacks<poster>(cases, "asio callbacks", [] { return std::make_unique<asio::thread_pool>(threads); });
  return subject_main(argc, argv, cases);
}
