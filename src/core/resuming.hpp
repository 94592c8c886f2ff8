// src/core/resuming.hpp: where there are no tail calls, the innermost loop of the calling thread that resumes
// coroutines.

#pragma once

#include <unio/config.hpp>

#include <coroutine>

namespace unio::inline v0_1::detail {

struct resuming {
  bool active;
  unsigned awaits;              ///< counted since code that is no coroutine resumed one
  std::coroutine_handle<> next; ///< what it resumes next, if it is active
};
[[gnu::visibility("hidden")]] extern constinit thread_local resuming this_threads_loop;

/// Whether what is resumed here may be left to it. Otherwise a resume_scope changes nothing.
inline bool resumes_from_loop() noexcept { return this_threads_loop.active; }

} // namespace unio::detail
