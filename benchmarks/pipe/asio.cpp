// pipe_asio, pipe_asio_uring: Asio, as one thread uses it: nothing is locked
// (https://www.boost.org/doc/libs/1_81_0/doc/html/boost_asio/overview/core/concurrency_hint.html), executors
// are not type-erased, and Asio recycles the memory of its operations and coroutines by itself.
//
// Which of both a file is compiled for: BOOST_ASIO_HAS_IO_URING and BOOST_ASIO_DISABLE_EPOLL, or neither
// (https://www.boost.org/doc/libs/1_81_0/doc/html/boost_asio/overview/implementation.html).

#include "pipe/full_pipe.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <exception>
#include <string>

namespace asio = boost::asio;

namespace pipe_bench {
namespace {

using executor = asio::io_context::executor_type;
using descriptor = asio::posix::basic_stream_descriptor<executor>;

#ifdef BOOST_ASIO_HAS_EPOLL
const std::string on = "";
#else
const std::string on = ", io_uring";
#endif

class reader {
 public:
  reader(descriptor& from, bytes& b) : from_(from), bytes_(b) {}
  void read() {
    from_.async_read_some(asio::buffer(&byte_, 1), [this](boost::system::error_code e, std::size_t n) {
      if (!e && n == 1 && bytes_take(&bytes_, byte_) != 0) read();
    });
  }

 private:
  descriptor& from_;
  bytes& bytes_;
  unsigned char byte_ = 0;
};

benchmarks::sample callbacks(std::uint64_t operations) {
  full_pipe pipe;
  asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
  descriptor from(context, pipe.release_reader());
  return measure_reading(operations, [&](bytes& b) {
    reader r(from, b);
    r.read();
    context.run();
  });
}

using use_awaitable = asio::use_awaitable_t<executor>;
using awaited_descriptor = use_awaitable::as_default_on_t<descriptor>;

asio::awaitable<void, executor> read_all(awaited_descriptor& from, bytes& b) {
  unsigned char byte = 0;
  do {
    std::size_t const n = co_await from.async_read_some(asio::buffer(&byte, 1));
    if (n != 1) co_return;
  } while (bytes_take(&b, byte) != 0);
}

// An operation that is not started before it is awaited is awaited as it is, without a coroutine around it.
asio::awaitable<void, executor> read_all(descriptor& from, bytes& b) {
  unsigned char byte = 0;
  do {
    std::size_t const n = co_await from.async_read_some(asio::buffer(&byte, 1), asio::deferred);
    if (n != 1) co_return;
  } while (bytes_take(&b, byte) != 0);
}

template <class Descriptor> benchmarks::sample coroutines(std::uint64_t operations) {
  full_pipe pipe;
  asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
  Descriptor from(context, pipe.release_reader());
  return measure_reading(operations, [&](bytes& b) {
    asio::co_spawn(context, read_all(from, b), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    context.run();
  });
}

} // namespace
} // namespace pipe_bench

int main(int argc, char** argv) {
  using namespace pipe_bench;
  return benchmarks::subject_main(
      argc, argv,
      pipe_bench::by_writers(
          {{.subject = "asio callbacks" + on, .parameters = {}, .run = callbacks},
           {.subject = "asio coroutines" + on, .parameters = {}, .run = coroutines<awaited_descriptor>},
           {.subject = "asio coroutines, deferred" + on, .parameters = {}, .run = coroutines<descriptor>}}));
}
