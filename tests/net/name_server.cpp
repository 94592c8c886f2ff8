#include "net/name_server.hpp"

#include "support/test.hpp"

#include <arpa/inet.h>

namespace test {
namespace {

unsigned number(std::span<std::byte const> from, std::size_t at) {
  return (std::to_integer<unsigned>(from[at]) << 8) | std::to_integer<unsigned>(from[at + 1]);
}
void put(dns_bytes& to, unsigned value) {
  to.push_back(static_cast<std::byte>(value >> 8));
  to.push_back(static_cast<std::byte>(value & 255));
}
void put(dns_bytes& to, dns_bytes const& more) { to.insert(to.end(), more.begin(), more.end()); }

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
  return text;
}

} // namespace

bool parse_query(std::span<std::byte const> raw, dns_query& into) {
  if (raw.size() < 17 || number(raw, 4) != 1) return false;
  into.raw.assign(raw.begin(), raw.end());
  into.extended = number(raw, 10) == 1;
  into.name.clear();
  std::size_t i = 12;
  while (raw[i] != std::byte{0}) {
    auto const n = std::to_integer<std::size_t>(raw[i++]);
    if (i + n + 5 > raw.size()) return false;
    if (!into.name.empty()) into.name += '.';
    for (std::size_t k = 0; k != n; ++k) into.name += static_cast<char>(raw[i++]);
  }
  into.type = number(raw, i + 1);
  return true;
}

dns_bytes wire_name(std::string const& name) {
  dns_bytes out;
  std::size_t begin = 0;
  while (begin < name.size()) {
    std::size_t const end = std::min(name.find('.', begin), name.size());
    out.push_back(static_cast<std::byte>(end - begin));
    for (; begin != end; ++begin) out.push_back(static_cast<std::byte>(name[begin]));
    ++begin;
  }
  out.push_back(std::byte{0});
  return out;
}

dns_record a_record(std::string const& address) {
  dns_bytes data(4);
  if (::inet_pton(AF_INET, address.c_str(), data.data()) != 1) std::abort();
  return {a, data};
}
dns_record aaaa_record(std::string const& address) {
  dns_bytes data(16);
  if (::inet_pton(AF_INET6, address.c_str(), data.data()) != 1) std::abort();
  return {aaaa, data};
}
dns_record name_record(unsigned type, std::string const& name) { return {type, wire_name(name)}; }
dns_record txt_record(std::vector<std::string> const& pieces) {
  dns_bytes data;
  for (std::string const& piece : pieces) {
    data.push_back(static_cast<std::byte>(piece.size()));
    for (char const c : piece) data.push_back(static_cast<std::byte>(c));
  }
  return {txt, data};
}
dns_record srv_record(unsigned priority, unsigned weight, unsigned port, std::string const& host) {
  dns_bytes data;
  put(data, priority);
  put(data, weight);
  put(data, port);
  put(data, wire_name(host));
  return {srv, data};
}

dns_bytes answer_to(dns_query const& q, std::vector<dns_record> const& records, unsigned code) {
  std::size_t end = 12;
  while (q.raw[end] != std::byte{0}) end += 1 + std::to_integer<std::size_t>(q.raw[end]);
  end += 5;
  dns_bytes out(q.raw.begin(), q.raw.begin() + static_cast<std::ptrdiff_t>(end));
  out[2] = std::byte{0x81};                            // an answer, recursion desired
  out[3] = static_cast<std::byte>(0x80 | (code & 15)); // recursion available
  out[6] = static_cast<std::byte>(records.size() >> 8);
  out[7] = static_cast<std::byte>(records.size() & 255);
  out[8] = out[9] = out[10] = out[11] = std::byte{0};
  for (dns_record const& r : records) {
    if (r.owner.empty()) {
      put(out, 0xc00c); // the name in the question
    } else {
      put(out, wire_name(r.owner));
    }
    put(out, r.type);
    put(out, 1);
    put(out, 0);
    put(out, 60);
    put(out, static_cast<unsigned>(r.data.size()));
    put(out, r.data);
  }
  return out;
}

dns_bytes truncated_answer_to(dns_query const& q) {
  dns_bytes out = answer_to(q, {});
  out[2] |= std::byte{0x02};
  return out;
}

