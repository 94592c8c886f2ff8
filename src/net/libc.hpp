// src/net/libc.hpp: getaddrinfo(3) and getnameinfo(3) on threads of their own.

#pragma once

#include <unio/resolver.hpp>

namespace unio::inline v0_1::net {

/// Look-ups that run at once; more wait for one of them to end.
inline constexpr int most_libc_threads = 8;

task<io_result<endpoint_list>> resolve_by_libc(std::string host, std::uint16_t port, address_family family,
                                               deadline d);
task<io_result<std::vector<std::string>>> names_by_libc(endpoint address, deadline d);

} // namespace unio::net
