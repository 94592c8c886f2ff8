// asio/detail/impl/io_uring_descriptor_service.ipp: for programs that compile Asio
// apart (asio/impl/src.hpp). There is nothing to compile:
// that service is not used.
// Asio's own, where it has no epoll.

#include "asio/detail/config.hpp"

#if defined(ASIO_HAS_IO_URING_AS_DEFAULT)
#pragma GCC system_header // for include_next
#include_next "asio/detail/impl/io_uring_descriptor_service.ipp"
#endif
