#include "driver/ended.hpp"

#include "driver/queues.hpp"

namespace unio::inline v0_1::driver {
namespace {

struct ended {
  operation_queue queue{queue_name::ready};
  bool notifies = false;
};
constinit thread_local ended this_threads;

} // namespace

void end_at_once(io_operation& op, int code) noexcept {
  op.set_outcome(code);
  if (op.is_quiet()) return op.mark_finished();
  ended& mine = this_threads;
  mine.queue.push(op);
  if (mine.notifies) return;
  mine.notifies = true;
  while (io_operation* const first = mine.queue.pop())
    first->deliver(io_operation::value | io_operation::done);
  mine.notifies = false;
}

} // namespace unio::driver
