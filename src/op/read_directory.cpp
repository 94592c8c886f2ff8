// async_read_directory: listing a directory; async_read_symlink: the target of a link.

#include "op/name_operation.hpp"

#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>

#include <algorithm>
#include <climits>
#include <cstring>

namespace unio::inline v0_1 {

driver::operation_faces const& async_read_directory::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_read_directory, call>("read_directory");
  return faces;
}
async_read_directory::async_read_directory(directory_handle const& h, mutable_buffer buffer,
                                           directory_filter filter, unio::deadline d) noexcept
    : name_operation(table(), h, d), buffer_(buffer), filter_(filter) {
  if (buffer.size() < largest_directory_record) refuse_with(-EINVAL);
}

// Of the entries between two places of the buffer, keeps those that are wanted. Returns where they end.
std::size_t async_read_directory::keep_wanted(std::size_t from, std::size_t end) const noexcept {
  if (filter_.wants == nullptr) return end;
  std::byte* to = buffer_.data() + from;
  directory_entries const all(buffer_.data() + from, end - from);
  for (directory_entries::iterator e = all.begin(); e != all.end();) {
    std::byte const* const record = e.record();
    std::size_t const size = e.size();
    bool const wanted = filter_.wants(*e, filter_.context);
    ++e; // before its record is moved to where the next one may begin
    if (!wanted) continue;
    std::memmove(to, record, size);
    to += size;
  }
  return static_cast<std::size_t>(to - buffer_.data());
}

int async_read_directory::call(async_read_directory& op) noexcept {
  if (op.refused() != 0) return op.refused();
  op.at_end_ = false;
  op.is_snapshot_ = false;
  bool const at_beginning = sys::lseek(op.fd(), 0, SEEK_CUR) == 0;
  std::size_t const room = std::min<std::size_t>(op.buffer_.size(), INT_MAX);
  std::size_t filled = 0;
  // A record that does not fit says EINVAL; with so much room each fits.
  for (int calls = 0; room - filled >= largest_directory_record; ++calls) {
    int const n = op::uninterrupted(
        [&] { return sys::getdents64(op.fd(), op.buffer_.data() + filled, room - filled); });
    if (n < 0 && filled != 0) break; // what was read is not lost; the next read meets the error again
    if (n < 0) return n;
    if (n == 0) {
      op.at_end_ = true;
      op.is_snapshot_ = at_beginning && calls <= 1;
      break;
    }
    filled = op.keep_wanted(filled, filled + static_cast<std::size_t>(n));
  }
  return static_cast<int>(filled);
}

driver::operation_faces const& async_read_symlink::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_read_symlink, call>("read_symlink");
  return faces;
}
async_read_symlink::async_read_symlink(symlink_handle const& h, mutable_buffer buffer,
                                       unio::deadline d) noexcept
    : name_operation(table(), h, d), buffer_(buffer) {
  if (buffer.empty()) refuse_with(-ERANGE);
}
async_read_symlink::async_read_symlink(path_handle const& base, path_view name, mutable_buffer buffer,
                                       unio::deadline d) noexcept
    : name_operation(table(), base, name, d), buffer_(buffer) {
  if (buffer.empty()) refuse_with(-ERANGE);
  if (name.size() == 0) refuse_with(-ENOENT); // which the call takes for the directory itself
}

int async_read_symlink::call(async_read_symlink& op) noexcept {
  if (op.refused() != 0) return op.refused();
  char* const text = reinterpret_cast<char*>(op.buffer_.data());
  std::int64_t const n = sys::readlinkat(op.fd(), op.name().c_str(), text, op.buffer_.size());
  if (n < 0) return static_cast<int>(n);
  return static_cast<std::size_t>(n) == op.buffer_.size() ? -ERANGE
                                                          : static_cast<int>(n); // it truncates silently
}

} // namespace unio
