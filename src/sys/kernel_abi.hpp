// src/sys/kernel_abi.hpp: constants of newer kernels that the installed headers may lack.
//
// Each with the kernel that introduced it. Whether the running kernel has it is found by trying, never by
// version.

#pragma once

#include <linux/fs.h>
#include <linux/io_uring.h>

#include <cstdint>

namespace unio::sys {

/// Linux 6.18, include/uapi/linux/fs.h (RWF_NOSIGNAL): a write to a broken pipe fails without raising
/// SIGPIPE.
inline constexpr int rwf_nosignal = 0x00000100;

/// Linux 6.6, include/uapi/linux/io_uring.h (IORING_SETUP_NO_SQARRAY): the submission queue has no index
/// array.
inline constexpr std::uint32_t setup_no_sqarray = 1u << 16;

/// Linux 6.15, include/uapi/linux/io_uring.h: io_uring_enter is not accounted as waiting for a disk.
inline constexpr std::uint32_t enter_no_iowait = 1u << 7;
inline constexpr std::uint32_t feature_no_iowait = 1u << 17;

/// Linux 6.0, include/uapi/linux/io_uring.h (IORING_OP_SEND_ZC): for capabilities::zero_copy_send.
inline constexpr unsigned op_send_zero_copy = 47;
/// Linux 6.1, the same (IORING_OP_SENDMSG_ZC).
inline constexpr unsigned op_sendmsg_zero_copy = 48;

} // namespace unio::sys
