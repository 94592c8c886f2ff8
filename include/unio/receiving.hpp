// unio/receiving.hpp: what a stream brings, in buffers of a pool, one after the other.
//
//   receiving   reads ahead as far as its window, and pauses there
//
//   unio::receiving in(socket, pool, {.window = 64 * 1024});
//   while (unio::lent_buffer* next = co_await in.co_next()) use(*next);
//   if (in.error()) …                                                  // otherwise the stream has ended

#pragma once

#include <unio/connect.hpp>
#include <unio/detail/lent_queue.hpp>
#include <unio/handle.hpp>
#include <unio/sync.hpp>
#include <unio/task.hpp>

#include <atomic>

namespace unio::inline v0_1 {

/// Receives from a stream for one coroutine. It begins with the first co_next(), goes on while the coroutine
/// does something else, and keeps what has come until it is asked for. Once it keeps a window's worth of
/// buffers it stops reading until half of them have been asked for: then the peer has to wait, and none else.
///
/// Values         each buffer has 1 byte or more. The coroutine may move it out; what it leaves goes home
///                with the next call of co_next(), or with this
/// Thread safety  one coroutine at a time, on any thread: another one may be receiving for it, and that which
///                goes on with the coroutine may change. What was moved out may be dropped on any
/// Lifetime       stream and pool outlive it. Nothing else reads from the stream. It does not move
/// Closing        the stream ends this with condition::canceled, after what it keeps
/// Destruction    gives back what it keeps: bytes that it has read ahead are lost. Cancels the operation and
///                drives its multiplexer until that has finished, or waits for the thread that runs it
/// Cost           a block of the frame pool for each, and a frame for each co_next(); no heap allocation once
///                the frame pool is warm
/// Runs as        async_receive_many
/// Source         docs/features.md X-08
class UNIO_API receiving {
 public:
  struct options {
    /// So many bytes of buffers are kept at most, counted by their size and not by their use, and one at
    /// least. What a ring has read before it stopped, at most 64 buffers, comes on top.
    std::size_t window = std::size_t{64} * 1024;
  };

  /// Throws  std::bad_alloc
  receiving(io_handle& from, buffer_pool& pool) : receiving(from, pool, options()) {}
  receiving(io_handle& from, buffer_pool& pool, options o);
  receiving(receiving const&) = delete;
  receiving& operator=(receiving const&) = delete;
  ~receiving();

  /// The next buffer, until the next call; null: see error().
  ///
  /// Errors        error() has them
  /// Cancellation  condition::canceled; what has come by then, or comes later, is there for the next call. A
  ///               call after a stop yields what is kept first, and reads no more
  [[nodiscard]] task<lent_buffer*> co_next(deadline d = {});
  /// As co_next(), of which it is the old name.
  [[deprecated("use co_next"), nodiscard]] task<lent_buffer*> next(deadline d = {}) { return co_next(d); }
  /// Why the last co_next() returned null: nothing at the end of the stream; condition::timed_out or
  /// canceled, after which it may be called again; otherwise the stream's error, for good.
  [[nodiscard]] failure error() const noexcept { return error_; }
  /// Buffers that have come and were not asked for.
  [[nodiscard]] std::size_t kept() const noexcept { return kept_.size(); }

 private:
  struct notes {
    receiving* self;
    void set_value(io_result<lent_buffer>&& got) noexcept { self->take(std::move(got)); }
    void set_done() noexcept { self->ended(); }
  };
  /// Of the atomic kind once other threads may go on with the coroutine.
  class source : detail::message_link<source>, public async_receive_many {
    using link = detail::message_link<source>;

   public:
    source(io_handle& from, buffer_pool& pool) noexcept : async_receive_many(from, pool) {}
    source(source&& other) noexcept : link(), async_receive_many(static_cast<async_receive_many&&>(other)) {}
    void let_others_ask() noexcept { set_atomic(link::next_message_); }
  };
  // On the thread that receives.
  void take(io_result<lent_buffer>&& got) noexcept;
  void ended() noexcept;
  // On the thread of the coroutine.
  void begin(environment const& with) noexcept;
  void stop() noexcept;

  io_handle* from_;
  std::size_t limit_; // of kept_
  detail::lent_queue kept_;
  lent_buffer given_;
  auto_reset_event arrived_; // or ended
  failure error_;
  failure why_; // it has ended
  // Release where the other thread acquires them: what it has received and why it has ended come before.
  std::atomic<bool> has_ended_{false};
  std::atomic<bool> is_running_{false};
  std::atomic<bool> is_stopping_{false}; // the coroutine has asked the operation to end
  bool is_pausing_ = false;              // what receives has, with the window full
  io_operation_connection<source, notes> operation_;
};

} // namespace unio
