// Which backend: the one place that knows all of them.

#include "driver/choose.hpp"

#include "driver/epoll/epoll.hpp"

#if UNIO_HAS_URING
#include "driver/uring/uring.hpp"
#endif

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace unio::driver {
namespace {

#if UNIO_HAS_URING

constexpr unsigned default_ring_entries = 1024;
constexpr unsigned max_ring_entries = 32768; // IORING_MAX_ENTRIES

// UNIO_RING_ENTRIES: how many operations one turn can submit. For tests (1) and for those who count every page.
unsigned ring_entries() noexcept {
  char const* const text = std::getenv("UNIO_RING_ENTRIES");
  if (text == nullptr) return default_ring_entries;
  char* end = nullptr;
  unsigned long const n = std::strtoul(text, &end, 10);
  return end == text || *end != '\0' || n == 0 || n > max_ring_entries ? default_ring_entries
                                                                       : static_cast<unsigned>(n);
}

result<std::unique_ptr<backend>> try_uring() noexcept { return make_uring(ring_entries()); }

// What the operator may want to know: the call that failed, the error, and the likely cause.
std::string why_no_ring(int native_code) {
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
      text += " (a kernel before 5.11, or a sandbox that offers only part of it)";
      break;
    case ENOMEM:
      text += " (RLIMIT_MEMLOCK is too small for a ring)";
      break;
    default:
      break;
  }
  return text + "; using epoll";
}

#else

result<std::unique_ptr<backend>> try_uring() noexcept {
  return std::make_error_code(std::errc::function_not_supported);
}

std::string why_no_ring(int) { return "built without io_uring; using epoll"; }

#endif

} // namespace

std::string why_this_driver(int native_code) {
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

bool has_uring() noexcept { return UNIO_HAS_URING; }

result<std::unique_ptr<backend>> best_backend() noexcept {
  char const* const wanted = std::getenv("UNIO_DRIVER");
  std::string_view const name = wanted != nullptr ? wanted : "";
  if (name == "epoll") return make_epoll(0);
  if (name != "" && name != "uring") return error::unknown_driver;
  result<std::unique_ptr<backend>> ring = try_uring();
  if (ring.has_value() || name == "uring") return ring;
  // ENOMEM after shrinking is how kernels before 5.12 say that little memory may be locked.
  int const code = -ring.error().value(); // a system error: an errno
  if (!means_unavailable(code) && code != -ENOMEM) return ring;
  return make_epoll(code);
}

std::unique_ptr<backend> backend_after(backend const& current, int native_code) noexcept {
  if (!current.is_ring() || !means_unavailable(native_code)) return nullptr;
  result<std::unique_ptr<backend>> next = make_epoll(native_code);
  return next.has_value() ? std::move(*next) : nullptr;
}

} // namespace unio::driver
