/* What newer kernels define and the installed headers may not. In C, for the peers in C. */
#pragma once

/* include/uapi/linux/io_uring.h, enum io_uring_op, since Linux 6.7: reads again and again, each time into a
   provided buffer. Its length and address are zero (io_uring_prep_read_multishot(3)). */
#define KERNEL_IORING_OP_READ_MULTISHOT 49
