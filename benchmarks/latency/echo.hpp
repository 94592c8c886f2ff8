// The peer of a conversation: a process that sends back whatever arrives.
//
// It spins on a processor of its own, so that a round trip shows how the subject waits and not how the peer
// does. Where both may only use the same processor it sleeps instead.
#pragma once

#include "support/helper_process.hpp"

#include <optional>
#include <utility>

namespace latency {

enum class transport { pipes, unix_socket };

class echo {
 public:
  explicit echo(transport over);
  ~echo();
  echo(echo const&) = delete;
  echo& operator=(echo const&) = delete;

  /// The subject's ends, which block. Of a socket it is one.
  [[nodiscard]] int in() const noexcept { return in_; }
  [[nodiscard]] int out() const noexcept { return out_; }
  void make_non_blocking() const;
  /// From now on the ends are the caller's.
  void release() noexcept { in_ = out_ = -1; }

 private:
  int in_ = -1;
  int out_ = -1;
  std::optional<benchmarks::helper_process> peer_;
};

} // namespace latency
