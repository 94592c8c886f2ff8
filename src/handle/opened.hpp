// src/handle/opened.hpp: failures that say how a file was opened, where that is what was wrong.
//
// The kernel has one answer, EBADF, for a number that is no descriptor and for a file that was opened for
// something else; EINVAL and EACCES say even less. So the text of such a failure names the file, and how it
// is open: "read log/today (open for appending only): Bad file descriptor".

#pragma once

#include <unio/error.hpp>

#include <cstdint>

namespace unio::inline v0_1::detail {

/// What was to be done with an open file. `placing`: with what is at an offset of its.
enum class file_use : unsigned { reading = 1, writing = 2, both = 3, placing = 6 };

/// Appends the file and how it is open, if that explains the code; false: it does not. As the descriptor is
/// now: it may be another file's if it was closed since.
[[gnu::cold]] bool put_opening(failed_object& to, int fd, std::int64_t native_code, file_use use) noexcept;

/// failed(), with that object if there is one.
[[gnu::cold]] failure failed_as_open(std::int64_t native_code, char const* operation, int fd,
                                     file_use use) noexcept;

} // namespace unio::detail
