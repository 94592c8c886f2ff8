// unio/detail/asio_nodes.hpp: what waits for its turn on an asio_context.
//
//   asio_node      an operation or a posted function, with what calls and what drops it
//   asio_group     the nodes of one object, so that they can be cancelled and dropped (asio_group.hpp)
//   asio_service   what a context has of the adapter; how its handlers are called: asio_running.hpp

#pragma once

#include <unio/detail/asio_config.hpp>
#include <unio/multiplexer.hpp>

#include <atomic>
#include <cstddef>
#include <limits>
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
  std::atomic<bool> is_cancelled{false}; // by its group, or by its slot, on any thread

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
  /// From now on other threads may take out what is inserted. Preconditions: none does yet.
  void be_locked() noexcept;
  /// Takes out the first; null if there is none.
  [[nodiscard]] asio_node* take() noexcept;
  /// Cancels those that were not yet. Returns how many that are.
  std::size_t cancel(std::size_t at_most = std::numeric_limits<std::size_t>::max()) noexcept;
  /// Cancels the first of them. Returns 0 or 1.
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
  /// Runs tasks that are started here: in another context than an asio_context, the calling thread's own.
  [[nodiscard]] io_multiplexer& of_tasks() const {
    return multiplexer_ != nullptr ? *multiplexer_ : this_thread::multiplexer();
  }
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

} // namespace unio::detail

#include <unio/detail/asio_group.hpp>
#include <unio/detail/asio_running.hpp>
