// unio bench: measures the published tables. A program of its own, unio_bench, does the measuring, because it
// needs the peers' libraries.

#pragma once

namespace bench {

/// Becomes unio_bench, with the arguments behind "bench". Returns only if it cannot be started: with the exit
/// status, after a message on standard error.
[[nodiscard]] int run(char** arguments);

} // namespace bench
