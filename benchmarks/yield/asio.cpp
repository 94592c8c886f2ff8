// yield_asio: what is posted runs and posts itself again; `batch` of them take turns.

#include "support/measure.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <stdexcept>

namespace {

using namespace benchmarks;
namespace asio = boost::asio;

// One of several that share what is left. A posted handler of this size lies in memory that Asio uses again.
struct poster {
  asio::io_context* io;
  std::int64_t* left;
  void operator()() const {
    if (--*left > 0) asio::post(*io, *this);
  }
};

sample callbacks(int hint, int batch, std::uint64_t operations) {
  asio::io_context io(hint);
  auto left = static_cast<std::int64_t>(operations);
  const sample s = measure(operations, [&] {
    for (int i = 0; i < batch; ++i) asio::post(io, poster{&io, &left});
    io.run();
  });
  if (left > 0) throw std::runtime_error("not all that was posted ran");
  return s;
}

// With the executor's own type: any_io_executor, the default, would cost a call through a table, and more,
// each time.
using executor = asio::io_context::executor_type;

template <class Token>
asio::awaitable<void, executor> post_again(executor here, std::int64_t& left, Token token) {
  while (left-- > 0) co_await asio::post(here, token);
}

template <class Token> sample awaited(Token token, int batch, std::uint64_t operations) {
  asio::io_context io(1);
  auto left = static_cast<std::int64_t>(operations);
  for (int i = 0; i < batch; ++i)
    asio::co_spawn(io, post_again(io.get_executor(), left, token), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
  const sample s = measure(operations, [&] { io.run(); });
  if (left > 0) throw std::runtime_error("not all that was posted ran");
  return s;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (const int batch : {1, 32}) {
    const std::vector<parameter> parameters = {{"what", "post"}, {"batch", std::to_string(batch)}};
    // One thread runs it, and others may post.
    cases.push_back(
        {"asio callbacks", parameters, [batch](std::uint64_t n) { return callbacks(1, batch, n); }});
    // Nobody else may.
    cases.push_back({"asio callbacks, without locks", parameters, [batch](std::uint64_t n) {
                       return callbacks(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE, batch, n);
                     }});
    cases.push_back({"asio coroutines", parameters, [batch](std::uint64_t n) {
                       return awaited(asio::use_awaitable_t<executor>(), batch, n);
                     }});
    cases.push_back({"asio coroutines, deferred", parameters,
                     [batch](std::uint64_t n) { return awaited(asio::deferred, batch, n); }});
  }
  return subject_main(argc, argv, cases);
}
