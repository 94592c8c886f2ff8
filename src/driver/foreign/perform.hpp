// src/driver/foreign/perform.hpp: what the entry of a foreign_transfer does, by a system call.

#pragma once

#include "driver/foreign/foreign.hpp"

namespace unio::inline v0_1::driver {

/// Whether it reads or writes as a file's does: what a thread that may block can make of any descriptor.
bool is_of_file(foreign_transfer& t) noexcept;
bool writes(foreign_transfer& t) noexcept;
bool connects(foreign_transfer& t) noexcept;

/// A ring had it, which was given up before it was over.
void was_given_back(foreign_transfer& t) noexcept;

/// The call of one that is of a file, which waits as long as the file has it. `flags`: RWF_ of preadv2(2).
std::int64_t perform_on_file(foreign_transfer& t, int flags) noexcept;

/// The same for a read, of what is in the page cache; -EAGAIN: it would have to wait.
std::int64_t read_cached(foreign_transfer& t) noexcept;

/// The call of any, which does not wait. -EAGAIN: it would have; then once its descriptor is ready for one of
/// readiness_of(). -EOPNOTSUPP: there is no such call.
std::int64_t perform_unwaiting(foreign_transfer& t) noexcept;
unsigned readiness_of(foreign_transfer& t) noexcept;

/// After `result` bytes were received, and fewer than there was room for: whether nothing more can be there.
/// Of a stream of TCP's that has had bytes and nothing else.
bool has_emptied(foreign_transfer& t, std::int64_t result) noexcept;
/// Finds out what has_emptied() needs to know of a descriptor. Cost: a system call.
void find_kind(foreign_watch& w) noexcept;
/// The stream has had more than bytes: its end, which may come with the last of them, or urgent data, at
/// whose mark a read stops.
void has_had_more(foreign_watch& w) noexcept;
/// Whether it is a stream of TCP's. Cost: a system call, the first time.
bool is_tcp_stream(foreign_watch& w) noexcept;

} // namespace unio::driver
