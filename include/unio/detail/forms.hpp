// unio/detail/forms.hpp: the spellings of an operation, made from the list of its arguments.
//
// Here because every operation has the same. For an operation `verb` with its sender S
//
//   UNIO_VERB_FORMS(verb, S, arguments…)        as members of a handle, which is its first argument:
//   UNIO_FREE_VERB_FORMS(verb, S, arguments…)   as functions:
//
//     verb(arguments…, deadline = {})      blocks until done, or until the deadline
//     try_verb(arguments…)                 never waits
//     try_verb_for(arguments…, duration)   waits at most so long
//     try_verb_until(arguments…, point)    waits at most until then
//     co_verb, try_co_verb, try_co_verb_for, try_co_verb_until   the same, awaited
//
//   UNIO_SENDER_FORMS(S, arguments…)            try_S, try_S_for, try_S_until, and the same for atomic_S
//
// An argument is (type, name) or (type, name, = default).

#pragma once

#define UNIO_VERB_FORMS(verb, sender, ...) \
  UNIO_FORMS_OF(UNIO_BLOCKS_ON_THIS, UNIO_AWAITS_ON_THIS, verb, sender, __VA_ARGS__)
#define UNIO_FREE_VERB_FORMS(verb, sender, ...) \
  UNIO_FORMS_OF(UNIO_BLOCKS, UNIO_AWAITS, verb, sender, __VA_ARGS__)

#define UNIO_BLOCKS_ON_THIS(sender, ...) detail::blocking_on<sender>(*this, __VA_ARGS__)
#define UNIO_AWAITS_ON_THIS(sender, ...) io_awaitable<sender>(std::in_place, *this, __VA_ARGS__)
#define UNIO_BLOCKS(sender, ...) detail::blocking(sender(__VA_ARGS__))
#define UNIO_AWAITS(sender, ...) io_awaitable<sender>(std::in_place, __VA_ARGS__)

#define UNIO_FORMS_OF(blocks, awaits, verb, sender, ...)                                            \
  inline sender::result_type verb(UNIO_PARAMETERS(__VA_ARGS__) deadline d = {}) noexcept {          \
    return blocks(sender, UNIO_ARGUMENTS(__VA_ARGS__) d);                                           \
  }                                                                                                 \
  inline sender::result_type try_##verb(UNIO_EACH(UNIO_WITH_DEFAULT, __VA_ARGS__)) noexcept {       \
    return blocks(sender, UNIO_ARGUMENTS(__VA_ARGS__) deadline::zero());                            \
  }                                                                                                 \
  template <class Rep, class Period>                                                                \
  sender::result_type try_##verb##_for(                                                             \
      UNIO_PLAIN_PARAMETERS(__VA_ARGS__) std::chrono::duration<Rep, Period> at_most) noexcept {     \
    return blocks(sender, UNIO_ARGUMENTS(__VA_ARGS__) deadline(at_most));                           \
  }                                                                                                 \
  template <class Clock, class Duration>                                                            \
  sender::result_type try_##verb##_until(                                                           \
      UNIO_PLAIN_PARAMETERS(__VA_ARGS__) std::chrono::time_point<Clock, Duration> point) noexcept { \
    return blocks(sender, UNIO_ARGUMENTS(__VA_ARGS__) deadline(point));                             \
  }                                                                                                 \
  inline io_awaitable<sender> co_##verb(UNIO_PARAMETERS(__VA_ARGS__) deadline d = {}) noexcept {    \
    return awaits(sender, UNIO_ARGUMENTS(__VA_ARGS__) d);                                           \
  }                                                                                                 \
  inline io_awaitable<sender> try_co_##verb(UNIO_EACH(UNIO_WITH_DEFAULT, __VA_ARGS__)) noexcept {   \
    return awaits(sender, UNIO_ARGUMENTS(__VA_ARGS__) deadline::zero());                            \
  }                                                                                                 \
  template <class Rep, class Period>                                                                \
  io_awaitable<sender> try_co_##verb##_for(                                                         \
      UNIO_PLAIN_PARAMETERS(__VA_ARGS__) std::chrono::duration<Rep, Period> at_most) noexcept {     \
    return awaits(sender, UNIO_ARGUMENTS(__VA_ARGS__) deadline(at_most));                           \
  }                                                                                                 \
  template <class Clock, class Duration>                                                            \
  io_awaitable<sender> try_co_##verb##_until(                                                       \
      UNIO_PLAIN_PARAMETERS(__VA_ARGS__) std::chrono::time_point<Clock, Duration> point) noexcept { \
    return awaits(sender, UNIO_ARGUMENTS(__VA_ARGS__) deadline(point));                             \
  }

