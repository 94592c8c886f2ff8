// unio/watch_handle.hpp: what happens to files and in directories, as events.
//
//   watch_kinds    what happens, as a set
//   watch_event    one thing that has happened
//   watch_events   what one read has brought, in its order
//   watch_handle   the watches; async_read_events is its operation
//
//   auto w = watch_handle::create().value();
//   w.add({}, "/etc", watch_kinds::created | watch_kinds::moved_to);
//   for (watch_event const& e : w.read(mutable_buffer(memory)).value()) …

#pragma once

#include <unio/file_handle.hpp>

#include <string_view>

namespace unio::inline v0_1 {

class watch_handle;

/// What happens to something that is watched, or to what is in a directory that is. The values are the
/// kernel's (inotify(7)).
enum class watch_kinds : std::uint32_t {
  none = 0,
  accessed = 0x1,       ///< read
  modified = 0x2,       ///< written, or truncated
  attributes = 0x4,     ///< mode, owner, times, links, extended attributes
  closed_written = 0x8, ///< closed, and was open for writing
  closed_unwritten = 0x10,
  opened = 0x20,
  moved_from = 0x40, ///< a name has left the directory
  moved_to = 0x80,   ///< a name has come to it; the two of one rename have the same watch_event::cookie
  created = 0x100,
  removed = 0x200,
  self_removed = 0x400, ///< what is watched itself
  self_moved = 0x800,

  // How to watch.
  only_directory = 0x0100'0000, ///< ENOTDIR if it is none
  no_follow = 0x0200'0000,      ///< a symbolic link itself
  only_linked = 0x0400'0000,    ///< nothing of names that were removed
  once = 0x8000'0000,           ///< one event, and the watch ends

  // What only events have.
  unmounted = 0x2000,        ///< its filesystem; the watch ends
  overflow = 0x4000,         ///< the queue was full: events were lost, of any of the watches. Look anew
  ended = 0x8000,            ///< the watch: removed, or its object is gone
  of_directory = 0x4000'0000 ///< what it happened to is a directory
};
template <> inline constexpr bool detail::is_flag_set<watch_kinds> = true;

/// One thing that has happened.
///
/// Thread safety  distinct: safe; shared: any number of readers
struct watch_event {
  int watch = -1; ///< as add() returned it; -1 for an overflow
  watch_kinds kinds = watch_kinds::none;
  std::uint32_t cookie = 0; ///< the same for the two ends of a move; otherwise 0
  std::string_view name;    ///< in the directory; empty for what is watched itself. Points into the buffer
  [[nodiscard]] constexpr bool is(watch_kinds k) const noexcept { return (kinds & k) != watch_kinds::none; }
};

/// The events in the bytes that a read has filled: a range of watch_event.
///
/// Thread safety  any number of readers
/// Lifetime       a view: the buffer must live, and not be read into again
/// Cost           nothing is allocated or copied; a step looks at one event
class watch_events {
 public:
  class iterator;
  watch_events() = default;
  explicit watch_events(mutable_buffer bytes) noexcept : bytes_(bytes) {}
  /// The first event.
  [[nodiscard]] iterator begin() const noexcept;
  /// Behind the last event.
  [[nodiscard]] iterator end() const noexcept;
  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }

 private:
  mutable_buffer bytes_;
};

/// Reads what has happened.
///
/// Effects       fills the buffer with as many events as fit, which are then out of the queue
/// Returns       the events (at least one)
/// Errors        EINVAL if the buffer has no room for the next event: 272 bytes are room for each;
///               condition::timed_out, would_block, canceled. A queue that has overflowed is no error but an
///               event: watch_kinds::overflow
/// Buffers       the caller's, also as long as the events are looked at
/// Cancellation  events that were read are returned
/// Cost          no allocation; one system call when there is something
/// Runs as       io_uring READ · read(2) on readiness
/// Source        inotify(7)
UNIO_OPERATION(read_events, detail::filled<watch_events>, (watch_handle&, h), (mutable_buffer, into))

/// Watches on files and directories (inotify). What is below a directory's directories is not watched, what
/// happens on another machine of a network filesystem is not reported, and neither is what is written through
/// a map.
///
/// Thread safety  add() and remove(): any thread; otherwise as handle
/// Simulation     refused by name
/// Size           16 bytes
class UNIO_API watch_handle : public handle {
 public:
  /// The least size of a buffer in which every event has room.
  static constexpr std::size_t largest_event = 272;

  watch_handle() = default;
  /// Errors: EMFILE, also at the limit of fs.inotify.max_user_instances; ENFILE, ENOMEM.
  static result<watch_handle> create() noexcept;

  /// Watches what `name` leads to, or `base` itself if `name` is empty. What is watched already keeps its
  /// number and is watched for `what` instead.
  ///
  /// Returns  the number of the watch
  /// Errors   ENOSPC at the limit of fs.inotify.max_user_watches; ENOENT, EACCES (it may not be read),
  ///          ENOTDIR; EINVAL for nothing to watch for; error::embedded_nul; ENAMETOOLONG; ENOMEM
  /// Cost     one system call. A path that is relative to `base` goes through /proc, because inotify has no
  ///          descriptors of directories
  result<int> add(path_handle const& base, path_view name, watch_kinds what) noexcept;
  /// Ends a watch. Events that were queued before still come, then one of watch_kinds::ended. Errors: EINVAL
  /// if there is no such watch.
  result<void> remove(int watch) noexcept;

  /// read, try_read, …, co_read, …: see async_read_events.
  UNIO_VERB_FORMS(read, async_read_events, (mutable_buffer, into))

 private:
  explicit watch_handle(int fd) noexcept : handle(fd, handle_kind::watch) {}
};

/// Goes from event to event.
class watch_events::iterator {
 public:
  using value_type = watch_event;
  using difference_type = std::ptrdiff_t;
  iterator() = default;
  watch_event const& operator*() const noexcept { return event_; }
  watch_event const* operator->() const noexcept { return &event_; }
  iterator& operator++() noexcept {
    at_ = next_;
    look();
    return *this;
  }
  iterator operator++(int) noexcept {
    iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(iterator const& a, iterator const& b) noexcept { return a.at_ == b.at_; }

 private:
  friend class watch_events;
  iterator(std::byte const* at, std::byte const* end) noexcept : at_(at), end_(end) { look(); }
  UNIO_API void look() noexcept; // sets event_ and next_
  std::byte const* at_ = nullptr;
  std::byte const* end_ = nullptr;
  std::byte const* next_ = nullptr;
  watch_event event_;
};

inline watch_events::iterator watch_events::begin() const noexcept {
  return {bytes_.data(), bytes_.data() + bytes_.size()};
}
inline watch_events::iterator watch_events::end() const noexcept {
  return {bytes_.data() + bytes_.size(), bytes_.data() + bytes_.size()};
}

} // namespace unio
