// unio::dump_pending: describes each operation in flight, to find out why nothing happens.

#include "core/escaped.hpp"
#include "driver/engine.hpp"
#include "driver/foreign/foreign.hpp"
#include "driver/registry.hpp"
#include "driver/shared/members.hpp"
#include "driver/shared/unclaimed.hpp"
#include "sys/calls.hpp"
#include "sys/descriptors.hpp"
#include "sys/fork.hpp"
#include "sys/threads.hpp"

#include <unio/detail/promise.hpp>
#include <unio/pending.hpp>

#include <sys/eventfd.h>

#include <csignal>
#include <cstdio>
#include <iostream>
#include <iterator>

namespace unio::inline v0_1 {
namespace {

std::string duration(std::int64_t ns) {
  char text[32];
  if (ns < 1'000'000) {
    std::snprintf(text, sizeof text, "%.1f us", static_cast<double>(ns) / 1e3);
  } else if (ns < 1'000'000'000) {
    std::snprintf(text, sizeof text, "%.1f ms", static_cast<double>(ns) / 1e6);
  } else {
    std::snprintf(text, sizeof text, "%.1f s", static_cast<double>(ns) / 1e9);
  }
  return text;
}

constexpr char const* kind_names[] = {"",          "path",
                                      "file",      "mapped file",
                                      "pipe",      "named pipe",
                                      "socket",    "listening socket",
                                      "event",     "datagram socket",
                                      "directory", "process",
                                      "signal",    "watch"};
static_assert(std::size(kind_names) == static_cast<std::size_t>(handle_kind::watch) + 1);

// What a descriptor is, in the kernel's words: a path, or "socket:[1234]".
std::string target_of(int fd) {
  char target[256];
  std::string const link = "/proc/self/fd/" + std::to_string(fd);
  ssize_t const n = ::readlink(link.c_str(), target, sizeof target);
  return n > 0 ? " " + detail::escaped({target, static_cast<std::size_t>(n)}) : std::string();
}

// What is recorded depends on how the library was built.

template <bool Tracks>
void describe_age(std::string& text, detail::tracked_operation<Tracks> const& op, std::int64_t now_ns) {
  if constexpr (Tracks) text += ", for " + duration(now_ns - op.started_ns());
}

[[maybe_unused]] void describe_coroutine(std::string& text, detail::tracked_coroutine<true> const& c) {
  std::source_location const& at = c.where();
  // GCC names the function that it made from the coroutine, whose parameter is the frame.
  std::string_view name = at.function_name();
  if (name.ends_with(".Frame*)")) name = name.substr(0, name.find('('));
  if (name.starts_with("void ")) name.remove_prefix(5);
  text.append("    awaited by ").append(name).append(" at ").append(at.file_name());
  text += ":" + std::to_string(at.line()) + "\n";
}

template <bool Tracks>
std::coroutine_handle<> describe_listener(std::string& text, detail::tracked_listener<Tracks> const& l) {
  if constexpr (Tracks) {
    if (*l.what() != '\0') text.append("    in ").append(l.what()).append("\n");
    return l.waiting();
  }
  return {};
}

// A suspended coroutine and those that await it, from the innermost outwards. They stay suspended, because
// what it awaits is in flight on this thread, or because its wait cannot end now (tracked_wait).
template <bool Tracks> void describe_chain(std::string& text, std::coroutine_handle<> h) {
  if constexpr (Tracks) {
    for (int depth = 0; h && depth != 1000; ++depth) {
      auto const* const c = detail::tracked_coroutine<true>::in(h);
      if (c == nullptr) {
        text += "    awaited by a coroutine that is no task\n";
        return;
      }
      describe_coroutine(text, *c);
      // Only promises of unio's carry the mark, and this is the first base of all of them.
      auto const& promise = *reinterpret_cast<detail::promise_base const*>(c);
      detail::end_listener const* const listener = promise.listener();
      h = listener != nullptr ? describe_listener<UNIO_TRACKS_PENDING>(text, *listener) : promise.next();
    }
  }
}

template <bool Tracks>
void describe_awaiters(std::string& text, detail::tracked_operation<Tracks> const& op) {
  if constexpr (Tracks) describe_chain<Tracks>(text, op.coroutine());
}

// Coroutines that wait for other coroutines, whatever runs them.
template <bool Tracks> void describe_waits(std::string& text) {
  if constexpr (Tracks) {
    detail::tracked_wait<Tracks>::for_each(
        [](void* argument, detail::tracked_wait<Tracks> const& w) {
          auto& to = *static_cast<std::string*>(argument);
          to.append("waiting for ").append(w.what());
          to.append(", for ").append(duration(sys::steady_now() - w.started_ns())).append("\n");
          describe_chain<Tracks>(to, w.coroutine());
        },
        &text);
  }
}

void describe(std::string& text, io_operation const& op, std::int64_t now_ns) {
  text.append("  ").append(op.faces().name);
  if (op.fd() >= 0) {
    text.append(" on ")
        .append(kind_names[static_cast<std::size_t>(op.kind())])
        .append(" ")
        .append(std::to_string(op.fd()));
    text += target_of(op.fd());
  }
  describe_age<UNIO_TRACKS_PENDING>(text, op, now_ns);
  text.append(", ").append(name_of(op.links.is.where));
  if (op.links.is.where == driver::place::queued) text.append(" for ").append(op.faces().resource->name);
  if (op.links.is.cancel_wanted) text += ", being cancelled";
  if (op.links.is.in_heap) {
    std::int64_t const left = op.links.due - now_ns;
    bool const retries = op.links.is.where == driver::place::retrying;
    char const* const what = retries ? "tried again in " : "due in ";
    text += std::string(", ") + (left > 0 ? what + duration(left) : std::string("due now"));
  }
  text += "\n";
  describe_awaiters<UNIO_TRACKS_PENDING>(text, op);
}

void describe_all(driver::engine& e, std::string& text) {
  std::int64_t const now_ns = e.now();
  text.append(e.capabilities().driver).append(" multiplexer, ").append(std::to_string(e.in_flight()));
  text.append(" pending\n");
  e.for_each_in_flight([&](io_operation const& op) { describe(text, op, now_ns); });
}

void describe_unclaimed(driver::unclaimed_operations& all, void* argument) {
  auto& text = *static_cast<std::string*>(argument);
  if (!all.may_have_some()) return;
  std::int64_t const now_ns = sys::steady_now();
  text += "a multiplexer of several threads, of which none has taken these yet\n";
  all.for_each([&](io_operation const& op) { describe(text, op, now_ns); });
}

// What loops that are not unio's wait for. Their operations are not unio's either: a descriptor, a direction
// and, where the loop records them, the time and the places.
class foreign_text final : public foreign_list {
 public:
  explicit foreign_text(std::string& text) noexcept : text_(text), now_(std::chrono::steady_clock::now()) {}
  void add_loop(foreign_reactor const& r) {
    text_.append("a foreign loop on ").append(r.driver()).append("\n");
  }
  void add(foreign_waiting const& w) override {
    // Its loop may just begin to watch it.
    int const fd = std::atomic_ref(driver::foreign_access::fd(const_cast<foreign_watch&>(*w.watch)))
                       .load(std::memory_order_relaxed);
    text_.append("  ").append(name_of(w.what)).append(" on descriptor ").append(std::to_string(fd));
    text_ += target_of(fd);
    if (w.since != std::chrono::steady_clock::time_point())
      text_.append(", for ").append(duration(std::chrono::nanoseconds(now_ - w.since).count()));
    text_ += "\n";
    for (std::size_t i = 0; i != w.n_places; ++i) {
      foreign_place const& at = w.places[i];
      text_.append(i == 0 ? "    started by " : "    called by ").append(at.function).append(" at ");
      text_.append(at.file).append(":").append(std::to_string(at.line)).append("\n");
    }
  }

