// src/driver/life.hpp: what can happen to an operation that has been started, and what follows from it.
//
//                                  ┌─► to_try, to_submit ─► in_kernel ─┐
//                                  ├─► to_poll ───────────► polled ────┤
//   idle ──start──► at_hand ──arm──┼─► parked, queued, with_worker ────┼─► at_hand ──► landed ──► idle
//     │                 ▲          ├─► later, timed, retrying ─────────┤     │     delivered
//     │                 │          └─► with_members, unclaimed ────────┘     │
//     └─► ready ──► idle│                                                    │
//                       └────────────── rearm ◄── delivered ◄── yielded ◄────┘
//
// One field says where an operation is (operation_links::marks::where), one function changes it (move), and
// one table says what each trigger does in each place (what_follows). An operation whose receiver has yet to
// be notified of a value notes a stop and acts on it afterwards, in every place.

#pragma once

#include "sys/probes.hpp"
#include "sys/sanitizer.hpp"

#include <unio/operation.hpp>

#include <array>

namespace unio::inline v0_1::driver {

enum class trigger : std::uint8_t {
  completion,  ///< the kernel says what has become of it
  readiness,   ///< its descriptor became ready
  worker_done, ///< a thread that may block has performed it
  granted,     ///< it has the resource that it waits for
  moment,      ///< the time that it waits for has come
  stop,        ///< it is cancelled, or its descriptor closed, or its deadline over
  driver_lost, ///< the ring may not be entered any more, and epoll takes its place
  delivered,   ///< its receiver has been notified of a value, or of the end
};
inline constexpr int trigger_count = static_cast<int>(trigger::delivered) + 1;

enum class reaction : std::uint8_t {
  never,      ///< does not happen there
  nothing,    ///< it stays where it is
  decode,     ///< complete() says what the result means
  perform,    ///< it is performed, and waits again if it still has to
  rearm,      ///< it is given to the driver again
  end,        ///< it is taken out of its place and has ended; after a deadline, if a last attempt fails
  withdraw,   ///< it is taken out of the driver's queue and has ended
  ask_kernel, ///< the kernel is asked to end it, and its completion says what has become of it
  ask_member, ///< the member that runs is asked to end, and its end is that of the whole
  leave,      ///< it leaves the queue for its resource and has ended
  ask_worker, ///< it ends if no worker has begun it; otherwise its result says what has become of it
  retire,     ///< no driver has it any more
};

namespace tables {

using enum reaction;
using reactions = std::array<reaction, trigger_count>;

inline constexpr std::array<reactions, place_count> life = {{
    // clang-format off
    //                  completion readiness worker_done granted  moment   stop        driver_lost delivered
    /* idle         */ {never,     nothing,  never,      never,   never,   nothing,    nothing,    never},
    /* ready        */ {never,     nothing,  never,      never,   never,   nothing,    nothing,    retire},
    /* at_hand      */ {never,     nothing,  never,      never,   never,   end,        rearm,      never},
    /* to_try       */ {never,     nothing,  never,      never,   never,   withdraw,   rearm,      never},
    /* to_submit    */ {never,     nothing,  never,      never,   never,   withdraw,   rearm,      never},
    /* to_poll      */ {never,     nothing,  never,      never,   never,   withdraw,   rearm,      never},
    /* in_kernel    */ {decode,    nothing,  never,      never,   never,   ask_kernel, nothing,    nothing},
    /* polled       */ {perform,   nothing,  never,      never,   never,   ask_kernel, nothing,    never},
    /* parked       */ {never,     perform,  never,      never,   never,   end,        rearm,      never},
    /* later        */ {never,     nothing,  never,      never,   never,   end,        nothing,    never},
    /* with_worker  */ {never,     nothing,  decode,     never,   never,   ask_worker, nothing,    never},
    /* queued       */ {never,     nothing,  never,      perform, never,   leave,      nothing,    never},
    /* with_members */ {never,     nothing,  never,      never,   never,   ask_member, nothing,    never},
    /* timed        */ {never,     nothing,  never,      never,   perform, end,        nothing,    never},
    /* retrying     */ {never,     nothing,  never,      never,   rearm,   end,        nothing,    never},
    /* yielded      */ {never,     nothing,  never,      never,   never,   end,        nothing,    rearm},
    /* unclaimed    */ {never,     never,    never,      never,   never,   end,        nothing,    never},
    /* landed       */ {never,     nothing,  never,      never,   never,   nothing,    nothing,    retire},
    // clang-format on
}};

} // namespace tables

constexpr reaction what_follows(place where, trigger what) noexcept {
  return tables::life[static_cast<std::size_t>(where)][static_cast<std::size_t>(what)];
}

/// The backend has it: in a queue, in the kernel, or parked on its descriptor.
constexpr bool is_with_backend(place where) noexcept {
  return where >= place::to_try && where <= place::parked;
}

/// Whether an operation may come from one place to the other in one step.
constexpr bool may_move(place from, place to) noexcept {
  switch (from) {
    case place::idle:
      return to == place::ready || to == place::at_hand;
    case place::ready:
    case place::landed:
      return to == place::idle || to == place::unclaimed;
    case place::at_hand: // to wherever it waits, or to its end
      return to != place::idle && to != place::ready && to != place::in_kernel && to != place::polled;
    case place::to_try:
    case place::to_submit:
      return to == place::in_kernel || to == place::at_hand;
    case place::to_poll:
      return to == place::polled || to == place::at_hand;
    case place::in_kernel:
    case place::polled:
    case place::parked:
    case place::later:
    case place::with_worker:
    case place::queued:
    case place::timed:
    case place::retrying:
    case place::yielded:
    case place::unclaimed:
      return to == place::at_hand;
    case place::with_members:
      return to == place::landed;
  }
  return false;
}

/// A value is known, or the end.
inline void note_completion([[maybe_unused]] io_operation& op) noexcept {
  UNIO_PROBE(operation_completed, &op);
}
/// The receiver is about to be notified of it.
inline void note_delivery([[maybe_unused]] io_operation& op) noexcept {
  UNIO_PROBE(operation_delivered, &op);
}

/// The only function that changes where an operation is. Builds with a sanitizer check each step.
inline void move(io_operation& op, place to) noexcept {
  if constexpr (sys::is_sanitized)
    UNIO_EXPECTS(may_move(op.links.is.where, to), "an operation cannot come from there to here");
  op.links.is.where = to;
  switch (to) {
    case place::in_kernel:
    case place::polled:
    case place::parked:
    case place::with_worker:
      UNIO_PROBE(operation_submitted, &op, static_cast<unsigned char>(to));
      break;
    case place::queued:
      UNIO_PROBE(buffer_wanted, &op);
      break;
    case place::ready:
    case place::landed:
      note_completion(op);
      break;
    case place::idle:
      note_delivery(op);
      break;
    default:
      break;
  }
}

constexpr char const* name_of(place where) noexcept {
  constexpr std::array<char const*, place_count> names = {
      "idle",          "ready",  "at hand",  "to try",  "to submit",     "to poll",
      "in the kernel", "polled", "parked",   "later",   "with a worker", "queued",
      "with members",  "timed",  "retrying", "yielded", "unclaimed",     "landed"};
  return names[static_cast<std::size_t>(where)];
}

} // namespace unio::driver
