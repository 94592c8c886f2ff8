// unio/detail/asio_nodes.hpp: what waits for its turn on an asio_context.
//
//   asio_node      an operation or a posted function, with what calls and what drops it
//   asio_group     the nodes of one object, so that they can be cancelled and dropped
//   asio_service   what a context has of the adapter
//   asio_frame     a thread is inside run(): which handlers may be called, and what left them
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

#include <unio/detail/asio_config.hpp>
#include <unio/extend/held_starts.hpp>
#include <unio/frames.hpp>
#include <unio/multiplexer.hpp>
#include <unio/run.hpp>

#include <algorithm>
#include <atomic>
#include <concepts>
#include <cstddef>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <utility>

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

class asio_context;

} // namespace unio

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

class asio_group;
class asio_node;
class asio_service;

struct asio_node_functions {
  void (*call)(asio_node&);            ///< calls the handler, which may throw. The node is freed before
  void (*drop)(asio_node&) noexcept;   ///< frees it; the handler is destroyed. Waits for what has not ended
  void (*cancel)(asio_node&) noexcept; ///< asks it to end
};

/// See the top of the file.
class asio_node : public work {
 public:
  asio_node(asio_node_functions const& f, asio_service& s) noexcept
      : work(&turn), functions(&f), service(&s) {}

  asio_node_functions const* functions;
  asio_service* service;
  asio_group* in_group = nullptr; // it is linked there
  asio_node* previous_in_group = nullptr;
  asio_node* next_in_group = nullptr;
  bool is_locked = false; // the group is; once it is set it stays
  bool is_queued = false; // by the multiplexer, or by a frame
  bool nests = false;     // may be called inside of another handler: it resumes a coroutine of unio's

  /// False: it was taken out of its group already, to be dropped.
  [[nodiscard]] inline bool leave_group() noexcept;

 private:
  inline static void turn(work& w, bool run) noexcept;
};

/// A list of nodes, in the order in which they came. Thread safety: if it is locked, any thread.
class asio_group {
 public:
  explicit asio_group(asio_service& s, bool is_locked) noexcept;
  asio_group(asio_group&& other) noexcept;
  asio_group& operator=(asio_group&& other) noexcept;
  ~asio_group();

  [[nodiscard]] asio_service& service() const noexcept { return *service_; }
  void insert(asio_node& n) noexcept;
  /// Takes out the first; null if there is none.
  [[nodiscard]] asio_node* take() noexcept;
  /// Cancels all of them. Returns how many there were.
  std::size_t cancel(std::size_t at_most = std::numeric_limits<std::size_t>::max()) noexcept;
  /// Cancels the first. Returns how many that were: 0 or 1.
  std::size_t cancel_one() noexcept { return cancel(1); }

 private:
  friend class asio_node;
  friend class asio_service;
  void unlink(asio_node& n) noexcept;
  void append(asio_node& n) noexcept;
  void adopt(asio_group& other) noexcept; // all nodes of the other
  void enlist() noexcept;
  void delist() noexcept;
  [[nodiscard]] std::unique_lock<std::recursive_mutex> lock() const;

  asio_service* service_;
  asio_node* first_ = nullptr;
  asio_node* last_ = nullptr;
  asio_group* previous_ = nullptr; // in the service
  asio_group* next_ = nullptr;
  bool is_locked_;
};

/// What the adapter keeps in an execution_context: in an asio_context, or in another, whose handlers only end
/// there.
class asio_service : public net::execution_context::service {
 public:
  inline static net::execution_context::id id;
  using key_type = asio_service;

  explicit asio_service(net::execution_context& c) : asio_service(c, nullptr) {}
  /// Of an asio_context: `m` runs its handlers.
  asio_service(net::execution_context& c, io_multiplexer* m)
      : service(c), owner_(c), multiplexer_(m), here_(*this, false), elsewhere_(*this, true) {}
  asio_service(asio_service const&) = delete;
  asio_service& operator=(asio_service const&) = delete;

