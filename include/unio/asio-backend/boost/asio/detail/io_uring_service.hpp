// boost/asio/detail/io_uring_service.hpp: takes the place of Boost's file of that name,
// where its directory is first on the include path. Files need no ring of their own here, and liburing.h
// is not included: what is left is the registration of buffers, of which a ring could make use. These are
// used as all others are.
//
// A program that has no epoll by BOOST_ASIO_DISABLE_EPOLL has Asio's own ring.

#include <boost/asio/detail/config.hpp>

#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
#pragma GCC system_header // for include_next
#include_next <boost/asio/detail/io_uring_service.hpp>
#elif !defined(BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP)
#define BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP

#if defined(BOOST_ASIO_HAS_IO_URING)

#include <boost/asio/execution_context.hpp>
#include <boost/asio/version.hpp>

#include <sys/uio.h>

#define UNIO_ASIO_BEGIN namespace boost { namespace asio { namespace detail {
#define UNIO_ASIO_END } } }

#include <boost/asio/detail/push_options.hpp>

UNIO_ASIO_BEGIN

class io_uring_service : public execution_context_service_base<io_uring_service> {
 public:
  explicit io_uring_service(execution_context& context)
      : execution_context_service_base<io_uring_service>(context) {}
  void shutdown() {}
  void register_buffers(const ::iovec*, unsigned) {}
  void unregister_buffers() {}
};

UNIO_ASIO_END

#include <boost/asio/detail/pop_options.hpp>

#undef UNIO_ASIO_BEGIN
#undef UNIO_ASIO_END

#endif // defined(BOOST_ASIO_HAS_IO_URING)

#endif // BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP
