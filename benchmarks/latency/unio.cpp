// latency_unio: unio, in each style and on each driver.

#include "latency/round_trips.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

namespace latency {
namespace {

// The subject's ends as handles. Of a socket it is one, for both ways.
class ends {
 public:
  ends(echo& peer, unio::io_multiplexer* m) : is_one_(peer.in() == peer.out()) {
    in_ = adopt(peer.in(), m);
    if (!is_one_) out_ = adopt(peer.out(), m);
    peer.release();
  }
  [[nodiscard]] unio::io_handle& in() noexcept { return in_; }
  [[nodiscard]] unio::io_handle& out() noexcept { return is_one_ ? in_ : out_; }

 private:
  static unio::io_handle adopt(int fd, unio::io_multiplexer* m) {
    auto adopted = unio::io_handle::adopt(fd);
    if (!adopted) throw std::runtime_error("adopt: " + adopted.error().message());
    adopted->set_multiplexer(m);
    return std::move(*adopted);
  }

  bool is_one_;
  unio::io_handle in_;
  unio::io_handle out_;
};

unio::const_buffer message(rounds& r) { return {r.message, r.bytes}; }
unio::mutable_buffer reply(rounds& r) { return {r.reply, r.bytes}; }
template <class Result> bool is_whole(Result const& moved, rounds const& r) noexcept {
  return moved.bytes_transferred() == r.bytes;
}

// ---- the styles -------------------------------------------------------------------------------------------

void blocking(ends& e, rounds& r) {
  do {
    if (!is_whole(e.out().write(message(r)), r)) return;
    if (!is_whole(e.in().read(reply(r)), r)) return;
  } while (rounds_next(&r) != 0);
}

struct keeping_whether_whole {
  rounds* of;
  bool whole = false;
  template <class Result> void set_value(Result&& moved) noexcept { whole = is_whole(moved, *of); }
  void set_done() noexcept {}
};

// True if all of it was moved.
template <class Connection> bool spin(Connection& operation) noexcept {
  operation.start();
  while (operation.poll() != unio::io_status::completed) {
  }
  operation.reset();
  return operation.receiver().whole;
}

void polled(ends& e, rounds& r, unio::io_multiplexer&) {
  auto send = unio::connect(unio::async_write(e.out(), message(r)), keeping_whether_whole{&r});
  auto receive = unio::connect(unio::async_read(e.in(), reply(r)), keeping_whether_whole{&r});
  while (spin(send) && spin(receive) && rounds_next(&r) != 0) {
  }
}

// The end of each operation starts the other.
class talker {
 public:
  talker(ends& e, rounds& r) noexcept
      : rounds_(r),
        send_(unio::connect(unio::async_write(e.out(), message(r)), after_send{this})),
        receive_(unio::connect(unio::async_read(e.in(), reply(r)), after_receive{this})) {}
  void send() noexcept { start(send_); }
  [[nodiscard]] bool has_ended() const noexcept { return ended_; }

 private:
  struct after_send {
    talker* self;
    bool whole = false;
    void set_value(unio::io_result<unio::const_buffers>&& moved) noexcept {
      whole = is_whole(moved, self->rounds_);
    }
    void set_done() noexcept { whole ? start(self->receive_) : self->end(); }
  };
  struct after_receive {
    talker* self;
    bool whole = false;
    void set_value(unio::io_result<unio::mutable_buffers>&& moved) noexcept {
      whole = is_whole(moved, self->rounds_);
    }
    void set_done() noexcept { whole&& rounds_next(&self->rounds_) != 0 ? self->send() : self->end(); }
  };
  template <class Connection> static void start(Connection& operation) noexcept {
    operation.reset();
    operation.start();
  }
  void end() noexcept { ended_ = true; }

  rounds& rounds_;
  bool ended_ = false;
  unio::io_operation_connection<unio::async_write, after_send> send_;
  unio::io_operation_connection<unio::async_read, after_receive> receive_;
};

void multiplexed(ends& e, rounds& r, unio::io_multiplexer& m) {
  talker t(e, r);
  t.send();
  while (!t.has_ended()) m.run().value();
}

unio::task<> await_all(ends& e, rounds& r) {
  do {
    auto const sent = co_await e.out().co_write(message(r));
    if (!is_whole(sent, r)) co_return;
    auto const received = co_await e.in().co_read(reply(r));
    if (!is_whole(received, r)) co_return;
  } while (rounds_next(&r) != 0);
}

void awaited(ends& e, rounds& r, unio::io_multiplexer& m) { unio::run(m, await_all(e, r)); }

// ---- the cases --------------------------------------------------------------------------------------------

benchmarks::sample run_blocking(std::uint64_t operations, conversation const& c) {
  echo peer(c.over);
  ends e(peer, nullptr);
  return measure_trips(operations, c, [&](rounds& r) { blocking(e, r); });
}

using style = void (*)(ends&, rounds&, unio::io_multiplexer&);

std::vector<benchmarks::benchmark_case> on_driver(std::string const& name, style talk,
                                                  std::string const& driver) {
  return cases_of("unio " + name + ", " + driver, [=](std::uint64_t operations, conversation const& c) {
    echo peer(c.over);
    auto const m = benchmarks::multiplexer_on(driver);
    ends e(peer, m.get());
    return measure_trips(operations, c, [&](rounds& r) { talk(e, r, *m); });
  });
}

std::vector<benchmarks::benchmark_case> cases() {
  auto all = cases_of("unio blocking", run_blocking);
  for (char const* const driver : benchmarks::both_drivers) {
    for (auto const& some :
         {on_driver("polled", polled, driver), on_driver("multiplexed", multiplexed, driver),
          on_driver("awaited", awaited, driver)})
      all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

} // namespace
} // namespace latency

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, latency::cases()); }
