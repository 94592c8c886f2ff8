// unio/fs/walk.hpp: visits everything below a directory.
//
//   walk          calls a visitor for each name, on several threads
//   summarize     counts and sizes
//   contents      all names, in one list
//   co_walk, co_summarize, co_contents   the awaited forms
//
//   struct : unio::fs::walk_visitor {
//     std::atomic<int> sources = 0;
//     unio::fs::walk_step entry(unio::fs::walk_entry const& e) noexcept override {
//       if (e.name().ends_with(".cpp")) ++sources;
//       return unio::fs::walk_step::go_on;
//     }
//   } count;
//   auto r = unio::fs::walk({}, "/usr/src", count).value();
//
// Thread safety  any number of calls at once, from any threads. The visitor is called by several at once

#pragma once

#include <unio/fs/tree.hpp>

#include <limits>

namespace unio::inline v0_1::fs {

/// What walk_options::with_status asks for, one statx(2) for each name. Times are ns since 1970,
/// cut to what there are numbers for (1677 to 2262).
struct entry_status {
  std::uint64_t size = 0;
  std::uint64_t allocated = 0; ///< bytes of storage
  std::uint64_t device = 0;
  std::uint64_t inode = 0;
  std::uint32_t links = 0;
  std::uint32_t mode = 0; ///< permissions, without the kind
  std::uint32_t owner = 0;
  std::uint32_t group = 0;
  std::int64_t modified_ns = 0;
};

/// What a visitor sees of a name.
///
/// Lifetime       of it, and of what it returns: during the call
/// Thread safety  the calling thread's
/// Cost           no system call, no allocation; open() and path() say otherwise
class UNIO_API walk_entry {
 public:
  [[nodiscard]] std::string_view name() const noexcept { return name_; } ///< a NUL follows; the root's: empty
  [[nodiscard]] entry_kind kind() const noexcept { return kind_; } ///< never unknown, unless a status failed
  /// The inode that the directory has: see directory_entry::inode.
  [[nodiscard]] std::uint64_t inode() const noexcept { return inode_; }
  /// 0: the root; 1: what is in it.
  [[nodiscard]] std::uint32_t depth() const noexcept { return depth_; }
  /// Which thread calls: 0 … threads - 1. For storage that needs no lock.
  [[nodiscard]] int thread() const noexcept { return thread_; }
  /// Null unless with_status asks for it and statx(2) succeeded.
  [[nodiscard]] entry_status const* status() const noexcept { return status_; }
  /// The path below the root; empty: the root. A NUL follows. Lasts until the next call on this thread. Cost:
  /// it is put together from the names of the directories, in memory that is reused.
  [[nodiscard]] std::string_view path() const noexcept;
  /// Opens it for reading: exactly the file that the directory has under this name, never through a link.
  ///
  /// Returns  the file
  /// Errors   ELOOP for a symbolic link; EISDIR for the root; as openat(2). Needs /proc
  /// Cost     five system calls
  [[nodiscard]] result<file_handle> open() const noexcept;

  struct access; // the walk's

 private:
  std::string_view name_;
  void* walker_ = nullptr;
  entry_status const* status_ = nullptr;
  std::uint64_t inode_ = 0;
  std::uint32_t depth_ = 0;
  int thread_ = 0;
  entry_kind kind_ = entry_kind::unknown;
};

enum class walk_step : std::uint8_t {
  go_on,
  skip, ///< do not go into this directory
  stop  ///< end the walk soon: the report's `ended` stays empty
};

/// Is shown the names of a tree.
///
/// Concurrency  entry() is called by several threads at once, but for those of one directory by one; failed()
///              by one at a time. What the visitor does holds up only its thread, and makes no queue
///              grow: names are read as they are shown
/// Cost         a virtual call for each name
class UNIO_API walk_visitor {
 public:
  /// There is a name.
  ///
  /// Returns  whether to go on
  virtual walk_step entry(walk_entry const& e) noexcept = 0;
  /// A directory could not be read, or a status found. The walk goes on.
  virtual void failed(tree_failure const&) noexcept {}