#define UNIO_SENDER_FORMS(sender, ...)                 \
  UNIO_SENDER_FORMS_OF(sender, __VA_ARGS__)            \
  using atomic_##sender = detail::atomic_form<sender>; \
  UNIO_SENDER_FORMS_OF(atomic_##sender, __VA_ARGS__)

#define UNIO_SENDER_FORMS_OF(sender, ...)                                                           \
  [[nodiscard]] inline sender try_##sender(UNIO_EACH(UNIO_WITH_DEFAULT, __VA_ARGS__)) noexcept {    \
    return sender(UNIO_ARGUMENTS(__VA_ARGS__) deadline::zero());                                    \
  }                                                                                                 \
  template <class Rep, class Period>                                                                \
  [[nodiscard]] sender try_##sender##_for(                                                          \
      UNIO_PLAIN_PARAMETERS(__VA_ARGS__) std::chrono::duration<Rep, Period> at_most) noexcept {     \
    return sender(UNIO_ARGUMENTS(__VA_ARGS__) deadline(at_most));                                   \
  }                                                                                                 \
  template <class Clock, class Duration>                                                            \
  [[nodiscard]] sender try_##sender##_until(                                                        \
      UNIO_PLAIN_PARAMETERS(__VA_ARGS__) std::chrono::time_point<Clock, Duration> point) noexcept { \
    return sender(UNIO_ARGUMENTS(__VA_ARGS__) deadline(point));                                     \
  }

#define UNIO_PARAMETERS(...) UNIO_EACH(UNIO_WITH_DEFAULT, __VA_ARGS__) __VA_OPT__(, )
#define UNIO_PLAIN_PARAMETERS(...) UNIO_EACH(UNIO_WITHOUT_DEFAULT, __VA_ARGS__) __VA_OPT__(, )
#define UNIO_ARGUMENTS(...) UNIO_EACH(UNIO_NAME_ONLY, __VA_ARGS__) __VA_OPT__(, )
#define UNIO_WITH_DEFAULT(type, name, ...) type name __VA_ARGS__
#define UNIO_WITHOUT_DEFAULT(type, name, ...) type name
#define UNIO_NAME_ONLY(type, name, ...) name
#define UNIO_TYPE_ONLY(type, name, ...) type

// f of each: with commas between them; one after the other.
#define UNIO_EACH(f, ...) __VA_OPT__(UNIO_EACH_1(f, __VA_ARGS__))
#define UNIO_EACH_1(f, a, ...) f a __VA_OPT__(, UNIO_EACH_2(f, __VA_ARGS__))
#define UNIO_EACH_2(f, a, ...) f a __VA_OPT__(, UNIO_EACH_3(f, __VA_ARGS__))
#define UNIO_EACH_3(f, a, ...) f a __VA_OPT__(, UNIO_EACH_4(f, __VA_ARGS__))
#define UNIO_EACH_4(f, a, ...) f a __VA_OPT__(, UNIO_EACH_5(f, __VA_ARGS__))
#define UNIO_EACH_5(f, a, ...) f a __VA_OPT__(, UNIO_EACH_6(f, __VA_ARGS__))
#define UNIO_EACH_6(f, a, ...) f a __VA_OPT__(, UNIO_EACH_7(f, __VA_ARGS__))
#define UNIO_EACH_7(f, a) f a
#define UNIO_ALL(f, ...) __VA_OPT__(UNIO_ALL_1(f, __VA_ARGS__))
#define UNIO_ALL_1(f, a, ...) f a __VA_OPT__(UNIO_ALL_2(f, __VA_ARGS__))
#define UNIO_ALL_2(f, a, ...) f a __VA_OPT__(UNIO_ALL_3(f, __VA_ARGS__))
#define UNIO_ALL_3(f, a, ...) f a __VA_OPT__(UNIO_ALL_4(f, __VA_ARGS__))
#define UNIO_ALL_4(f, a, ...) f a __VA_OPT__(UNIO_ALL_5(f, __VA_ARGS__))
#define UNIO_ALL_5(f, a, ...) f a __VA_OPT__(UNIO_ALL_6(f, __VA_ARGS__))
#define UNIO_ALL_6(f, a, ...) f a __VA_OPT__(UNIO_ALL_7(f, __VA_ARGS__))
#define UNIO_ALL_7(f, a) f a
