// unio/detail/child.hpp: a task that is started by something other than a co_await.
//
// Here because run(), async_run(), run_on(), when_all(), timeout() and task_group are built on it.
//
//   child   a task with an environment, whose end is reported to the class derived from this
//   root    a child with an executor and an environment of its own: the first of a chain

#pragma once

#include <unio/task.hpp>

#include <utility>

namespace unio::inline v0_1::detail {

/// A task that another object owns.
template <class T> class task_elsewhere {
 public:
  explicit task_elsewhere(task<T> const& t) noexcept : child_(t.child()) {}
  [[nodiscard]] std::coroutine_handle<task_state<T>> child() const noexcept { return child_; }

 private:
  template <class Of, class Task> friend class child;
  std::coroutine_handle<task_state<T>> child_;
};

/// `Of` derives from this. `Task` is the task, or task_elsewhere.
///
/// Of::what           what it is, for pending.hpp
/// Of::child_ended()  called when the task has ended, while its coroutine is suspended for the last time. It
///                    may destroy this. Returns the coroutine to resume
template <class Of, class Task> class child : public end_listener {
 public:
  explicit child(Task&& t) noexcept : end_listener(&ended), task_(static_cast<Task&&>(t)) {}
  child(child&& other) noexcept : child(static_cast<Task&&>(other.task_)) {} // before it is prepared

  /// Returns the task's coroutine, to be resumed for the first time. `waiting` is the coroutine that resumes
  /// after it, if there is one.
  std::coroutine_handle<> prepare(environment const& e, std::coroutine_handle<> waiting = nullptr) noexcept {
    auto const h = task_.child();
    stands_for(Of::what, waiting);
    h.promise().set_environment(e);
    h.promise().set_continuation(static_cast<end_listener&>(*this));
    return h;
  }
  /// The outcome.
  [[nodiscard]] auto& state() const noexcept { return task_.child_.promise(); }
  /// Destroys its coroutine.
  void drop() noexcept { task_ = {}; }

 private:
  static std::coroutine_handle<> ended(end_listener& l) noexcept { return static_cast<Of&>(l).child_ended(); }

  Task task_;
};

/// Of::begin()    may be the derived class's own, which then calls this one's
/// Of::dropped()  called instead of child_ended() if the executor's multiplexer ends while the task is
///                queued: it will never end. It may destroy this
template <class Of, class Executor, class T> class root : public child<Of, task<T>>, public work {
 public:
  root(Executor e, task<T>&& t, stop_token stop, frame_allocator* frames)
      : child<Of, task<T>>(std::move(t)),
        work(&begin_posted),
        executor_(std::move(e)),
        environment_{.executor = executor_, .stop = std::move(stop), .frames = frames, .root = this} {
    environment_.multiplexer = environment_.executor.multiplexer();
  }
  root(root const&) = delete;
  root& operator=(root const&) = delete;
  ~root() { this->drop(); } // its frame refers to the executor and the environment

  void begin() noexcept { resume(this->prepare(environment_)); }
  /// Begins on its executor. This object may be destroyed before post() returns.
  void post() {
    Executor const here = executor_;
    detail::spawn(here, static_cast<work&>(*this));
  }
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return environment_.multiplexer; }

 protected:
  Executor executor_;
  environment environment_;

 private:
  static void begin_posted(work& w, bool run) noexcept {
    auto& self = static_cast<root&>(w);
    if (!run) return static_cast<Of&>(self).dropped();
    static_cast<Of&>(self).begin();
  }
};

} // namespace unio::detail
