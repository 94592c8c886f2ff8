// unio/unio.hpp: everything that a program needs. The simulation is in unio/testing.hpp, standard senders in
// unio/execution.hpp.

#pragma once

#include <unio/accept_loop.hpp>
#include <unio/async_generator.hpp>
#include <unio/buffer.hpp>
#include <unio/buffered_stream.hpp>
#include <unio/callback.hpp>
#include <unio/channel.hpp>
#include <unio/connect.hpp>
#include <unio/deadline.hpp>
#include <unio/endpoint.hpp>
#include <unio/error.hpp>
#include <unio/event_handle.hpp>
#include <unio/executor.hpp>
#include <unio/file_handle.hpp>
#include <unio/file_lock.hpp>
#include <unio/frames.hpp>
#include <unio/generator.hpp>
#include <unio/handle.hpp>
#include <unio/io_request.hpp>
#include <unio/link.hpp>
#include <unio/mapped_file_handle.hpp>
#include <unio/multiplexer.hpp>
#include <unio/operation.hpp>
#include <unio/pending.hpp>
#include <unio/pipe_handle.hpp>
#include <unio/result.hpp>
#include <unio/run.hpp>
#include <unio/sigpipe.hpp>
#include <unio/socket_handle.hpp>
#include <unio/splice.hpp>
#include <unio/stop_token.hpp>
#include <unio/strand.hpp>
#include <unio/stream.hpp>
#include <unio/sync.hpp>
#include <unio/task.hpp>
#include <unio/task_group.hpp>
#include <unio/thread_pool.hpp>
#include <unio/timeout.hpp>
#include <unio/timer_handle.hpp>
#include <unio/when.hpp>
#include <unio/yield.hpp>

#include <string_view>

namespace unio {

/// The version of the library that the program runs with, as "0.1.0".
UNIO_API std::string_view version_string() noexcept;

} // namespace unio
