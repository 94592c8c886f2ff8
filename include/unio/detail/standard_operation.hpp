// unio/detail/standard_operation.hpp: what std::execution::connect makes of an operation of unio's.

#pragma once

#include <unio/connect.hpp>
#include <unio/detail/schedulers.hpp>

#include <optional>
#include <utility>

namespace unio::inline v0_1::detail {

template <class Sender> struct standard_completions {
  using type = ex::completion_signatures<ex::set_value_t(typename Sender::result_type), ex::set_stopped_t()>;
};

/// See unio/execution.hpp.
template <class Sender, class Receiver>
class standard_operation : message_link<standard_operation<Sender, Receiver>>,
                           Sender,
                           delegation_of<standard_operation<Sender, Receiver>, Receiver> {
  using link = message_link<standard_operation>;
  using place = place_of<ex::env_of_t<Receiver>>;
  friend delegation_of<standard_operation, Receiver>;
  using token_type = ex::stop_token_of_t<ex::env_of_t<Receiver>>;
  struct on_stop {
    standard_operation* self;
    void operator()() const noexcept { self->gate_.stop(*self); }
  };

 public:
  using operation_state_concept = ex::operation_state_t;

  standard_operation(Sender&& sender, Receiver&& receiver)
      : Sender(std::move(sender)), receiver_(std::move(receiver)) {
    this->set_notification(&notify);
  }
  standard_operation(standard_operation&&) = delete;

  void start() & noexcept {
    io_multiplexer* const given = place::multiplexer(ex::get_env(receiver_));
    if constexpr (place::delegates) {
      if (this->is_needed(this->chosen(given))) return this->await_turn();
    } else if constexpr (UNIO_IS_DEBUG && place::is_foreign) {
      if (io_multiplexer const& m = this->chosen(given); &m == this_thread::multiplexer_if_any())
        expect_is_run(m);
    }
    start_on(given);
  }

 private:
  void start_on(io_multiplexer* given) noexcept {
    token_type const token = ex::get_stop_token(ex::get_env(receiver_));
    bool const stoppable = token.stop_possible();
    io_multiplexer const& m = this->chosen(given);
    bool const elsewhere = m.runs_elsewhere();
    if (stoppable || elsewhere || m.is_shared()) this->set_atomic(link::next_message_);
    if (stoppable && token.stop_requested()) return refuse();
    if (elsewhere) {
      if (stoppable) callback_.emplace(token, on_stop{this});
      if (!gate_.open()) return refuse();
      io_operation::start(given); // this object may be destroyed by now
      return;
    }
    bool finished_inside = false;
    finished_inside_ = &finished_inside;
    io_operation::start(given);
    if (finished_inside) return; // this object may be destroyed by now
    finished_inside_ = nullptr;
    (void)gate_.open();
    if (stoppable) callback_.emplace(token, on_stop{this});
    if (this->is_atomic()) this->let_be_taken(); // this object may be destroyed from here on
  }
  void refuse() noexcept {
    callback_.reset();
    io_operation::refuse(-static_cast<int>(std::errc::operation_canceled));
    if constexpr (place::delegates)
      if (this->is_delegated()) return this->set_ended();
    ex::set_stopped(std::move(receiver_));
  }
  io_multiplexer& delegated_multiplexer() noexcept {
    return this->chosen(place::multiplexer(ex::get_env(receiver_)));
  }
  void start_delegated() noexcept { start_on(place::multiplexer(ex::get_env(receiver_))); }
  void complete() noexcept {
    typename Sender::result_type result = this->result();
    if (result.error() == condition::canceled &&
        ex::get_stop_token(ex::get_env(receiver_)).stop_requested()) {
      ex::set_stopped(std::move(receiver_));
    } else {
      ex::set_value(std::move(receiver_), std::move(result));
    }
  }
  static void notify(io_operation& op, unsigned events) noexcept {
    if ((events & io_operation::done) == 0) return;
    auto& self = static_cast<standard_operation&>(op);
    self.callback_.reset();
    self.mark_finished();
    if (self.finished_inside_ != nullptr) *self.finished_inside_ = true;
    if constexpr (place::delegates) {
      if (self.is_delegated()) return self.set_ended();
      runs_here const here(self.multiplexer());
      self.complete();
    } else {
      self.complete();
    }
  }

  Receiver receiver_;
  bool* finished_inside_ = nullptr; // while start() is under way on this thread
  stop_gate gate_;
  std::optional<ex::stop_callback_for_t<token_type, on_stop>> callback_;
};

} // namespace unio::detail
