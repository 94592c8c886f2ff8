// unio/adopt.hpp: a descriptor from elsewhere, as what it is.
//
//   adopt(fd)                     asks what it is: yields `adopted`, one of the kinds of handles
//   adopt<socket_handle>(fd)      says what it has to be: an error if it is something else
//   adopt(inherited, i)           the same of what the service manager passed, or came over a socket
//
//   unio::adopted what = unio::adopt(3).value();
//   if (auto* listener = std::get_if<unio::listening_socket_handle>(&what)) …
//
// For descriptors 0, 1 and 2, which others have too: unio/standard_streams.hpp. unio/unio.hpp does not
// include this header.
//
// Thread safety  any thread; of one `inherited` one call at a time

#pragma once

#include <unio/datagram_handle.hpp>
#include <unio/directory_handle.hpp>
#include <unio/file_handle.hpp>
#include <unio/inherited_handles.hpp>
#include <unio/listening_datagram_handle.hpp>
#include <unio/passed_handles.hpp>
#include <unio/pipe_handle.hpp>
#include <unio/socket_handle.hpp>
#include <unio/timer_handle.hpp>

#include <concepts>
#include <variant>

namespace unio::inline v0_1 {

/// What a descriptor was. io_handle: something else that has bytes, such as a terminal or another device.
using adopted =
    std::variant<socket_handle, listening_socket_handle, datagram_handle, listening_datagram_handle,
                 file_handle, pipe_handle, directory_handle, event_handle, io_handle>;

namespace detail {
template <class Handle, class Variant> inline constexpr bool is_one_of = false;
template <class Handle, class... All>
inline constexpr bool is_one_of<Handle, std::variant<All...>> = (std::same_as<Handle, All> || ...);
} // namespace detail

/// Takes over a descriptor made elsewhere, as what it is.
///
///   a stream socket, one that listens            socket_handle, listening_socket_handle
///   a socket that exchanges messages (also       datagram_handle
///   sequenced), one that listens for such        listening_datagram_handle
///   a regular file or a block device             file_handle
///   a pipe or FIFO · a directory · an eventfd    pipe_handle · directory_handle · event_handle
///   anything else                                io_handle
///
/// Effects       it is close-on-exec, not blocking unless it is a file or a directory, and moved above 2, as
///               with io_handle::adopt
/// Returns       the handle, which owns it from then on
/// Errors        EBADF; EPROTOTYPE (std::errc::wrong_protocol_type) for a socket of another type,
///               EAFNOSUPPORT for one of messages of another family; as fcntl(2). On failure it is still the
///               caller's
/// Cost          up to thirteen system calls, most for sockets and for the numbers 0 to 2
/// Source        fstat(2); socket(7), SO_TYPE, SO_ACCEPTCONN; proc(5), /proc/pid/fd
UNIO_API result<adopted> adopt(int fd) noexcept;

/// Takes over a descriptor that has to be what `Handle` is for: Handle::adopt(fd).
///
/// Returns the handle, which owns it from then on
/// Cost    that of Handle::adopt
/// Errors  EBADF; ENOTSOCK (std::errc::not_a_socket); EPROTOTYPE for another socket; EINVAL for a socket that
///         does not listen, and for what is no file, no pipe or no eventfd; ENOTDIR; EISDIR. On failure it is
///         still the caller's
template <class Handle>
  requires detail::is_one_of<Handle, adopted>
result<Handle> adopt(int fd) noexcept {
  return Handle::adopt(fd);
}

/// Takes the `i`-th out, as what it is.
///
/// Returns  the handle, which owns it from then on
/// Errors   EBADF if it was taken, or there is none; as adopt(fd). On failure it stays
/// Cost     as adopt(fd)
UNIO_API result<adopted> adopt(inherited_handles& from, std::size_t i) noexcept;
UNIO_API result<adopted> adopt(passed_handles& from, std::size_t i) noexcept;

} // namespace unio
