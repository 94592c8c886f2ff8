// latency_asio, latency_asio_uring: Asio, as one thread uses it: nothing is locked
// (https://www.boost.org/doc/libs/1_81_0/doc/html/boost_asio/overview/core/concurrency_hint.html), executors
// are not type-erased, and Asio recycles the memory of its operations and coroutines by itself. It sleeps in
// run(), or spins on poll(), which never sleeps.
//
// Which of both a file is compiled for: BOOST_ASIO_HAS_IO_URING and BOOST_ASIO_DISABLE_EPOLL, or neither
// (https://www.boost.org/doc/libs/1_81_0/doc/html/boost_asio/overview/implementation.html).

#include "latency/round_trips.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/local/stream_protocol.hpp>
#include <boost/asio/posix/basic_stream_descriptor.hpp>
#include <exception>

namespace asio = boost::asio;

namespace latency {
namespace {

using executor = asio::io_context::executor_type;
using descriptor = asio::posix::basic_stream_descriptor<executor>;
using socket = asio::basic_stream_socket<asio::local::stream_protocol, executor>;

#ifdef BOOST_ASIO_HAS_EPOLL
const std::string on = "";
#else
const std::string on = ", io_uring";
#endif

// ---- callbacks --------------------------------------------------------------------------------------------

template <class Stream> class talker {
 public:
  talker(Stream& in, Stream& out, rounds& r) : in_(in), out_(out), rounds_(r) {}
  void send() {
    out_.async_write_some(asio::buffer(rounds_.message, rounds_.bytes),
                          [this](boost::system::error_code e, std::size_t n) {
                            if (!e && n == rounds_.bytes) receive();
                          });
  }

 private:
  void receive() {
    in_.async_read_some(asio::buffer(rounds_.reply, rounds_.bytes),
                        [this](boost::system::error_code e, std::size_t n) {
                          if (!e && n == rounds_.bytes && rounds_next(&rounds_) != 0) send();
                        });
  }

  Stream& in_;
  Stream& out_;
  rounds& rounds_;
};

struct with_callbacks {
  template <class Stream, class Wait>
  static void talk(asio::io_context&, Stream& in, Stream& out, rounds& r, Wait&& wait) {
    talker<Stream> t(in, out, r);
    t.send();
    wait();
  }
};

// ---- coroutines -------------------------------------------------------------------------------------------

// An operation that is not started before it is awaited is awaited as it is, without a coroutine around it.
template <class Stream> asio::awaitable<void, executor> talk_all(Stream& in, Stream& out, rounds& r) {
  do {
    std::size_t const sent = co_await out.async_write_some(asio::buffer(r.message, r.bytes), asio::deferred);
    if (sent != r.bytes) co_return;
    std::size_t const received = co_await in.async_read_some(asio::buffer(r.reply, r.bytes), asio::deferred);
    if (received != r.bytes) co_return;
  } while (rounds_next(&r) != 0);
}

struct with_coroutines {
  template <class Stream, class Wait>
  static void talk(asio::io_context& context, Stream& in, Stream& out, rounds& r, Wait&& wait) {
    asio::co_spawn(context, talk_all(in, out, r), [](std::exception_ptr e) {
      if (e) std::rethrow_exception(e);
    });
    wait();
  }
};

// ---- how to wait, and what for ----------------------------------------------------------------------------

struct asleep {
  static void wait(asio::io_context& context) { context.run(); }
};
struct spinning {
  static void wait(asio::io_context& context) {
    while (!context.stopped()) context.poll(); // it stops when nothing is left to be done
  }
};

template <class Style, class How> benchmarks::sample run(std::uint64_t operations, conversation const& c) {
  echo peer(c.over);
  asio::io_context context(BOOST_ASIO_CONCURRENCY_HINT_UNSAFE);
  auto const talk = [&](auto& in, auto& out) {
    peer.release();
    return measure_trips(operations, c,
                         [&](rounds& r) { Style::talk(context, in, out, r, [&] { How::wait(context); }); });
  };
  if (c.over == transport::unix_socket) {
    socket both(context, asio::local::stream_protocol(), peer.in());
    return talk(both, both);
  }
  descriptor in(context, peer.in());
  descriptor out(context, peer.out());
  return talk(in, out);
}

} // namespace
} // namespace latency

int main(int argc, char** argv) {
  using namespace latency;
  std::vector<benchmarks::benchmark_case> all;
  for (auto const& some : {cases_of("asio callbacks" + on, run<with_callbacks, asleep>),
                           cases_of("asio callbacks, spinning" + on, run<with_callbacks, spinning>),
                           cases_of("asio coroutines" + on, run<with_coroutines, asleep>),
                           cases_of("asio coroutines, spinning" + on, run<with_coroutines, spinning>)})
    all.insert(all.end(), some.begin(), some.end());
  return benchmarks::subject_main(argc, argv, all);
}
