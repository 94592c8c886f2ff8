// boost/asio/detail/epoll_reactor.hpp: takes the place of Boost's file of that name, where its directory is
// first on the include path: the reactor of Boost.Asio, on unio's drivers.

// Before the guard: the scheduler includes this file again, and needs the class complete at its own end.
#include <boost/asio/detail/config.hpp>
#include <boost/asio/detail/scheduler.hpp>

#ifndef BOOST_ASIO_DETAIL_EPOLL_REACTOR_HPP
#define BOOST_ASIO_DETAIL_EPOLL_REACTOR_HPP

#if defined(BOOST_ASIO_HAS_EPOLL)

#include <boost/asio/detail/concurrency_hint.hpp>
#include <boost/asio/detail/conditionally_enabled_mutex.hpp>
#include <boost/asio/detail/op_queue.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/asio/detail/scheduler_task.hpp>
#include <boost/asio/detail/socket_types.hpp>
#include <boost/asio/detail/throw_error.hpp>
#include <boost/asio/detail/timer_queue_base.hpp>
#include <boost/asio/detail/timer_queue_set.hpp>
#include <boost/asio/detail/wait_op.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/version.hpp>

#define UNIO_ASIO_SERVICE "13epoll_reactor"
#include "unio/detail/boost_asio_frame.hpp"

#include <boost/asio/detail/push_options.hpp>
#include "unio/detail/asio_reactor.hpp"
#include <boost/asio/detail/pop_options.hpp>

#include "unio/detail/asio_frame_end.hpp"

#endif // defined(BOOST_ASIO_HAS_EPOLL)

#endif // BOOST_ASIO_DETAIL_EPOLL_REACTOR_HPP
