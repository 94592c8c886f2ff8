#include "handle/process_state.hpp"

#include <unio/terminate.hpp>

#include <csignal>

namespace unio::inline v0_1 {

task<result<exit_status>> co_terminate(process_handle& p, deadline grace) {
  if (auto const e = detail::end_by(p, SIGTERM)) co_return e;
  io_result<exit_status> const ended = co_await p.co_wait(grace);
  if (!detail::lives_on(ended)) co_return ended;
  if (auto const e = detail::end_by(p, SIGKILL)) co_return e;
  co_return co_await p.co_wait();
}

} // namespace unio
