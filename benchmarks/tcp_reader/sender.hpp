// The other end of the connection: a process that writes as fast as it can.
#pragma once

#include "support/helper_process.hpp"

#include <cstdint>
#include <optional>

namespace benchmarks {

/// Connected over loopback; writes `bytes` of the stream in blocks of 256 KiB once it is told to. Throws if
/// it cannot be had.
class sender {
 public:
  explicit sender(std::uint64_t bytes);
  ~sender();
  sender(sender const&) = delete;
  sender& operator=(sender const&) = delete;

  /// The receiving socket, which blocks. The sender's, until it is released.
  [[nodiscard]] int socket() const noexcept { return socket_; }
  void release_socket() noexcept { socket_ = -1; }
  void go();

 private:
  std::optional<helper_process> process_;
  int socket_ = -1;
  int start_ = -1; // written to: it begins
};

} // namespace benchmarks
