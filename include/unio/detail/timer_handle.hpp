// unio/detail/timer_handle.hpp: how the operations of timers and events are described.

#pragma once

#include <unio/timer_handle.hpp>

namespace unio::inline v0_1 {

inline async_wait::async_wait(timer_handle& t, unio::deadline d) noexcept
    : operation_with(detail::wait_faces, t, d), moment_(t.moment()) {}
UNIO_SENDER_FORMS(async_wait, (timer_handle&, t))
UNIO_SENDER_FORMS(async_no_op, (io_multiplexer*, m, = nullptr))
UNIO_FREE_VERB_FORMS(no_op, async_no_op, (io_multiplexer*, m, = nullptr))

template <class Rep, class Period>
inline void timer_handle::expires_after(std::chrono::duration<Rep, Period> d) noexcept {
  moment_ = from_now(d);
}

} // namespace unio
