#include "sys/direct_reads.hpp"

#include "sys/fork.hpp"

#include <array>
#include <utility>

namespace unio::inline v0_1::sys {
namespace {

// A ring begins at a page. The bits below say which process has it: what a child of fork finds here is its
// parent's.
constexpr unsigned long process_bits = 0xfff;
constinit std::array<std::atomic<unsigned long>, 16> idle{};

unsigned long take_idle() noexcept {
  for (auto& one : idle) {
    if (one.load(std::memory_order_relaxed) == 0) continue;
    unsigned long const found = one.exchange(0, std::memory_order_acquire); // pairs with the release below
    if (found != 0 && (found & process_bits) == (fork_generation() & process_bits))
      return found & ~process_bits;
  }
  return 0;
}

bool keep_idle(unsigned long context) noexcept {
  if ((context & process_bits) != 0) return false;
  for (auto& one : idle) {
    unsigned long none = 0;
    if (one.compare_exchange_strong(none, context | (fork_generation() & process_bits),
                                    std::memory_order_release, std::memory_order_relaxed))
      return true;
  }
  return false;
}

} // namespace

int direct_read_queue::open() noexcept {
  opened_in_ = fork_generation();
  context_ = take_idle();
  if (context_ != 0) return 0;
  unsigned long made = 0;
  if (std::int64_t const r = sys::io_setup(most, &made); r < 0) return static_cast<int>(r);
  auto const* const h = reinterpret_cast<header const*>(made);
  if (h->magic != expected_magic || h->incompatible_features != 0 || h->size != sizeof(header)) {
    sys::io_destroy(made);
    return -EOPNOTSUPP;
  }
  context_ = made;
  return 0;
}

void direct_read_queue::close(bool unused) noexcept {
  unsigned long const context = std::exchange(context_, 0);
  if (context == 0 || opened_in_ != fork_generation()) return;
  if (!unused || !keep_idle(context)) sys::io_destroy(context);
}

} // namespace unio::sys
