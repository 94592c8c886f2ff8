// asio/detail/handler_tracking.hpp: comes before Asio's file of that name, which it includes. In a program
// that has Asio track handlers, each place that ASIO_HANDLER_LOCATION names is known to unio::dump_pending
// too.

#include_next <asio/detail/handler_tracking.hpp>

#ifndef UNIO_ASIO_HANDLER_TRACKING_HPP
#define UNIO_ASIO_HANDLER_TRACKING_HPP

#if defined(ASIO_ENABLE_HANDLER_TRACKING) && !defined(ASIO_CUSTOM_HANDLER_TRACKING)

#include <unio/extend/foreign_pending.hpp>

#undef ASIO_HANDLER_LOCATION
#define ASIO_HANDLER_LOCATION(args)            \
  ::unio::foreign_location unio_location args; \
  ::asio::detail::handler_tracking::location tracked_location args

#endif

#endif // UNIO_ASIO_HANDLER_TRACKING_HPP
