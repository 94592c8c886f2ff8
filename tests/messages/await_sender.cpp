// A sender of the standard library's kind, awaited without <unio/execution.hpp>.
// any: 1 error: a sender: include <unio/execution.hpp> and write co_await unio::as_awaitable(sender)

#include <unio/task.hpp>

struct sender_tag {};
struct says_nothing {
  using sender_concept = sender_tag;
};

unio::task<> waits() { co_await says_nothing(); }
