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

template <class End> void perform_all(End& end) noexcept {
  while (end.is_ready()) end.take(end.perform());
}

void block_in_turn(reading_end& reading, writing_end& writing, section& measured) {
  measured.begin();
  while (reading.is_ready()) {
    reading.take(reading.perform());
    perform_all(writing);
  }
  measured.end();
}

void block_in_two_threads(reading_end& reading, writing_end& writing, section& measured) {
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
  unio::io_operation_connection<typename End::sender, receiver> operation_;
  bool is_busy_ = false;
};

bool have_ended(reading_end const& reading, writing_end const& writing, coupling c) noexcept {
  return reading.is_ended() && (c == coupling::one_end || writing.is_ended());
}

void poll_both(coupling c, reading_end& reading, writing_end& writing, section& measured) {
  lane<reading_end, when_done::wait> reads(reading);
  lane<writing_end, when_done::wait> writes(writing);
  measured.begin();
  while (!have_ended(reading, writing, c)) {
    writes.go();
    reads.go();
    writes.poll();
    reads.poll();
  }
  measured.end();
}

std::error_code run_both(coupling c, reading_end& reading, writing_end& writing, unio::io_multiplexer& m,
                         section& measured) {
  lane<reading_end, when_done::go_on> reads(reading);
  lane<writing_end, when_done::go_on> writes(writing);
  std::error_code why;
  measured.begin();
  while (!have_ended(reading, writing, c) && !why) {
    writes.go();
    reads.go();
    why = m.run().error();
  }
  measured.end();
  return why;
}

// ── awaited ───────────────────────────────────────────────────────────────────────────────────────────────

template <class End> unio::task<> await_all(End& end) {
  while (end.is_ready()) end.take(co_await end.co_perform());
}

unio::task<> await_in_turn(reading_end& reading, writing_end& writing) {
  while (reading.is_ready()) {
    reading.take(co_await reading.co_perform());
    while (writing.is_ready()) writing.take(co_await writing.co_perform());
  }
}

unio::task<> await_both(unio::task<> reading, unio::task<> writing) {
  co_await unio::when_all(std::move(writing), std::move(reading));
}

// The frames are made before the work begins, as the operations of the other styles are.
std::error_code await_transfer(coupling c, reading_end& reading, writing_end& writing,
                               unio::io_multiplexer& m, section& measured) {
  unio::task<> work = c == coupling::stream ? await_both(await_all(reading), await_all(writing))
                                            : await_in_turn(reading, writing);
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

} // namespace

std::error_code transfer(style how, coupling c, reading_end& reading, writing_end& writing,
                         unio::io_multiplexer* m, section& measured) {
  if (how == style::multiplexed) return run_both(c, reading, writing, *m, measured);
  if (how == style::awaited) return await_transfer(c, reading, writing, *m, measured);
  if (how == style::polled) {
    poll_both(c, reading, writing, measured);
  } else if (c == coupling::stream) {
    block_in_two_threads(reading, writing, measured);
  } else {
    block_in_turn(reading, writing, measured);
  }
  return {};
}

} // namespace tour
