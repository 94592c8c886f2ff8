// Results that are compared with conditions and codes, in place of their errors.
// any: 4 errors: an error compares with this, not a result: write r.error() == condition::timed_out

#include <unio/file_handle.hpp>

bool any(unio::result<void> const& a, unio::io_result<unio::mutable_buffers> const& b) {
  return a == unio::condition::timed_out || b == unio::error::end_of_stream || b != std::errc::bad_address ||
         a == std::error_code();
}
