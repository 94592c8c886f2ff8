// boost/asio/detail/resolver_service.hpp: takes the place of Boost's file of that name, where its directory
// is first on the include path: the resolver of Boost.Asio, answered by unio::net where the program has that.
// Boost's own is included under another name.

#ifndef UNIO_BOOST_ASIO_RESOLVER_SERVICE_HPP
#define resolver_service asio_resolver_service
#include_next <boost/asio/detail/resolver_service.hpp>
#undef resolver_service
#endif

// Where this directory is on the path twice, as -iquote and as -I, the line above has included this file once
// more, and that has Asio's.
#ifndef UNIO_BOOST_ASIO_RESOLVER_SERVICE_HPP
#define UNIO_BOOST_ASIO_RESOLVER_SERVICE_HPP

#include <boost/asio/detail/bind_handler.hpp>
#include <boost/asio/detail/concurrency_hint.hpp>
#include <boost/asio/detail/fenced_block.hpp>
#include <boost/asio/detail/handler_alloc_helpers.hpp>
#include <boost/asio/detail/handler_work.hpp>
#include <boost/asio/detail/memory.hpp>
#include <boost/asio/detail/op_queue.hpp>
#include <boost/asio/detail/resolve_op.hpp>
#include <boost/asio/detail/scheduler.hpp>
#include <boost/asio/detail/socket_ops.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/execution_context.hpp>
#include <boost/asio/ip/basic_resolver_query.hpp>
#include <boost/asio/ip/basic_resolver_results.hpp>
#include <boost/asio/version.hpp>

#include <unio/extend/foreign_names.hpp>

#include <netdb.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "unio/detail/boost_asio_frame.hpp"

#include <boost/asio/detail/push_options.hpp>
#include "unio/detail/asio_names.hpp"
#include <boost/asio/detail/pop_options.hpp>

#include "unio/detail/asio_frame_end.hpp"

#endif // UNIO_BOOST_ASIO_RESOLVER_SERVICE_HPP
