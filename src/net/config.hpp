// src/net/config.hpp: the files by which a system says how names are looked up.
//
//   parse_resolv_conf, parse_nsswitch, hosts_table   what the files say; they take any bytes
//   system_files                                     the files themselves, read again when they change
//   direct_or_libc                                   who is to ask for a name, and why

#pragma once

#include "net/own_lock.hpp"

#include <unio/resolver.hpp>

#include <atomic>
#include <map>
#include <span>

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
  std::map<std::string, endpoint_list, std::less<>> addresses_;
  std::map<std::string, std::vector<std::string>, std::less<>> names_; // by the address as text
};

/// What the files said when they were read.
struct settings {
  resolv_conf conf;
  nss_hosts nss;
  std::shared_ptr<hosts_table const> hosts;
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

/// The settings, at most `check_every` old: then the files are looked at, and those read again that changed.
class system_files {
 public:
  explicit system_files(resolver_options const& options) noexcept : options_(options) {}
  std::shared_ptr<settings const> now();

 private:
  std::shared_ptr<settings const> read(settings const* before);
  void lock() noexcept;

  // What tells one state of a file from another.
  struct version {
    std::uint64_t inode = 0, size = 0;
    std::int64_t seconds = -1, nanoseconds = 0;
    bool operator==(version const&) const = default;
  };
  static version version_of(std::string const& path, std::string* contents);
  version seen_[4];

  resolver_options const& options_;
  own_lock reading_; // seen_; held while files are read
  own_lock lock_;    // the rest
  std::shared_ptr<settings const> current_;
  std::int64_t checked_ns_ = 0;
};

} // namespace unio::net
