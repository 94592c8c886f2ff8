// All that users of this library see: a task. Sockets, buffers and the protocol are in dictionary.cpp;
// changing them recompiles nothing else.

#pragma once

#include <unio/task.hpp>

#include <string>

namespace dictionary {

/// Asks the server at `address` ("127.0.0.1:2628") for the meaning of a word. Empty if it is unknown. Throws
/// std::system_error if the server cannot be reached or does not answer within five seconds.
unio::task<std::string> meaning_of(std::string word, std::string address);

} // namespace dictionary
