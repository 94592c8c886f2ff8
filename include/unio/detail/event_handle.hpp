// unio/detail/event_handle.hpp: how waiting for an event is described.

#pragma once

#include <unio/event_handle.hpp>

namespace unio::inline v0_1 {

inline async_wait_event::async_wait_event(event_handle& h, unio::deadline d) noexcept
    : io_operation(detail::wait_event_faces, h.kind(), h.native_handle(), h.own_multiplexer(), d) {}
UNIO_SENDER_FORMS(async_wait_event, (event_handle & h), h)

} // namespace unio
