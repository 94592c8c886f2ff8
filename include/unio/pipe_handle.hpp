// unio/pipe_handle.hpp: pipes, anonymous and named.
//
//   pipe_handle      one end of a pipe
//   anonymous_pipe   both ends of a new one

#pragma once

#include <unio/file_handle.hpp>

namespace unio::inline v0_1 {

struct anonymous_pipe;

/// One end of a pipe. Offsets are ignored. Writes never raise SIGPIPE. A read at the end of the stream
/// returns no bytes. Thread safety, lifetime and size as io_handle.
class UNIO_API pipe_handle : public io_handle {
 public:
  pipe_handle() = default;
  pipe_handle(pipe_handle&&) = default; // declared, so that a copy is one error
  pipe_handle& operator=(pipe_handle&&) = default;

  /// A new pipe. Errors: EMFILE, ENFILE.
  static result<anonymous_pipe> anonymous() noexcept;
  /// Makes a named pipe and opens it, as open() does; removed if that fails, unless another process has put
  /// something else there. Errors: EEXIST if the name is taken; as mkfifo(3) and open(). Cost: three system
  /// calls; one more to wait.
  static result<pipe_handle> create(path_handle const& base, path_view name, mode m = mode::read,
                                    unsigned permissions = 0600, deadline d = deadline::zero()) noexcept;
  /// Opens a named pipe. A reading end opens at once, and its reads wait for the first writer. A writing end
  /// needs a reader: it waits for one until the deadline (condition::timed_out); by default it does not wait
  /// (ENXIO: no reader). The kernel does not signal the arrival of a reader, so it retries after 0.1 ms, then
  /// less often, up to every 10 ms. Errors: EINVAL unless it is a pipe and `m` read or write; as openat(2).
  /// Cost: two system calls; two for each retry.
  static result<pipe_handle> open(path_handle const& base, path_view name, mode m = mode::read,
                                  deadline d = deadline::zero()) noexcept;
  /// Makes and opens a named pipe with a random name that begins with `prefix`. Errors: EINVAL for a '/' in
  /// `prefix`; as create(). Cost: four system calls.
  static result<pipe_handle> random(path_handle const& base, path_view prefix = "unio-", mode m = mode::read,
                                    deadline d = deadline::zero()) noexcept;
  /// Takes over a descriptor made elsewhere, as io_handle::adopt. Errors: EBADF; EINVAL if it is no pipe;
  /// as fcntl(2). On failure the descriptor is still the caller's.
  static result<pipe_handle> adopt(int fd) noexcept;

  /// How many bytes it can hold. A `bytes` other than 0 asks for another size first (F_SETPIPE_SZ). Errors:
  /// EINVAL for 2^31 or more; EPERM above /proc/sys/fs/pipe-max-size without the right; EBUSY if it holds
  /// more.
  result<std::size_t> capacity(std::size_t bytes = 0) noexcept;

 private:
  friend struct testing::handle_maker;
  pipe_handle(int fd, handle_kind kind) noexcept : io_handle(fd, kind) {}
};

/// Both ends of a new pipe.
struct anonymous_pipe {
  pipe_handle reader;
  pipe_handle writer;
};

} // namespace unio
