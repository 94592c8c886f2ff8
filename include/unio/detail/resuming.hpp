// unio/detail/resuming.hpp: resuming another coroutine, in constant stack.
//
//   end_listener      notified when a coroutine has ended, in place of a continuation
//   resume            from code that is no coroutine; resume_scope: all of what that causes
//   transfer<Tail>    from await_suspend()
//
// Here because the compiler needs it to make a coroutine.

#pragma once

#include <unio/detail/tracking.hpp>
#include <unio/executor.hpp>

#include <coroutine>

namespace unio::inline v0_1::detail {

/// Notified when a coroutine has ended; returns the coroutine to resume. It is called while the ended one is
/// suspended for the last time, and may destroy it.
class alignas(8) end_listener : public tracked_listener<UNIO_TRACKS_PENDING> {
 public:
  using function = std::coroutine_handle<> (*)(end_listener&) noexcept;
  explicit end_listener(function f) noexcept : function_(f) {}
  std::coroutine_handle<> operator()() noexcept { return function_(*this); }

 private:
  function function_;
};

/// Resumes `h`. Where the compiler makes no tail calls: from a loop in a caller, if there is one.
UNIO_API void resume_from_loop(std::coroutine_handle<> h) noexcept;

/// Resumes `h` from code that is no coroutine: when it returns, no resumption that it caused is left to a
/// loop in a caller.
UNIO_API void resume(std::coroutine_handle<> h) noexcept;

/// Around code that waits for coroutines: everything resumed inside has run when it is left.
class resume_scope {
 public:
  UNIO_API resume_scope() noexcept;
  UNIO_API ~resume_scope();
  resume_scope(resume_scope const&) = delete;
  resume_scope& operator=(resume_scope const&) = delete;

 private:
  bool active_;
  std::coroutine_handle<> next_;
};

/// For await_suspend(): goes on with `h`. `Tail`: there may be tail calls; whether there are, the optimiser
/// decides.
template <bool Tail> auto transfer(std::coroutine_handle<> h) noexcept {
  if constexpr (Tail) {
    std::coroutine_handle<> next = h;
    if (!makes_tail_calls()) {
      resume_from_loop(h);
      next = std::noop_coroutine();
    }
    return next;
  } else {
    resume_from_loop(h);
  }
}

} // namespace unio::detail
