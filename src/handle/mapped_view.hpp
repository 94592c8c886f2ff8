// src/handle/mapped_view.hpp: how async_read reads a mapped file.

#pragma once

#include <unio/mapped_file_handle.hpp>

#include <atomic>

namespace unio::inline v0_1::detail {

/// mapped_file_handle::view(): what `bytes` from `offset` are in the map, and where; or -errno.
using view_function = std::int64_t(mapped_file_handle&, extent_type offset, std::size_t bytes,
                                   std::byte*& where) noexcept;

/// Set when the first file is mapped. So a program that maps none, and reads from a socket, links nothing of
/// maps. Relaxed: who reads a handle has it from the thread that mapped the file.
extern constinit std::atomic<view_function*> mapped_view;

} // namespace unio::detail
