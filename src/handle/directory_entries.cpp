// The public twin of the kernel's directory records.

#include <unio/directory_entry.hpp>

#include <dirent.h>

namespace unio::inline v0_1 {
namespace {

// What getdents64(2) fills; the C library's struct dirent64 is the same.
static_assert(offsetof(dirent64, d_ino) == 0 && offsetof(dirent64, d_reclen) == 16);
static_assert(offsetof(dirent64, d_type) == 18 && offsetof(dirent64, d_name) == 19);
static_assert(largest_directory_record >= 19 + NAME_MAX + 1 && largest_directory_record % 8 == 0);

constexpr bool is(entry_kind k, int type) noexcept { return static_cast<int>(k) == type; }
static_assert(is(entry_kind::unknown, DT_UNKNOWN) && is(entry_kind::pipe, DT_FIFO));
static_assert(is(entry_kind::character_device, DT_CHR) && is(entry_kind::block_device, DT_BLK));
static_assert(is(entry_kind::directory, DT_DIR) && is(entry_kind::file, DT_REG));
static_assert(is(entry_kind::symlink, DT_LNK) && is(entry_kind::socket, DT_SOCK));
static_assert(is(entry_kind::whiteout, DT_WHT));

} // namespace
} // namespace unio
