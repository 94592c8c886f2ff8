// The handler of guard_maps(), and the list of maps that it looks at. Both may be used by any thread at any
// moment, so the list is an array of atomics.

#include "handle/guarded_maps.hpp"
#include "sys/calls.hpp"
#include "sys/fork.hpp"

#include <unio/error.hpp>
#include <unio/mapped_file_handle.hpp>

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <mutex>

namespace unio::inline v0_1 {
namespace {

struct listed_map {
  std::atomic<std::uintptr_t> begin{0}; // 0: free; 1: being filled
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> cut{false};
};
constinit std::array<listed_map, 1024> maps;

struct sigaction before; // written before the handler is installed

void pass_on(int signal, siginfo_t* information, void* context) noexcept {
  if ((before.sa_flags & SA_SIGINFO) != 0) return before.sa_sigaction(signal, information, context);
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) return before.sa_handler(signal);
  // The access is repeated, and ends the process as it would have without us.
  struct sigaction none{};
  none.sa_handler = SIG_DFL;
  ::sigaction(SIGBUS, &none, nullptr);
  if (information->si_code <= 0) ::raise(signal); // sent by kill(2): nothing is repeated
}

void on_bus_error(int signal, siginfo_t* information, void* context) {
  int const e = errno;
  auto const at = reinterpret_cast<std::uintptr_t>(information->si_addr);
  if (information->si_code == BUS_ADRERR) {
    for (listed_map& m : maps) {
      std::uintptr_t const begin = m.begin.load(std::memory_order_acquire);
      if (begin <= 1 || at < begin || at >= m.end.load(std::memory_order_relaxed)) continue;
      auto const page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
      void* const where = reinterpret_cast<void*>(at & ~(page - 1));
      // Not through the table in use: this may be any thread, at any moment.
      m.cut.store(true, std::memory_order_relaxed);
      void* const zeros =
          ::mmap(where, page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
      errno = e;
      if (zeros != MAP_FAILED) return;
      break;
    }
  }
  pass_on(signal, information, context);
  errno = e;
}

} // namespace

int detail::guard(std::byte const* begin, std::size_t bytes, bool cut) noexcept {
  for (std::size_t i = 0; i != maps.size(); ++i) {
    std::uintptr_t free = 0;
    if (maps[i].begin.load(std::memory_order_relaxed) != 0 ||
        !maps[i].begin.compare_exchange_strong(free, 1, std::memory_order_acquire))
      continue;
    auto const at = reinterpret_cast<std::uintptr_t>(begin);
    maps[i].end.store(at + bytes, std::memory_order_relaxed);
    maps[i].cut.store(cut, std::memory_order_relaxed);
    maps[i].begin.store(at, std::memory_order_release); // pairs with the acquire in the handler
    return static_cast<int>(i);
  }
  return -1;
}

void detail::unguard(int number) noexcept {
  if (number >= 0) maps[static_cast<std::size_t>(number)].begin.store(0, std::memory_order_release);
}

bool detail::was_cut(int number) noexcept {
  return number >= 0 && maps[static_cast<std::size_t>(number)].cut.load(std::memory_order_relaxed);
}

void detail::forget_cut(int number) noexcept {
  if (number >= 0) maps[static_cast<std::size_t>(number)].cut.store(false, std::memory_order_relaxed);
}

result<void> guard_maps() noexcept {
  static constinit sys::process_lock installing(sys::guarded::map_guard);
  static bool installed = false;
  std::lock_guard const lock(installing);
  if (installed) return {};
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  if (::sigaction(SIGBUS, nullptr, &before) != 0 || ::sigaction(SIGBUS, &ours, nullptr) != 0)
    return detail::to_error_code(-errno);
  installed = true;
  return {};
}

} // namespace unio
