// Results that are compared with values, errors and each other.
// any: 0 errors

#include <unio/file_handle.hpp>

#include <string>

bool any(unio::result<std::errc> const& a, unio::result<int> const& b, unio::result<> const& c,
         unio::io_result<std::string> const& d, std::expected<int, std::error_code> const& e) {
  return a == std::errc::bad_address || b == 3 || 3 == b || b == b || c == c || d == d || d == "x" ||
         b == e || e == b || b == std::unexpected(std::error_code()) || b != 4 ||
         b.error() == unio::condition::timed_out;
}
