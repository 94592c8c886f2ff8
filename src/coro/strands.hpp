// src/coro/strands.hpp: where a coroutine goes on that has waited for one on a strand.

#pragma once

#include <unio/executor.hpp>

#include <coroutine>

namespace unio::inline v0_1::detail {

/// As e.dispatch(r), but not inside of the turn of a strand, unless `e` is one: that would be held until the
/// coroutine is suspended again.
[[nodiscard]] std::coroutine_handle<> dispatch_outside_of_strands(executor_ref e, resumption& r) noexcept;

} // namespace unio::detail
