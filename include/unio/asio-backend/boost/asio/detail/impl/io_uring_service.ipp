// boost/asio/detail/impl/io_uring_service.ipp: for programs that compile Asio
// apart (boost/asio/impl/src.hpp). There is nothing to compile:
// the service is in boost/asio/detail/io_uring_service.hpp.

#pragma once
