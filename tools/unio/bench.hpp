// unio bench: measures the published tables. The measuring is done by a program of its own, unio_bench, which
// needs what the peers need.

#pragma once

namespace bench {

/// Becomes unio_bench, with the arguments behind "bench". Returns only if it cannot be started: then it has
/// said why on standard error, and this is the exit status.
[[nodiscard]] int run(char** arguments);

} // namespace bench
