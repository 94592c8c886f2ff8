// boost/asio/detail/handler_tracking.hpp: comes before Boost's file of that name, which it includes. In a
// program that has Asio track handlers, each place that BOOST_ASIO_HANDLER_LOCATION names is known to
// unio::dump_pending too.

#include_next <boost/asio/detail/handler_tracking.hpp>

#ifndef UNIO_BOOST_ASIO_HANDLER_TRACKING_HPP
#define UNIO_BOOST_ASIO_HANDLER_TRACKING_HPP

#if defined(BOOST_ASIO_ENABLE_HANDLER_TRACKING) && !defined(BOOST_ASIO_CUSTOM_HANDLER_TRACKING)

#include <unio/extend/foreign_pending.hpp>

#undef BOOST_ASIO_HANDLER_LOCATION
#define BOOST_ASIO_HANDLER_LOCATION(args)      \
  ::unio::foreign_location unio_location args; \
  ::boost::asio::detail::handler_tracking::location tracked_location args

#endif

#endif // UNIO_BOOST_ASIO_HANDLER_TRACKING_HPP
