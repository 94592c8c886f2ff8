// pipe_unio: unio, in each style and on each driver.

#include "pipe/full_pipe.hpp"
#include "support/unio_driver.hpp"

#include <unio/callback.hpp>
#include <unio/unio.hpp>

namespace pipe_bench {
namespace {

using result = unio::io_result<unio::mutable_buffers>;

unio::io_handle adopt(full_pipe& pipe, unio::io_multiplexer* m) {
  auto adopted = unio::io_handle::adopt(pipe.reader());
  if (!adopted) throw std::runtime_error("adopt: " + adopted.error().message());
  (void)pipe.release_reader(); // it is the handle's now
  adopted->set_multiplexer(m);
  return std::move(*adopted);
}

// One reading, whose styles differ in how they ask for the next byte.
class reader {
 public:
  reader(unio::io_handle& from, bytes& b) noexcept : from_(from), bytes_(b) {}

  [[nodiscard]] unio::mutable_buffer room() noexcept { return {&byte_, 1}; }
  [[nodiscard]] unio::async_read next() noexcept { return {from_, room()}; }
  /// Whether there is another to be read.
  bool take(result const& r) noexcept {
    more_ = r.bytes_transferred() == 1 && bytes_take(&bytes_, byte_) != 0;
    return more_;
  }
  bool take(unsigned char byte) noexcept {
    more_ = bytes_take(&bytes_, byte) != 0;
    return more_;
  }
  [[nodiscard]] bool more() const noexcept { return more_; }
  [[nodiscard]] unio::io_handle& from() noexcept { return from_; }

 private:
  unio::io_handle& from_;
  bytes& bytes_;
  unsigned char byte_ = 0;
  bool more_ = true;
};

void run_until_read(unio::io_multiplexer& m, reader& r) {
  while (r.more()) m.run().value();
}

// ---- the styles -------------------------------------------------------------------------------------------

void blocking(reader& r) {
  while (r.take(r.from().read(r.room()))) {
  }
}

struct polled_receiver {
  reader* self;
  void set_value(result&& r) noexcept { self->take(r); }
  void set_done() noexcept {}
};

void polled(reader& r, unio::io_multiplexer&) {
  auto operation = unio::connect(r.next(), polled_receiver{&r});
  for (;;) {
    operation.start();
    while (operation.poll() != unio::io_status::completed) {
    }
    if (!r.more()) return;
    operation.reset();
  }
}

// Its end starts it again.
struct repeating {
  struct receiver {
    repeating* self;
    void set_value(result&& r) noexcept { self->reads->take(r); }
    void set_done() noexcept {
      if (!self->reads->more()) return;
      self->operation.reset();
      self->operation.start();
    }
  };
  explicit repeating(reader& r) noexcept : reads(&r), operation(unio::connect(r.next(), receiver{this})) {}

  reader* reads;
  unio::io_operation_connection<unio::async_read, receiver> operation;
};

void multiplexed(reader& r, unio::io_multiplexer& m) {
  repeating all(r);
  all.operation.start();
  run_until_read(m, r);
}

void read_with_callback(reader& r) {
  unio::start(r.next(), [&r](result got) noexcept {
    if (r.take(got)) read_with_callback(r);
  });
}

void callbacks(reader& r, unio::io_multiplexer& m) {
  read_with_callback(r);
  run_until_read(m, r);
}

unio::task<> await_all(reader& r) {
  do {
    result const got = co_await r.from().co_read(r.room());
    r.take(got);
  } while (r.more());
}

void awaited(reader& r, unio::io_multiplexer& m) { unio::run(m, await_all(r)); }

// One operation, which brings each byte in a buffer of its own.
struct lent_receiver {
  reader* self;
  void set_value(unio::io_result<unio::lent_buffer>&& got) noexcept {
    if (self->more() && got.has_value() && *got) self->take(static_cast<unsigned char>(*got->data()));
  }
  void set_done() noexcept {}
};

void lent(reader& r, unio::io_multiplexer& m) {
  unio::buffer_pool pool(1024, 1);
  auto operation = unio::connect(unio::async_receive_many(r.from(), pool), lent_receiver{&r});
  operation.start();
  run_until_read(m, r);
}

// ---- the cases --------------------------------------------------------------------------------------------

benchmarks::sample run_blocking(std::uint64_t operations) {
  full_pipe pipe;
  unio::io_handle from = adopt(pipe, nullptr);
  return measure_reading(operations, [&](bytes& b) {
    reader r(from, b);
    blocking(r);
  });
}

using style = void (*)(reader&, unio::io_multiplexer&);

benchmarks::benchmark_case on_driver(std::string const& name, style read_all, std::string const& driver) {
  return {.subject = "unio " + name + ", " + driver, .parameters = {}, .run = [=](std::uint64_t operations) {
            full_pipe pipe;
            auto const m = benchmarks::multiplexer_on(driver);
            unio::io_handle from = adopt(pipe, m.get());
            return measure_reading(operations, [&](bytes& b) {
              reader r(from, b);
              read_all(r, *m);
            });
          }};
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> all = {
      {.subject = "unio blocking", .parameters = {}, .run = run_blocking}};
  for (char const* const driver : benchmarks::both_drivers) {
    all.push_back(on_driver("polled", polled, driver));
    all.push_back(on_driver("multiplexed", multiplexed, driver));
    all.push_back(on_driver("callbacks", callbacks, driver));
    all.push_back(on_driver("awaited", awaited, driver));
    all.push_back(on_driver("lent", lent, driver));
  }
  return all;
}

} // namespace
} // namespace pipe_bench

int main(int argc, char** argv) {
  return benchmarks::subject_main(argc, argv, pipe_bench::by_writers(pipe_bench::cases()));
}
