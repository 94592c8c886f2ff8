#include "driver/shared/unclaimed.hpp"

#include "driver/engine/rooms.hpp"

namespace unio::inline v0_1::driver {

constinit std::atomic<std::uint64_t> unclaimed_operations::moves_{0};

void unclaimed_operations::add(io_operation& op) noexcept {
  std::lock_guard const lock(lock_);
  move(op, place::at_hand);
  move(op, place::unclaimed);
  queue_.push(op);
  count_.store(queue_.size(), std::memory_order_seq_cst);
}

void unclaimed_operations::add_all(operation_queue& batch, engine& from) noexcept {
  std::lock_guard const lock(lock_);
  moves_.fetch_add(1, std::memory_order_release);
  from.take_last_messages(batch);
  io_operation* last = nullptr;
  while (io_operation* const op = batch.pop()) {
    engine::adopt(*op, of_);
    op->links.is.with_next = true;
    queue_.push(*op);
    last = op;
  }
  if (last != nullptr) last->links.is.with_next = false;
  count_.store(queue_.size(), std::memory_order_seq_cst);
}

void unclaimed_operations::take_out(io_operation& op) noexcept {
  // The end of a group: what comes before it is the end now.
  if (io_operation* const before = op.links.previous; before != nullptr && !op.links.is.with_next)
    before->links.is.with_next = false;
  queue_.remove(op);
  moves_.fetch_add(1, std::memory_order_release);
  op.links.is.with_next = false;
  move(op, place::at_hand);
  count_.store(queue_.size(), std::memory_order_seq_cst);
}

operation_queue unclaimed_operations::take(engine& by, int parts) noexcept {
  operation_queue taken(queue_name::none);
  std::lock_guard const lock(lock_);
  for (int left = (queue_.size() + parts - 1) / parts; !queue_.empty();) {
    io_operation& op = *queue_.first();
    bool const goes_on = op.links.is.with_next;
    take_out(op);
    engine::adopt(op, by);
    taken.push(op);
    if (--left <= 0 && !goes_on) break;
  }
  return taken;
}

// Where a start has not yet brought it there, its links are not to be looked at.
bool unclaimed_operations::has(io_operation const& op) const noexcept {
  return op.multiplexer() == &of_ && queue_.contains(op);
}

bool unclaimed_operations::take(io_operation& op, engine& by) noexcept {
  std::lock_guard const lock(lock_);
  if (!has(op)) return false;
  take_out(op);
  engine::adopt(op, by);
  return true;
}

bool unclaimed_operations::take(io_operation& op) noexcept {
  std::lock_guard const lock(lock_);
  if (!has(op)) return false;
  take_out(op);
  return true;
}

operation_queue unclaimed_operations::take_on(int fd) noexcept {
  operation_queue taken(queue_name::none);
  std::lock_guard const lock(lock_);
  for (io_operation* op = queue_.first(); op != nullptr;) {
    io_operation* const next = op->links.next;
    if (uses(*op, fd)) {
      take_out(*op);
      taken.push(*op);
    }
    op = next;
  }
  return taken;
}

operation_queue unclaimed_operations::take_all() noexcept {
  operation_queue taken(queue_name::none);
  std::lock_guard const lock(lock_);
  while (!queue_.empty()) {
    io_operation& op = *queue_.first();
    take_out(op);
    taken.push(op);
  }
  return taken;
}

void unclaimed_operations::ask_to_end(io_operation& op) noexcept {
  engine* to = nullptr;
  {
    std::lock_guard const lock(lock_);
    if (op.multiplexer() == &of_) return op.keep_request(io_operation::request_cancel);
    to = static_cast<engine*>(op.multiplexer());
    asking_.fetch_add(1, std::memory_order_relaxed);
    if (!to->leave_message(op, io_operation::request_cancel)) to = nullptr;
  }
  if (to != nullptr) to->poke_if_run(); // the operation may be gone, and all that were pending with it
  asking_.fetch_sub(1, std::memory_order_release); // pairs with the acquire in is_used()
}

} // namespace unio::driver
