// asio/detail/resolver_service.hpp: takes the place of Asio's file of that name, where its directory is
// first on the include path: the resolver of standalone Asio, answered by unio::net where the program has
// that. Asio's own is included under another name.

#ifndef UNIO_ASIO_RESOLVER_SERVICE_HPP
#define resolver_service asio_resolver_service
#include_next <asio/detail/resolver_service.hpp>
#undef resolver_service
#endif

// Where this directory is on the path twice, as -iquote and as -I, the line above has included this file once
// more, and that has Asio's.
#ifndef UNIO_ASIO_RESOLVER_SERVICE_HPP
#define UNIO_ASIO_RESOLVER_SERVICE_HPP

#include "asio/detail/bind_handler.hpp"
#include "asio/detail/concurrency_hint.hpp"
#include "asio/detail/fenced_block.hpp"
#include "asio/detail/handler_alloc_helpers.hpp"
#include "asio/detail/handler_work.hpp"
#include "asio/detail/memory.hpp"
#include "asio/detail/op_queue.hpp"
#include "asio/detail/resolve_op.hpp"
#include "asio/detail/scheduler.hpp"
#include "asio/detail/socket_ops.hpp"
#include "asio/error.hpp"
#include "asio/execution_context.hpp"
#include "asio/ip/basic_resolver_query.hpp"
#include "asio/ip/basic_resolver_results.hpp"
#include "asio/version.hpp"

#include <unio/extend/foreign_names.hpp>

#include <netdb.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <string>

#include "unio/detail/asio_frame.hpp"

#include "asio/detail/push_options.hpp"
#include "unio/detail/asio_names.hpp"
#include "asio/detail/pop_options.hpp"

#include "unio/detail/asio_frame_end.hpp"

#endif // UNIO_ASIO_RESOLVER_SERVICE_HPP
