#include <unio/detail/time_limit.hpp>
#include <unio/receiving.hpp>
#include <unio/when.hpp>

#include <algorithm>
#include <cerrno>
#include <utility>

namespace unio::inline v0_1 {
namespace {

// The most that a ring reads before it learns that it should not (driver/buffer_slots.hpp), and the one that
// is being delivered.
constexpr std::size_t overrun = 64 + 1;

std::size_t buffers_of(std::size_t window, buffer_pool const& pool) noexcept {
  return std::clamp<std::size_t>(window / pool.size(), 1, pool.count());
}

} // namespace

receiving::receiving(io_handle& from, buffer_pool& pool, options o)
    : from_(&from),
      limit_(buffers_of(o.window, pool)),
      kept_(limit_ + overrun),
      operation_(connect(source(from, pool), notes{this})) {}

receiving::~receiving() = default;

void receiving::take(io_result<lent_buffer>&& got) noexcept {
  if (!got.has_value()) {
    bool const is_paused = is_pausing_ || is_stopping_.load(std::memory_order_relaxed);
    if (is_paused && got.error() == condition::canceled) return;
    why_ = got.error();
    has_ended_.store(true, std::memory_order_release);
  } else if (!*got) {
    has_ended_.store(true, std::memory_order_release);
  } else {
    std::size_t const before = kept_.size();
    UNIO_EXPECTS(before != limit_ + overrun, "more was received than a driver reads ahead");
    kept_.push(std::move(*got));
    if (before + 1 >= limit_ && !std::exchange(is_pausing_, true)) operation_.cancel();
    arrived_.set(); // which may destroy this, where the executor goes on at once
  }
}

void receiving::ended() noexcept {
  is_running_.store(false, std::memory_order_release);
  arrived_.set();
}

void receiving::begin(environment const& with) noexcept {
  operation_.reset(); // once a thread has returned that has just said that it has ended
  is_pausing_ = false;
  is_stopping_.store(false, std::memory_order_relaxed);
  if (from_->native_handle() != operation_.fd()) { // it was closed, and its number may be another's
    operation_.refuse(-ECANCELED);
    return take(operation_.result());
  }
  is_running_.store(true, std::memory_order_relaxed);
  io_multiplexer& runs = operation_.chosen(with.multiplexer);
  if (runs.is_shared() || with.executor.multiplexer() != &runs) operation_.let_others_ask();
  operation_.start(&runs);
}

void receiving::stop() noexcept {
  if (is_stopping_.load(std::memory_order_relaxed)) return;
  is_stopping_.store(true, std::memory_order_relaxed);
  operation_.cancel();
}

task<lent_buffer*> receiving::co_next(deadline d) {
  given_.reset();
  detail::time_limit const limit(d);
  environment const& with = co_await this_coro::environment;
  bool has_polled = !d.is_zero();
  for (;;) {
    // After a stop what is kept is still given, but a peer that goes on sending does not add to it for ever.
    bool const is_stopped = with.stop.stop_requested();
    if (!is_stopped) {
      if (!is_running_.load(std::memory_order_acquire) && !has_ended_.load(std::memory_order_relaxed) &&
          kept_.size() <= limit_ / 2)
        begin(with);
    } else if (is_running_.load(std::memory_order_acquire) && !kept_.empty()) {
      stop();
    }
    if (!kept_.empty()) {
      kept_.pop(given_);
      error_ = {};
      co_return &given_;
    }
    if (has_ended_.load(std::memory_order_acquire)) {
      if (!kept_.empty()) continue; // it came before the end
      error_ = why_;
      co_return nullptr;
    }
    if (!std::exchange(has_polled, true)) { // what is there comes in a turn of the loop
      co_await co_yield_now();
      continue;
    }
    result<void> waited;
    if (d.is_none()) {
      waited = co_await arrived_.co_wait();
    } else {
      waited = co_await timeout(limit.next(), arrived_.co_wait());
    }
    if (!waited.has_value() && kept_.empty()) {
      error_ = waited.error();
      co_return nullptr;
    }
  }
}

} // namespace unio