 private:
  static char const* name_of(unsigned what) noexcept {
    if (what == foreign::readable) return "read";
    return what == foreign::writable ? "write or connect" : "out-of-band data";
  }
  std::string& text_;
  std::chrono::steady_clock::time_point now_;
};

void describe_foreign(std::string& text) {
  foreign_text list(text);
  driver::foreign_loop::list_all(
      [](foreign_list& l, foreign_reactor const& r) { static_cast<foreign_text&>(l).add_loop(r); }, list);
}

constinit std::atomic<int> dump_wanted_fd{-1};

void want_dump(int) {
  int const saved = errno;
  std::uint64_t const one = 1;
  // This can only fail if a dump was requested already.
  if (::write(dump_wanted_fd.load(std::memory_order_relaxed), &one, sizeof one) < 0) errno = 0;
  errno = saved;
}

void dump_to_standard_error() noexcept {
#if UNIO_HAS_EXCEPTIONS
  try {
    dump_pending(std::cerr);
  } catch (...) { // there is no memory, or std::cerr was set to throw
    static constexpr char text[] = "unio: what is pending cannot be told\n";
    (void)!::write(STDERR_FILENO, text, sizeof text - 1);
  }
#else
  dump_pending(std::cerr);
#endif
}

void* dump_when_wanted(void*) {
  int const fd = dump_wanted_fd.load(std::memory_order_relaxed);
  std::uint64_t times;
  for (;;) {
    ssize_t const n = ::read(fd, &times, sizeof times);
    if (n == sizeof times) dump_to_standard_error();
    if (n < 0 && errno != EINTR) return nullptr;
  }
}

// The thread is the parent's, and so is the descriptor that it reads.
void forget_dumping() noexcept {
  if (int const fd = dump_wanted_fd.exchange(-1, std::memory_order_relaxed); fd >= 0) ::close(fd);
}

result<void> start_dumping() noexcept {
  static constinit sys::process_lock mutex(sys::guarded::dumps);
  std::lock_guard const lock(mutex);
  mutex.in_child(&forget_dumping);
  if (dump_wanted_fd.load(std::memory_order_relaxed) >= 0) return {};
  int const fd = sys::above_standard(sys::past_tests::eventfd(0, EFD_CLOEXEC));
  if (fd < 0) return std::error_code(-fd, std::system_category());
  dump_wanted_fd.store(fd, std::memory_order_relaxed);
  if (int const e = sys::start_thread(&dump_when_wanted, nullptr); e != 0) {
    dump_wanted_fd.store(-1, std::memory_order_relaxed);
    ::close(fd);
    return std::error_code(e, std::system_category());
  }
  return {};
}

} // namespace

void dump_pending(std::ostream& to) {
  std::string text;
  driver::registry::ask_all(&describe_all, text);
  driver::members::for_each_unclaimed(&describe_unclaimed, &text);
  describe_foreign(text);
  if (text.empty()) text = "no multiplexer\n";
  describe_waits<UNIO_TRACKS_PENDING>(text);
  if (!UNIO_TRACKS_PENDING) text += "(ages and coroutines: build unio with UNIO_TRACK_PENDING)\n";
  to << text << std::flush;
}

result<void> dump_pending_on_signal(int signal) noexcept {
  if (result<void> const started = start_dumping(); !started.has_value()) return started;
  struct sigaction action = {};
  action.sa_handler = &want_dump;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  if (::sigaction(signal, &action, nullptr) != 0) return std::error_code(errno, std::system_category());
  return {};
}

} // namespace unio
