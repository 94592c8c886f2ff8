// What Boost.Asio wants in one file of a program that compiles it separately
// (BOOST_ASIO_SEPARATE_COMPILATION).

#include <boost/asio/impl/src.hpp>
