// What all of this table has in common.
#pragma once

namespace threads_bench {

/// Threads that run one multiplexer, one io_context or one pool.
inline constexpr int threads = 2;

} // namespace threads_bench
