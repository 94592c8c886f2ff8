// asio/detail/impl/io_uring_file_service.ipp: for programs that compile Asio
// apart (asio/impl/src.hpp). There is nothing to compile:
// the service is in asio/detail/io_uring_file_service.hpp.
// Asio's own, where it has no epoll.

#include "asio/detail/config.hpp"

#if defined(ASIO_HAS_IO_URING_AS_DEFAULT)
#pragma GCC system_header // for include_next
#include_next "asio/detail/impl/io_uring_file_service.ipp"
#endif
