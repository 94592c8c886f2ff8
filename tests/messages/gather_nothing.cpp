// The first of nothing.
// any: 2 errors: of nothing at all would wait for ever

#include <unio/when.hpp>

unio::task<> waits() {
  (void)co_await unio::when_any();
  (void)co_await unio::race();
}