  /// Null for another context than an asio_context.
  [[nodiscard]] io_multiplexer* multiplexer() const noexcept { return multiplexer_; }
  /// Operations that belong to no object.
  [[nodiscard]] asio_group& group() noexcept { return is_run_here() ? here_ : elsewhere_; }
  /// The same, of those that other threads may touch.
  [[nodiscard]] asio_group& locked_group() noexcept { return elsewhere_; }
  [[nodiscard]] net::execution_context const& owner() const noexcept { return owner_; }
  /// Whether other threads may touch what is started here.
  [[nodiscard]] bool is_shared() const noexcept {
    return multiplexer_ == nullptr || multiplexer_->is_shared();
  }
  /// Whether the calling thread alone runs its handlers.
  [[nodiscard]] inline bool is_run_here() const noexcept;
  /// Has a node, which is in no group, called in a later turn.
  inline void call_later(asio_node& n) noexcept;
  /// Puts it into the queue of the multiplexer.
  void queue(asio_node& n) noexcept {
    n.is_queued = true;
    multiplexer_->post(static_cast<work&>(n));
  }
  /// Keeps a node that is to be called until a thread is inside of run(): one may be, while another thread,
  /// or a blocking call outside of run(), runs the multiplexer.
  inline void wait_for_run(asio_node& n) noexcept;
  /// A thread is inside of run().
  inline void queue_waiting() noexcept;
  [[nodiscard]] bool has_waiting() const noexcept { return has_waiting_.load(std::memory_order_relaxed); }
  /// Takes it out of there again.
  void unqueue(asio_node& n) noexcept {
    if (std::exchange(n.is_queued, false)) (void)multiplexer_->withdraw(static_cast<work&>(n));
  }

  [[nodiscard]] bool is_closing() const noexcept { return is_closing_.load(std::memory_order_relaxed); }
  [[nodiscard]] bool is_stopped() const noexcept { return is_stopped_.load(std::memory_order_acquire); }
  void set_stopped(bool on) noexcept { is_stopped_.store(on, std::memory_order_release); }
  /// A thread enters run(), or leaves it: the next that sleeps learns of stop() from that one.
  void enter() noexcept { running_.fetch_add(1, std::memory_order_relaxed); }
  void leave() noexcept {
    if (running_.fetch_sub(1, std::memory_order_relaxed) > 1 && is_stopped()) multiplexer_->wake();
  }
  /// A thread of run() keeps its multiplexer asleep, though nothing is pending there; and no longer.
  void sleeper_came() noexcept { sleepers_.fetch_add(1, std::memory_order_relaxed); }
  void sleeper_left() noexcept { sleepers_.fetch_sub(1, std::memory_order_relaxed); }
  [[nodiscard]] bool has_sleepers() const noexcept { return sleepers_.load(std::memory_order_relaxed) != 0; }
  void work_started() noexcept { work_.fetch_add(1, std::memory_order_relaxed); }
  inline void work_finished() noexcept;
  [[nodiscard]] bool has_work() const noexcept { return work_.load(std::memory_order_acquire) != 0; }

  /// Drops everything, in the order in which it came; waits for operations that have not ended.
  void shutdown() noexcept override;

