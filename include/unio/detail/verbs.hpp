// unio/detail/verbs.hpp: the spellings of an operation that are members of a handle.
//
// Here because every operation has the same ones. For an operation `verb` with its sender S these declare
//
//   verb(arguments…, deadline = {})      blocks until done, or until the deadline
//   try_verb(arguments…)                 never waits
//   try_verb_for(arguments…, duration)   waits at most so long
//   try_verb_until(arguments…, point)    waits at most until then
//   co_verb, try_co_verb, try_co_verb_for, try_co_verb_until   the same, awaited
//
// and, beside the handle, UNIO_SENDER_FORMS declares try_S, try_S_for, try_S_until, and the same for
// atomic_S.

#pragma once

#include <unio/connect.hpp>
#include <unio/io_request.hpp>

namespace unio::inline v0_1::detail {

/// The table of each operation (src/op).
extern UNIO_API driver::operation_faces const read_faces, receive_faces, receive_many_faces, write_faces,
    barrier_faces, poll_faces, close_faces, connect_faces, shutdown_faces, accept_faces, accept_many_faces,
    send_zero_copy_faces, wait_event_faces, wait_faces, no_op_faces, splice_faces, open_faces,
    lock_range_faces, lock_file_faces, link_faces, receive_from_faces, send_to_faces, receive_error_faces,
    receive_batch_faces, send_batch_faces, send_handles_faces, receive_handles_faces;

struct operation_access; // the operations' access to their private state (src/op/access.hpp)

/// The result of an operation that has moved bytes: the buffers that were filled or drained.
// Between two system calls of a loop over short reads: a call more would count.
template <class Buffers>
[[gnu::always_inline]] inline io_result<Buffers> transferred(int outcome, Buffers const& buffers) noexcept {
  auto const bytes = static_cast<std::size_t>(outcome);
  return {buffers.first(bytes), bytes};
}

template <class Sender> typename Sender::result_type blocking(Sender sender) noexcept {
  sender.run_blocking();
  return sender.result();
}

template <class Request> auto const& buffers_of(Request const& request, deadline const&) noexcept {
  return request.buffers;
}

/// The same for an operation on a handle, which may be done without constructing it.
template <class Sender, class Handle, class... Arguments>
typename Sender::result_type blocking_on(Handle& h, Arguments&&... arguments) noexcept {
  if constexpr (requires { Sender::at_once(h, arguments...); })
    if (int const outcome = Sender::at_once(h, arguments...); outcome != Sender::not_at_once) [[likely]] {
      if (outcome < 0) [[unlikely]]
        return Sender::failed_at_once(h, outcome);
      return transferred(outcome, buffers_of(arguments...));
    }
  Sender sender(h, arguments...);
  sender.run_blocking();
  return sender.result();
}

/// The form of a sender whose state several threads may touch. Only this one has the link by which requests
/// of other threads are queued: most operations do not need it.
template <class Sender> class atomic_form : message_link<atomic_form<Sender>>, public Sender {
  using link = message_link<atomic_form>;

 public:
  atomic_form() = default;
  template <class... Arguments>
    requires std::constructible_from<Sender, Arguments...>
  explicit atomic_form(Arguments&&... arguments) : Sender(static_cast<Arguments&&>(arguments)...) {
    this->set_atomic(link::next_message_);
    this->set_common();
  }
  // Being atomic is not moved with the sender, which may become one that is not.
  atomic_form(atomic_form&& other) noexcept : link(), Sender(static_cast<Sender&&>(other)) {
    this->set_atomic(link::next_message_);
    this->set_common();
  }
  atomic_form& operator=(atomic_form&& other) noexcept {
    Sender::operator=(static_cast<Sender&&>(other));
    this->set_atomic(link::next_message_);
    this->set_common();
    return *this;
  }
};

} // namespace unio::detail

