// What an operation weighs. Programs hold millions; a change here is a decision, not an accident.

#include <unio/handle.hpp>
#include <unio/timer_handle.hpp>

namespace unio {

static_assert(sizeof(io_operation) <= 128);
static_assert(sizeof(async_read) <= 168);
static_assert(sizeof(async_write) <= 160);
static_assert(sizeof(async_wait) <= 152);
static_assert(sizeof(io_awaitable<async_read>) <= 216);
static_assert(sizeof(handle) == 16);

} // namespace unio
