// A time without a unit.
// any: 1 error: the time comes first, with a unit: write timeout(10s, x)

#include <unio/when.hpp>

unio::task<> works();

unio::task<> bounded() { (void)co_await unio::timeout(10'000, works()); }
