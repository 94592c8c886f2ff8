// unio/detail/socket_operations.hpp: what is particular about operations of sockets.

#pragma once

#include <unio/detail/declared.hpp>

namespace unio::inline v0_1::detail {

UNIO_API bool may_accept_again(std::error_code why) noexcept;

/// The socket of a connection.
struct accepted;
template <class Operation>
class operation_with<Operation, accepted> : public operation_with<Operation, opened<socket_handle>> {
 public:
  [[nodiscard]] static bool may_go_on(std::error_code why) noexcept { return may_accept_again(why); }

 protected:
  using operation_with<Operation, opened<socket_handle>>::operation_with;
};

/// The message is struct msghdr, while the kernel has it: filled when it is given to the kernel, so never
/// copied. Its size is checked in src/op/send_zero_copy.cpp.
struct zero_copy_state {
  zero_copy_state() noexcept {}
  zero_copy_state(zero_copy_state const&) noexcept {}
  zero_copy_state& operator=(zero_copy_state const&) noexcept { return *this; }
  bool copies = false; // this socket is known not to avoid the copy
  alignas(8) std::byte message[56];
};

} // namespace unio::detail
