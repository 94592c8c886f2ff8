// src/driver/shared.hpp: a multiplexer that several threads run.

#pragma once

#include <unio/multiplexer.hpp>

namespace unio::driver {

class shared_state;

/// An engine on the best backend; `shared`: what it shares with others, or null.
result<std::unique_ptr<io_multiplexer>> make_engine(shared_state* shared) noexcept;

/// For n > 1 threads: an engine for each thread that uses it, made on its first use and ended with the thread.
result<std::unique_ptr<io_multiplexer>> make_shared_multiplexer(int threads) noexcept;

} // namespace unio::driver
