// unio/detail/asio_context.hpp: implements asio_context and its executor.

#pragma once

#include <unio/asio_context.hpp>
#include <unio/timer_handle.hpp>

#include <optional>

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

/// Keeps a multiplexer asleep that has nothing pending, while Asio counts work.
class asio_idle {
  struct ignores {
    static void set_value(io_result<void>&&) noexcept {}
    static void set_done() noexcept {}
  };
  using sleep = io_operation_connection<async_wait, ignores>;

 public:
  explicit asio_idle(asio_service& s) noexcept : service_(s), never_(deadline::none(), s.multiplexer()) {}
  ~asio_idle() { end(); }
  asio_idle(asio_idle const&) = delete;
  asio_idle& operator=(asio_idle const&) = delete;
  void begin() noexcept {
    if (sleep_.has_value()) return;
    service_.sleeper_came();
    sleep_.emplace(async_wait(never_), ignores()).start();
  }
  void end() noexcept {
    if (!sleep_.has_value()) return;
    sleep_.reset();
    service_.sleeper_left();
  }

 private:
  asio_service& service_;
  timer_handle never_;
  std::optional<sleep> sleep_;
};

/// A function that was posted.
template <class F, class Allocator> class asio_posted final : public asio_node {
  using memory = asio_memory<Allocator, asio_posted>;

 public:
  template <class G> static asio_posted* make(asio_service& s, Allocator const& a, G&& g) {
    return memory::make(a, s, a, static_cast<G&&>(g));
  }
  template <class G>
  asio_posted(asio_service& s, Allocator const& a, G&& g)
      : asio_node(functions_of, s), allocator_(a), f_(static_cast<G&&>(g)) {}

 private:
  static void call(asio_node& n) {
    asio_posted* self = &static_cast<asio_posted&>(n);
    struct frees {
      asio_posted*& self;
      ~frees() {
        if (self != nullptr) free(std::exchange(self, nullptr));
      }
    } const guard{self};
    F f(std::move(self->f_));
    free(std::exchange(self, nullptr));
    f();
  }
  static void drop(asio_node& n) noexcept {
    n.service->unqueue(n);
    free(&static_cast<asio_posted&>(n));
  }
  static void free(asio_posted* self) noexcept {
    Allocator const a(std::move(self->allocator_));
    self->~asio_posted();
    memory::free(a, self);
  }
  static constexpr asio_node_functions functions_of{&call, &drop, [](asio_node&) noexcept {}};

  [[no_unique_address]] Allocator allocator_;
  F f_;
};

} // namespace unio::detail

namespace unio::inline v0_1::inline UNIO_ASIO_TAG {

inline asio_context::asio_context(io_multiplexer& m)
    : service_(&detail::net::make_service<detail::asio_service>(*this, &m)) {}
inline asio_context::asio_context(int threads)
    : own_(io_multiplexer::best_available(threads).value()),
      service_(&detail::net::make_service<detail::asio_service>(*this, own_.get())) {}
inline asio_context::~asio_context() {
  shutdown();
  destroy();
}
inline asio_executor asio_context::get_executor() const noexcept {
  return asio_executor(reinterpret_cast<std::uintptr_t>(this), {});
}
inline void asio_context::stop() noexcept {
  service_->set_stopped(true);
  multiplexer().wake();
}

inline std::size_t asio_context::run_turns(std::size_t limit, time_point until) {
  detail::asio_service& s = *service_;
  io_multiplexer& m = multiplexer();
  struct running {
    detail::asio_service& s;
    explicit running(detail::asio_service& of) noexcept : s(of) { s.enter(); }
    ~running() { s.leave(); }
  } const counted(s);
  bool const waits = until != time_point::min();
  bool const is_bounded = waits && until != time_point::max();
  int const items = limit == 1 ? 1 : -1;
  detail::asio_frame frame(s, limit);
  detail::asio_idle idle(s);
  while (!s.is_stopped()) {
    if (s.has_waiting()) [[unlikely]]
      s.queue_waiting();
    bool others_sleep = false;
    if (!s.has_work()) [[unlikely]] {
      idle.end();
      // Each that sleeps for the work that has ended is woken by one that was: a wake is for one.
      others_sleep = s.has_sleepers();
      if (others_sleep) m.wake();
    }
    std::size_t const before = frame.executed();
    result<int> const ran = !waits         ? m.try_run(items)
                            : others_sleep ? m.try_run_for(std::chrono::milliseconds(1), items)
                            : is_bounded   ? m.try_run_until(until, items)
                                           : m.run(items);
    if (std::exception_ptr e = frame.take_exception(); e != nullptr) std::rethrow_exception(std::move(e));
    if (!ran.has_value()) throw detail::asio_system_error(detail::asio_error(ran.error()));
    if (frame.executed() >= limit) break;
    bool const did_nothing = frame.executed() == before;
    if (*ran == 0 && did_nothing) {
      if (!s.has_work() && !others_sleep) {
        s.set_stopped(true);
        break;
      }
      if (!waits) break;
      if (!others_sleep) idle.begin();
    } else if (!waits && *ran <= 0 && did_nothing) {
      break;
    }
    if (is_bounded && std::chrono::steady_clock::now() >= until) break;
  }
  return frame.executed();
}

template <class Allocator, bool Tracks>
template <class F>
void basic_asio_executor<Allocator, Tracks>::execute(F&& f) const {
  detail::asio_service& s = *context().service_;
  if (!is_never_blocking() && detail::asio_frame::is_inside(s)) {
    std::decay_t<F> here(static_cast<F&&>(f));
    try {
      here();
    } catch (...) { // it leaves run(), not this function: the caller is another handler
      detail::asio_frame::innermost->keep(std::current_exception());
    }
    return;
  }
  using posted = detail::asio_posted<std::decay_t<F>, Allocator>;
  s.call_later(*posted::make(s, allocator_, static_cast<F&&>(f)));
}

} // namespace unio

namespace unio::inline v0_1::detail::inline UNIO_ASIO_TAG {

template <class Executor> asio_service& asio_service_of(Executor const& e) {
  if constexpr (is_asio_executor<Executor>) {
    return e.service();
  } else {
    return net::use_service<asio_service>(
        static_cast<net::execution_context&>(net::query(e, net::execution::context)));
  }
}

} // namespace unio::detail
