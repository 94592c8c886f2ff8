// asio/detail/impl/epoll_reactor.ipp: for programs that compile Asio apart (asio/impl/src.hpp). There is nothing
// to compile: the reactor is in asio/detail/epoll_reactor.hpp.

#pragma once
