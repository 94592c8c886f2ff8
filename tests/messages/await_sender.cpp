// A sender of the standard library's kind, awaited without <unio/execution.hpp>.
// any: 1 error: a sender can be awaited where <unio/execution.hpp> is included

#include <unio/task.hpp>

struct sender_tag {};
struct says_nothing {
  using sender_concept = sender_tag;
};

unio::task<> waits() { co_await says_nothing(); }
