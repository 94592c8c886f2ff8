#include "driver/choose.hpp"
#include "driver/engine.hpp"
#include "driver/failed_multiplexer.hpp"
#include "driver/shared.hpp"
#include "driver/this_thread.hpp"
#include "sys/due.hpp"

#include <unio/multiplexer.hpp>

namespace unio::inline v0_1 {

io_multiplexer::~io_multiplexer() = default;

std::int64_t io_multiplexer::due(deadline d) const noexcept { return sys::due(d); }

void io_multiplexer::fork(work& w) noexcept { post(w); }
void io_multiplexer::spawn(work& w) noexcept { post(w); }
bool io_multiplexer::withdraw(work&) noexcept {
  UNIO_EXPECTS(
      false, "a coroutine was destroyed that this multiplexer is about to resume, and cannot be told not to");
}

void io_multiplexer::abandon(io_operation& op) noexcept {
  cancel(op);
  finish(op);
}

void io_multiplexer::member_ended(io_operation&) noexcept {}

io_multiplexer& io_multiplexer::of_this_thread() noexcept { return *this; }

bool io_multiplexer::hold_starts() noexcept { return false; }
void io_multiplexer::release_starts() noexcept {}

result<std::unique_ptr<io_multiplexer>> driver::make_engine(shared_state* shared) noexcept {
  result<std::unique_ptr<backend>> b = best_backend();
  if (!b.has_value()) return b.error();
  std::unique_ptr<io_multiplexer> m(new (std::nothrow) engine(std::move(*b), shared));
  if (m == nullptr) return std::make_error_code(std::errc::not_enough_memory);
  return m;
}

std::string to_string(capabilities const& c) {
  std::string text;
  auto line = [&](char const* name, std::string const& value) {
    text.append(name).append(": ").append(value).append("\n");
  };
  auto flag = [&](char const* name, bool on) { line(name, on ? "yes" : "no"); };
  line("driver", c.driver);
  line("threads", std::to_string(c.threads));
  if (c.ring_entries != 0) {
    line("ring entries", std::to_string(c.ring_entries));
    flag("single issuer", c.single_issuer);
    flag("deferred task work", c.defer_taskrun);
    flag("no index array", c.no_sqarray);
    flag("registered ring", c.registered_ring);
    flag("no iowait", c.no_iowait);
    flag("multishot accept", c.multishot_accept);
    flag("zero-copy send", c.zero_copy_send);
    flag("pipe writes without SIGPIPE", c.pipe_write_without_signal);
    line("registered bytes", std::to_string(c.registered_bytes));
  }
  if (!c.why.empty()) line("why", c.why);
  return text;
}

// ---- the calling thread's own -----------------------------------------------------------------------------

namespace {

struct thread_state {
  std::unique_ptr<io_multiplexer> own;
  driver::failed_multiplexer failed; // used if none can be made
  ~thread_state() {
    own.reset(); // while it shuts down its operations may still use it
    detail::shortcut.own = nullptr;
  }
};

thread_state& this_threads() noexcept {
  static thread_local thread_state state;
  return state;
}

} // namespace

constinit thread_local detail::thread_shortcut detail::shortcut{nullptr, 0};

io_multiplexer& this_thread::multiplexer() noexcept {
  if (io_multiplexer* const own = detail::shortcut.get(); own != nullptr) return *own;
  thread_state& t = this_threads();
  // A child made by fork leaves what it inherited alone, except for the descriptors, and makes its own.
  result<std::unique_ptr<io_multiplexer>> made = driver::make_engine(nullptr);
  if (!made.has_value()) {
    t.failed.why = made.error();
    return t.failed;
  }
  t.own = std::move(*made);
  detail::shortcut = {t.own.get(), sys::fork_generation()};
  return *t.own;
}

io_multiplexer* this_thread::multiplexer_if_any() noexcept { return detail::shortcut.get(); }

} // namespace unio
