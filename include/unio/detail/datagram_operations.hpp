// unio/detail/datagram_operations.hpp: what is particular about operations that send and receive messages.

#pragma once

#include <unio/datagram.hpp>
#include <unio/detail/declared.hpp>

#include <span>

namespace unio::inline v0_1 {

class datagram_handle;

namespace detail {

/// What the kernel sees of a message while an operation has it: struct msghdr, the buffers as struct iovec,
/// and control messages. It is filled when it is given to the kernel, so moving an operation moves none of
/// it. The sizes are checked in src/op/datagram.hpp.
template <std::size_t ControlBytes> struct message_memory {
  static constexpr std::size_t own_vectors = 8;
  message_memory() noexcept {}
  message_memory(message_memory const&) noexcept {}
  message_memory& operator=(message_memory const&) noexcept { return *this; }

  alignas(8) std::byte header[56];
  alignas(8) std::byte vectors[own_vectors * 16];
  alignas(8) std::byte control[ControlBytes];
};

/// What an operation learns about its socket.
struct datagram_state {
  datagram_state() = default;
  explicit datagram_state(datagram_handle const& h) noexcept;
  address_family family = address_family::unspecified;
  bool errors_wait = false; // errors that were not taken would end each wait at once
  bool falls_back = false;  // of a send: what the kernel may refuse is left out where it does
};
/// The same, and its message.
template <std::size_t ControlBytes> struct message_state : datagram_state {
  using datagram_state::datagram_state;
  message_memory<ControlBytes> memory;
};

/// The descriptors of handles that are sent; none if these cannot be.
struct descriptors {
  static constexpr std::size_t capacity = 32;
  descriptors() = default;
  UNIO_API descriptors(std::span<handle const* const> handles) noexcept; // NOLINT: implicit
  int count = -1;
  int fds[capacity] = {};
};
template <> struct stored_argument<std::span<handle const* const>> {
  using type = descriptors;
};
struct passed_access; // src/op/passed_handles.cpp

} // namespace detail
} // namespace unio
