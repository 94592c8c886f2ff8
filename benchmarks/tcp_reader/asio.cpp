// tcp_reader_asio, tcp_reader_asio_uring: callbacks and coroutines.

#include "cases.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <exception>

namespace {

using namespace benchmarks;
namespace asio = boost::asio;

#if defined(BOOST_ASIO_HAS_IO_URING)
constexpr char const* driver = ", io_uring";
#else
constexpr char const* driver = "";
#endif

using executor = asio::io_context::executor_type; // not any_io_executor: calls through a table cost more
using socket_type = asio::basic_stream_socket<asio::ip::tcp, executor>;

void read_next(socket_type& socket, receiving& to) {
  socket.async_read_some(asio::buffer(to.room(), to.room_bytes()),
                         [&](boost::system::error_code const& error, std::size_t bytes) {
                           if (error) throw boost::system::system_error(error);
                           if (to.took(bytes)) read_next(socket, to);
                         });
}

asio::awaitable<void, executor> read_all(socket_type& socket, receiving& to) {
  for (;;) {
    const std::size_t bytes =
        co_await socket.async_read_some(asio::buffer(to.room(), to.room_bytes()), asio::deferred);
    if (!to.took(bytes)) break;
  }
}

template <class F> sample run(sender& from, receiving& to, F begin) {
  asio::io_context io(1);
  socket_type socket(io.get_executor(), asio::ip::tcp::v4(), from.socket());
  from.release_socket();
  return measure_reading(from, to, [&] {
    begin(io, socket, to);
    io.run();
  });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, std::string("asio callbacks") + driver, [](sender& from, receiving& to) {
    return run(from, to, [](asio::io_context&, socket_type& socket, receiving& r) { read_next(socket, r); });
  });
  add_cases(cases, std::string("asio coroutines") + driver, [](sender& from, receiving& to) {
    return run(from, to, [](asio::io_context& io, socket_type& socket, receiving& r) {
      asio::co_spawn(io, read_all(socket, r), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
    });
  });
  return subject_main(argc, argv, cases);
}
