// Where records come from: another process, which writes them to a pipe or appends them to a file.
//
//   source      the writer, and what to read from
//   cases_of    the rows of a subject
#pragma once

#include "support/helper_process.hpp"
#include "support/measure.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

namespace append_bench {

enum class way { pipe, file };
enum class pace { in_a_row, one_by_one };

inline constexpr std::size_t room_bytes = 64 * 1024;
constexpr std::size_t record_bytes(pace p) noexcept { return p == pace::in_a_row ? 4096 : 64; }

class source {
 public:
  source(way w, pace p, std::uint64_t records);
  ~source();
  source(source const&) = delete;
  source& operator=(source const&) = delete;

  /// The pipe's end to read from. It blocks.
  [[nodiscard]] int pipe() const noexcept { return pipe_; }
  /// From now on the caller's.
  void release_pipe() noexcept { pipe_ = -1; }
  /// The file's name. It is removed with this object.
  [[nodiscard]] std::string const& file() const noexcept { return file_; }
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }

  /// The reader is ready for the first record, or for the next one.
  void ask();
  /// `n` bytes were read into `room`. True: there are more to come.
  bool took(unsigned char const* room, std::size_t n);

 private:
  void write_all(int to, int asked, std::uint64_t records) const;

  pace pace_;
  std::size_t bytes_;
  std::size_t got_ = 0;
  int pipe_ = -1;
  int asking_ = -1;
  std::string file_;
  std::optional<benchmarks::helper_process> writer_;
};

/// Both paces.
std::vector<benchmarks::benchmark_case> cases_of(
    std::string const& subject, way w, std::function<benchmarks::sample(std::uint64_t, source&)> const& run);

} // namespace append_bench
