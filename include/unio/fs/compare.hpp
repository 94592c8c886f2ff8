// unio/fs/compare.hpp: whether two trees are the same.
//
//   compare      names, kinds, contents, and what else is asked for
//   co_compare   the awaited form
//
//   auto r = unio::fs::compare({}, "/srv/data", {}, "/backup/data").value();
//   if (r.differences == 0 && r.failures.empty()) …
//
// Thread safety  any number of calls at once, from any threads; for two on one tree each other is what other
//                processes are

#pragma once

#include <unio/fs/tree.hpp>

namespace unio::inline v0_1::fs {

/// What may differ. The values are bits.
enum class difference : std::uint32_t {
  only_in_first = 1U << 0,
  only_in_second = 1U << 1,
  kind = 1U << 2,     ///< one is a file, the other a link, …; or two devices have other numbers
  contents = 1U << 3, ///< of files, or what a link says
  mode = 1U << 4,
  owner = 1U << 5,      ///< or the group
  modified = 1U << 6,   ///< the time, to the nanosecond
  attributes = 1U << 7, ///< extended ones, with ACLs; but for SELinux labels
  links = 1U << 8,      ///< two names of one file here are names of two files there
  holes = 1U << 9       ///< one has ranges of 64 KiB or more without storage, the other has none
};
constexpr difference operator|(difference a, difference b) noexcept {
  return static_cast<difference>(static_cast<std::uint32_t>(a) | static_cast<std::uint32_t>(b));
}
constexpr bool operator&(difference a, difference b) noexcept {
  return (static_cast<std::uint32_t>(a) & static_cast<std::uint32_t>(b)) != 0;
}
/// The first of them in words: "contents". Lifetime: static. Cost: none.
UNIO_API std::string_view to_string(difference d) noexcept;

/// Is called for each difference.
///
/// Concurrency  one call at a time, on any of the threads, which goes on when it returns
/// Cost         of what it does, which the comparison waits for
class UNIO_API compare_sink {
 public:
  /// Something differs. `path` is below both roots; empty: the roots. Valid during the call.
  virtual void differs(std::string_view path, difference what) noexcept = 0;
  virtual void failed(tree_failure const&) noexcept {}

 protected:
  virtual ~compare_sink() = default;
};

struct compare_options : tree_options {
  /// What counts. Names and kinds always do.
  difference what = difference::contents | difference::mode | difference::owner | difference::modified |
                    difference::attributes | difference::links | difference::holes;
};

struct compare_report {
  std::uint64_t entries = 0;     ///< that were compared
  std::uint64_t differences = 0; ///< names that differ; of a directory that is in one tree only, its name
  tree_failures failures;        ///< what was not compared: it could not be read; EXDEV: it is a mount
  std::error_code ended;
};

/// Compares what is at two paths. Follows no link.
///
/// Returns  how many names differ; what could not be read. Which ones and how, `sink` is told
/// Errors   as openat(2) for both; ENOMEM
/// Waiting  for the disk, and for the end of others' leases (fcntl(2)). `d` and a stop are looked at for each
///          name and each 128 KiB of contents
/// Cost     memory for the names of the directories under comparison, and for each file with several names
/// Source   A-03
[[nodiscard]] UNIO_API result<compare_report> compare(path_handle const& first_base, path_view first,
                                                      path_handle const& second_base, path_view second,
                                                      compare_sink* sink = nullptr,
                                                      compare_options const& o = {},
                                                      deadline d = {}) noexcept;
/// The same, awaited, on a thread of its own.
///
/// Lifetime      the bases, the texts of both paths and the sink must outlive the task
/// Cancellation  as o.stop: the report so far, whose `ended` is condition::canceled
[[nodiscard]] UNIO_API task<result<compare_report>> co_compare(path_handle const& first_base, path_view first,
                                                               path_handle const& second_base,
                                                               path_view second, compare_sink* sink = nullptr,
                                                               compare_options o = {}, deadline d = {});

} // namespace unio::fs
