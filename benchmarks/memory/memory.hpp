// What one more of something costs: memory of a process of its own, before and after there are many.
//
//   idle_connections   of a server whose clients have said something and then say nothing
//   suspended          of a program whose coroutines wait
//
// Counted is what is private to the process and was written to (Private_Dirty of /proc/PID/smaps_rollup,
// proc(5)), between a hundred of them and so many more: the heap with all that it wastes, stacks, tables; no
// code, and nothing of the kernel's.
#pragma once

#include "support/subject.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace memory {

/// A server that runs until it is killed, and sends back what it gets. It listens at an abstract Unix address
/// (without the 0 in front). Each connection reads into `buffer` bytes of its own; 0: it waits until there is
/// something to be read, then reads it into `shared_buffer` and writes it from there, waiting if it must.
using server = void (*)(std::string const& address, std::size_t buffer);

inline constexpr std::size_t shared_buffer_size = 4096;
extern char shared_buffer[shared_buffer_size];

/// Appends cases: all sizes of buffers, all counts. If `serve` returns or throws, that is what the case fails
/// with.
void idle_connections(std::vector<benchmarks::benchmark_case>& to, std::string const& subject, server serve);

/// For servers: calls `f(std::integral_constant<std::size_t, size of the buffer>)`.
template <class F> void with_buffer(std::size_t buffer, F&& f) {
  if (buffer == 0) return f(std::integral_constant<std::size_t, 0>());
  if (buffer == 1024) return f(std::integral_constant<std::size_t, 1024>());
  if (buffer == 4096) return f(std::integral_constant<std::size_t, 4096>());
  throw std::invalid_argument("no server is compiled for this size of buffer");
}
/// Coroutines that wait, in a program of their own.
class waiting {
 public:
  virtual ~waiting() = default;
  /// Starts `n` more, and returns when each of them waits.
  virtual void start(std::uint64_t n) = 0;
  /// How many wait now.
  [[nodiscard]] virtual std::uint64_t count() const = 0;
};

/// Appends cases: all counts. `what`: that which a coroutine waits for.
void suspended(std::vector<benchmarks::benchmark_case>& to, std::string const& subject,
               std::string const& what, std::unique_ptr<waiting> (*make)());

} // namespace memory
