// A pool in place of its executor.
// any: 1 error: this is no executor, but has one: write pool.executor() in place of pool

#include <unio/run.hpp>
#include <unio/thread_pool.hpp>

unio::task<> one() { co_return; }

void starts(unio::thread_pool& pool) { unio::async_run(pool, one()); }
