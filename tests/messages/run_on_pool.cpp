// A pool in place of its executor.
// any: 1 error: this is no executor, but has one: write pool.executor() in place of pool

#include <unio/run.hpp>
#include <unio/thread_pool.hpp>

unio::task<int> one() { co_return 1; }

unio::task<int> elsewhere(unio::thread_pool& pool) { co_return co_await unio::run_on(pool, one()); }
