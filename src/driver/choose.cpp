// Which backend: the one place that knows all of them.
//
// io_uring if a ring can be made and entered (a seccomp filter may allow one and not the other), else epoll,
// with one line that says why (capabilities().why). Setup flags are tried from the best to the most modest,
// and operations are probed.

#include "driver/choose.hpp"

#include "core/escaped.hpp"
#include "core/failed_with.hpp"
#include "driver/epoll/epoll.hpp"

#if UNIO_HAS_URING
#include "driver/uring/choosing.hpp"
#include "driver/uring/foreign.hpp"
#include "driver/uring/uring.hpp"
#endif

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace unio::inline v0_1::driver {
namespace {

constexpr unsigned default_ring_entries = 1024;
constexpr unsigned max_ring_entries = 32768; // IORING_MAX_ENTRIES

std::string_view setting(char const* name) noexcept {
  char const* const text = std::getenv(name);
  return text != nullptr ? text : "";
}

// UNIO_RING_ENTRIES: how many operations one turn can submit. For tests (1) and for those who count every
// page. 0: it is set to something else.
unsigned ring_entries() noexcept {
  std::string_view const text = setting("UNIO_RING_ENTRIES");
  if (text.empty()) return default_ring_entries;
  unsigned n = 0;
  auto const [end, e] = std::from_chars(text.data(), text.data() + text.size(), n);
  bool const is_number = e == std::errc() && end == text.data() + text.size();
  return is_number && n <= max_ring_entries ? n : 0;
}

#if UNIO_HAS_URING

result<std::unique_ptr<backend>> try_uring(unsigned entries) noexcept {
  result<std::unique_ptr<backend>> made = make_uring(entries);
  if (made.has_value()) (*made)->keep_successor(make_epoll_descriptor());
  return made;
}
int probe(std::array<bool, 256>& known) noexcept { return probe_uring(known); }
void choose_buffers() noexcept { set_chooser(); }

result<std::unique_ptr<foreign_driver>> try_foreign_uring(int doorbell_fd, foreign_lock& lock) noexcept {
  return make_foreign_uring(doorbell_fd, lock);
}

// What the operator may want to know: the call that failed, the error, and the likely cause.
[[gnu::cold]] std::string why_no_ring(int native_code) {
  std::string text = "io_uring: ";
  text += std::strerror(-native_code);
  switch (-native_code) {
    case EPERM:
    case EACCES:
      text += " (kernel.io_uring_disabled is set, or a seccomp filter forbids it)";
      break;
    case ENOSYS:
      text += " (a kernel without io_uring, or a seccomp filter)";
      break;
    case EOPNOTSUPP:
    case EINVAL:
      text += " (a kernel before 5.13, or a sandbox that offers only part of it)";
      break;
    case ENOMEM:
      text += " (RLIMIT_MEMLOCK is too small for a ring)";
      break;
    case EAGAIN:
    case EBUSY:
      text += " (the kernel was short of memory)";
      break;
    default:
      break;
  }
  text += "; using epoll";
  return text;
}

#else

result<std::unique_ptr<backend>> try_uring(unsigned) noexcept {
  return std::make_error_code(std::errc::function_not_supported);
}

int probe(std::array<bool, 256>&) noexcept { return -ENOSYS; }
void choose_buffers() noexcept {}

result<std::unique_ptr<foreign_driver>> try_foreign_uring(int, foreign_lock&) noexcept {
  return std::make_error_code(std::errc::function_not_supported);
}

std::string why_no_ring(int) { return "built without io_uring; using epoll"; }

#endif

// ENOMEM after shrinking is how kernels before 5.12 say that little memory may be locked. Memory that is
// short for longer than a caller may wait is as good a reason.
bool is_reason_for_epoll(std::error_code const& no_ring) noexcept {
  int const code = -no_ring.value(); // a system error: an errno
  return means_unavailable(code) || code == -ENOMEM || code == -EAGAIN || code == -EBUSY;
}

bool is_driver(std::string_view name) noexcept { return name.empty() || name == "epoll" || name == "uring"; }

} // namespace

[[gnu::cold]] std::string why_this_driver(int native_code) {
  if (native_code == backend::needs_no_reason) return {};
  return native_code == 0 ? "UNIO_DRIVER is epoll" : why_no_ring(native_code);
}

bool means_unavailable(int native_code) noexcept {
  switch (-native_code) {
    case EPERM:
    case EACCES:
    case ENOSYS:
    case EOPNOTSUPP:
    case EINVAL:
      return true;
    default:
      return false;
  }
}

[[gnu::cold]] std::string why_none(std::error_code const& error) {
  auto const line = [](char const* name, std::string_view is, char const* takes) {
    return std::string(name).append("=").append(detail::escaped(is)).append(": ").append(takes);
  };
  std::string_view const name = setting("UNIO_DRIVER");
  if (!is_driver(name)) return line("UNIO_DRIVER", name, "the choices are uring and epoll");
  if (ring_entries() == 0)
    return line("UNIO_RING_ENTRIES", setting("UNIO_RING_ENTRIES"), "it takes a number from 1 to 32768");
  return name.empty() ? error.message() : line("UNIO_DRIVER", name, error.message().c_str());
}

bool has_uring() noexcept { return UNIO_HAS_URING; }

int probe_ring(std::array<bool, 256>& known) noexcept { return probe(known); }

void let_rings_choose() noexcept { choose_buffers(); }

constinit backend_maker simulated_backend = nullptr;

result<std::unique_ptr<backend>> best_backend(bool for_other_threads) noexcept {
  if (simulated_backend != nullptr) {
    result<std::unique_ptr<backend>> simulated = simulated_backend(for_other_threads);
    if (!simulated.has_value() || *simulated != nullptr) return simulated;
  }
  std::string_view const name = setting("UNIO_DRIVER");
  if (!is_driver(name)) return error::unknown_driver;
  unsigned const entries = ring_entries();
  if (entries == 0) return error::bad_ring_entries;
  if (name == "epoll") return make_epoll(0);
  result<std::unique_ptr<backend>> ring = try_uring(entries);
  if (ring.has_value()) return ring;
  if (name == "uring") return detail::failed_with(ring.error(), "best_available", "UNIO_DRIVER=uring");
  if (!is_reason_for_epoll(ring.error())) return ring;
  return make_epoll(-ring.error().value());
}

std::unique_ptr<backend> backend_after(backend& current, int native_code, int doorbell_fd) noexcept {
  if (!current.is_ring() || !means_unavailable(native_code)) return nullptr;
  result<std::unique_ptr<backend>> next = make_epoll(native_code, doorbell_fd, current.give_successor());
  return next.has_value() ? std::move(*next) : nullptr;
}

result<std::unique_ptr<foreign_driver>> best_foreign_driver(foreign_use use, int doorbell_fd,
                                                            foreign_lock& lock) noexcept {
  std::string_view const name = setting("UNIO_DRIVER");
  if (!is_driver(name)) return error::unknown_driver;
  if (ring_entries() == 0) return error::bad_ring_entries; // which it would not use
  if (name == "epoll" || use == foreign_use::by_several) return make_foreign_epoll(doorbell_fd);
  result<std::unique_ptr<foreign_driver>> ring = try_foreign_uring(doorbell_fd, lock);
  if (ring.has_value() || name == "uring" || !is_reason_for_epoll(ring.error())) return ring;
  return make_foreign_epoll(doorbell_fd);
}

std::unique_ptr<foreign_driver> foreign_driver_after(foreign_driver& current, int native_code,
                                                     int doorbell_fd) noexcept {
  if (!current.is_ring() || !means_unavailable(native_code)) return nullptr;
  result<std::unique_ptr<foreign_driver>> next = make_foreign_epoll(doorbell_fd);
  return next.has_value() ? std::move(*next) : nullptr;
}

} // namespace unio::driver
