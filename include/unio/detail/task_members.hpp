// unio/detail/task_members.hpp: the functions of task, and where its frames come from.

#pragma once

#include <unio/task.hpp>

namespace unio::inline v0_1 {

template <class T> inline task<T>& task<T>::operator=(task&& other) noexcept {
  if (this != &other) {
    if (child_) child_.destroy();
    child_ = std::exchange(other.child_, nullptr);
  }
  return *this;
}
template <class T> inline task<T>::~task() {
  if (child_) child_.destroy();
}
template <class T> inline detail::task_awaiter<T> task<T>::operator co_await() && noexcept {
  return detail::task_awaiter<T>(child());
}
template <class T> inline std::coroutine_handle<detail::task_state<T>> task<T>::child() const noexcept {
  UNIO_EXPECTS(static_cast<bool>(child_), "an empty task was awaited");
  return child_;
}

} // namespace unio

/// A coroutine whose first or second parameter has get_frame_allocator() takes its frame from there.
template <class T, class... Parameters>
  requires unio::detail::gives_frames<Parameters...>
struct std::coroutine_traits<unio::task<T>, Parameters...> {
  using promise_type = unio::detail::with_given_frames<typename unio::task<T>::promise_type>;
};
