// src/net/config.hpp: what the files say by which a system tells how names are looked up.
//
//   parse_resolv_conf, parse_nsswitch   they take any bytes
//   hosts_table, hosts_parser           likewise, of a file that may be large: a piece at a time
//   direct_or_libc                      who is to ask for a name, and why

#pragma once

#include <unio/resolver.hpp>

#include <map>
#include <memory>
#include <set>

namespace unio::inline v0_1::net {

inline constexpr std::uint16_t name_port = 53;

/// resolv.conf(5).
struct resolv_conf {
  endpoint_list servers;
  std::vector<std::string> search; ///< without final dots
  unsigned ndots = 1;
  std::chrono::milliseconds timeout{5000};
  unsigned attempts = 2;
  bool rotate = false;
  bool use_tcp = false;
  bool single_request = false; ///< the questions of a name one after the other
  std::string unknown;         ///< the first option or keyword that means nothing to us
};
resolv_conf parse_resolv_conf(std::string_view text);

/// One service of the line "hosts:" in nsswitch.conf(5).
struct nss_source {
  std::string name;
  bool is_standard =
      true; ///< its actions change nothing: [NOTFOUND=continue], or [NOTFOUND=return] at the end
};
struct nss_hosts {
  bool is_there = false;
  bool is_malformed = false;
  std::vector<nss_source> sources;
};
nss_hosts parse_nsswitch(std::string_view text);

/// hosts(5), both ways. Names are compared without regard to case.
class hosts_table {
 public:
  hosts_table() = default;
  explicit hosts_table(std::string_view text);
  /// The addresses of a name, in the order of the file, with port 0. Null: it is not there.
  [[nodiscard]] endpoint_list const* find(std::string_view name) const;
  /// The names of an address, whose port is ignored. Null: none.
  [[nodiscard]] std::vector<std::string> const* names_of(endpoint const& address) const;
  [[nodiscard]] std::size_t size() const noexcept { return addresses_.size(); }

 private:
  friend class hosts_parser;
  std::map<std::string, endpoint_list, std::less<>> addresses_;
  std::map<std::string, std::vector<std::string>, std::less<>> names_; // by the address as text
};

/// Fills a table, which outlives it. Any number of lines for one name or address takes the time of as many
/// lines for different ones.
class hosts_parser {
 public:
  explicit hosts_parser(hosts_table& into) noexcept : into_(into) {}
  /// Goes on where the last text ended, which must not have been within a word.
  void add(std::string_view text);
  /// Where the last word of a text may go on in the next one: 0, or one after the last blank or line end.
  static std::size_t end_of_words(std::string_view text) noexcept;

 private:
  enum class place : unsigned char { address, names, ignored }; // within a line
  void add_word(std::string_view word);
  bool add_address(endpoint_list& to);

  hosts_table& into_;
  place at_ = place::address;
  endpoint address_;                                      // of the line
  std::string text_;                                      // the same
  std::map<endpoint_list*, std::set<std::string>> known_; // what the long lists have
};

/// What tells one state of a file from another.
struct file_version {
  std::uint64_t inode = 0, size = 0;
  std::int64_t seconds = -1, nanoseconds = 0;
  bool operator==(file_version const&) const = default;
};

/// What the files said when they were read.
struct settings {
  resolv_conf conf;
  nss_hosts nss;
  std::shared_ptr<hosts_table const> hosts;
  file_version versions[3];   ///< of resolv.conf, nsswitch.conf and hosts
  std::string own_name;       ///< of this host
  std::string forces_libc;    ///< the environment's variable that does; empty: none
  bool mdns_is_wider = false; ///< /etc/mdns.allow is there: mdns may answer other names than those in .local
};

/// Who is to ask for `host`.
struct choice {
  resolve_way way;
  std::string why;
};
choice direct_or_libc(settings const& s, resolver_options const& options, std::string_view host);

} // namespace unio::net
