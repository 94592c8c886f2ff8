// src/net/order.hpp: which of several addresses to try first (RFC 6724 §6).

#pragma once

#include <unio/resolver.hpp>

#include <span>

namespace unio::inline v0_1::net {

/// Where this host would send from to reach an address; no family: nothing reaches it.
using source_of = endpoint (*)(endpoint const& destination);
/// As the kernel would choose: by connecting a datagram socket, which sends nothing.
endpoint source_by_kernel(endpoint const& destination);

/// Sorts them, the best first; what the rules do not tell apart stays as it was. The rules that need to know
/// interfaces (3, 4, 7) are left out, as everywhere.
void sort(std::span<endpoint> addresses, source_of source = &source_by_kernel);

} // namespace unio::net
