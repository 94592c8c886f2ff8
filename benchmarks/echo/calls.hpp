// Counting the system calls of a process that runs already, with strace(1).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <istream>

namespace benchmarks {

/// What a summary of strace's says: the number before "total". Throws if there is none.
std::uint64_t total_of_calls(std::istream& summary);

/// Counts from when this is made, on all threads of the process, until end().
class counted_calls {
 public:
  /// Throws if strace is not there, or may not trace the process.
  explicit counted_calls(pid_t process);
  ~counted_calls();
  counted_calls(counted_calls const&) = delete;
  counted_calls& operator=(counted_calls const&) = delete;
  std::uint64_t end();

 private:
  void stop() noexcept;

  int summary_;
  pid_t tracer_ = -1;
};

} // namespace benchmarks
