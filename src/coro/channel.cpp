// A ring of values between two lists of waiters. Invariants, whenever the lock is free:
//
//   kept <= count <= places          the kept values are for receivers that have been posted
//   receivers wait  =>               every value is kept, or there is none
//   senders wait    =>               there is no room: with a capacity of zero, no receiver waits, or the
//                                    place is taken
//   closed          =>               no sender waits; receivers wait only for values that are kept, and may
//                                    be returned
//   a value is there that is not kept, or a sender waits  =>  bit_available
//
// By the bit a receiver sees without the lock that it has to wait. Whatever ends with settle() sets it anew.

#include <unio/channel.hpp>

#include <limits>

namespace unio::inline v0_1::detail {
namespace {

constexpr std::uint32_t bit_available = 2 * wait_queue::unit; // in the word

std::uint32_t marked(std::uint32_t word, std::size_t kept, std::size_t count,
                     waiter_list const& senders) noexcept {
  bool const is_available = kept < count || !senders.empty();
  return (word & ~bit_available) | (is_available ? bit_available : 0);
}

bool is_over_aligned(channel_values const& v) noexcept {
  return v.alignment > __STDCPP_DEFAULT_NEW_ALIGNMENT__;
}

std::byte* allocate(std::size_t n, channel_values const& v) {
  std::size_t bytes = 0;
  // What cannot be allocated, nor rounded up to 0.
  if (__builtin_mul_overflow(n, v.size, &bytes)) bytes = std::numeric_limits<std::ptrdiff_t>::max();
  return static_cast<std::byte*>(is_over_aligned(v) ? ::operator new(bytes, std::align_val_t(v.alignment))
                                                    : ::operator new(bytes));
}

void deallocate(std::byte* p, channel_values const& v) noexcept {
  if (is_over_aligned(v)) return ::operator delete(p, std::align_val_t(v.alignment));
  ::operator delete(p);
}

} // namespace

channel_queue::channel_queue(std::size_t capacity, channel_values const& values)
    : values_(values),
      slots_(allocate(capacity != 0 ? capacity : 1, values)),
      capacity_(capacity),
      places_(capacity != 0 ? capacity : 1) {}

channel_queue::~channel_queue() {
  UNIO_EXPECTS(senders_.empty() && kept_ == 0, "a channel was destroyed that a coroutine waits for");
  for (std::size_t i = 0; i != count_; ++i) values_.destroy(slot(i));
  deallocate(slots_, values_);
}

void* channel_queue::slot(std::size_t n) const noexcept {
  std::size_t const i = head_ + n;
  return slots_ + (i < places_ ? i : i - places_) * values_.size;
}

bool channel_queue::has_room() const noexcept {
  return capacity_ != 0 ? count_ < capacity_ : count_ == 0 && !waiters_.empty();
}

void channel_queue::put(void* value) noexcept {
  values_.move(slot(count_), value);
  ++count_;
}

void channel_queue::take(void* to) noexcept {
  void* const oldest = slot(0);
  values_.move(to, oldest);
  values_.destroy(oldest);
  --count_;
  head_ = head_ + 1 == places_ ? 0 : head_ + 1;
}

// Resumes every waiter that can proceed, after any change.
void channel_queue::settle(std::uint32_t word, waiter_list& woken) noexcept {
  if (waiters_.empty() && senders_.empty()) [[likely]]
    return;
  while (!senders_.empty() && has_room()) {
    put(senders_.first()->place);
    senders_.end_first(wait_outcome::granted, woken);
  }
  while (!waiters_.empty() && kept_ < count_) {
    ++kept_;
    waiters_.end_first(wait_outcome::granted, woken);
  }
  if (count_ == 0 && (word & unit) != 0) waiters_.end_all(wait_outcome::refused, woken);
}

wait_outcome channel_queue::send_now(void* value, std::uint32_t word, waiter_list& woken) noexcept {
  if ((word & unit) != 0) return wait_outcome::refused;
  if (!has_room()) return wait_outcome::none; // also while other senders wait
  put(value);
  settle(word, woken);
  return wait_outcome::granted;
}

wait_outcome channel_queue::receive_now(void* to, std::uint32_t word, waiter_list& woken) noexcept {
  if (kept_ < count_) {
    take(to);
    settle(word, woken);
    return wait_outcome::granted;
  }
  if (count_ != 0) return wait_outcome::none;
  if (!senders_.empty()) { // with a capacity of zero: no other receiver waits
    values_.move(to, senders_.first()->place);
    senders_.end_first(wait_outcome::granted, woken);
    return wait_outcome::granted;
  }
  return (word & unit) != 0 ? wait_outcome::refused : wait_outcome::none;
}

wait_outcome channel_queue::try_send(void* value) noexcept {
  wait_outcome o = wait_outcome::none;
  locked([&](std::uint32_t& word, waiter_list& woken) {
    o = send_now(value, word, woken);
    word = marked(word, kept_, count_, senders_);
  });
  return o;
}

wait_outcome channel_queue::try_receive(void* to) noexcept {
  // Acquire; pairs with unlock_word(). What another thread is about to send is not there yet.
  if ((word_.load(std::memory_order_acquire) & (bit_available | unit)) == 0) return wait_outcome::none;
  wait_outcome o = wait_outcome::none;
  locked([&](std::uint32_t& word, waiter_list& woken) {
    o = receive_now(to, word, woken);
    word = marked(word, kept_, count_, senders_);
  });
  return o;
}

void channel_queue::receive_kept(void* to) noexcept {
  locked([this, to](std::uint32_t& word, waiter_list& woken) {
    --kept_;
    take(to);
    settle(word, woken);
    word = marked(word, kept_, count_, senders_);
  });
}

void channel_queue::close() noexcept {
  locked([this](std::uint32_t& word, waiter_list& woken) {
    word |= unit;
    senders_.end_all(wait_outcome::refused, woken);
    settle(word, woken);
  });
}

std::size_t channel_queue::size() noexcept {
  std::size_t n = 0;
  locked([&](std::uint32_t, waiter_list&) { n = count_; });
  return n;
}

bool channel_queue::admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept {
  bool const is_send = w.amount == sends;
  bool const yields_to_receive = w.yields && !is_send;
  if (yields_to_receive) { // it takes its value when it resumes, which may never happen
    w.outcome = wait_outcome::waiting;
    waiters_.push(w);
    settle(word, woken);
  } else {
    w.outcome = is_send ? send_now(w.place, word, woken) : receive_now(w.place, word, woken);
    if (w.outcome == wait_outcome::none) {
      w.outcome = wait_outcome::waiting;
      (is_send ? senders_ : waiters_).push(w);
    }
  }
  word = marked(word, kept_, count_, senders_);
  return w.outcome != wait_outcome::waiting && !yields_to_receive;
}

void channel_queue::give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept {
  if (w.amount == sends) return;
  --kept_;
  settle(word, woken);
  word = marked(word, kept_, count_, senders_);
}

} // namespace unio::detail
