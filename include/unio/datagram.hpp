// unio/datagram.hpp: what is known of a datagram apart from its bytes.
//
//   ecn                  the mark by which routers report congestion
//   datagram_info        where a received datagram came from, and how
//   send_description     where a datagram is to go, and how
//   received_datagram, datagram_to_send   one of a batch
//   datagram_segments    the datagrams that the kernel has joined into one buffer
//   datagram_error       why a datagram that was sent did not arrive

#pragma once

#include <unio/buffer.hpp>
#include <unio/detail/standard.hpp>
#include <unio/endpoint.hpp>

#include <cstdint>
#include <system_error>

namespace unio::inline v0_1 {

/// Explicit congestion notification, in the values of the two bits in the IP header (RFC 3168 §5).
enum class ecn : std::uint8_t {
  not_capable = 0, ///< the sender does not react to marks
  ect1 = 1,
  ect0 = 2,       ///< the sender reacts to marks
  congestion = 3, ///< a router on the way was congested
};

/// What is known of a received datagram. What the socket was not asked to report (datagram_options), or the
/// kernel does not know, keeps its initial value.
///
/// Size  264 bytes
struct datagram_info {
  endpoint from{};             ///< the sender; of no family for a Unix socket without a name
  endpoint to{};               ///< the address that it was sent to, with port 0 (`destination`)
  std::uint32_t interface = 0; ///< index of the interface that it arrived on (`destination`)
  /// Bytes of each of the datagrams that were joined, the last of which may be shorter (`gro`); 0: it is one.
  std::uint16_t segment = 0;
  std::chrono::system_clock::time_point at{}; ///< when the kernel received it (`timestamps`)
  unio::ecn ecn = unio::ecn::not_capable;     ///< as it arrived (`ecn`)
  bool truncated = false;                     ///< its end did not fit the buffers and is lost
};

/// Where a datagram is to go, and how. A Unix socket ignores all but `to`.
///
/// Size  248 bytes
struct send_description {
  endpoint to{};               ///< of no family: to the peer that the socket is connected to
  endpoint from{};             ///< an address of this host, whose port is ignored; of no family: any
  std::uint32_t interface = 0; ///< index of the interface to leave by; 0: as the routes say
  /// If it is not 0, the bytes are sent as datagrams of this many bytes each, the last of which may be
  /// shorter. The kernel cuts them (GSO) where it can.
  std::uint16_t segment = 0;
  /// Not set where the socket refuses it. The rest of option::traffic_class stays as it is, if it was set by
  /// unio, or before the socket was adopted.
  unio::ecn ecn = unio::ecn::not_capable;
};

/// The datagrams in a buffer that joins several: a range of const_buffer.
///
/// Lifetime       refers to the bytes
/// Thread safety  any number of readers
/// Cost           nothing is allocated or copied
class datagram_segments {
 public:
  /// `joined` begins with datagrams of `segment` bytes and ends with one that may be shorter. With a segment
  /// of 0 it is one datagram, which may be empty.
  constexpr datagram_segments(const_buffer joined, std::uint32_t segment) noexcept
      : joined_(joined), segment_(segment) {}

  /// The number of datagrams, at least 1.
  [[nodiscard]] constexpr std::size_t size() const noexcept;
  [[nodiscard]] constexpr const_buffer operator[](std::size_t i) const noexcept;
  class iterator;
  /// The first datagram.
  [[nodiscard]] constexpr iterator begin() const noexcept;
  /// Behind the last datagram.
  [[nodiscard]] constexpr iterator end() const noexcept;

 private:
  const_buffer joined_;
  std::uint32_t segment_;
};

/// The datagrams in what one receive_from() put into one buffer: `got` is as long as the result says.
/// Concurrency: any thread. Cost: none.
constexpr datagram_segments segments(const_buffer got, datagram_info const& info) noexcept;

/// One datagram of a batch, and the room for it.
///
/// Thread safety  distinct: safe; shared: any number of readers. An operation in flight writes to it
struct received_datagram {
  mutable_buffer room{}; ///< set by the caller
  std::size_t size = 0;  ///< bytes received
  datagram_info info{};

  [[nodiscard]] const_buffer data() const noexcept { return {room.data(), size}; }
  [[nodiscard]] datagram_segments segments() const noexcept { return {data(), info.segment}; }
};

/// One datagram of a batch that is to be sent, or several of `how.segment` bytes.
struct datagram_to_send {
  send_description how{};
  const_buffers bytes{};
  /// Bytes sent: 0, all, or, where its segments had to be sent singly, some of them. A batch that begins with
  /// such an element goes on behind these; otherwise all is sent, whatever this says.
  std::size_t sent = 0;
};

/// Why a datagram did not arrive, as far as this host learnt of it.
///
/// Source  ip(7), IP_RECVERR
struct datagram_error {
  enum class kind : std::uint8_t {
    too_big,     ///< more than `mtu` bytes, the IP header included, and not to be fragmented
    unreachable, ///< the network, the host, or the port: see `why`
    other,
  };
  kind what = kind::other;
  std::error_code why{};  ///< ECONNREFUSED for a port without a listener, EHOSTUNREACH, EMSGSIZE, …
  std::uint32_t mtu = 0;  ///< for too_big
  endpoint to{};          ///< where the datagram was to go
  endpoint reported_by{}; ///< the router or host that reported it; of no family: this one
};

} // namespace unio

#include <unio/detail/datagram.hpp>
