// unio/detail/asio_loop.hpp: what the two services of Asio's over unio::foreign_reactor have in common:
// opening and waiting, timers, fork, and the memory that lives as long as the driver does. Part of
// asio_reactor.hpp and of asio_completions.hpp; there is no guard.

#if !UNIO_ASIO_IS_KNOWN && !defined(UNIO_ASIO_ANY)
#error "unio::asio knows Asio 1.22.1, 1.38.2, Boost 1.74, 1.81; -DUNIO_ASIO_ANY=1 tries it with this one"
#endif

#include <unio/extend/foreign_reactor.hpp>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <limits>
#include <memory>
#include <system_error>

UNIO_ASIO_BEGIN

struct kept_on_unio {
  virtual ~kept_on_unio() {}
};

// Objects that the driver knows of. Their memory stays until it has ended, for an event of one may be under
// way.
template <class Object> struct objects_on_unio : kept_on_unio {
  objects_on_unio() : live(0), free(0) {}
  ~objects_on_unio() {
    delete_all(live);
    delete_all(free);
  }
  template <class Owner> Object* take(Owner& owner) {
    Object* o = free;
    if (o) {
      free = o->next_;
    } else {
      o = new Object(owner);
    }
    o->previous_ = 0;
    o->next_ = live;
    if (live) live->previous_ = o;
    return live = o;
  }
  void give_back(Object* o) {
    (o->previous_ ? o->previous_->next_ : live) = o->next_;
    if (o->next_) o->next_->previous_ = o->previous_;
    o->next_ = free;
    free = o;
  }
  static void delete_all(Object* o) {
    while (o) {
      Object* const next = o->next_;
      delete o;
      o = next;
    }
  }
  Object* live;
  Object* free;
};

class loop_on_unio
#if UNIO_ASIO_VERSION >= 101900
    : public scheduler_task