zone& zone::add(std::string const& name, dns_record r) {
  names_[lower(name)].push_back(std::move(r));
  return *this;
}

std::vector<dns_answer> zone::operator()(dns_query const& q) const {
  auto const found = names_.find(lower(q.name));
  if (found == names_.end()) return {{answer_to(q, {}, nx_domain)}};
  std::vector<dns_record> records;
  for (dns_record const& r : found->second)
    if (r.type == q.type || r.type == cname) records.push_back(r);
  return {{answer_to(q, records)}};
}

namespace {

unio::task<> send_later(unio::datagram_handle& socket, unio::endpoint to, dns_answer answer) {
  if (answer.after.count() != 0) (void)co_await unio::co_sleep(answer.after);
  (void)co_await socket.co_send_to({.to = to}, unio::const_buffer(answer.raw.data(), answer.raw.size()));
}

} // namespace

unio::task<> serve_datagrams(unio::datagram_handle& socket, dns_handler const& handler) {
  unio::task_group answers(co_await unio::this_coro::environment);
  std::array<std::byte, 2048> room;
  unio::datagram_info info;
  for (;;) {
    auto const got = co_await socket.co_receive_from(room, info);
    if (!got.has_value()) break;
    dns_query q;
    if (!parse_query(std::span(room).first(got.bytes_transferred()), q)) continue;
    for (dns_answer& answer : handler(q)) answers.start(send_later(socket, info.from, std::move(answer)));
  }
  answers.request_stop();
  (void)co_await answers.co_join();
}

// One port for both: the listener chooses it, and another process may have the datagrams' one.
name_server::name_server(dns_handler handler) : handler_(std::move(handler)) {
  for (int tries = 0; tries != 50; ++tries) {
    listener_ = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
    at_ = listener_.local_endpoint().value();
    auto bound = unio::datagram_handle::bind(at_);
    if (!bound.has_value()) continue;
    socket_ = std::move(*bound);
    break;
  }
  thread_ = std::thread([this] { unio::run(serve(), {.stop = stop_.get_token()}); });
}

name_server::~name_server() {
  stop_.request_stop();
  thread_.join();
}

unio::task<> name_server::serve() {
  dns_handler const noting = [this](dns_query const& q) {
    {
      std::lock_guard const held(lock_);
      asked_.push_back(q.name + " " + std::to_string(q.type) + (q.by_tcp ? " tcp" : ""));
    }
    return handler_(q);
  };
  auto connections = [](name_server& self, dns_handler const& f) -> unio::task<> {
    unio::task_group group(co_await unio::this_coro::environment);
    auto serve_one = [](unio::socket_handle s, dns_handler const& h) -> unio::task<> {
      for (;;) {
        std::array<std::byte, 2> length;
        auto const got = co_await unio::co_read(s, unio::mutable_buffer(length.data(), length.size()));
        if (!got.has_value() || got.bytes_transferred() != 2) co_return;
        dns_bytes message(number(length, 0));
        auto const rest = co_await unio::co_read(s, unio::mutable_buffer(message.data(), message.size()));
        dns_query q;
        if (!rest.has_value() || !parse_query(message, q)) co_return;
        q.by_tcp = true;
        for (dns_answer const& answer : h(q)) {
          if (answer.raw.empty()) co_return;
          dns_bytes framed;
          put(framed, static_cast<unsigned>(answer.raw.size()));
          put(framed, answer.raw);
          // A byte at a time now and then: it is a stream.
          auto const first = co_await unio::co_write(s, unio::const_buffer(framed.data(), 1));
          auto const sent =
              co_await unio::co_write(s, unio::const_buffer(framed.data() + 1, framed.size() - 1));
          if (!first.has_value() || !sent.has_value()) co_return;
        }
      }
    };
    (void)co_await unio::co_for_each_connection(
        self.listener_, [&](unio::socket_handle s) { group.start(serve_one(std::move(s), f)); });
    group.request_stop();
    (void)co_await group.co_join();
  };
  (void)co_await unio::when_all(serve_datagrams(socket_, noting), connections(*this, noting));
}

std::vector<std::string> name_server::asked() const {
  std::lock_guard const held(lock_);
  return asked_;
}

} // namespace test
