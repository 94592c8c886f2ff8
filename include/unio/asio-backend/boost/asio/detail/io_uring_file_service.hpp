// boost/asio/detail/io_uring_file_service.hpp: takes the place of Boost's file of that name,
// where its directory is first on the include path:
// the files of Boost.Asio, on unio's drivers.

#include <boost/asio/detail/config.hpp>

#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
#pragma GCC system_header // for include_next
#include_next <boost/asio/detail/io_uring_file_service.hpp>
#elif !defined(BOOST_ASIO_DETAIL_IO_URING_FILE_SERVICE_HPP)
#define BOOST_ASIO_DETAIL_IO_URING_FILE_SERVICE_HPP

#if defined(BOOST_ASIO_HAS_FILE) && defined(BOOST_ASIO_HAS_IO_URING)

#include <boost/asio/associated_cancellation_slot.hpp>
#include <boost/asio/cancellation_type.hpp>
#include <boost/asio/detail/bind_handler.hpp>
#include <boost/asio/detail/buffer_sequence_adapter.hpp>
#include <boost/asio/detail/descriptor_ops.hpp>
#include <boost/asio/detail/epoll_reactor.hpp>
#include <boost/asio/detail/fenced_block.hpp>
#include <boost/asio/detail/handler_alloc_helpers.hpp>
#include <boost/asio/detail/handler_cont_helpers.hpp>
#include <boost/asio/detail/handler_work.hpp>
#include <boost/asio/detail/op_queue.hpp>
#include <boost/asio/detail/reactor_op.hpp>
#include <boost/asio/detail/scheduler.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/file_base.hpp>
#include <boost/asio/version.hpp>

#include "unio/detail/boost_asio_frame.hpp"

#include <boost/asio/detail/push_options.hpp>
#include "unio/detail/asio_file_service.hpp"
#include <boost/asio/detail/pop_options.hpp>

#include "unio/detail/asio_frame_end.hpp"

#endif // defined(BOOST_ASIO_HAS_FILE) && defined(BOOST_ASIO_HAS_IO_URING)

#endif // BOOST_ASIO_DETAIL_IO_URING_FILE_SERVICE_HPP
