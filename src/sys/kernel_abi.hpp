// src/sys/kernel_abi.hpp: constants of newer kernels that the installed headers may lack.
//
// Each with the kernel that introduced it. Whether the running kernel has it is found by trying, never by
// version.

#pragma once

#include <linux/fs.h>
#include <linux/io_uring.h>

#include <cstddef>
#include <cstdint>

namespace unio::inline v0_1::sys {

/// Linux 6.18, include/uapi/linux/fs.h (RWF_NOSIGNAL): a write to a broken pipe fails without raising
/// SIGPIPE.
inline constexpr int rwf_nosignal = 0x00000100;

/// Linux 6.6, include/uapi/linux/io_uring.h (IORING_SETUP_NO_SQARRAY): the submission queue has no index
/// array.
inline constexpr std::uint32_t setup_no_sqarray = 1u << 16;

/// Linux 6.15, include/uapi/linux/io_uring.h: io_uring_enter is not accounted as waiting for a disk.
inline constexpr std::uint32_t enter_no_iowait = 1u << 7;
inline constexpr std::uint32_t feature_recvsend_bundle = 1u << 14; // Linux 6.10
inline constexpr std::uint32_t feature_no_iowait = 1u << 17;

/// Linux 6.0, include/uapi/linux/io_uring.h (IORING_OP_SEND_ZC): for capabilities::zero_copy_send.
inline constexpr unsigned op_send_zero_copy = 47;
/// Linux 6.1, the same (IORING_OP_SENDMSG_ZC).
inline constexpr unsigned op_sendmsg_zero_copy = 48;
/// Linux 6.15, the same (IORING_OP_RECV_ZC), and 6.16 (IORING_OP_PIPE).
inline constexpr std::uint8_t op_receive_zero_copy = 58;
inline constexpr std::uint8_t op_pipe = 62;
/// Linux 6.4, the same (IORING_TIMEOUT_MULTISHOT).
inline constexpr std::uint32_t timeout_multishot = 1u << 6;

/// Linux 6.7, the same (IORING_OP_FUTEX_WAIT): flags in `fd`, the value in `off`, the mask in `addr3`.
inline constexpr std::uint8_t op_futex_wait = 51;

/// Linux 5.16, include/uapi/linux/futex.h and include/uapi/asm-generic/unistd.h: FUTEX_32, struct futex_waitv
/// and the call.
inline constexpr std::uint32_t futex_32_bits = 2;
struct waited_word {
  std::uint64_t expected;
  std::uint64_t address;
  std::uint32_t flags;
  std::uint32_t reserved;
};
inline constexpr long sys_futex_waitv = 449;

/// Linux 6.14, include/uapi/linux/stat.h (STATX_DIO_READ_ALIGN): for statx_direct_read_alignment.
inline constexpr unsigned statx_dio_read_align = 0x00020000;

/// Linux 6.6, include/uapi/asm-generic/unistd.h: fchmodat(2) with flags.
inline constexpr long sys_fchmodat2 = 452;

/// Where struct statx has what the installed one may not: include/uapi/linux/stat.h of Linux 6.10
/// (stx_subvol), 6.11 (stx_atomic_write_…) and 6.14 (stx_dio_read_offset_align). It always had 256 bytes.
inline constexpr std::size_t statx_subvolume = 160;
inline constexpr std::size_t statx_atomic_write_min = 168;
inline constexpr std::size_t statx_atomic_write_max = 172;
inline constexpr std::size_t statx_atomic_write_segments = 176;
inline constexpr std::size_t statx_direct_read_alignment = 180;

} // namespace unio::sys
