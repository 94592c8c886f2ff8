// A pipe that another process keeps full, and the frame of every subject's run.
//
//   full_pipe         the pipe
//   by_writers        each case twice: with one writer, and with a pool of them (D2052R0 §5.2 has a pool)
//   measure_reading   a run
#pragma once

#include "pipe/bytes.h"
#include "support/helper_process.hpp"
#include "support/measure.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace pipe_bench {

[[noreturn]] inline void fail(std::string const& what, int error) {
  throw std::runtime_error(what + ": " + std::strerror(error));
}

class full_pipe {
 public:
  static constexpr std::size_t block_bytes = 64 * 1024;
  static constexpr unsigned pool_size = 4;
  /// How many threads write to the pipes that are made from now on.
  static inline unsigned writers = 1;

  /// One writer writes blocks of 64 KiB, several write blocks of 256 bytes, which the kernel does not mix.
  /// They sleep in write(2) while there is no room. Returns when there is none.
  full_pipe() {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2", errno);
    reader_ = ends[0];
    writer_.emplace([from = ends[0], to = ends[1]] {
      ::close(from); // so that writing ends when the subject has closed its end
      std::vector<std::jthread> others;
      std::size_t const at_once = writers == 1 ? block_bytes : 256;
      while (others.size() + 1 < writers) others.emplace_back(write_for_ever, to, at_once);
      write_for_ever(to, at_once);
    });
    ::close(ends[1]);
    wait_until_full();
  }
  ~full_pipe() {
    if (reader_ >= 0) ::close(reader_);
  }
  full_pipe(full_pipe const&) = delete;
  full_pipe& operator=(full_pipe const&) = delete;

  /// The end to read from. It blocks.
  [[nodiscard]] int reader() const noexcept { return reader_; }
  /// From now on the caller's.
  [[nodiscard]] int release_reader() noexcept { return std::exchange(reader_, -1); }
  void make_non_blocking() const {
    if (::fcntl(reader_, F_SETFL, O_RDONLY | O_NONBLOCK) != 0) fail("fcntl", errno);
  }

 private:
  static void write_for_ever(int to, std::size_t at_once) {
    std::vector<unsigned char> block(at_once);
    for (std::size_t i = 0; i < at_once; ++i) block[i] = static_cast<unsigned char>(i);
    std::size_t at = 0;
    for (;;) {
      ssize_t const n = ::write(to, block.data() + at, at_once - at);
      if (n < 0 && errno != EINTR) return;
      if (n > 0) at = (at + static_cast<std::size_t>(n)) % at_once;
    }
  }
  void wait_until_full() const {
    int const room = ::fcntl(reader_, F_GETPIPE_SZ);
    for (int tries = 0; tries < 10'000; ++tries) {
      int there = 0;
      if (::ioctl(reader_, FIONREAD, &there) == 0 && there >= room) return;
      timespec const a_little{.tv_sec = 0, .tv_nsec = 100'000};
      ::nanosleep(&a_little, nullptr);
    }
    throw std::runtime_error("the writer does not fill the pipe");
  }

  int reader_ = -1;
  std::optional<benchmarks::helper_process> writer_;
};

inline std::vector<benchmarks::benchmark_case> by_writers(
    std::vector<benchmarks::benchmark_case> const& cases) {
  std::vector<benchmarks::benchmark_case> all;
  for (unsigned const writers : {1U, full_pipe::pool_size})
    for (benchmarks::benchmark_case c : cases) {
      c.parameters.push_back({"writers", std::to_string(writers)});
      if (c.run)
        c.run = [run = std::move(c.run), writers](std::uint64_t operations) {
          full_pipe::writers = writers;
          return run(operations);
        };
      all.push_back(std::move(c));
    }
  return all;
}

/// Measures `read_all(bytes&)`, which is to read them all, and checks that it did.
template <class F> benchmarks::sample measure_reading(std::uint64_t operations, F&& read_all) {
  bytes b{.left = operations, .expected = 0, .wrong = 0};
  benchmarks::sample s = benchmarks::measure(operations, [&] { read_all(b); });
  if (b.left != 0) throw std::runtime_error(std::to_string(b.left) + " bytes were not read");
  if (b.wrong != 0) throw std::runtime_error("what was read is not what was written");
  return s;
}

} // namespace pipe_bench