 private:
  friend class asio_group;
  friend class asio_node;
  net::execution_context& owner_;
  io_multiplexer* multiplexer_;
  mutable std::recursive_mutex mutex_;
  asio_group* groups_ = nullptr;
  work* waiting_ = nullptr; // for run(), the first that came last
  std::atomic<bool> has_waiting_{false};
  std::atomic<long> work_{0}; // executors that track it, and operations on other multiplexers
  std::atomic<bool> is_stopped_{false};
  std::atomic<bool> is_closing_{false};
  std::atomic<int> running_{0};  // threads inside of run()
  std::atomic<int> sleepers_{0}; // of those
  asio_group here_;              // not locked: of the one thread that runs the multiplexer
  asio_group elsewhere_;
};

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
    if (deferred_ != nullptr && may_call_) [[unlikely]]
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
  void call_later(asio_node& n) noexcept {
    n.is_queued = true;
    n.next = nullptr;
    (deferred_ == nullptr ? deferred_ : last_deferred_->next) = &n;
    last_deferred_ = &n;
  }
  /// An exception has left a handler.
  void keep(std::exception_ptr e) noexcept {
    if (!exception_) exception_ = std::move(e);
    may_call_ = false;
  }
  [[nodiscard]] std::exception_ptr take_exception() noexcept { return std::exchange(exception_, nullptr); }
  [[nodiscard]] std::size_t executed() const noexcept { return executed_; }

 private:
  void flush() noexcept {
    for (work* w = std::exchange(deferred_, nullptr); w != nullptr;) {
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
  work* deferred_ = nullptr;
  work* last_deferred_ = nullptr;
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
  if (f != nullptr && f->is_of(s)) return f->may_call() ? f->call_posted(n) : s.call_later(n);
  s.wait_for_run(n);
}

// ---- groups -----------------------------------------------------------------------------------------------

inline asio_group::asio_group(asio_service& s, bool is_locked) noexcept
    : service_(&s), is_locked_(is_locked) {
  enlist();
}
inline asio_group::asio_group(asio_group&& other) noexcept
    : service_(other.service_), is_locked_(other.is_locked_) {
  enlist();
  auto const held = lock();
  adopt(other);
}
inline asio_group& asio_group::operator=(asio_group&& other) noexcept {
  if (this == &other) return *this;
  if (first_ != nullptr) {
    auto const held = lock();
    (is_locked_ ? service_->elsewhere_ : service_->here_).adopt(*this);
  }
  if (service_ != other.service_) {
    delist();
    service_ = other.service_;
    is_locked_ = other.is_locked_;
    enlist();
  }
  auto const held = lock();
  adopt(other);
  return *this;
}
inline asio_group::~asio_group() {
  if (this != &service_->here_ && this != &service_->elsewhere_ && first_ != nullptr) {
    auto const held = lock();
    (is_locked_ ? service_->elsewhere_ : service_->here_).adopt(*this);
  }
  delist();
}
inline std::unique_lock<std::recursive_mutex> asio_group::lock() const {
  return is_locked_ ? std::unique_lock(service_->mutex_) : std::unique_lock<std::recursive_mutex>();
}
inline void asio_group::enlist() noexcept {
  std::lock_guard const held(service_->mutex_);
  previous_ = nullptr;
  next_ = std::exchange(service_->groups_, this);
  if (next_ != nullptr) next_->previous_ = this;
}
inline void asio_group::delist() noexcept {
  std::lock_guard const held(service_->mutex_);
  (previous_ != nullptr ? previous_->next_ : service_->groups_) = next_;
  if (next_ != nullptr) next_->previous_ = previous_;
}
inline void asio_group::append(asio_node& n) noexcept {
  n.in_group = this;
  n.is_locked = is_locked_;
  n.next_in_group = nullptr;
  n.previous_in_group = last_;
  (last_ != nullptr ? last_->next_in_group : first_) = &n;
  last_ = &n;
}
inline void asio_group::unlink(asio_node& n) noexcept {
  (n.previous_in_group != nullptr ? n.previous_in_group->next_in_group : first_) = n.next_in_group;
  (n.next_in_group != nullptr ? n.next_in_group->previous_in_group : last_) = n.previous_in_group;
  n.in_group = nullptr;
}
inline void asio_group::adopt(asio_group& other) noexcept {
  while (asio_node* const n = other.first_) {
    other.unlink(*n);
    append(*n);
  }
}
inline void asio_group::insert(asio_node& n) noexcept {
  if (!is_locked_) [[likely]]
    return append(n);
  std::lock_guard const held(service_->mutex_);
  append(n);
}
inline asio_node* asio_group::take() noexcept {
  auto const held = lock();
  asio_node* const n = first_;
  if (n != nullptr) unlink(*n);
  return n;
}
inline std::size_t asio_group::cancel(std::size_t at_most) noexcept {
  auto const held = lock(); // which keeps the nodes from being freed
  std::size_t count = 0;
  for (asio_node const* n = first_; n != nullptr; n = n->next_in_group) ++count;
  count = std::min(count, at_most);
  for (std::size_t i = 0; i != count && first_ != nullptr; ++i) {
    asio_node& n = *first_;
    unlink(n); // to the end: cancelling may take out others
    append(n);
    n.functions->cancel(n);
  }
  return count;
}
inline bool asio_node::leave_group() noexcept {
  if (!is_locked) [[likely]] {
    if (in_group == nullptr) return false;
    return in_group->unlink(*this), true;
  }
  std::lock_guard const held(service->mutex_);
  if (in_group == nullptr) return false;
  return in_group->unlink(*this), true;
}

inline void asio_service::shutdown() noexcept {
  is_closing_.store(true, std::memory_order_relaxed);
  waiting_ = nullptr; // they are in their groups
  auto const next = [this]() noexcept -> asio_node* {
    std::lock_guard const held(mutex_);
    for (asio_group* g = groups_; g != nullptr; g = g->next_)
      if (asio_node* const n = g->take(); n != nullptr) return n;
    return nullptr;
  };
  while (asio_node* const n = next()) n->functions->drop(*n); // which may destroy objects, and so groups
}

} // namespace unio::detail
