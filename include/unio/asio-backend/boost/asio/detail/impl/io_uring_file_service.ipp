// boost/asio/detail/impl/io_uring_file_service.ipp: for programs that compile Asio
// apart (boost/asio/impl/src.hpp). There is nothing to compile:
// the service is in boost/asio/detail/io_uring_file_service.hpp.
// Asio's own, where it has no epoll.

#include <boost/asio/detail/config.hpp>

#if defined(BOOST_ASIO_HAS_IO_URING_AS_DEFAULT)
#pragma GCC system_header // for include_next
#include_next <boost/asio/detail/impl/io_uring_file_service.ipp>
#endif
