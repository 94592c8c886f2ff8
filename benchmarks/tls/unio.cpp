// tls_unio: tls_stream, on both drivers.

#include "peer.hpp"
#include "support/unio_driver.hpp"

#include <unio/run.hpp>
#include <unio/tls.hpp>
#include <unio/unio.hpp>

#include <algorithm>

namespace {

using namespace benchmarks;
using unio::task;
using unio::tls_stream;

class server final : public tls_server {
 public:
  explicit server(std::string const& driver)
      : multiplexer_(multiplexer_on(driver)),
        context_(unio::tls_context::server({unio::tls_pem::text(the_identity().certificate),
                                            unio::tls_pem::text(the_identity().key)},
                                           {.minimum = unio::tls_version::tls_1_3})
                     .value()) {}
  void meet(int socket) override {
    with(socket, [](tls_stream&) -> task<> { co_return; });
  }
  void receive(int socket, std::uint64_t bytes) override {
    with(socket, [this, bytes](tls_stream& s) -> task<> {
      for (std::uint64_t left = bytes; left != 0;) {
        auto const got = co_await s.co_read(block_);
        if (got.value().bytes() == 0) throw std::runtime_error("the stream has ended");
        left -= got->bytes();
      }
    });
  }
  void send(int socket, std::uint64_t bytes) override {
    with(socket, [this, bytes](tls_stream& s) -> task<> {
      for (std::uint64_t left = bytes; left != 0; left -= block_.size())
        (co_await unio::co_write(s, block_)).value();
      (co_await s.co_shutdown()).value();
    });
  }

 private:
  template <class F> void with(int socket, F f) {
    unio::io_handle handle = unio::io_handle::adopt(socket).value();
    handle.set_multiplexer(multiplexer_.get());
    tls_stream stream(handle, context_);
    auto const body = [](tls_stream& s, F& rest) -> task<> {
      auto const met = co_await s.co_handshake();
      met.value();
      auto const written = co_await unio::co_write(s, std::string_view("x"));
      written.value();
      co_await rest(s);
    };
    unio::run(*multiplexer_, body(stream, f));
  }
  std::unique_ptr<unio::io_multiplexer> multiplexer_;
  unio::tls_context context_;
  std::vector<unsigned char> block_ = std::vector<unsigned char>(block_bytes, 'x');
};

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  for (char const* const driver : both_drivers)
    add_cases(cases, std::string("unio awaited, ") + driver,
              [driver] { return std::make_unique<server>(driver); });
  return subject_main(argc, argv, cases);
}