#define UNIO_VERB_FORMS(verb, sender, parameters, ...)                                               \
  sender::result_type verb(UNIO_LIST parameters deadline d = {}) noexcept {                          \
    return detail::blocking_on<sender>(*this, __VA_ARGS__ __VA_OPT__(, ) d);                         \
  }                                                                                                  \
  sender::result_type try_##verb(UNIO_BARE parameters) noexcept {                                    \
    return detail::blocking_on<sender>(*this, __VA_ARGS__ __VA_OPT__(, ) deadline::zero());          \
  }                                                                                                  \
  template <class Rep, class Period>                                                                 \
  sender::result_type try_##verb##_for(                                                              \
      UNIO_LIST parameters std::chrono::duration<Rep, Period> at_most) noexcept {                    \
    return detail::blocking_on<sender>(*this, __VA_ARGS__ __VA_OPT__(, ) deadline(at_most));         \
  }                                                                                                  \
  template <class Clock, class Duration>                                                             \
  sender::result_type try_##verb##_until(                                                            \
      UNIO_LIST parameters std::chrono::time_point<Clock, Duration> point) noexcept {                \
    return detail::blocking_on<sender>(*this, __VA_ARGS__ __VA_OPT__(, ) deadline(point));           \
  }                                                                                                  \
  io_awaitable<sender> co_##verb(UNIO_LIST parameters deadline d = {}) noexcept {                    \
    return io_awaitable<sender>(std::in_place, *this, __VA_ARGS__ __VA_OPT__(, ) d);                 \
  }                                                                                                  \
  io_awaitable<sender> try_co_##verb(UNIO_BARE parameters) noexcept {                                \
    return io_awaitable<sender>(std::in_place, *this, __VA_ARGS__ __VA_OPT__(, ) deadline::zero());  \
  }                                                                                                  \
  template <class Rep, class Period>                                                                 \
  io_awaitable<sender> try_co_##verb##_for(                                                          \
      UNIO_LIST parameters std::chrono::duration<Rep, Period> at_most) noexcept {                    \
    return io_awaitable<sender>(std::in_place, *this, __VA_ARGS__ __VA_OPT__(, ) deadline(at_most)); \
  }                                                                                                  \
  template <class Clock, class Duration>                                                             \
  io_awaitable<sender> try_co_##verb##_until(                                                        \
      UNIO_LIST parameters std::chrono::time_point<Clock, Duration> point) noexcept {                \
    return io_awaitable<sender>(std::in_place, *this, __VA_ARGS__ __VA_OPT__(, ) deadline(point));   \
  }
#define UNIO_LIST(...) __VA_ARGS__ __VA_OPT__(, )
#define UNIO_BARE(...) __VA_ARGS__

#define UNIO_SENDER_FORMS(sender, parameters, ...)      \
  UNIO_SENDER_FORMS_OF(sender, parameters, __VA_ARGS__) \
  using atomic_##sender = detail::atomic_form<sender>;  \
  UNIO_SENDER_FORMS_OF(atomic_##sender, parameters, __VA_ARGS__)

#define UNIO_SENDER_FORMS_OF(sender, parameters, ...)                                 \
  [[nodiscard]] inline sender try_##sender(UNIO_BARE parameters) noexcept {           \
    return sender(__VA_ARGS__ __VA_OPT__(, ) deadline::zero());                       \
  }                                                                                   \
  template <class Rep, class Period>                                                  \
  [[nodiscard]] sender try_##sender##_for(                                            \
      UNIO_LIST parameters std::chrono::duration<Rep, Period> at_most) noexcept {     \
    return sender(__VA_ARGS__ __VA_OPT__(, ) deadline(at_most));                      \
  }                                                                                   \
  template <class Clock, class Duration>                                              \
  [[nodiscard]] sender try_##sender##_until(                                          \
      UNIO_LIST parameters std::chrono::time_point<Clock, Duration> point) noexcept { \
    return sender(__VA_ARGS__ __VA_OPT__(, ) deadline(point));                        \
  }
