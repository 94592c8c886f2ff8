// unio/detail/no_execution.hpp: the names of the standard's senders and receivers, where there are none.
//
// Here so that unio/execution.hpp, which is all templates over them, compiles without an implementation.

#pragma once

namespace unio::inline v0_1::detail::ex {

struct sender_t {};
struct receiver_t {};
struct operation_state_t {};
struct scheduler_t {};

struct absent {
  template <class... A> void operator()(A&&...) const noexcept;
};
struct set_value_t : absent {};
struct set_error_t : absent {};
struct set_stopped_t : absent {};
struct get_stop_token_t : absent {};
struct get_scheduler_t : absent {};
template <class Completion> struct get_completion_scheduler_t : absent {};
inline constexpr set_value_t set_value;
inline constexpr set_error_t set_error;
inline constexpr set_stopped_t set_stopped;
inline constexpr get_stop_token_t get_stop_token;
inline constexpr absent get_env, connect, start, schedule, get_scheduler, get_delegation_scheduler;

template <class... Signatures> struct completion_signatures {};
template <class Sender, class Env> struct completion_signatures_of_t {};
template <class Receiver> struct env_of_t {};
template <class Env> struct stop_token_of_t {};
template <class Token, class F> struct stop_callback_for_t {};
template <class Sender, class Receiver> struct connect_result_t {};
template <class Sender> inline constexpr bool enable_sender = false;
template <class Sender>
concept sender = false;

} // namespace unio::detail::ex
