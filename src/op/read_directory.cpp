// async_read_directory: listing a directory; async_read_symlink: the target of a link.

#include "op/call.hpp"

#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>

#include <algorithm>
#include <climits>
#include <cstring>

namespace unio::inline v0_1::op {
namespace {

// Of the entries between two places of the buffer, keeps those that are wanted. Returns where they end.
std::size_t keep_wanted(directory_filter const& filter, std::byte* buffer, std::size_t from,
                        std::size_t end) noexcept {
  if (filter.wants == nullptr) return end;
  std::byte* to = buffer + from;
  directory_entries const all(buffer + from, end - from);
  for (directory_entries::iterator e = all.begin(); e != all.end();) {
    std::byte const* const record = e.record();
    std::size_t const size = e.size();
    bool const wanted = filter.wants(*e, filter.context);
    ++e; // before its record is moved to where the next one may begin
    if (!wanted) continue;
    std::memmove(to, record, size);
    to += size;
  }
  return static_cast<std::size_t>(to - buffer);
}

int read_directory(int fd, mutable_buffer buffer, directory_filter const& filter,
                   directory_listing& listing) noexcept {
  if (buffer.size() < largest_directory_record) return -EINVAL;
  bool at_end = false, is_snapshot = false;
  bool const at_beginning = sys::lseek(fd, 0, SEEK_CUR) == 0;
  std::size_t const room = std::min<std::size_t>(buffer.size(), INT_MAX);
  std::size_t filled = 0;
  // A record that does not fit says EINVAL; with so much room each fits.
  for (int calls = 0; room - filled >= largest_directory_record; ++calls) {
    int const n = uninterrupted([&] { return sys::getdents64(fd, buffer.data() + filled, room - filled); });
    if (n < 0 && filled != 0) break; // what was read is not lost; the next read meets the error again
    if (n < 0) return n;
    if (n == 0) {
      at_end = true;
      is_snapshot = at_beginning && calls <= 1;
      break;
    }
    filled = keep_wanted(filter, buffer.data(), filled, filled + static_cast<std::size_t>(n));
  }
  listing = directory_listing({buffer.data(), filled}, at_end, is_snapshot);
  return static_cast<int>(filled);
}

int read_symlink(detail::handle_or_name const& of, mutable_buffer into) noexcept {
  if (into.empty()) return -ERANGE;
  if (of.is_named && of.name.size() == 0) return -ENOENT; // which the call takes for the directory itself
  char* const text = reinterpret_cast<char*>(into.data());
  auto const room = static_cast<std::int64_t>(std::min<std::size_t>(into.size(), INT_MAX)); // an int there
  std::int64_t const n = sys::readlinkat(of.fd, of.name.c_str(), text, static_cast<std::size_t>(room));
  return n == room ? -ERANGE : static_cast<int>(n); // it truncates silently
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_read_directory::table_ =
    op::call_faces<async_read_directory, op::read_directory>("read_directory");
constinit operation_faces const async_read_symlink::table_ =
    op::call_faces<async_read_symlink, op::read_symlink>("read_symlink");

} // namespace unio
