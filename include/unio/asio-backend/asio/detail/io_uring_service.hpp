// asio/detail/io_uring_service.hpp: takes the place of Asio's file of that name,
// where its directory is first on the include path. Files need no ring of their own here, and liburing.h
// is not included: what is left is the registration of buffers, of which a ring could make use. These are
// used as all others are.
//
// A program that has no epoll by ASIO_DISABLE_EPOLL has its sockets and descriptors on this service, by
// completions: then it is the context's only one, for timers too.

#include "asio/detail/config.hpp"

#if defined(ASIO_HAS_IO_URING_AS_DEFAULT)

// Before the guard: the scheduler includes this file again, and needs the class complete at its own end.
#include "asio/detail/scheduler.hpp"

#ifndef ASIO_DETAIL_IO_URING_SERVICE_HPP
#define ASIO_DETAIL_IO_URING_SERVICE_HPP

#include "asio/detail/concurrency_hint.hpp"
#include "asio/detail/conditionally_enabled_mutex.hpp"
#include "asio/detail/io_uring_operation.hpp"
#include "asio/detail/op_queue.hpp"
#include "asio/detail/reactor_op.hpp"
#include "asio/detail/scheduler_task.hpp"
#include "asio/detail/throw_error.hpp"
#include "asio/detail/timer_queue_base.hpp"
#include "asio/detail/timer_queue_set.hpp"
#include "asio/detail/wait_op.hpp"
#include "asio/error.hpp"
#include "asio/execution_context.hpp"
#include "asio/version.hpp"
#if ASIO_VERSION >= 103801
#include "asio/detail/slim_mutex.hpp"
#endif

// Asio's operations fill in entries by its inline functions. What liburing's library has is not needed.
#include <liburing.h>

#define UNIO_ASIO_SERVICE "16io_uring_service"
#include "unio/detail/asio_frame.hpp"

#include "asio/detail/push_options.hpp"
#include "unio/detail/asio_completions.hpp"
#include "asio/detail/pop_options.hpp"

#include "unio/detail/asio_frame_end.hpp"

#endif

#elif !defined(ASIO_DETAIL_IO_URING_SERVICE_HPP)
#define ASIO_DETAIL_IO_URING_SERVICE_HPP

#if defined(ASIO_HAS_IO_URING)

#include "asio/execution_context.hpp"
#include "asio/version.hpp"

#include <sys/uio.h>

#include "unio/detail/asio_frame.hpp"

#include "asio/detail/push_options.hpp"

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

#include "asio/detail/pop_options.hpp"

#include "unio/detail/asio_frame_end.hpp"

#endif // defined(ASIO_HAS_IO_URING)

#endif // ASIO_DETAIL_IO_URING_SERVICE_HPP
