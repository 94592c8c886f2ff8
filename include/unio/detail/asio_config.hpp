// unio/detail/asio_config.hpp: which Asio it is.
//
// Standalone Asio, or with UNIO_ASIO_BOOST defined Boost.Asio. What is made for one has other names than what
// is made for the other (an inline namespace), so a program may have both.

#pragma once

#include <unio/config.hpp>

#if defined(UNIO_ASIO_BOOST)
#if !__has_include(<boost/asio/version.hpp>)
#error "unio/asio.hpp: UNIO_ASIO_BOOST is defined, and there is no Boost.Asio (Debian: libboost1.81-dev)"
#endif
#include <boost/asio/version.hpp>
#define UNIO_ASIO_NAMESPACE boost::asio
#define UNIO_ASIO_TAG on_boost_asio
#define UNIO_ASIO_HEADER(name) <boost/asio/name>
#define UNIO_ASIO_VERSION BOOST_ASIO_VERSION
#else
#if !__has_include(<asio/version.hpp>)
#error "unio/asio.hpp: there is no Asio (Debian: libasio-dev); define UNIO_ASIO_BOOST for Boost.Asio"
#endif
#include <asio/version.hpp>
#define UNIO_ASIO_NAMESPACE asio
#define UNIO_ASIO_TAG on_asio
#define UNIO_ASIO_HEADER(name) <asio/name>
#define UNIO_ASIO_VERSION ASIO_VERSION
#endif

#if UNIO_ASIO_VERSION < 102201
#error "unio/asio.hpp needs Asio 1.22.1 or Boost 1.79: cancellation slots"
#endif

#include UNIO_ASIO_HEADER(any_io_executor.hpp)
#include UNIO_ASIO_HEADER(associated_allocator.hpp)
#include UNIO_ASIO_HEADER(associated_cancellation_slot.hpp)
#include UNIO_ASIO_HEADER(associated_executor.hpp)
#include UNIO_ASIO_HEADER(async_result.hpp)
#include UNIO_ASIO_HEADER(buffer.hpp)
#include UNIO_ASIO_HEADER(cancellation_signal.hpp)
#include UNIO_ASIO_HEADER(compose.hpp)
#include UNIO_ASIO_HEADER(dispatch.hpp)
#include UNIO_ASIO_HEADER(error.hpp)
#include UNIO_ASIO_HEADER(execution.hpp)
#include UNIO_ASIO_HEADER(execution_context.hpp)
#include UNIO_ASIO_HEADER(executor_work_guard.hpp)
#include UNIO_ASIO_HEADER(post.hpp)
#include UNIO_ASIO_HEADER(redirect_error.hpp)
#include UNIO_ASIO_HEADER(system_executor.hpp)
#if UNIO_ASIO_VERSION >= 103000
#include UNIO_ASIO_HEADER(associated_immediate_executor.hpp)
#endif

#if defined(UNIO_ASIO_BOOST)
#include <boost/system/system_error.hpp>
namespace boost::beast {
enum class role_type; // Beast's: see teardown()
}
#endif

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {
namespace net = ::UNIO_ASIO_NAMESPACE;
#if defined(UNIO_ASIO_BOOST)
using asio_role = boost::beast::role_type;
using asio_system_error = boost::system::system_error;
#else
enum class asio_role {}; // there is no Beast for standalone Asio
using asio_system_error = std::system_error;
#endif
#if UNIO_ASIO_VERSION >= 103000
template <class Handler, class Executor>
using asio_immediate_executor = net::associated_immediate_executor<Handler, Executor>;
/// Where to dispatch a handler that is to be called at once, without being called here.
template <class Handler, class Executor> auto asio_posts_to(Handler const& h, Executor const& e) {
  return net::get_associated_immediate_executor(h, e);
}
#else
/// No handler has one before Asio 1.30.
template <class Handler, class Executor> struct asio_immediate_executor {
  using type = void;
};
template <class Handler, class Executor> auto asio_posts_to(Handler const&, Executor const& e) {
  return net::require(e, net::execution::blocking.never);
}
#endif
} // namespace unio::detail

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

#if defined(UNIO_ASIO_BOOST)
/// Asio's error code: std::error_code, or Boost's.
using asio_error_code = boost::system::error_code;
#else
using asio_error_code = std::error_code;
#endif

} // namespace unio
