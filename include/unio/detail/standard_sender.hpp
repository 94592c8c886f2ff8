// unio/detail/standard_sender.hpp: what makes an operation a sender to the standard library.
//
// Here because the standard recognizes a sender by its members, which are the same for every operation. They
// are templates that only unio/execution.hpp completes: programs that do not include it pay nothing.

#pragma once

#include <utility>

namespace unio::inline v0_1::detail {

template <class Sender, class Receiver> class standard_operation;
template <class Sender> struct standard_completions;

/// A second base of an operation, and empty.
template <class Sender> class standard_sender {
 public:
  /// For std::execution::connect. Starts nothing.
  template <class Receiver> auto connect(Receiver receiver) && {
    return standard_operation<Sender, Receiver>(static_cast<Sender&&>(*this), std::move(receiver));
  }
  // As published (P2300R10), and as it became.
  template <class Env> auto get_completion_signatures(Env&&) const {
    return typename standard_completions<Sender>::type();
  }
  template <class Self, class... Env> static consteval auto get_completion_signatures() {
    return typename standard_completions<Sender>::type();
  }
};

} // namespace unio::detail
