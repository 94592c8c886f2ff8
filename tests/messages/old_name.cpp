// The name that a function had before what is awaited began with co_.
// any: 1 warning: is deprecated: use co_read_all
#include <unio/stream.hpp>

#include <string>

unio::task<> reads(unio::any_read_stream from, std::string& into) {
  (co_await unio::read_all(from, into)).value();
}
