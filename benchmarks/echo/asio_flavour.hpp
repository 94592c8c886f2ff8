// Asio as a server's program sees it: Boost's or, with UNIO_BENCHMARKS_STANDALONE_ASIO, that which stands
// alone. The sources are the same.
#ifndef UNIO_BENCHMARKS_ASIO_FLAVOUR_HPP
#define UNIO_BENCHMARKS_ASIO_FLAVOUR_HPP

#if UNIO_BENCHMARKS_STANDALONE_ASIO
#include <asio.hpp>
using asio::error_code;
using asio::system_error;
#define ASIO_HINT_WITHOUT_LOCKS ASIO_CONCURRENCY_HINT_UNSAFE
#else
#include <boost/asio.hpp>
namespace asio = boost::asio;
using boost::system::error_code;
using boost::system::system_error;
#define ASIO_HINT_WITHOUT_LOCKS BOOST_ASIO_CONCURRENCY_HINT_UNSAFE
#endif

#endif
