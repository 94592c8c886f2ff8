// What the system says of descriptors.

#pragma once

#include "support/posix.hpp"
#include "support/test.hpp"

#include <filesystem>
#include <iterator>

namespace test {

inline bool is_open(int fd) { return ::fcntl(fd, F_GETFD) >= 0; }
inline bool is_close_on_exec(int fd) { return (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0; }

/// How many this process has open.
inline std::ptrdiff_t count_descriptors() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/fd"),
                       std::filesystem::directory_iterator());
}

/// getsockopt(2).
inline int in_kernel(unio::handle const& h, int level, int name) {
  int value = -1;
  socklen_t size = sizeof(value);
  EXPECT_EQ(::getsockopt(h.native_handle(), level, name, &value, &size), 0) << std::strerror(errno);
  return value;
}

} // namespace test
