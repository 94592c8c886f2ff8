#include "sys/descriptors.hpp"

#include "sys/shared_streams.hpp"

#include <unio/buffer.hpp>

#include <fcntl.h>
#include <poll.h>
#include <sys/uio.h>

#include <initializer_list>
#include <utility>

namespace unio::inline v0_1::sys {

// Zero-initialised and never written as a whole: only the pages of numbers in use take memory.
constinit descriptor_state descriptor_table[descriptor_table_size]{};

constinit std::atomic<std::uint32_t> closing_news{0};

void tell_closing_threads() noexcept {
  closing_news.fetch_add(1, std::memory_order_release); // pairs with the acquire of those that wait
  closing_news.notify_all();
}

static_assert(std::atomic_ref<std::uint64_t>::is_always_lock_free);
static_assert(std::is_trivially_default_constructible_v<descriptor_state> && sizeof(descriptor_state) == 16);

// What is noted of a number, in one word: each has a bit of its own.
consteval bool are_distinct(std::initializer_list<std::uint32_t> bits) {
  std::uint32_t seen = 0;
  for (std::uint32_t const bit : bits)
    if ((std::exchange(seen, seen | bit) & bit) != 0) return false;
  return true;
}
static_assert(are_distinct({waited_in, waited_out, direct_bit, nonblocking_bit, appending_bit,
                            read_by_threads_bit, named_bit, sends_singly_bit, refuses_ecn_bit,
                            queues_errors_bit, traffic_class_bit, shut_down_bit, watched_bit,
                            shared_blocking_bit, shared_terminal_bit}));

int above_standard(std::int64_t fd) noexcept {
  if (fd < 0 || fd > 2) [[likely]]
    return static_cast<int>(fd);
  int const low = static_cast<int>(fd);
  std::int64_t const moved = fcntl(low, F_DUPFD_CLOEXEC, 3);
  close(low);
  return static_cast<int>(moved);
}

bool is_readable(int fd) noexcept {
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  timespec const at_once{};
  return poll(&p, 1, &at_once) > 0;
}

// Arrays of buffers go to the kernel as they are.
template <class Buffer, class Pointer>
constexpr bool laid_out_as_iovec =
    std::is_standard_layout_v<Buffer> && std::is_trivially_copyable_v<Buffer> &&
    sizeof(Buffer) == sizeof(iovec) && alignof(Buffer) == alignof(iovec) &&
    sizeof(Pointer) == sizeof(iovec::iov_base) && offsetof(iovec, iov_base) == 0 &&
    offsetof(iovec, iov_len) == sizeof(Pointer) && sizeof(iovec::iov_len) == sizeof(std::size_t);
static_assert(laid_out_as_iovec<mutable_buffer, void*>);
static_assert(laid_out_as_iovec<const_buffer, void const*>);

} // namespace unio::sys
