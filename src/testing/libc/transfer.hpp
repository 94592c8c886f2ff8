// src/testing/libc/transfer.hpp: bytes to and from simulated descriptors, as the C library's functions move
// them.

#pragma once

#include "testing/libc/entry.hpp"

struct iovec;
struct msghdr;

namespace unio::inline v0_1::testing::libc {

/// read(2) and its kin; `at` < 0: where the descriptor stands.
std::int64_t read_file(open_file& f, int fd, iovec const* v, std::size_t n, std::int64_t at) noexcept;
std::int64_t write_file(open_file& f, int fd, iovec const* v, std::size_t n, std::int64_t at) noexcept;
/// recvmsg(2), sendmsg(2).
std::int64_t receive(open_file& f, int fd, msghdr& m, int flags) noexcept;
std::int64_t send(open_file& f, int fd, msghdr const& m, int flags) noexcept;

} // namespace unio::testing::libc
