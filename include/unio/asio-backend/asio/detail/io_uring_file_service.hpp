// asio/detail/io_uring_file_service.hpp: takes the place of Asio's file of that name,
// where its directory is first on the include path:
// the files of standalone Asio, on unio's drivers.

#include "asio/detail/config.hpp"

#if defined(ASIO_HAS_IO_URING_AS_DEFAULT)
#pragma GCC system_header // for include_next
#include_next "asio/detail/io_uring_file_service.hpp"
#elif !defined(ASIO_DETAIL_IO_URING_FILE_SERVICE_HPP)
#define ASIO_DETAIL_IO_URING_FILE_SERVICE_HPP

#if defined(ASIO_HAS_FILE) && defined(ASIO_HAS_IO_URING)

#include "asio/associated_cancellation_slot.hpp"
#include "asio/cancellation_type.hpp"
#include "asio/detail/bind_handler.hpp"
#include "asio/detail/buffer_sequence_adapter.hpp"
#include "asio/detail/descriptor_ops.hpp"
#include "asio/detail/epoll_reactor.hpp"
#include "asio/detail/fenced_block.hpp"
#include "asio/detail/handler_alloc_helpers.hpp"
#include "asio/detail/handler_cont_helpers.hpp"
#include "asio/detail/handler_work.hpp"
#include "asio/detail/op_queue.hpp"
#include "asio/detail/reactor_op.hpp"
#include "asio/detail/scheduler.hpp"
#include "asio/error.hpp"
#include "asio/execution_context.hpp"
#include "asio/file_base.hpp"
#include "asio/version.hpp"

#include "unio/detail/asio_frame.hpp"

#include "asio/detail/push_options.hpp"
#include "unio/detail/asio_file_service.hpp"
#include "asio/detail/pop_options.hpp"

#include "unio/detail/asio_frame_end.hpp"

#endif // defined(ASIO_HAS_FILE) && defined(ASIO_HAS_IO_URING)

#endif // ASIO_DETAIL_IO_URING_FILE_SERVICE_HPP