 protected:
  virtual ~walk_visitor() = default;
};

struct walk_options : tree_options {
  bool follow_links = false; ///< go into directories that links lead to, anywhere; into each once
  bool with_status = false;
  /// Directory after directory, the names of each by their bytes, on the calling thread alone. Directories
  /// come in the order of their paths, but after all the names of the directory that they are in.
  bool ordered = false;
  std::uint32_t max_depth = std::numeric_limits<std::uint32_t>::max(); ///< deeper names are not shown
};

struct walk_report {
  std::uint64_t entries = 0;     ///< shown
  std::uint64_t directories = 0; ///< read
  tree_failures failures;
  std::error_code ended; ///< condition::canceled, condition::timed_out; ENOMEM; empty: all was walked
};

/// Shows a visitor what is at `path`, and all that is below if that is a directory: breadth-first while at
/// most 256 directories wait to be read (fewer with few descriptors), then depth-first until fewer do.
///
/// Effects       a link at `path` itself is followed if the path ends in a slash, or with follow_links
/// Returns       how many were shown; which directories could not be read. Names that come or go during this
///               may be shown or not; all others are shown exactly once
/// Errors        as openat(2) for `path`; ENOMEM; nothing was shown then
/// Waiting       until the visitor has returned from the last call. `d` and a stop are looked at for each
///               directory and each 64 KiB of names
/// Cost          no allocation for a name; for a directory some 150 bytes, which are reused. Four system
///               calls for each directory with up to 64 KiB of names, and one for a name whose status is
///               wanted or whose kind the filesystem does not say
/// Source        A-01; getdents64(2), openat2(2)
[[nodiscard]] UNIO_API result<walk_report> walk(path_handle const& base, path_view path, walk_visitor& v,
                                                walk_options const& o = {}, deadline d = {}) noexcept;
/// The same, awaited, on a thread of its own.
///
/// Lifetime      the visitor, `base` and the path's text must outlive the task
/// Cancellation  as o.stop: the report so far, whose `ended` is condition::canceled
[[nodiscard]] UNIO_API task<result<walk_report>> co_walk(path_handle const& base, path_view path,
                                                         walk_visitor& v, walk_options o = {},
                                                         deadline d = {});

/// What summarize() has counted. A file with several names counts once in the sizes, and in each kind's count
/// for each name.
struct tree_summary {
  std::uint64_t files = 0;
  std::uint64_t directories = 0; ///< the root, too
  std::uint64_t symlinks = 0;
  std::uint64_t others = 0;
  std::uint64_t further_names = 0; ///< hard links beyond the first name of each file
  std::uint64_t size = 0;          ///< of files and links: bytes that can be read
  std::uint64_t allocated = 0;     ///< bytes of storage, of directories, too
  std::uint32_t deepest = 0;
  tree_failures failures;
  std::error_code ended; ///< as walk_report
};

/// Counts what is in a tree. Otherwise as walk().
///
/// Effects  `o.with_status` and `o.ordered` are ignored
/// Returns  the counts and sizes
/// Cost     that of walk(), one statx(2) for each name, and memory for each file with several names
[[nodiscard]] UNIO_API result<tree_summary> summarize(path_handle const& base, path_view path,
                                                      walk_options const& o = {}, deadline d = {}) noexcept;
/// The same, awaited. See co_walk().
[[nodiscard]] UNIO_API task<result<tree_summary>> co_summarize(path_handle const& base, path_view path,
                                                               walk_options o = {}, deadline d = {});

/// The names of a tree, sorted by their bytes.
///
/// Lifetime       names and report are the list's, and last as long
/// Thread safety  any number of readers
/// Moved-from     empty
/// Cost           of looking at it: none
class UNIO_API tree_contents {
 public:
  struct item {
    char const* path; ///< below the root, zero-terminated; lives as long as the list
    std::uint64_t inode;
    std::uint32_t path_size;
    entry_kind kind;
    [[nodiscard]] std::string_view name() const noexcept { return {path, path_size}; }
  };
  tree_contents() noexcept;
  tree_contents(tree_contents&&) noexcept;
  tree_contents& operator=(tree_contents&&) noexcept;
  ~tree_contents();

  /// The number of names.
  [[nodiscard]] std::size_t size() const noexcept;
  /// Preconditions: i < size().
  [[nodiscard]] item const& operator[](std::size_t i) const noexcept;
  /// The first name.
  [[nodiscard]] item const* begin() const noexcept;
  /// Behind the last name.
  [[nodiscard]] item const* end() const noexcept;
  /// The report of the walk that found them. Preconditions: the list is one that contents() returned.
  [[nodiscard]] walk_report const& report() const noexcept;

  struct state; // the list's

 private:
  friend UNIO_API result<tree_contents> contents(path_handle const&, path_view, walk_options const&,
                                                 deadline) noexcept;
  std::unique_ptr<state> state_;
};

/// All names below `path`, without the root. Otherwise as walk(). Cost: that of walk(), and memory for each
/// name.
[[nodiscard]] UNIO_API result<tree_contents> contents(path_handle const& base, path_view path,
                                                      walk_options const& o = {}, deadline d = {}) noexcept;
/// The same, awaited. See co_walk().
[[nodiscard]] UNIO_API task<result<tree_contents>> co_contents(path_handle const& base, path_view path,
                                                               walk_options o = {}, deadline d = {});

} // namespace unio::fs
