// The options of sockets: one table, and the few ways in which a value is told to the kernel.
//
// What has to be said before a socket is bound, listens or connects is in the options of the functions that
// make it, and goes through the same table. An option that IPv4 and IPv6 have under two names is one row.

#include "core/escaped.hpp"
#include "handle/sockets.hpp"

#include <unio/handle.hpp>
#include <unio/socket_options.hpp>

#include <linux/tcp.h> // what <netinet/tcp.h> has of tcp_info is older
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace unio::inline v0_1 {

using namespace detail::sockets;
using detail::option_id;
using std::chrono::microseconds;

namespace {

/// What the kernel takes.
enum class form : std::uint8_t { flag, number, seconds, milliseconds, microseconds, linger, text, mtu };

struct row {
  option_id id;
  char const* name; ///< the kernel's
  form how;
  int level;
  int option;
  int ipv6_option = 0;         ///< the same for IPv6, if that has a name of its own
  char const* needs = nullptr; ///< the right to set it
};

#define UNIO_TCP(id, how, name, ...) \
  row { option_id::id, #name, form::how, IPPROTO_TCP, name, 0 __VA_OPT__(, ) __VA_ARGS__ }
#define UNIO_SOCKET(id, how, name, ...) \
  row { option_id::id, #name, form::how, SOL_SOCKET, name, 0 __VA_OPT__(, ) __VA_ARGS__ }
#define UNIO_IP(id, how, name, ...) \
  row { option_id::id, #name, form::how, IPPROTO_IP, name __VA_OPT__(, ) __VA_ARGS__ }

// clang-format off
constexpr row rows[] = {
    UNIO_TCP(no_delay,            flag,         TCP_NODELAY),
    UNIO_TCP(cork,                flag,         TCP_CORK),
    UNIO_TCP(quick_ack,           flag,         TCP_QUICKACK),
    UNIO_TCP(user_timeout,        milliseconds, TCP_USER_TIMEOUT),
    UNIO_TCP(keep_alive_idle,     seconds,      TCP_KEEPIDLE),
    UNIO_TCP(keep_alive_interval, seconds,      TCP_KEEPINTVL),
    UNIO_TCP(keep_alive_count,    number,       TCP_KEEPCNT),
    UNIO_TCP(defer_accept,        seconds,      TCP_DEFER_ACCEPT),
    UNIO_TCP(fast_open,           number,       TCP_FASTOPEN),
    UNIO_TCP(fast_open_connect,   flag,         TCP_FASTOPEN_CONNECT),
    UNIO_TCP(maximum_segment,     number,       TCP_MAXSEG),
    UNIO_TCP(congestion,          text,         TCP_CONGESTION, "CAP_NET_ADMIN"),
    UNIO_TCP(not_sent_low_water,  number,       TCP_NOTSENT_LOWAT),
    UNIO_TCP(linger_2,            seconds,      TCP_LINGER2),
    UNIO_TCP(syn_retries,         number,       TCP_SYNCNT),
    UNIO_TCP(window_clamp,        number,       TCP_WINDOW_CLAMP),

    UNIO_SOCKET(keep_alive,          flag,         SO_KEEPALIVE),
    UNIO_SOCKET(send_buffer,         number,       SO_SNDBUF),
    UNIO_SOCKET(receive_buffer,      number,       SO_RCVBUF),
    UNIO_SOCKET(receive_low_water,   number,       SO_RCVLOWAT),
    UNIO_SOCKET(reuse_address,       flag,         SO_REUSEADDR),
    UNIO_SOCKET(reuse_port,          flag,         SO_REUSEPORT),
    UNIO_SOCKET(linger,              linger,       SO_LINGER),
    UNIO_SOCKET(priority,            number,       SO_PRIORITY, "CAP_NET_ADMIN above 6"),
    UNIO_SOCKET(mark,                number,       SO_MARK, "CAP_NET_ADMIN"),
    UNIO_SOCKET(device,              text,         SO_BINDTODEVICE, "CAP_NET_RAW"),
    UNIO_SOCKET(incoming_cpu,        number,       SO_INCOMING_CPU),
    UNIO_SOCKET(busy_poll,           microseconds, SO_BUSY_POLL, "CAP_NET_ADMIN"),
    UNIO_SOCKET(dont_route,          flag,         SO_DONTROUTE),
    UNIO_SOCKET(broadcast,           flag,         SO_BROADCAST),
    UNIO_SOCKET(pending_error,       number,       SO_ERROR),
    UNIO_SOCKET(incoming_napi,       number,       SO_INCOMING_NAPI_ID),

    UNIO_IP(traffic_class,       number,       IP_TOS, IPV6_TCLASS),
    UNIO_IP(hop_limit,           number,       IP_TTL, IPV6_UNICAST_HOPS),
    UNIO_IP(transparent,         flag,         IP_TRANSPARENT, IPV6_TRANSPARENT, "CAP_NET_ADMIN"),
    UNIO_IP(free_bind,           flag,         IP_FREEBIND, IPV6_FREEBIND),
    UNIO_IP(bind_without_port,   flag,         IP_BIND_ADDRESS_NO_PORT),
    row{option_id::ipv6_only, "IPV6_V6ONLY", form::flag, IPPROTO_IPV6, IPV6_V6ONLY},
    UNIO_IP(mtu_discovery,       mtu,          IP_MTU_DISCOVER, IPV6_MTU_DISCOVER),
    UNIO_IP(path_mtu,            number,       IP_MTU, IPV6_MTU),
    UNIO_IP(multicast_hops,      number,       IP_MULTICAST_TTL, IPV6_MULTICAST_HOPS),
    UNIO_IP(multicast_loop,      flag,         IP_MULTICAST_LOOP, IPV6_MULTICAST_LOOP),
};
// clang-format on
#undef UNIO_TCP
#undef UNIO_SOCKET
#undef UNIO_IP

consteval bool in_order() {
  std::size_t n = 0;
  for (row const& r : rows)
    if (static_cast<std::size_t>(r.id) != n++) return false;
  return n == static_cast<std::size_t>(option_id::count);
}
static_assert(in_order());

row const& row_of(option_id id) noexcept { return rows[static_cast<std::size_t>(id)]; }

bool is_ipv6(int fd) noexcept {
  result<int> const domain = int_option(fd, SOL_SOCKET, SO_DOMAIN);
  return domain && *domain == AF_INET6;
}

/// One option that IPv4 and IPv6 have under two names: on an IPv6 socket IPv4's is for its IPv4 peers, if it
/// has such.
template <class T> std::int64_t set_in_kernel(int fd, row const& r, T const& value) noexcept {
  if (r.ipv6_option == 0 || !is_ipv6(fd)) return set_option(fd, r.level, r.option, value);
  if (std::int64_t const e = set_option(fd, IPPROTO_IPV6, r.ipv6_option, value); e < 0) return e;
  result<int> const only = int_option(fd, IPPROTO_IPV6, IPV6_V6ONLY);
  if (only && *only != 0) return 0;
  return set_option(fd, r.level, r.option, value);
}

template <class T> std::int64_t get_from_kernel(int fd, row const& r, T& value) noexcept {
  unsigned size = sizeof(value);
  bool const ipv6 = r.ipv6_option != 0 && is_ipv6(fd);
  return sys::getsockopt(fd, ipv6 ? IPPROTO_IPV6 : r.level, ipv6 ? r.ipv6_option : r.option, &value, &size);
}

// ── values ───────────────────────────────────────────────────────────────────────────────────────

std::int64_t unit_us(form f) noexcept {
  return f == form::seconds || f == form::linger ? 1'000'000 : f == form::milliseconds ? 1'000 : 1;
}

std::int64_t set_number(int fd, row const& r, int value) noexcept { return set_in_kernel(fd, r, value); }

std::int64_t set_time(int fd, row const& r, microseconds time) noexcept {
  bool const is_default = time.count() < 0; // what a negative time means to SO_LINGER and TCP_LINGER2
  if (is_default && r.how != form::linger && r.id != option_id::linger_2) return -EINVAL;
  std::int64_t const unit = unit_us(r.how);
  std::int64_t const units = is_default ? -1 : time.count() / unit + (time.count() % unit != 0 ? 1 : 0);
  if (units > std::numeric_limits<int>::max()) return -EINVAL;
  auto const value = static_cast<int>(units);
  if (r.how != form::linger) return set_number(fd, r, value);
  return set_in_kernel(fd, r, ::linger{.l_onoff = is_default ? 0 : 1, .l_linger = is_default ? 0 : value});
}

// IFNAMSIZ and TCP_CA_NAME_MAX are 16; of a longer name the kernel silently takes the beginning, and of one
// with a NUL too.
constexpr std::size_t longest_text = 15;

std::int64_t set_text(int fd, row const& r, std::string_view text) noexcept {
  if (text.find('\0') != text.npos) return detail::native(error::embedded_nul);
  if (text.size() > longest_text) return -ENAMETOOLONG;
  char name[longest_text + 1] = {};
  std::ranges::copy(text, name);
  return sys::setsockopt(fd, r.level, r.option, name, static_cast<unsigned>(text.size() + 1));
}

constexpr int mtu_values[] = {IP_PMTUDISC_DONT, IP_PMTUDISC_WANT, IP_PMTUDISC_DO, IP_PMTUDISC_PROBE};
static_assert(IP_PMTUDISC_DONT == IPV6_PMTUDISC_DONT && IP_PMTUDISC_WANT == IPV6_PMTUDISC_WANT &&
              IP_PMTUDISC_DO == IPV6_PMTUDISC_DO && IP_PMTUDISC_PROBE == IPV6_PMTUDISC_PROBE);

std::int64_t set_mtu(int fd, row const& r, path_mtu_discovery how) noexcept {
  if (std::int64_t const e = set_number(fd, r, mtu_values[static_cast<int>(how)]); e < 0) return e;
  if (!is_ipv6(fd)) return 0;
  // IPv6 fragments at the sender whatever is discovered, unless it is told not to (RFC 3542 §11.2).
  bool const whole = how == path_mtu_discovery::refuse || how == path_mtu_discovery::probe;
  return set_option(fd, IPPROTO_IPV6, IPV6_DONTFRAG, whole ? 1 : 0);
}

// ── why not ──────────────────────────────────────────────────────────────────────────────────────

std::string reason(row const& r, int error) {
  std::string out = std::system_category().message(error);
  if (error == EPERM && r.needs != nullptr) return out + ": it needs " + r.needs;
  if (error == ENOPROTOOPT || error == EOPNOTSUPP) return out + ": not for this socket, or this kernel";
  if (error == ENOENT && r.id == option_id::congestion) return out + ": this kernel has no such algorithm";
  if (error == ENAMETOOLONG) return out + ": it may have 15 bytes";
  return out;
}

result<void> ended(row const& r, std::int64_t e, std::string const& did, std::string* why) {
  if (e >= 0) return {};
  if (why != nullptr)
    *why = std::string(r.name) + " cannot be " + did + ": " + reason(r, static_cast<int>(-e));
  return detail::failed_on(e, "socket option", r.name, std::char_traits<char>::length(r.name));
}

template <class Describe>
result<void> set_ended(row const& r, std::int64_t e, std::string* why, Describe describe) {
  return ended(r, e, e < 0 && why != nullptr ? "set to " + describe() : std::string(), why);
}

template <class T> result<T> ask(handle const& h, option_id id, T& value, std::string* why) {
  row const& r = row_of(id);
  if (result<void> const e = ended(r, get_from_kernel(h.native_handle(), r, value), "read", why); !e)
    return e.error();
  return value;
}

} // namespace

std::int64_t detail::sockets::set_option(int fd, option_id id, int value) noexcept {
  return set_number(fd, row_of(id), value);
}
std::int64_t detail::sockets::set_option(int fd, option_id id, microseconds value) noexcept {
  return set_time(fd, row_of(id), value);
}
std::int64_t detail::sockets::set_option(int fd, option_id id, std::string_view value) noexcept {
  return set_text(fd, row_of(id), value);
}

result<void> set_option(handle& h, socket_option<bool> o, bool on, std::string* why) {
  row const& r = row_of(o.id);
  return set_ended(r, set_number(h.native_handle(), r, on ? 1 : 0), why,
                   [&] { return std::string(on ? "on" : "off"); });
}
result<void> set_option(handle& h, socket_option<int> o, int value, std::string* why) {
  row const& r = row_of(o.id);
  std::int64_t const e = set_number(h.native_handle(), r, value);
  if (e >= 0 && o.id == option_id::traffic_class)
    sys::note_waited(h.native_handle(), sys::traffic_class_bit, true);
  return set_ended(r, e, why, [&] { return std::to_string(value); });
}
result<void> set_option(handle& h, socket_option<microseconds> o, microseconds time, std::string* why) {
  row const& r = row_of(o.id);
  return set_ended(r, set_time(h.native_handle(), r, time), why,
                   [&] { return std::to_string(time.count()) + " us"; });
}
result<void> set_option(handle& h, socket_option<std::string> o, std::string_view text, std::string* why) {
  row const& r = row_of(o.id);
  if (text.find('\0') != text.npos) {
    if (why != nullptr) *why = std::string(r.name) + " cannot be set: the text contains a NUL byte";
    return error::embedded_nul;
  }
  return set_ended(r, set_text(h.native_handle(), r, text), why,
                   [&] { return detail::in_quotes(text, '"', 40); });
}
result<void> set_option(handle& h, socket_option<path_mtu_discovery> o, path_mtu_discovery how,
                        std::string* why) {
  row const& r = row_of(o.id);
  return set_ended(r, set_mtu(h.native_handle(), r, how), why,
                   [&] { return std::to_string(mtu_values[static_cast<int>(how)]); });
}

result<bool> get_option(handle const& h, socket_fact<bool> o, std::string* why) {
  int value = 0;
  if (result<int> const got = ask(h, o.id, value, why); !got) return got.error();
  return value != 0;
}
result<int> get_option(handle const& h, socket_fact<int> o, std::string* why) {
  int value = 0;
  return ask(h, o.id, value, why);
}
result<microseconds> get_option(handle const& h, socket_fact<microseconds> o, std::string* why) {
  std::int64_t const unit = unit_us(row_of(o.id).how);
  if (row_of(o.id).how == form::linger) {
    ::linger value{};
    if (result<::linger> const got = ask(h, o.id, value, why); !got) return got.error();
    return microseconds(value.l_onoff != 0 ? value.l_linger * unit : -1);
  }
  int value = 0;
  if (result<int> const got = ask(h, o.id, value, why); !got) return got.error();
  return microseconds(value * unit);
}
result<std::string> get_option(handle const& h, socket_fact<std::string> o, std::string* why) {
  struct text {
    char bytes[longest_text + 1];
  } value{};
  if (result<text> const got = ask(h, o.id, value, why); !got) return got.error();
  return std::string(value.bytes, ::strnlen(value.bytes, sizeof(value.bytes)));
}
result<path_mtu_discovery> get_option(handle const& h, socket_fact<path_mtu_discovery> o, std::string* why) {
  int value = 0;
  if (result<int> const got = ask(h, o.id, value, why); !got) return got.error();
  auto const* const known = std::ranges::find(mtu_values, value);
  // IP_PMTUDISC_INTERFACE and OMIT, which foreign code may have set, fragment by the interface's size.
  if (known == std::end(mtu_values)) return path_mtu_discovery::fragment;
  return static_cast<path_mtu_discovery>(known - std::begin(mtu_values));
}

result<void> set_raw_option(handle& h, int level, int name, std::span<std::byte const> value) noexcept {
  if ((level == IPPROTO_IP && name == IP_TOS) || (level == IPPROTO_IPV6 && name == IPV6_TCLASS))
    sys::note_waited(h.native_handle(), sys::traffic_class_bit, true);
  return done(
      sys::setsockopt(h.native_handle(), level, name, value.data(), static_cast<unsigned>(value.size())),
      "set_raw_option", h.native_handle());
}
result<std::span<std::byte>> get_raw_option(handle const& h, int level, int name,
                                            std::span<std::byte> room) noexcept {
  auto size = static_cast<unsigned>(room.size());
  std::int64_t const r = sys::getsockopt(h.native_handle(), level, name, room.data(), &size);
  if (r < 0) return detail::failed(r, "get_raw_option", h.native_handle());
  return room.first(std::min<std::size_t>(size, room.size()));
}

result<connection_information> information_of(handle const& h) noexcept {
  tcp_info t{};
  unsigned size = sizeof(t);
  std::int64_t const r = sys::getsockopt(h.native_handle(), IPPROTO_TCP, TCP_INFO, &t, &size);
  if (r < 0) return detail::failed(r == -ENOPROTOOPT ? -EOPNOTSUPP : r, "information_of", h.native_handle());
  return connection_information{
      .round_trip = microseconds(t.tcpi_rtt),
      .round_trip_deviation = microseconds(t.tcpi_rttvar),
      .shortest_round_trip = microseconds(t.tcpi_min_rtt == ~0U ? 0 : t.tcpi_min_rtt), // ~0: not measured
      .retransmits = t.tcpi_retransmits,
      .total_retransmits = t.tcpi_total_retrans,
      .unacknowledged = t.tcpi_unacked,
      .lost = t.tcpi_lost,
      .congestion_window = t.tcpi_snd_cwnd,
      .maximum_segment = t.tcpi_snd_mss,
      .path_mtu = t.tcpi_pmtu,
      .bytes_acknowledged = t.tcpi_bytes_acked,
      .bytes_received = t.tcpi_bytes_received,
      .bytes_not_sent = t.tcpi_notsent_bytes,
      .delivery_rate = t.tcpi_delivery_rate,
      .fast_open = (t.tcpi_options & TCPI_OPT_SYN_DATA) != 0,
  };
}

} // namespace unio
