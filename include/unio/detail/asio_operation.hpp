// unio/detail/asio_operation.hpp: an operation of unio's with a handler of Asio's.
//
//   asio_handler     what the handler asks for: executor, allocator, slot, immediate executor
//   asio_operation   the block of an operation: its buffers, the operation, the handler
//   asio_initiates   starts it

#pragma once

#include <unio/detail/asio_support.hpp>

#include <optional>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// Whether an executor calls in the service's context, in run(), as `possibly` blocking.
template <class Executor>
bool asio_is_of([[maybe_unused]] Executor const& e, [[maybe_unused]] asio_service const& s) noexcept {
  if constexpr (is_asio_executor<Executor>) {
    return !e.is_never_blocking() && &e.service() == &s;
  } else if constexpr (std::same_as<Executor, net::any_io_executor>) {
    using own = basic_asio_executor<std::allocator<std::enable_if_t<!std::is_void_v<Executor>>>, false>;
    if (e.target_type() != typeid(own)) return false;
    auto const* const target = e.template target<own>();
    return target != nullptr && asio_is_of(*target, s);
  } else {
    return false;
  }
}

/// Gives a block to an executor, which calls its handler or drops it. `Block` has call_handler(), destroy()
/// and handler().
template <class Block> class asio_delivery {
 public:
  using allocator_type = net::associated_allocator_t<typename Block::handler_type>;
  explicit asio_delivery(Block* b) noexcept : block_(b) {}
  asio_delivery(asio_delivery&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  asio_delivery& operator=(asio_delivery&&) = delete;
  ~asio_delivery() {
    if (block_ != nullptr) block_->destroy();
  }
  [[nodiscard]] allocator_type get_allocator() const noexcept {
    return net::get_associated_allocator(block_->handler());
  }
  void operator()() { std::exchange(block_, nullptr)->call_handler(); }

 private:
  Block* block_;
};

/// An executor that counts as work.
template <class Executor>
using asio_tracking = std::decay_t<decltype(net::prefer(std::declval<Executor const&>(),
                                                        net::execution::outstanding_work.tracked))>;

/// A handler, and what is associated with it. `Block` derives from this and has arguments(), which tells its
/// result, and free(), which frees it.
template <class Block, class Handler, class Executor> class asio_handler : public asio_node {
  using associated = net::associated_executor_t<Handler, Executor>;
  using slot_type = net::associated_cancellation_slot_t<Handler>;
  using immediate = typename asio_immediate_executor<Handler, Executor>::type;
  /// Whether it is another type than that of a handler that has none, with `Other` as the default.
  template <class Other>
  static constexpr bool has_immediate_beside =
      !std::same_as<typename asio_immediate_executor<Handler, Other>::type,
                    typename asio_immediate_executor<void (*)(), Other>::type>;
  /// Where an immediate executor was bound. One of the default's own type is seen beside another default.
  static constexpr bool has_immediate =
      !std::is_void_v<immediate> &&
      (has_immediate_beside<Executor> || has_immediate_beside<net::system_executor>);

 public:
  using handler_type = Handler;
  using allocator_type = net::associated_allocator_t<Handler>;

  asio_handler(asio_node_functions const& f, asio_service& s, Handler&& h, Executor const& e)
      : asio_node(f, s), handler_(std::move(h)) {
    auto const& to = net::get_associated_executor(handler_, e);
    is_of_context_ = asio_is_of(to, s);
    if (!is_of_context_) [[unlikely]]
      work_.emplace(net::prefer(to, net::execution::outstanding_work.tracked));
    if constexpr (!is_asio_executor<Executor>)
      if (!is_of_context_ || s.multiplexer() == nullptr)
        io_work_.emplace(net::prefer(e, net::execution::outstanding_work.tracked));
    nests = requires { typename associated::nests_in_handlers; };
  }
  [[nodiscard]] Handler const& handler() const noexcept { return handler_; }
  [[nodiscard]] allocator_type allocator() const noexcept { return net::get_associated_allocator(handler_); }
  /// The slot is used by no other thread than the one that runs the multiplexer.
  [[nodiscard]] bool is_of_context() const noexcept { return is_of_context_; }

  /// Before the operation is started: from here on the slot cancels it. Returns whether one may.
  bool connect_slot() {
    slot_type slot = net::get_associated_cancellation_slot(handler_);
    if (!slot.is_connected()) return false;
    slot.template emplace<cancels>(*this);
    return true;
  }
  /// The I/O context counts it as work: its own multiplexer does not know of it.
  void count_work() noexcept {
    service->work_started();
    is_counted_ = true;
  }

  /// It has ended, on the thread that runs the multiplexer, in a turn of it: calls the handler, or has its
  /// executor call it.
  void end() {
    if (is_of_context_) [[likely]]
      return call_handler();
    auto const to = *work_;
    net::dispatch(to, asio_delivery<Block>(&block()));
  }
  /// It has ended inside of the function that starts it.
  void end_at_once(Executor const& io) {
    if constexpr (has_immediate) {
      auto const to = asio_immediate_executor<Handler, Executor>::get(handler_, io);
      net::dispatch(to, asio_delivery<Block>(&block()));
    } else if (service->multiplexer() == nullptr) {
      auto const to = *work_;
      net::post(to, asio_delivery<Block>(&block()));
    } else {
      service->call_later(*this);
    }
  }
  /// On the handler's executor.
  void call_handler() {
    struct frees {
      Block* block;
      ~frees() {
        if (block != nullptr) block->destroy();
      }
    } guard{&block()};
    if (in_slot_ != nullptr) [[unlikely]]
      net::get_associated_cancellation_slot(handler_).clear();
    auto arguments = block().arguments();
    Handler handler(std::move(handler_));
    // What is counted stays counted until the handler has returned.
    [[maybe_unused]] auto const kept = std::move(work_);
    [[maybe_unused]] auto const io_kept = std::move(io_work_);
    struct discounts {
      asio_service* of;
      ~discounts() {
        if (of != nullptr) of->work_finished();
      }
    } const counted{std::exchange(is_counted_, false) ? service : nullptr};
    std::exchange(guard.block, nullptr)->destroy();
    std::apply([&](auto&... a) { std::move(handler)(std::move(a)...); }, arguments);
  }
  void destroy() noexcept {
    allocator_type const a = allocator();
    if (in_slot_ != nullptr) [[unlikely]]
      in_slot_->handler_ = nullptr;
    if (is_counted_) service->work_finished();
    block().free(a);
  }

 private:
  [[nodiscard]] Block& block() noexcept { return static_cast<Block&>(*this); }

  /// In the slot. Where the handler is dropped uncalled, its slot may end before the block, or after it.
  class cancels {
   public:
    explicit cancels(asio_handler& h) noexcept : handler_(&h) { h.in_slot_ = this; }
    cancels(cancels const&) = delete;
    cancels& operator=(cancels const&) = delete;
    ~cancels() {
      if (handler_ != nullptr) handler_->in_slot_ = nullptr;
    }
    void operator()(net::cancellation_type_t type) const noexcept {
      if (type == net::cancellation_type_t::none || handler_ == nullptr) return;
      handler_->is_cancelled.store(true, std::memory_order_relaxed); // its object counts it no more
      handler_->functions->cancel(*handler_);
    }

   private:
    friend asio_handler;
    asio_handler* handler_; // null: its block is gone
  };

  struct no_work {
    template <class E> void emplace(E const&) noexcept {}
  };
  Handler handler_;
  std::optional<asio_tracking<associated>> work_; // none: its executor is the context's
  [[no_unique_address]] std::conditional_t<is_asio_executor<Executor>, no_work,
                                           std::optional<asio_tracking<Executor>>> io_work_;
  cancels* in_slot_ = nullptr;
  bool is_of_context_;
  bool is_counted_ = false;
};

struct asio_no_buffers {};

/// An operation, from its start until its handler is called.
template <class Sender, class Buffers, class Handler, class Executor>
class asio_operation final
    : public asio_handler<asio_operation<Sender, Buffers, Handler, Executor>, Handler, Executor>,
      Buffers,
      message_link<asio_operation<Sender, Buffers, Handler, Executor>>,
      Sender {
  using base = asio_handler<asio_operation, Handler, Executor>;
  using link = message_link<asio_operation>;
  using memory = asio_memory<typename base::allocator_type, asio_operation>;

 public:
  /// `describe(buffers)` returns the sender.
  template <class Describe, class... Sequence>
  static void start(asio_service& s, asio_group* group, Handler&& h, Executor const& e, Describe&& describe,
                    Sequence const&... sequence) {
    auto const a = net::get_associated_allocator(h);
    asio_operation* const self =
        memory::make(a, s, std::move(h), e, static_cast<Describe&&>(describe), sequence...);
    self->begin(group, e);
  }
  template <class Describe, class... Sequence>
  asio_operation(asio_service& s, Handler&& h, Executor const& e, Describe&& describe,
                 Sequence const&... sequence)
      : base(functions_of, s, std::move(h), e),
        Buffers(sequence...),
        Sender(static_cast<Describe&&>(describe)(static_cast<Buffers&>(*this))) {
    this->set_notification(&notify);
  }
  auto arguments() {
    auto r = this->result();
    if constexpr (std::derived_from<Sender, async_read>)
      if (r.has_value()) asio_settle(this->request().buffers, *r);
    return asio_result<typename Sender::result_type>::arguments(std::move(r),
                                                                asio_expects_bytes<Sender>(*this));
  }
  void free(typename base::allocator_type const& a) noexcept {
    this->abandon(); // while all of it lives
    this->~asio_operation();
    memory::free(a, this);
  }

 private:
  void begin(asio_group* group, Executor const& e) {
    UNIO_EXPECTS(!this->is_multishot(),
                 "an operation that yields many values needs a receiver: see connect()");
    bool is_cancellable = false;
    try {
      is_cancellable = this->connect_slot();
    } catch (...) {
      this->destroy();
      throw;
    }
    asio_service& s = *this->service;
    io_multiplexer* const given = s.multiplexer();
    io_multiplexer& m = this->chosen(given);
    bool const is_own = &m == given;
    if (!is_own && given != nullptr) {
      this->count_work();
      if (group != nullptr) group->be_locked();
    }
    bool const is_elsewhere = m.runs_elsewhere();
    // What another thread may cancel, take over or wait for.
    if (s.is_shared() || !is_own || is_elsewhere || m.is_shared() ||
        (is_cancellable && !this->is_of_context()))
      this->set_atomic(link::next_message_);
    (group != nullptr                      ? *group
     : this->is_atomic() && !s.is_shared() ? s.locked_group()
                                           : s.group())
        .insert(*this);
    if (is_elsewhere) return io_operation::start(given); // this object may be destroyed by now
    is_starting_ = true;
    io_operation::start(given);
    is_starting_ = false;
    if (this->is_marked_finished()) {
      if (this->leave_group()) this->end_at_once(e);
    } else if (this->is_atomic()) {
      this->let_be_taken(); // this object may be destroyed from here on
    }
  }
  static void notify(io_operation& op, unsigned events) noexcept {
    if ((events & io_operation::done) == 0) return;
    auto& self = static_cast<asio_operation&>(op);
    if (self.is_starting_) return self.mark_finished();
    if (!self.leave_group())
      return self.mark_finished(); // it is being dropped; the last that is done with it
    self.mark_finished();
    asio_arrive(self);
  }
  static void call(asio_node& n) { static_cast<asio_operation&>(n).end(); }
  static void drop(asio_node& n) noexcept {
    n.service->unqueue(n);
    static_cast<asio_operation&>(n).destroy();
  }
  static void cancel(asio_node& n) noexcept { static_cast<asio_operation&>(n).io_operation::cancel(); }
  static constexpr asio_node_functions functions_of{&call, &drop, &cancel};

  bool is_starting_ = false;
};

/// Starts an operation for an object that has described it. See asio_operation::start.
template <class Sender, class Buffers = asio_no_buffers, class Handler, class Executor, class Describe,
          class... Sequence>
void asio_begin(asio_group& group, Handler&& h, Executor const& e, Describe&& describe,
                Sequence const&... sequence) {
  using operation = asio_operation<Sender, Buffers, std::decay_t<Handler>, Executor>;
  std::decay_t<Handler> handler(static_cast<Handler&&>(h));
  operation::start(group.service(), &group, std::move(handler), e, static_cast<Describe&&>(describe),
                   sequence...);
}

/// Initiates the operation of a sender.
template <class Executor> struct asio_initiates {
  using executor_type = Executor;
  Executor executor;
  [[nodiscard]] executor_type get_executor() const noexcept { return executor; }
  template <class Handler, class Sender> void operator()(Handler&& h, Sender&& sender) const {
    using operation =
        asio_operation<std::remove_cvref_t<Sender>, asio_no_buffers, std::decay_t<Handler>, Executor>;
    std::decay_t<Handler> handler(static_cast<Handler&&>(h));
    operation::start(asio_service_of(executor), nullptr, std::move(handler), executor,
                     [&](asio_no_buffers&) -> std::remove_cvref_t<Sender> { return std::move(sender); });
  }
};

} // namespace unio::detail
