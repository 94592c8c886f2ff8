// unio/detail/asio_running.hpp: a thread is inside of run(): which handlers may be called, what left them.
//
// Life of an operation:
//
//   started (in its group) ── ended ──► may_call? ── yes ──► called (freed first)
//                                          │ no: inside a handler, after an exception, after stop()
//                                          └► posted to the multiplexer ──► called
//
// A handler is called inside of the multiplexer's turn, so that the driver knows what else is ready. No
// exception may pass through that, so it is caught, the turn ends without calling others, and run() throws
// it.

#pragma once

#include <unio/detail/asio_nodes.hpp>
#include <unio/extend/held_starts.hpp>

#include <exception>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// A thread is inside of run().
class asio_frame {
 public:
  explicit asio_frame(asio_service& s, std::size_t limit = std::numeric_limits<std::size_t>::max()) noexcept
      : service_(&s), outer_(std::exchange(innermost, this)), limit_(limit) {}
  asio_frame(asio_frame const&) = delete;
  asio_frame& operator=(asio_frame const&) = delete;
  ~asio_frame() {
    flush();
    innermost = outer_;
  }

  /// The calling thread's, or null.
  inline static constinit thread_local asio_frame* innermost = nullptr;
  /// Whether the thread is inside of run() of that context.
  [[nodiscard]] static bool is_inside(asio_service const& s) noexcept {
    for (asio_frame const* f = innermost; f != nullptr; f = f->outer_)
      if (f->service_ == &s) return true;
    return false;
  }

  [[nodiscard]] asio_service& service() const noexcept { return *service_; }
  [[nodiscard]] bool is_of(asio_service const& s) const noexcept { return service_ == &s; }
  [[nodiscard]] bool may_call() const noexcept { return may_call_; }
  /// Calls its handler. Preconditions: may_call().
  void call(asio_node& n) noexcept {
    may_call_ = false;
    was_posted_ = false;
    try {
      n.functions->call(n);
    } catch (...) {
      keep(std::current_exception());
    }
    ++executed_;
    may_call_ = executed_ < limit_ && !exception_ && !service_->is_stopped();
    if ((deferred_.first != nullptr || put_off_.first != nullptr) && may_call_) [[unlikely]]
      flush();
  }
  /// The same of what was posted, strands and coroutines of Asio's among it: the driver does not see that
  /// these start operations. Where one follows another, what they start goes to the kernel together.
  void call_posted(asio_node& n) noexcept {
    if (was_posted_) {
      held_starts const together(*service_->multiplexer());
      call(n);
    } else {
      call(n);
    }
    was_posted_ = true;
  }
  /// Once the handler that runs has returned.
  void call_later(asio_node& n) noexcept { deferred_.push(n); }
  /// The same of what was queued before that handler began: it comes first.
  void put_off(asio_node& n) noexcept { put_off_.push(n); }
  /// An exception has left a handler.
  void keep(std::exception_ptr e) noexcept {
    if (!exception_) exception_ = std::move(e);
    may_call_ = false;
  }
  [[nodiscard]] std::exception_ptr take_exception() noexcept { return std::exchange(exception_, nullptr); }
  [[nodiscard]] std::size_t executed() const noexcept { return executed_; }

 private:
  struct list {
    work* first = nullptr;
    work* last = nullptr;
    void push(asio_node& n) noexcept {
      n.is_queued = true;
      n.next = nullptr;
      (first == nullptr ? first : last->next) = &n;
      last = &n;
    }
  };
  void flush() noexcept {
    for (list* const l : {&put_off_, &deferred_})
      for (work* w = std::exchange(l->first, nullptr); w != nullptr;) {
        work* const next = w->next;
        service_->queue(static_cast<asio_node&>(*w));
        w = next;
      }
  }

  asio_service* service_;
  asio_frame* outer_;
  std::size_t limit_; // of handlers
  std::size_t executed_ = 0;
  bool may_call_ = true;
  bool was_posted_ = false; // what was called last
  std::exception_ptr exception_;
  list put_off_;
  list deferred_;
};

inline bool asio_service::is_run_here() const noexcept {
  if (is_shared()) return false;
  return (asio_frame::innermost != nullptr && asio_frame::innermost->is_of(*this)) ||
         multiplexer_->run_by() != io_multiplexer::runner::another_thread;
}

inline void asio_service::work_finished() noexcept {
  // Release; pairs with has_work(). The thread that runs it sleeps until there is none.
  if (work_.fetch_sub(1, std::memory_order_acq_rel) == 1 && multiplexer_ != nullptr &&
      !asio_frame::is_inside(*this))
    multiplexer_->wake();
}

inline void asio_service::call_later(asio_node& n) noexcept {
  if (is_closing()) return n.functions->drop(n);
  group().insert(n);
  asio_frame* const f = asio_frame::innermost;
  f != nullptr && f->is_of(*this) && !f->may_call() ? f->call_later(n) : queue(n);
}

inline void asio_service::wait_for_run(asio_node& n) noexcept {
  elsewhere_.insert(n);
  {
    std::lock_guard const held(mutex_);
    n.next = waiting_;
    waiting_ = &n;
    has_waiting_.store(true, std::memory_order_relaxed);
  }
  if (running_.load(std::memory_order_relaxed) != 0) multiplexer_->wake();
}
inline void asio_service::queue_waiting() noexcept {
  std::lock_guard const held(mutex_);
  has_waiting_.store(false, std::memory_order_relaxed);
  work* in_order = nullptr;
  while (work* const w = waiting_) {
    waiting_ = w->next;
    w->next = in_order;
    in_order = w;
  }
  while (work* const w = in_order) {
    in_order = w->next;
    queue(static_cast<asio_node&>(*w));
  }
}

/// What it waited for has ended. It is in no group; the thread runs the multiplexer.
inline void asio_arrive(asio_node& n) noexcept {
  asio_frame* const f = asio_frame::innermost;
  if (f != nullptr && f->is_of(*n.service) && f->may_call()) [[likely]]
    return f->call(n);
  // Of a context of Asio's own: the handler is only given to its executor.
  if (n.nests || n.service->multiplexer() == nullptr) return n.functions->call(n);
  n.service->call_later(n);
}

inline void asio_node::turn(work& w, bool run) noexcept {
  auto& n = static_cast<asio_node&>(w);
  if (!n.leave_group()) return; // it is being dropped
  n.is_queued = false;
  asio_service& s = *n.service;
  if (!run || s.is_closing()) return n.functions->drop(n);
  if (n.nests) return n.functions->call(n);
  asio_frame* const f = asio_frame::innermost;
  if (f == nullptr || !f->is_of(s)) return s.wait_for_run(n);
  if (f->may_call()) return f->call_posted(n);
  s.group().insert(n);
  f->put_off(n);
}

} // namespace unio::detail
