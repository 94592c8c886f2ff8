// The largest size that this process may give a file.

#pragma once

#include <sys/resource.h>

#include <chrono>
#include <thread>

namespace test {

/// Sets RLIMIT_FSIZE, and waits for the tick of the kernel's clock with which unio notices
/// (src/sys/sigpipe.hpp).
inline bool limit_file_size(rlim_t most_bytes) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  limit.rlim_cur = most_bytes;
  if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return false;
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  return true;
}

} // namespace test
