// The part of senders and receivers that is no template.

#include "sys/give_way.hpp"

#include <unio/detail/run.hpp>
#include <unio/execution.hpp>
#include <unio/timer_handle.hpp>

#include <algorithm>
#include <chrono>

namespace unio::inline v0_1::detail {
namespace {

constinit thread_local io_multiplexer const* running = nullptr; // by code that is on the stack
constinit thread_local int delegated = 0;                       // how many wait for turns of this thread
constinit thread_local bool in_delegated = false; // it is in such a turn, after which nothing runs

struct ignores {
  static void set_value(io_result<void>&&) noexcept {}
  static void set_done() noexcept {}
};

} // namespace

bool stop_gate::open() noexcept {
  return (state_.fetch_or(bit_open, std::memory_order_acq_rel) & bit_stop) == 0;
}

void stop_gate::stop(io_operation& op) noexcept {
  if ((state_.fetch_or(bit_stop, std::memory_order_acq_rel) & bit_open) == 0) return; // open() will see it
  sys::await_other([&] { return op.started(); }); // another thread is starting it
  op.cancel();
}

std::exception_ptr system_exception(failure const& why) noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    no_value(why);
  } catch (...) { // no_value() is what knows the text
    return std::current_exception();
  }
#else
  return std::make_exception_ptr(std::system_error(why));
#endif
}

std::exception_ptr canceled_exception() noexcept {
  return std::make_exception_ptr(std::system_error(ECANCELED, std::system_category()));
}

runs_here::runs_here(io_multiplexer const* m) noexcept
    : before_(std::exchange(running, in_delegated ? nullptr : m)) {}
runs_here::~runs_here() { running = before_; }
bool runs_here::is(io_multiplexer const& m) noexcept { return running == &m; }

io_multiplexer* delegated_run::begin(io_multiplexer& m) noexcept {
  result<io_multiplexer*> const here = run_while_waiting(&m);
  if (!here.has_value() || *here == nullptr) return nullptr;
  ++delegated;
  return *here;
}

// One that waits for a turn sleeps for the others as well, so that the scheduler's own work waits as long
// whether they are one or many.
void delegated_run::turn(io_multiplexer& m) noexcept {
  constexpr std::chrono::microseconds at_most{5000}, at_least{50};
  auto const bound = std::max(at_least, at_most / std::max(delegated, 1));
  bool const outer = std::exchange(in_delegated, true);
  runs_here const nothing(nullptr);
  if (result<int> const r = m.try_run_for(bound); r.has_value() && *r == 0) {
    // What is waited for happens elsewhere, and will be posted: something must be pending, so that it sleeps.
    timer_handle never(deadline::none(), &m);
    auto sleep = connect(async_wait(never), ignores());
    sleep.start();
    (void)m.try_run_for(bound);
  }
  in_delegated = outer;
}

void delegated_run::end() noexcept { --delegated; }

void expect_is_run(io_multiplexer const& own) noexcept {
  UNIO_EXPECTS(own.run_by() != io_multiplexer::runner::none_yet,
               "an operation was started on this thread's own multiplexer, which nothing runs: its scheduler "
               "is not unio's. Start it on as_scheduler(executor), or wait with unio::sync_wait");
}

} // namespace unio::detail
