// unio/tail_handle.hpp: a file that others append to, read as a pipe without an end (as tail -f does).
//
//   auto log = tail_handle::follow({}, "/var/log/app").value();
//   for (;;) { mutable_buffer const news = (co_await log.co_read(mutable_buffer(memory))).value(); … }

#pragma once

#include <unio/file_handle.hpp>

namespace unio::inline v0_1 {

class tail_handle;
namespace detail {
struct tail_state {
  tail_state() = default;
  explicit tail_state(tail_handle const& h) noexcept;
  int file = -1;
  readiness waits_for = readiness::readable;
};
} // namespace detail

/// Reads what has been appended; waits at the end of the file until there is more.
///
/// Effects       fills the buffer from where the last read has stopped
/// Returns       the part of the buffer that was filled (at least one byte; none if it has no room)
/// Errors        error::truncated, once, if the file has become shorter than what was read of it: the next
///               read begins at its beginning. A file that has grown again in between looks as if it had
///               only grown. condition::timed_out, would_block, canceled; otherwise as read(2)
/// Buffers       the caller's; nothing else may touch it until the operation has finished
/// Cancellation  bytes that were read are returned
/// Cost          no allocation; two system calls where there is more, three after a wait, four to find none
/// Runs as       preadv2(2) with RWF_NOWAIT, else on a thread that may block · waiting for inotify(7), or
///               trying again after pauses where there is none
/// Source        docs/features.md H-16; D2052R0, footnote 1
UNIO_OPERATION(read_appended, detail::with<detail::tail_state>::yields<detail::filled<mutable_buffer>>,
               (tail_handle&, h), (mutable_buffer, into))

/// Where to begin.
enum class tail_from : std::uint8_t { beginning, end };

/// A regular file that grows. It is this file that is followed, whatever becomes of its name: after a
/// rotation of logs the old one. A watch_handle on its directory tells of a new one.
///
/// Waiting        by inotify(7). Where that has reached a limit, and on network filesystems, whose other
///                machines it does not see, by looking again after pauses, which grow to some milliseconds
/// Thread safety  distinct: safe; shared: one read at a time
/// Moved-from     closed
/// Size           24 bytes, and a descriptor more than the file's
class UNIO_API tail_handle : public handle {
 public:
  tail_handle() = default;
  tail_handle(tail_handle&& other) noexcept;
  tail_handle& operator=(tail_handle&& other) noexcept;
  ~tail_handle();

  /// Opens a file for reading, with a position of its own. Errors: EINVAL unless it is a regular file; as
  /// openat(2); EMFILE, ENFILE. Waits for the end of others' leases of the file (fcntl(2)). Cost: six system
  /// calls.
  static result<tail_handle> follow(path_handle const& base, path_view name,
                                    tail_from where = tail_from::end) noexcept;

  /// read, try_read, …, co_read, …: see async_read_appended.
  UNIO_VERB_FORMS(read, async_read_appended, (mutable_buffer, into))

  /// True if it waits by inotify(7).
  [[nodiscard]] bool is_notified() const noexcept { return is_open() && file_ >= 0; }
  /// As handle::close. Cost: one more system call.
  result<void> close() noexcept;

 private:
  friend struct detail::tail_state;
  tail_handle(int watch, int file) noexcept : handle(watch, handle_kind::watch), file_(file) {}
  int file_ = -1; // beside the handle's own descriptor, if that is a watch: otherwise it is the file
};

inline detail::tail_state::tail_state(tail_handle const& h) noexcept
    : file(h.is_notified() ? h.file_ : h.native_handle()) {}
inline tail_handle::tail_handle(tail_handle&& other) noexcept
    : handle(static_cast<handle&&>(other)), file_(std::exchange(other.file_, -1)) {}
inline tail_handle::~tail_handle() {
  if (file_ >= 0) (void)close();
}

} // namespace unio
