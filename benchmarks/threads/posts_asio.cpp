// threads_posts_asio: posts to an io_context that one thread runs, and to a thread_pool.

#include "posts.hpp"

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/thread_pool.hpp>

namespace {

using namespace threads_bench;
namespace asio = boost::asio;

template <class To> auto poster(To& to, window& w) {
  return [&](unsigned i) { asio::post(to, [p = &w.part_of(i)] { p->ran(); }); };
}

sample to_a_thread(std::vector<window>& windows, std::uint64_t operations) {
  asio::io_context io(1);
  auto stays = asio::make_work_guard(io);
  return run_posts(
      windows, operations, [&](window& w) { return poster(io, w); }, [&] { io.run(); },
      [&] { stays.reset(); });
}

sample to_a_pool(std::vector<window>& windows, std::uint64_t operations) {
  asio::thread_pool pool(threads);
  return run_posts(windows, operations, [&](window& w) { return poster(pool, w); }, [] {}, [] {});
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_posts(cases, "asio callbacks", runs_on::one_thread, to_a_thread);
  add_posts(cases, "asio callbacks", runs_on::pool, to_a_pool);
  return subject_main(argc, argv, cases);
}
