// The sizes of operations. Programs have millions; a change here is a decision, not an accident.

#include <unio/directory_handle.hpp>
#include <unio/file_handle.hpp>
#include <unio/passed_handles.hpp>
#include <unio/poll_any.hpp>
#include <unio/symlink_handle.hpp>
#include <unio/timer_handle.hpp>

namespace unio::inline v0_1 {

constexpr std::size_t tracking = UNIO_TRACKS_PENDING ? 16 : 0;
static_assert(sizeof(io_operation) <= 128 + tracking);
static_assert(sizeof(async_read) <= 168 + tracking);
static_assert(sizeof(async_write) <= 160 + tracking);
static_assert(sizeof(async_receive) <= 160 + tracking && sizeof(async_receive_many) <= 160 + tracking);
static_assert(sizeof(async_wait) <= 152 + tracking);
static_assert(sizeof(io_awaitable<async_read>) <= 216 + tracking);
static_assert(sizeof(async_receive_from) <= 608 + tracking);
static_assert(sizeof(async_send_to) <= 720 + tracking);
static_assert(sizeof(async_open) <= 160 + tracking);
static_assert(sizeof(async_rename) <= 176 + tracking);
static_assert(sizeof(async_unlink_inode) <= 128 + tracking);
static_assert(sizeof(async_stat) <= 304 + tracking);
static_assert(sizeof(async_get_attribute) <= 192 + tracking);
static_assert(sizeof(async_read_directory) <= 184 + tracking);
static_assert(sizeof(async_read_symlink) <= 168 + tracking);
static_assert(sizeof(poll_entry) <= 144 + tracking && sizeof(async_poll_any) <= 160 + tracking);
static_assert(sizeof(datagram_info) == 264 && sizeof(send_description) == 248);
static_assert(sizeof(passed_handles) == 132);
static_assert(sizeof(handle) == 16);

} // namespace unio
