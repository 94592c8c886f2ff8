// unio/detail/timer_handle.hpp: how the operations of timers and events are described.

#pragma once

#include <unio/timer_handle.hpp>

namespace unio::inline v0_1 {

inline async_wait::async_wait(timer_handle& t, unio::deadline d) noexcept
    : void_operation(detail::wait_faces, handle_kind::none, -1, t.own_multiplexer(), d),
      moment_(t.moment()) {}
UNIO_SENDER_FORMS(async_wait, (timer_handle&, t))
UNIO_SENDER_FORMS(async_no_op, (io_multiplexer*, m, = nullptr))
UNIO_FREE_VERB_FORMS(no_op, async_no_op, (io_multiplexer*, m, = nullptr))

template <class Rep, class Period>
inline void timer_handle::expires_after(std::chrono::duration<Rep, Period> d) noexcept {
  moment_ = from_now(d);
}

inline async_wait_event::async_wait_event(event_handle& h, unio::deadline d) noexcept
    : io_operation(detail::wait_event_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
UNIO_SENDER_FORMS(async_wait_event, (event_handle&, h))

} // namespace unio
