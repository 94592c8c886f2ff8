// unio/terminate.hpp: ending a process, awaited.
//
//   co_terminate   SIGTERM, and SIGKILL if that does not help within a grace

#pragma once

#include <unio/process_handle.hpp>
#include <unio/task.hpp>

namespace unio::inline v0_1 {

/// process_handle::terminate, awaited.
///
/// Returns       how it ended
/// Errors        as process_handle::kill and async_wait_exit
/// Lifetime      the handle must outlive the task
/// Cancellation  while it waits for the grace: it has sent SIGTERM, and sends nothing else
/// Cost          a frame; a system call for each signal, and two waits at most
/// Source        docs/features.md H-11
[[nodiscard]] UNIO_API task<result<exit_status>> co_terminate(process_handle& p, deadline grace);

} // namespace unio
