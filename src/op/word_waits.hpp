// src/op/word_waits.hpp: threads that wait for words of memory, where no ring does.
//
// futex_waitv(2) waits for 128 words at once. Each thread waits for those of up to 127 operations, and for
// one of its own, its bell, by which it is told that its list has changed. 16 threads at most, made when
// they are first needed; they end with the process. A forked child makes its own.
//
//   join: put into a free place, ring ──► the thread reads its list again, waits for all ──► woken, or a word
//   leave: taken out of it, ring                ▲                                            has changed
//                                               └──── grants, posts to the multiplexer ◄──────────┘
//
// One that leaves does not wait for the thread, in whose call its word still stands. A wake-up that comes
// there in that time is given to the next that waits on the word, here or anywhere else.
//
// To the engine such a wait is one for a resource, like that for a buffer of a pool: it joins, is granted
// from elsewhere, or leaves. The kernel names only one of several words that were woken, so who wakes must
// have changed the word before. The first wait of a process for a word of its own goes to the thread on a
// ring too: a ring's wait that began before the process had a second thread is never woken. Where
// futex_waitv is missing (before Linux 5.16, a filter) and where all places are taken, the word is looked at
// as a lock on a file is, every 1, 2, 4, then 8 ms: late, but without a thread and without a bound.

#pragma once

#include <unio/futex.hpp>

namespace unio::inline v0_1::op {

inline constexpr int words_per_thread = 127;
inline constexpr int max_word_threads = 16;

/// Grants `w`, and posts it to `w.runs`, once its word has changed or was woken. False: no thread can.
bool join_word_waits(detail::word_waiter& w) noexcept;

/// Whether this process has such a thread. A ring's wait for a word of this process alone is never woken if
/// it began before the process had its second thread (tried on Linux 6.18): with that thread the kernel gives
/// the process a table of its own for such words (PR_FUTEX_HASH(2const)), and looks no more where the waits
/// from before are.
bool has_word_thread() noexcept;

/// Takes it out again. False: it was granted, and posted.
bool leave_word_waits(detail::word_waiter& w) noexcept;

} // namespace unio::op
