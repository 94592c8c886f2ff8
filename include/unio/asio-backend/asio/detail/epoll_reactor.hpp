// asio/detail/epoll_reactor.hpp: takes the place of Asio's file of that name, where its directory is first on
// the include path: the reactor of standalone Asio, on unio's drivers.

// Before the guard: the scheduler includes this file again, and needs the class complete at its own end.
#include "asio/detail/config.hpp"
#include "asio/detail/scheduler.hpp"

#ifndef ASIO_DETAIL_EPOLL_REACTOR_HPP
#define ASIO_DETAIL_EPOLL_REACTOR_HPP

#if defined(ASIO_HAS_EPOLL)

#include "asio/detail/concurrency_hint.hpp"
#include "asio/detail/conditionally_enabled_mutex.hpp"
#include "asio/detail/op_queue.hpp"
#include "asio/detail/reactor_op.hpp"
#include "asio/detail/scheduler_task.hpp"
#include "asio/detail/socket_types.hpp"
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

#define UNIO_ASIO_SERVICE "13epoll_reactor"
#include "unio/detail/asio_frame.hpp"

#include "asio/detail/push_options.hpp"
#include "unio/detail/asio_reactor.hpp"
#include "asio/detail/pop_options.hpp"

#include "unio/detail/asio_frame_end.hpp"

#endif // defined(ASIO_HAS_EPOLL)

#endif // ASIO_DETAIL_EPOLL_REACTOR_HPP
