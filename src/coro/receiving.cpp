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
      operation_(connect(async_receive_many(from, pool), notes{this})) {}

receiving::~receiving() = default;

void receiving::take(io_result<lent_buffer>&& got) noexcept {
  if (!got.has_value()) {
    if (is_pausing_ && got.error() == condition::canceled) return;
    has_ended_ = true;
    why_ = got.error();
  } else if (!*got) {
    has_ended_ = true;
  } else {
    UNIO_EXPECTS(!kept_.is_full(), "more was received than a driver reads ahead");
    kept_.push(std::move(*got));
    if (kept_.size() >= limit_) pause();
    arrived_.set(); // which may destroy this, where the executor goes on at once
  }
}

void receiving::ended() noexcept {
  is_running_ = is_pausing_ = false;
  arrived_.set();
}

void receiving::pause() noexcept {
  if (std::exchange(is_pausing_, true)) return;
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
    if (is_stopped && is_running_ && kept_.size() != 0) pause();
    if (!is_stopped && !is_running_ && !has_ended_ && kept_.size() <= limit_ / 2) {
      if (operation_.finished()) operation_.reset();
      is_running_ = from_->native_handle() == operation_.fd();
      if (is_running_) {
        operation_.start(with.multiplexer);
      } else { // it was closed, and its number may be another's
        operation_.refuse(-ECANCELED);
        take(operation_.result());
      }
    }
    if (kept_.size() != 0) {
      given_ = kept_.pop();
      error_ = {};
      co_return &given_;
    }
    if (has_ended_) {
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
    if (!waited.has_value() && kept_.size() == 0) {
      error_ = waited.error();
      co_return nullptr;
    }
  }
}

} // namespace unio
