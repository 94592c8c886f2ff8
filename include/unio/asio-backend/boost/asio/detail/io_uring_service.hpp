// boost/asio/detail/io_uring_service.hpp: takes the place of Boost's file of that name,
// where its directory is first on the include path. Files need no ring of their own here, and liburing.h
// is not included: what is left is the registration of buffers, of which a ring could make use. These are
// used as all others are.
//
// A program that has no epoll by BOOST_ASIO_DISABLE_EPOLL has its sockets and descriptors on this service,
// by completions: then it is the context's only one, for timers too.

#include <boost/asio/detail/config.hpp>

#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)

// Before the guard: the scheduler includes this file again, and needs the class complete at its own end.
#include <boost/asio/detail/scheduler.hpp>

#ifndef BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP
#define BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP

#include <boost/asio/detail/concurrency_hint.hpp>
#include <boost/asio/detail/conditionally_enabled_mutex.hpp>
#include <boost/asio/detail/io_uring_operation.hpp>
#include <boost/asio/detail/op_queue.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/asio/detail/scheduler_task.hpp>
#include <boost/asio/detail/throw_error.hpp>
#include <boost/asio/detail/timer_queue_base.hpp>
#include <boost/asio/detail/timer_queue_set.hpp>
#include <boost/asio/detail/wait_op.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/version.hpp>

// Asio's operations fill in entries by its inline functions. What liburing's library has is not needed.
#include <liburing.h>

#define UNIO_ASIO_SERVICE "16io_uring_service"
#include "unio/detail/boost_asio_frame.hpp"

#include <boost/asio/detail/push_options.hpp>
#include "unio/detail/asio_completions.hpp"
#include <boost/asio/detail/pop_options.hpp>

#include "unio/detail/asio_frame_end.hpp"

#endif

#elif !defined(BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP)
#define BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP

#if defined(BOOST_ASIO_HAS_IO_URING)

#include <boost/asio/execution_context.hpp>
#include <boost/asio/version.hpp>

#include <sys/uio.h>

#include "unio/detail/boost_asio_frame.hpp"

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

#include "unio/detail/asio_frame_end.hpp"

#endif // defined(BOOST_ASIO_HAS_IO_URING)

#endif // BOOST_ASIO_DETAIL_IO_URING_SERVICE_HPP
