// unio/async_task.hpp: a task as an operation with a receiver, for programs that poll or are called back.
//
//   async_task          a task that yields a result, described as an operation
//   task_connection     start · poll · cancel
//
//   auto op = unio::connect(unio::async_resolve(names, "example.org", 443, 5s), receiver);
//   op.start();
//   while (op.poll() == unio::io_status::pending) do_something_else();
//
// as_sender() (unio/execution.hpp) is the same for the standard library's receivers.

#pragma once

#include <unio/connect.hpp>
#include <unio/run.hpp>

namespace unio::inline v0_1 {

/// A task as an operation that has not been started. T is a result or the like.
///
/// Thread safety  distinct: safe; shared: no
/// Size           8 bytes
template <class T> class [[nodiscard]] async_task {
 public:
  using result_type = T;
  explicit async_task(task<T> t) noexcept : task_(static_cast<task<T>&&>(t)) {}

 private:
  template <class U, class Receiver> friend class task_connection;
  task<T> task_;
};

/// A task bound to the receiver of its result: `set_value(result)`, then `set_done()`, each once.
///
/// Concurrency   the thread that runs the multiplexer
/// Cancellation  the task's stop token
/// Errors        those of the task's result. std::bad_alloc becomes one of them, ENOMEM, where a T can be
///               made of a std::error_code; any other exception that leaves the task ends the program
/// Destruction   before its end cancels the task and drives the multiplexer until it has ended, without
///               calling the receiver. Not allowed inside set_value; allowed inside set_done
/// Lifetime      pinned. The multiplexer outlives it
/// Cost          a block from the frame pool, and the task's own frame
template <class T, class Receiver> class task_connection {
 public:
  using result_type = T;
  task_connection(async_task<T> sender, Receiver receiver)
      : task_(static_cast<task<T>&&>(sender.task_)), receiver_(static_cast<Receiver&&>(receiver)) {}
  task_connection(task_connection const&) = delete;
  task_connection& operator=(task_connection const&) = delete;
  ~task_connection();

  /// Starts it on `m` or, null, the calling thread's own multiplexer.
  ///
  /// Errors         std::bad_alloc: then it was not started, and the task is destroyed
  /// Preconditions  not started yet
  void start(io_multiplexer* m = nullptr);
  /// Lets the multiplexer do what is ready, without waiting, and returns where the operation is.
  io_status poll() noexcept;
  /// Asks it to end soon: with condition::canceled, unless it is done by then.
  void cancel() noexcept { stop_.request_stop(); }

  [[nodiscard]] bool started() const noexcept { return multiplexer_ != nullptr; }
  [[nodiscard]] bool finished() const noexcept { return finished_; }
  [[nodiscard]] Receiver& receiver() noexcept { return receiver_; }

 private:
  void ended(task_outcome<T> outcome) noexcept;

  task<T> task_;
  Receiver receiver_;
  stop_source stop_;
  io_multiplexer* multiplexer_ = nullptr;
  bool finished_ = false;
  bool tells_ = true;             // false once it is being destroyed
  bool* ended_in_poll_ = nullptr; // of the poll() that runs the multiplexer
};

/// Binds a task to the receiver of its result. Starts nothing.
///
/// Returns      the two, bound
/// Throws       what moving the receiver throws
/// Concurrency  from any thread
/// Cost         two moves; no allocation
template <class T, class Receiver>
  requires receiver_of<std::remove_cvref_t<Receiver>, async_task<T>>
[[nodiscard]] task_connection<T, std::remove_cvref_t<Receiver>> connect(async_task<T> sender,
                                                                        Receiver&& receiver) {
  return {static_cast<async_task<T>&&>(sender), static_cast<Receiver&&>(receiver)};
}

} // namespace unio

#include <unio/detail/async_task.hpp>
