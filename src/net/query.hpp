// src/net/query.hpp: asking the servers.

#pragma once

#include "net/config.hpp"
#include "net/wire.hpp"

#include <unio/task.hpp>

namespace unio::inline v0_1::net {

/// One question, and what is known of it.
struct asked {
  question q;
  verdict known = verdict::unanswered;
  /// Reads the records of an answer into `into`.
  verdict (*read)(asked& self, std::span<std::byte const> answer) = nullptr;
  void* into = nullptr;
  std::uint16_t port = 0;
  bool waits = false; // for an answer of the server that is being asked
};

struct asking {
  settings const& how;
  std::span<asked> questions; ///< of the same name
  deadline limit;             ///< a moment, none, or zero
  /// From the first answer with records on: how long the other questions are waited for.
  std::chrono::milliseconds grace;
  unsigned first_server = 0;
};

/// Asks the servers in turn until each question has a final verdict, or all were asked as often as the
/// settings say. What came of it is in the questions.
///
/// Errors  condition::timed_out at the limit, canceled; what keeps this host from asking at all
task<std::error_code> ask(asking a);

/// The earlier of two moments. Zero, which means not to wait, is the earliest.
deadline earlier(deadline a, deadline b) noexcept;
/// A span from now on as a moment.
deadline from_now(std::chrono::milliseconds span) noexcept;

} // namespace unio::net
