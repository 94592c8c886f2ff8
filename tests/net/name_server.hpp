// A name server for tests, on unio's own datagrams and sockets: it answers as it is told, wrongly too.
//
//   dns_query, dns_answer   what was asked, and bytes that answer it
//   zone                    names and their records; a server that does as it should
//   name_server             serves a function on loopback, on a thread of its own

#pragma once

#include <unio/unio.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace test {

using bytes = std::vector<std::byte>;

struct dns_query {
  bytes raw;
  std::string name; ///< without a final dot, as it came
  unsigned type = 0;
  bool extended = false; ///< with an EDNS record
  bool by_tcp = false;
};

enum dns_type : unsigned { a = 1, cname = 5, ptr = 12, txt = 16, aaaa = 28, srv = 33 };
enum dns_code : unsigned {
  no_error = 0,
  form_error = 1,
  server_failure = 2,
  nx_domain = 3,
  not_impl = 4,
  refused = 5
};

/// A query in bytes, or nothing if they are none.
bool parse_query(std::span<std::byte const> raw, dns_query& into);

struct dns_record {
  unsigned type;
  bytes data;
  std::string owner = {}; ///< empty: the name that was asked for
};
dns_record a_record(std::string const& address);
dns_record aaaa_record(std::string const& address);
dns_record name_record(unsigned type, std::string const& name);
dns_record txt_record(std::vector<std::string> const& pieces);
dns_record srv_record(unsigned priority, unsigned weight, unsigned port, std::string const& host);
/// A name as it travels.
bytes wire_name(std::string const& name);

struct dns_answer {
  bytes raw;
  std::chrono::milliseconds after{0};
};
bytes answer_to(dns_query const& q, std::vector<dns_record> const& records, unsigned code = no_error);
/// The header says that more did not fit.
bytes truncated_answer_to(dns_query const& q);

using dns_handler = std::function<std::vector<dns_answer>(dns_query const&)>;

/// Names with their records. NXDOMAIN for other names, no data for other types.
class zone {
 public:
  zone& add(std::string const& name, dns_record r);
  std::vector<dns_answer> operator()(dns_query const& q) const;

 private:
  std::map<std::string, std::vector<dns_record>> names_;
};

/// Answers what comes to `socket`, until it is asked to stop.
unio::task<> serve_datagrams(unio::datagram_handle& socket, dns_handler const& handler);

class name_server {
 public:
  explicit name_server(dns_handler handler);
  name_server(name_server const&) = delete;
  name_server& operator=(name_server const&) = delete;
  ~name_server();

  [[nodiscard]] unio::endpoint at() const { return at_; }
  /// What was asked so far, "name type" each, with "tcp" behind it if so.
  [[nodiscard]] std::vector<std::string> asked() const;

 private:
  unio::task<> serve();

  dns_handler handler_;
  mutable std::mutex lock_;
  std::vector<std::string> asked_;
  unio::datagram_handle socket_;
  unio::listening_socket_handle listener_;
  unio::endpoint at_;
  unio::stop_source stop_;
  std::thread thread_;
};

} // namespace test
