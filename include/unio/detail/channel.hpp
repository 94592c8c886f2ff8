// unio/detail/channel.hpp: the queue of a channel, and its awaitables.

#pragma once

#include <unio/detail/waiting.hpp>

#include <cstddef>
#include <new>
#include <utility>

namespace unio::inline v0_1::detail {

/// What a channel must know of its values.
struct channel_values {
  std::size_t size;
  std::size_t alignment;
  void (*move)(void* to, void* from) noexcept; // constructs; what it leaves is to be destroyed
  void (*destroy)(void* value) noexcept;
};

template <class T>
inline constexpr channel_values channel_values_of{
    sizeof(T), alignof(T),
    [](void* to, void* from) noexcept { ::new (to) T(std::move(*static_cast<T*>(from))); },
    [](void* value) noexcept { static_cast<T*>(value)->~T(); }};

/// The queue of a channel.
///
/// A value that was granted to a waiting receiver stays in its place until that receiver resumes, so it is
/// not lost if the receiver is destroyed. With a capacity of zero there is one place for this purpose, used
/// only while a receiver waits.
class UNIO_API channel_queue final : public wait_queue {
 public:
  channel_queue(std::size_t capacity, channel_values const& values);
  ~channel_queue();

  /// granted, refused; or none: not at once.
  wait_outcome try_send(void* value) noexcept;
  wait_outcome try_receive(void* to) noexcept;
  void receive_kept(void* to) noexcept;
  void close() noexcept;
  [[nodiscard]] std::size_t size() noexcept;
  [[nodiscard]] std::size_t capacity() const noexcept { return capacity_; }
  [[nodiscard]] bool is_closed() const noexcept {
    return (word_.load(std::memory_order_acquire) & unit) != 0; // pairs with unlock_word()
  }

  static constexpr std::uint32_t sends = 0, receives = 1; // waiter::amount
  [[nodiscard]] char const* name(std::uint32_t amount) const noexcept override {
    return amount == sends ? "room in a channel" : "a value of a channel";
  }
  bool admit(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;
  void give_back(waiter& w, std::uint32_t& word, waiter_list& woken) noexcept override;

 private:
  [[nodiscard]] void* slot(std::size_t n) const noexcept;
  [[nodiscard]] bool has_room() const noexcept;
  void put(void* value) noexcept;
  void take(void* to) noexcept;
  wait_outcome send_now(void* value, std::uint32_t word, waiter_list& woken) noexcept;
  wait_outcome receive_now(void* to, std::uint32_t word, waiter_list& woken) noexcept;
  void settle(std::uint32_t word, waiter_list& woken) noexcept;

  waiter_list senders_; // waiters_ holds the receivers
  channel_values const& values_;
  std::byte* slots_;
  std::size_t capacity_;
  std::size_t places_;   // at least one
  std::size_t head_ = 0; // the oldest
  std::size_t count_ = 0;
  std::size_t kept_ = 0; // of which so many are granted to receivers that have not resumed yet
};

/// The result of a send.
[[nodiscard]] inline result<void> sent(wait_outcome o) noexcept {
  return o == wait_outcome::granted ? result<void>() : error_of(o);
}

/// Sends a value, which stays in place until then.
class channel_send : private wait_awaiter {
 public:
  channel_send(channel_queue& c, void* value) noexcept
      : wait_awaiter(c, channel_queue::sends), value_(value) {}

  bool await_ready(environment const& e) noexcept {
    if (stop_requested(e)) return true;
    if (yields()) return false;
    outcome_ = static_cast<channel_queue*>(queue_)->try_send(value_);
    return outcome_ != wait_outcome::none;
  }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    return suspend(h, e, value_);
  }
  [[nodiscard]] result<void> await_resume() noexcept { return sent(resumed()); }

 protected:
  void set_value(void* value) noexcept { value_ = value; }

 private:
  void* value_;
};

/// Sends a copy.
template <class T> class channel_send_copy : private channel_send {
 public:
  channel_send_copy(channel_queue& c, T const& value) : channel_send(c, nullptr), copy_(value) {}

  bool await_ready(environment const& e) noexcept {
    set_value(&copy_);
    return channel_send::await_ready(e);
  }
  using channel_send::await_resume;
  using channel_send::await_suspend;

 private:
  T copy_;
};

/// Why nothing was received.
[[nodiscard]] inline std::error_code receive_error(wait_outcome o) noexcept {
  return o == wait_outcome::refused ? make_error_code(error::end_of_stream) : error_of(o);
}

template <class T> class channel_receive : private wait_awaiter {
 public:
  explicit channel_receive(channel_queue& c) noexcept : wait_awaiter(c, channel_queue::receives) {}
  channel_receive(channel_receive&& other) noexcept : wait_awaiter(std::move(other)) {}
  channel_receive& operator=(channel_receive&&) = delete;
  ~channel_receive() {
    if (has_value_) value_.~T();
  }

  bool await_ready(environment const& e) noexcept {
    if (stop_requested(e)) return true;
    if (yields()) return false;
    outcome_ = channel().try_receive(&value_);
    has_value_ = outcome_ == wait_outcome::granted;
    return outcome_ != wait_outcome::none;
  }
  bool await_suspend(std::coroutine_handle<> h, environment const& e) noexcept {
    if (suspend(h, e, &value_)) return true;
    has_value_ = outcome_ == wait_outcome::granted;
    return false;
  }
  [[nodiscard]] result<T> await_resume() noexcept {
    wait_outcome const o = resumed();
    if (o == wait_outcome::granted) [[likely]] {
      if (!has_value_) {
        channel().receive_kept(&value_);
        has_value_ = true;
      }
      return result<T>(std::in_place, std::move(value_)); // T may itself be made of a result or an error
    }
    return result<T>(std::unexpect, receive_error(o));
  }

 private:
  [[nodiscard]] channel_queue& channel() const noexcept { return *static_cast<channel_queue*>(queue_); }

  union {
    T value_;
  };
  bool has_value_ = false;
};

template <class T> [[nodiscard]] inline result<T> received_at_once(channel_queue& from) noexcept {
  union place {
    place() noexcept {}
    ~place() {}
    T value;
  } p;
  wait_outcome const o = from.try_receive(std::addressof(p.value));
  if (o == wait_outcome::granted) {
    result<T> r(std::in_place, std::move(p.value));
    p.value.~T();
    return r;
  }
  return result<T>(std::unexpect, receive_error(o));
}

} // namespace unio::detail
