// All that users of this library see: a task. Sockets, buffers and the protocol are in dictionary.cpp, and so
// is everything that would have to be compiled again if they changed.

#pragma once

#include <unio/task.hpp>

#include <string>

namespace dictionary {

/// What a word means, asked of the server at `address` ("127.0.0.1:2628"). Empty if it is not known. Throws
/// std::system_error if the server cannot be reached or does not answer within five seconds.
unio::task<std::string> meaning_of(std::string word, std::string address);

} // namespace dictionary
