// Names under libFuzzer: any bytes as resolv.conf, nsswitch.conf, a hosts file, "host:port", and as what a
// name server answers, through the same code as its datagrams. With CANARY an answer's records are counted
// as its header says, which must be found.

#include "net/config.hpp"
#include "net/names.hpp"
#include "net/order.hpp"
#include "net/wire.hpp"

#include <unio/connect_to.hpp>

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>

namespace {

using namespace unio::net;

void expect(bool holds) {
  if (!holds) std::abort();
}

#ifdef CANARY
unsigned lengths_of(std::span<std::byte const> answer) { // 16 bytes each, as of an A record
  unsigned sum = 0;
  std::size_t const n = std::to_integer<std::size_t>(answer[7]);
  for (std::size_t i = 0; i != n; ++i) sum += std::to_integer<unsigned>(answer.data()[12 + i * 16]);
  return sum;
}
#endif

void read_files(std::string_view text) {
  resolv_conf const conf = parse_resolv_conf(text);
  expect(!conf.servers.empty() && conf.attempts >= 1 && conf.ndots <= 15 && conf.timeout.count() > 0);
  settings s;
  s.conf = conf;
  s.nss = parse_nsswitch(text);
  s.hosts = std::make_shared<hosts_table const>(text);
  (void)s.hosts->find(text);
  hosts_table pieces;
  hosts_parser parser(pieces);
  std::size_t const end = hosts_parser::end_of_words(text.substr(0, text.size() / 2));
  parser.add(text.substr(0, end));
  parser.add(text.substr(end));
  expect(pieces.size() == s.hosts->size());
  (void)direct_or_libc(s, {}, text);
  std::string why;
  if (auto const parts = unio::parse_host_port(text, &why))
    expect(!parts->host.empty());
  else
    expect(!why.empty());
  (void)quoted(text);
}

unio::endpoint no_source(unio::endpoint const&) { return {}; }

// The first bytes choose the question; the rest follows the id and the question, so that it is judged.
void read_answer(std::span<std::byte const> data, bool keeps_question) {
  if (data.size() < 4) return;
  record const types[] = {record::a, record::aaaa, record::ptr, record::srv, record::txt};
  record const type = types[std::to_integer<unsigned>(data[0]) % 5];
  question q;
  if (q.write("name.test.", type, 7)) return;
  std::vector<std::byte> answer(data.begin() + 1, data.end());
  if (keeps_question) {
    auto const asked = q.bytes().first(12 + 11 + 4); // with "name.test" and its type
    if (answer.size() < asked.size()) answer.resize(asked.size());
    std::byte const flags[] = {answer[2], answer[3], answer[6], answer[7], answer[8], answer[9]};
    std::memcpy(answer.data(), asked.data(), asked.size());
    answer[2] = flags[0] | std::byte{0x80};
    answer[3] = flags[1];
    std::memcpy(&answer[6], &flags[2], 4);
  }
  // In a block of its own, so that a byte beyond it is not readable.
  auto const exact = std::make_unique<std::byte[]>(answer.size());
  std::memcpy(exact.get(), answer.data(), answer.size());
  std::span<std::byte const> const bytes(exact.get(), answer.size());
  verdict const v = q.judge(bytes);
#ifdef CANARY
  if (v == verdict::answered) {
    unsigned volatile const sum = lengths_of(bytes);
    (void)sum;
  }
#endif
  if (v != verdict::answered) return;
  unio::endpoint_list addresses;
  std::vector<std::string> texts;
  std::vector<unio::service_host> hosts;
  switch (type) {
    case record::a:
    case record::aaaa:
      expect((read_addresses(type, bytes, 80, addresses) == verdict::answered) == !addresses.empty());
      sort(addresses, &no_source);
      for (unio::endpoint const& e : addresses) expect(e.port() == 80);
      break;
    case record::ptr:
      (void)read_names(bytes, unio::endpoint::ipv4_loopback(0), texts);
      for (std::string const& name : texts) expect(what_is_wrong_with(name) == nullptr);
      break;
    case record::srv:
      (void)read_services(bytes, hosts);
      for (unio::service_host const& h : hosts) expect(what_is_wrong_with(h.host) == nullptr);
      break;
    case record::txt:
      (void)read_texts(bytes, texts);
      break;
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0) return 0;
  std::span<std::byte const> const bytes(reinterpret_cast<std::byte const*>(data + 1), size - 1);
  if (data[0] % 4 == 0) {
    read_files({reinterpret_cast<char const*>(data + 1), size - 1});
  } else {
    read_answer(bytes, data[0] % 4 != 1);
  }
  return 0;
}
