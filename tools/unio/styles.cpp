#include "styles.hpp"

#include <unio/run.hpp>
#include <unio/when.hpp>

#include <atomic>
#include <system_error>
#include <thread>
#include <utility>

namespace tour {
namespace {

// ── blocking ──────────────────────────────────────────────────────────────────────────────────────────────

// Two threads that start and stop together without a system call, so that all counted calls move bytes.
class rendezvous {
 public:
  void arrive(int stage) noexcept { reached_.store(stage, std::memory_order_release); } // pairs with await()
  void await(int stage) const noexcept {
    while (reached_.load(std::memory_order_acquire) < stage) {
    }
  }

 private:
  std::atomic<int> reached_{0};
};

// Something was written that has not been read.
template <class Port>
bool is_behind(reading_end<Port> const& reading, writing_end<Port> const& writing) noexcept {
  return reading.is_ready() && reading.bytes() < writing.bytes();
}

template <class End> void perform_all(End& end) noexcept {
  while (end.is_ready()) end.take(end.perform());
}

template <class Port>
void block_in_turn(reading_end<Port>& reading, writing_end<Port>& writing, section& measured) {
  measured.begin();
  while (reading.is_ready()) {
    reading.take(reading.perform());
    perform_all(writing);
  }
  measured.end();
}

template <class Port>
void block_in_lock_step(reading_end<Port>& reading, writing_end<Port>& writing, section& measured) {
  measured.begin();
  while (writing.is_ready() && reading.is_ready()) {
    writing.take(writing.perform());
    while (is_behind(reading, writing)) reading.take(reading.perform());
  }
  measured.end();
}

template <class Port>
void block_in_two_threads(reading_end<Port>& reading, writing_end<Port>& writing, section& measured) {
  rendezvous go;
  rendezvous written;
  rendezvous leave;
  std::jthread writer([&] {
    go.await(1);
    perform_all(writing);
    written.arrive(1);
    leave.await(1);
  });
  measured.begin();
  go.arrive(1);
  perform_all(reading);
  written.await(1);
  measured.end();
  leave.arrive(1);
}

// ── polled and multiplexed ────────────────────────────────────────────────────────────────────────────────

enum class when_done { wait, go_on };

// An end, and the operation that is in flight for it.
template <class End, when_done Then> class lane {
 public:
  explicit lane(End& end) noexcept : end_(end) {}
  lane(lane const&) = delete;

  void go() noexcept {
    if (is_busy_ || !end_.is_ready()) return;
    is_busy_ = true;
    operation_ = unio::connect(end_.describe(), receiver{this});
    operation_.start();
  }
  void poll() noexcept {
    if (is_busy_) operation_.poll();
  }

 private:
  struct receiver {
    lane* self = nullptr;
    void set_value(typename End::result_type&& r) noexcept { self->end_.take(std::move(r)); }
    void set_done() noexcept {
      lane& l = *self; // go() replaces the operation, and destroys this
      l.is_busy_ = false;
      if constexpr (Then == when_done::go_on) l.go();
    }
  };

  End& end_;
  unio::io_operation_connection<decltype(std::declval<End&>().describe()), receiver> operation_;
  bool is_busy_ = false;
};

template <class Port>
bool have_ended(reading_end<Port> const& reading, writing_end<Port> const& writing, coupling c) noexcept {
  if (c == coupling::lock_step)
    return reading.is_ended() || (writing.is_ended() && !is_behind(reading, writing));
  return reading.is_ended() && (c == coupling::one_end || writing.is_ended());
}

// In lock step one of the two is at work.
template <class Reads, class Writes, class Port>
void go_on(Reads& reads, Writes& writes, reading_end<Port> const& reading, writing_end<Port> const& writing,
           coupling c) noexcept {
  bool const in_turn = c == coupling::lock_step;
  if (!in_turn || !is_behind(reading, writing)) writes.go();
  if (!in_turn || is_behind(reading, writing)) reads.go();
}

template <class Port>
void poll_both(coupling c, reading_end<Port>& reading, writing_end<Port>& writing, section& measured) {
  lane<reading_end<Port>, when_done::wait> reads(reading);
  lane<writing_end<Port>, when_done::wait> writes(writing);
  measured.begin();
  while (!have_ended(reading, writing, c)) {
    go_on(reads, writes, reading, writing, c);
    writes.poll();
    reads.poll();
  }
  measured.end();
}

template <class Port, when_done Then>
std::error_code run_lanes(coupling c, reading_end<Port>& reading, writing_end<Port>& writing,
                          unio::io_multiplexer& m, section& measured) {
  lane<reading_end<Port>, Then> reads(reading);
  lane<writing_end<Port>, Then> writes(writing);
  std::error_code why;
  measured.begin();
  while (!have_ended(reading, writing, c) && !why) {
    go_on(reads, writes, reading, writing, c);
    why = m.run().error();
  }
  measured.end();
  return why;
}

template <class Port>
std::error_code run_both(coupling c, reading_end<Port>& reading, writing_end<Port>& writing,
                         unio::io_multiplexer& m, section& measured) {
  return c == coupling::lock_step ? run_lanes<Port, when_done::wait>(c, reading, writing, m, measured)
                                  : run_lanes<Port, when_done::go_on>(c, reading, writing, m, measured);
}

// ── awaited ───────────────────────────────────────────────────────────────────────────────────────────────

template <class End> unio::task<> await_all(End& end) {
  while (end.is_ready()) end.take(co_await end.co_perform());
}

template <class Port> unio::task<> await_in_turn(reading_end<Port>& reading, writing_end<Port>& writing) {
  while (reading.is_ready()) {
    reading.take(co_await reading.co_perform());
    while (writing.is_ready()) writing.take(co_await writing.co_perform());
  }
}

template <class Port>
unio::task<> await_in_lock_step(reading_end<Port>& reading, writing_end<Port>& writing) {
  while (writing.is_ready() && reading.is_ready()) {
    writing.take(co_await writing.co_perform());
    while (is_behind(reading, writing)) reading.take(co_await reading.co_perform());
  }
}

unio::task<> await_both(unio::task<> reading, unio::task<> writing) {
  co_await unio::when_all(std::move(writing), std::move(reading));
}

// The frames are made before the work begins, as the operations of the other styles are.
template <class Port>
std::error_code await_transfer(coupling c, reading_end<Port>& reading, writing_end<Port>& writing,
                               unio::io_multiplexer& m, section& measured) {
  unio::task<> work;
  if (c == coupling::stream) {
    work = await_both(await_all(reading), await_all(writing));
  } else if (c == coupling::lock_step) {
    work = await_in_lock_step(reading, writing);
  } else {
    work = await_in_turn(reading, writing);
  }
  std::error_code why;
  measured.begin();
  try {
    unio::run(m, std::move(work));
  } catch (std::system_error const& e) {
    why = e.code();
  }
  measured.end();
  return why;
}

template <class Port> constexpr bool is_only_awaited = !requires(Port p) { p.async_read({}); };

} // namespace

template <class Port>
std::error_code transfer(style how, coupling c, reading_end<Port>& reading, writing_end<Port>& writing,
                         unio::io_multiplexer* m, section& measured) {
  if constexpr (!is_only_awaited<Port>) {
    if (how == style::multiplexed) return run_both(c, reading, writing, *m, measured);
    if (how == style::polled) return poll_both(c, reading, writing, measured), std::error_code();
    if (how == style::blocking) {
      if (c == coupling::stream) {
        block_in_two_threads(reading, writing, measured);
      } else if (c == coupling::lock_step) {
        block_in_lock_step(reading, writing, measured);
      } else {
        block_in_turn(reading, writing, measured);
      }
      return {};
    }
  }
  return await_transfer(c, reading, writing, *m, measured);
}

template std::error_code transfer(style, coupling, reading_end<handle_port>&, writing_end<handle_port>&,
                                  unio::io_multiplexer*, section&);
template std::error_code transfer(style, coupling, reading_end<datagram_port>&, writing_end<datagram_port>&,
                                  unio::io_multiplexer*, section&);
#ifdef UNIO_TOOL_TLS
template std::error_code transfer(style, coupling, reading_end<tls_port>&, writing_end<tls_port>&,
                                  unio::io_multiplexer*, section&);
#endif

} // namespace tour
