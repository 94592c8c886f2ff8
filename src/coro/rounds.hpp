// src/coro/rounds.hpp: the limits of a loop that a peer feeds.
//
// A read of bytes that are there succeeds, also after its deadline, and need not suspend. A loop of such
// reads ends when its peer wants it to, unless it asks for its limits itself.

#pragma once

#include <unio/detail/time_limit.hpp>
#include <unio/task.hpp>

#include <cerrno>
#include <system_error>

namespace unio::inline v0_1::detail {

/// The time limit of a transfer of several rounds, and how many there were.
class rounds : public time_limit {
 public:
  explicit rounds(time_limit limit) noexcept : time_limit(limit) {}
  explicit rounds(deadline d) noexcept : time_limit(d) {}

  /// `co_await another()` before each round but the first. Yields why there is to be no other one: ECANCELED
  /// after a stop, ETIMEDOUT after the deadline, EAGAIN where the deadline is zero and the peer has filled so
  /// many rounds that "at once" is over. Lets others run after 64 awaits, so that the timer of a timeout()
  /// around it can fire.
  [[nodiscard]] auto another() noexcept {
    struct [[nodiscard]] awaitable {
      rounds& of;
      environment const* with = nullptr;
      yield_awaitable turn = {};

      bool await_ready(environment const& e) noexcept {
        with = &e;
        return of.next().is_zero() || !turn_is_over();
      }
      bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
        return turn.await_suspend(h, e);
      }
      [[nodiscard]] std::error_code await_resume() noexcept {
        turn.await_resume();
        if (with->stop.stop_requested()) return {ECANCELED, std::system_category()};
        return of.is_over();
      }
    };
    return awaitable{*this};
  }

 private:
  [[nodiscard]] std::error_code is_over() noexcept {
    if (has_passed()) return {ETIMEDOUT, std::system_category()};
    if (next().is_zero() && ++count_ == most_at_once) return {EAGAIN, std::system_category()};
    return {};
  }

  static constexpr unsigned most_at_once = 1024;
  unsigned count_ = 0;
};

} // namespace unio::detail
