// The subjects: one file each, listed in main.cpp.
//
// A subject does the same work at four depths. One run is one client: `requests` top-level operations
// one after the other, the next begun by what the last one completes, all in one io_context::run().
#pragma once

#include "support/measure.hpp"

#include <array>
#include <cstdint>
#include <string>

namespace mock {

/// The operations, by how many levels they have.
enum class depth {
  async_io = 1,        // the leaf: 1 I/O
  async_read_some = 2, // async_io once: 1 I/O
  async_read = 3,      // async_read_some 10 times: 10 I/Os
  async_request = 4,   // async_read 10 times: 100 I/Os
};

inline constexpr std::array depths = {depth::async_io, depth::async_read_some, depth::async_read,
                                      depth::async_request};

inline constexpr int reads_per_request = 10;
inline constexpr int pieces_per_read = 10;

constexpr std::uint64_t ios_of(depth d) {
  switch (d) {
    case depth::async_io:
      return 1;
    case depth::async_read_some:
      return 1;
    case depth::async_read:
      return pieces_per_read;
    case depth::async_request:
      return std::uint64_t{reads_per_request} * pieces_per_read;
  }
  return 0;
}

struct subject {
  std::string name;
  /// Does `requests` operations of depth `d`. What a program does once (context, socket, starting the
  /// client's coroutine) is done outside of benchmarks::measure or spread over the requests. Null: not
  /// available.
  benchmarks::sample (*run)(depth d, std::uint64_t requests) = nullptr;
  std::string unavailable = {}; // then the reason
};

/// Throws unless the context completed as many I/Os as the requests have: a subject that leaves
/// some out would win. A subject may post more than its I/Os.
void check_completed(depth d, std::uint64_t requests, std::uint64_t completed);

subject state_machine();
subject callbacks_plain();
subject callbacks_recycled();
subject callbacks_erased();
subject asio_awaitable();       // as its documentation writes it
subject asio_awaitable_tuned(); // all that spares it work
subject unio_task();            // each level a task
subject plain_task_subject();   // a task without anything that could be spared
subject unio_task_plain();      // what moves bytes once is a plain awaitable

} // namespace mock
