// Configuration files for resolvers under test, and resolvers that look at nothing else.

#pragma once

#include "net/name_server.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/resolver.hpp>

namespace test {

/// A folder with the three files, none of which is there at first.
struct name_files {
  temporary_directory folder;
  [[nodiscard]] std::string path(char const* name) const { return folder.path() + "/" + name; }
  void write(char const* name, std::string const& text) const {
    std::ofstream(path(name), std::ios::trunc) << text;
  }
  [[nodiscard]] unio::resolver_options options() const {
    unio::resolver_options o;
    o.resolv_conf = path("resolv.conf");
    o.nsswitch_conf = path("nsswitch.conf");
    o.hosts = path("hosts");
    o.check_every = std::chrono::milliseconds(0);
    return o;
  }
  /// That asks one server, and nothing else of this system.
  [[nodiscard]] unio::resolver_options options(unio::endpoint const& server) const {
    unio::resolver_options o = options();
    o.way = unio::resolve_way::direct;
    o.servers = {server};
    return o;
  }
};

} // namespace test
