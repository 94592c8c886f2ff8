// unio/detail/free_verbs.hpp: the spellings of an operation that no handle has as members: operations on
// names, which begin at a directory and a path.
//
// Here because every such operation has the same ones. As UNIO_VERB_FORMS (detail/operations.hpp), but
// functions: verb(arguments…, deadline = {}), try_verb, try_verb_for, try_verb_until, co_verb, try_co_verb,
// try_co_verb_for, try_co_verb_until.

#pragma once

#include <unio/detail/operations.hpp>

#define UNIO_FREE_VERB_FORMS(verb, sender, parameters, ...)                                            \
  inline sender::result_type verb(UNIO_LIST parameters deadline d = {}) noexcept {                     \
    return detail::blocking(sender(__VA_ARGS__ __VA_OPT__(, ) d));                                     \
  }                                                                                                    \
  inline sender::result_type try_##verb(UNIO_BARE parameters) noexcept {                               \
    return detail::blocking(sender(__VA_ARGS__ __VA_OPT__(, ) deadline::zero()));                      \
  }                                                                                                    \
  template <class Rep, class Period>                                                                   \
  sender::result_type try_##verb##_for(                                                                \
      UNIO_LIST parameters std::chrono::duration<Rep, Period> at_most) noexcept {                      \
    return detail::blocking(sender(__VA_ARGS__ __VA_OPT__(, ) deadline(at_most)));                     \
  }                                                                                                    \
  template <class Clock, class Duration>                                                               \
  sender::result_type try_##verb##_until(                                                              \
      UNIO_LIST parameters std::chrono::time_point<Clock, Duration> point) noexcept {                  \
    return detail::blocking(sender(__VA_ARGS__ __VA_OPT__(, ) deadline(point)));                       \
  }                                                                                                    \
  [[nodiscard]] inline io_awaitable<sender> co_##verb(UNIO_LIST parameters deadline d = {}) noexcept { \
    return io_awaitable<sender>(std::in_place, __VA_ARGS__ __VA_OPT__(, ) d);                          \
  }                                                                                                    \
  [[nodiscard]] inline io_awaitable<sender> try_co_##verb(UNIO_BARE parameters) noexcept {             \
    return io_awaitable<sender>(std::in_place, __VA_ARGS__ __VA_OPT__(, ) deadline::zero());           \
  }                                                                                                    \
  template <class Rep, class Period>                                                                   \
  [[nodiscard]] io_awaitable<sender> try_co_##verb##_for(                                              \
      UNIO_LIST parameters std::chrono::duration<Rep, Period> at_most) noexcept {                      \
    return io_awaitable<sender>(std::in_place, __VA_ARGS__ __VA_OPT__(, ) deadline(at_most));          \
  }                                                                                                    \
  template <class Clock, class Duration>                                                               \
  [[nodiscard]] io_awaitable<sender> try_co_##verb##_until(                                            \
      UNIO_LIST parameters std::chrono::time_point<Clock, Duration> point) noexcept {                  \
    return io_awaitable<sender>(std::in_place, __VA_ARGS__ __VA_OPT__(, ) deadline(point));            \
  }
