// What an operation weighs. Programs hold millions; a change here is a decision, not an accident.

#include <unio/handle.hpp>
#include <unio/timer_handle.hpp>

namespace unio {

static_assert(sizeof(io_operation) <= 168);
static_assert(sizeof(async_read) <= 232);
static_assert(sizeof(async_write) <= 216);
static_assert(sizeof(async_wait) <= 192);
static_assert(sizeof(io_awaitable<async_read>) <= sizeof(async_read) + 40);
static_assert(sizeof(handle) == 16);

} // namespace unio