#endif
{
 public:
  void after_fork(execution_context::fork_event event) {
    if (event == execution_context::fork_child)
      throw_error(translate(reactor_.after_fork()), "unio::foreign_reactor after fork");
  }

  void init_task() { scheduler_.init_task(); }

  void post_immediate_completion(operation* op, bool is_continuation) const {
    scheduler_.post_immediate_completion(op, is_continuation);
  }
  unio::foreign_reactor& driver() { return reactor_; }
  static decltype(reactor_op::ec_) error_of(std::int64_t result) {
    return decltype(reactor_op::ec_)(result < 0 ? static_cast<int>(-result) : 0,
                                     error::get_system_category());
  }

  template <class Queue> void add_timer_queue(Queue& queue) {
    guard hold(lock_);
    timers_.insert(&queue);
  }
  template <class Queue> void remove_timer_queue(Queue& queue) {
    guard hold(lock_);
    timers_.erase(&queue);
  }

  template <class Queue, class Time>
  void schedule_timer(Queue& queue, const Time& time, typename Queue::per_timer_data& timer, wait_op* op) {
    guard hold(lock_);
    if (is_shut_down_) return scheduler_.post_immediate_completion(op, false);
    bool const is_earliest = queue.enqueue_timer(time, timer, op);
    has_timers_.store(true, std::memory_order_relaxed);
    scheduler_.work_started();
    // A thread that waits has to wait for less.
    if (is_earliest) reactor_.interrupt();
  }

  template <class Queue>
  std::size_t cancel_timer(Queue& queue, typename Queue::per_timer_data& timer,
                           std::size_t most = (std::numeric_limits<std::size_t>::max)()) {
    op_queue<operation> ops;
    guard hold(lock_);
    std::size_t const n = queue.cancel_timer(timer, ops, most);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
    return n;
  }

#if UNIO_ASIO_VERSION >= 101900
  template <class Queue>
  void cancel_timer_by_key(Queue& queue, typename Queue::per_timer_data* timer, void* key) {
    op_queue<operation> ops;
    guard hold(lock_);
    queue.cancel_timer_by_key(timer, ops, key);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }
#endif

  template <class Queue>
  void move_timer(Queue& queue, typename Queue::per_timer_data& target,
                  typename Queue::per_timer_data& source) {
    op_queue<operation> ops;
    guard hold(lock_);
    queue.cancel_timer(target, ops);
    queue.move_timer(target, source);
    hold.unlock();
    scheduler_.post_deferred_completions(ops);
  }

  void interrupt() { reactor_.interrupt(); }

 protected:
  typedef decltype(reactor_op::ec_) failure;
#if UNIO_ASIO_VERSION >= 103801
  typedef conditionally_enabled_mutex<slim_mutex> mutex;
#else
  typedef conditionally_enabled_mutex mutex;
#endif
  typedef mutex::scoped_lock guard;

  loop_on_unio(execution_context& context, kept_on_unio* objects)
      : kept_(objects),
        context_(context),
        scheduler_(use_service<scheduler>(context)),
#if UNIO_ASIO_VERSION >= 103300
        lock_(config(context).get("reactor", "registration_locking", true),
              config(context).get("reactor", "registration_locking_spin_count", 0)),
        io_locking_(config(context).get("reactor", "io_locking", true)),
        io_spins_(config(context).get("reactor", "io_locking_spin_count", 0)),
        objects_lock_(lock_.enabled(), lock_.spin_count()),
#else
        lock_(UNIO_ASIO(CONCURRENCY_HINT_IS_LOCKING)(REACTOR_REGISTRATION, scheduler_.concurrency_hint())),
        io_locking_(UNIO_ASIO(CONCURRENCY_HINT_IS_LOCKING)(REACTOR_IO, scheduler_.concurrency_hint())),
        objects_lock_(lock_.enabled()),
#endif
        is_shut_down_(false),
        has_timers_(false) {
    throw_error(translate(reactor_.open()), "unio::foreign_reactor");
  }

  // For unio::dump_pending, on any thread.
  void list_by(unio::foreign_lister lister, void* self) {
    if (io_locking_ && objects_lock_.enabled()) reactor_.list_by(lister, self);
  }

  void begin_shutdown() {
    reactor_.list_by(0, 0);
    guard hold(lock_);
    is_shut_down_ = true;
  }

  // What is ready, each given to `on_event`.
  template <class F> void run_driver(long usec, op_queue<operation>& ops, F on_event) {
    // A timer that is scheduled after this look interrupts the driver.
    bool const has_timers = has_timers_.load(std::memory_order_relaxed);
    if (has_timers && usec != 0) usec = time_to_timer(usec);
    unio::foreign_event events[128];
    std::size_t const n = reactor_.run(
        usec < 0 ? std::chrono::nanoseconds(-1) : std::chrono::nanoseconds(std::chrono::microseconds(usec)),
        events, sizeof events / sizeof *events);
    for (std::size_t i = 0; i < n; ++i) on_event(events[i]);
    if (has_timers) {
      guard hold(lock_);
      timers_.get_ready_timers(ops);
      if (timers_.all_empty()) has_timers_.store(false, std::memory_order_relaxed);
    }
  }

  static failure translate(std::error_code const& e) {
    bool const is_errno = e.category() == std::system_category() || e.category() == std::generic_category();
    return failure(is_errno ? e.value() : e ? EINVAL : 0, error::get_system_category());
  }

 private:
  long time_to_timer(long usec) {
    // A clock that is set is noticed within five minutes.
    const long most = 5L * 60 * 1000 * 1000;
    guard hold(lock_);
    return timers_.wait_duration_usec(usec < 0 || usec > most ? most : usec);
  }

  std::unique_ptr<kept_on_unio> const kept_;

 protected:
  execution_context& context_;
  scheduler& scheduler_;
  mutex lock_; // of the timers
  bool io_locking_;
#if UNIO_ASIO_VERSION >= 103300
  int io_spins_;
#endif
  mutex objects_lock_; // of the lists of objects
  bool is_shut_down_;
  std::atomic<bool> has_timers_;
  timer_queue_set timers_;
  unio::foreign_reactor reactor_; // ends before the objects do
  kept_on_unio& kept() { return *kept_; }
};

UNIO_ASIO_END
