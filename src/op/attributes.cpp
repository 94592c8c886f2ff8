// Extended attributes: of a descriptor, or of what a name leads to.

#include "handle/names.hpp"
#include "op/call.hpp"

#include <unio/attributes.hpp>

#include <fcntl.h>
#include <sys/xattr.h>

namespace unio::inline v0_1::op {
namespace {

// A descriptor that the calls on descriptors take, or a path that leads to the same: a descriptor opened
// without access (O_PATH) has none of them, and no call is relative to a directory.
class target {
 public:
  target(detail::handle_or_name const& of, last_link how) noexcept : fd_(of.fd) {
    if (!of.is_named) return;
    opened_ =
        detail::open_at(of.fd, of.name.c_str(), O_PATH | (how == last_link::itself ? O_NOFOLLOW : 0), 0);
    fd_ = opened_;
    by_path_ = true;
  }
  target(target const&) = delete;
  target& operator=(target const&) = delete;
  ~target() {
    if (opened_ >= 0) sys::close(opened_);
  }

  /// Calls `of_descriptor(fd)`, or `of_path(path)`.
  template <class OfDescriptor, class OfPath>
  std::int64_t call(OfDescriptor of_descriptor, OfPath of_path) noexcept {
    if (fd_ < 0) return fd_;
    if (!by_path_) {
      std::int64_t const r = of_descriptor(fd_);
      if (r != -EBADF) return r;
      by_path_ = true;
    }
    return of_path(detail::descriptor_path(fd_).text);
  }

 private:
  int fd_;
  int opened_ = -1;
  bool by_path_ = false;
};

// Reads into a buffer. What is too large for it may be so no longer when its size is asked for: then it is
// read again, a few times, as a filesystem's server may contradict itself for ever.
template <class Read> int read_whole(mutable_buffer into, std::size_t& needed, Read read) noexcept {
  needed = 0;
  for (int tries = 0; tries != 16; ++tries) {
    std::int64_t const n = into.empty() ? -ERANGE : read(into.data(), into.size());
    if (n != -ERANGE) return static_cast<int>(n);
    std::int64_t const size = read(nullptr, 0); // its size alone (getxattr(2))
    if (size < 0) return static_cast<int>(size);
    if (size == 0) return 0;
    needed = static_cast<std::size_t>(size);
    if (needed > into.size()) return -ERANGE;
  }
  return -EIO;
}

int get_attribute(detail::handle_or_name const& of, path_view attribute, mutable_buffer into, last_link how,
                  std::size_t& needed) noexcept {
  if (int const r = attribute.check(); r != 0) return r;
  target at(of, how);
  return read_whole(into, needed, [&](void* to, std::size_t n) {
    return at.call([&](int fd) { return sys::fgetxattr(fd, attribute.c_str(), to, n); },
                   [&](char const* path) { return sys::getxattr(path, attribute.c_str(), to, n); });
  });
}

int set_attribute(detail::handle_or_name const& of, path_view attribute, const_buffer value,
                  attribute_mode mode, last_link how) noexcept {
  if (int const r = attribute.check(); r != 0) return r;
  constexpr int flags_of[] = {0, XATTR_CREATE, XATTR_REPLACE};
  int const flags = flags_of[static_cast<unsigned>(mode)];
  char const* const name = attribute.c_str();
  target at(of, how);
  return static_cast<int>(at.call(
      [&](int fd) { return sys::fsetxattr(fd, name, value.data(), value.size(), flags); },
      [&](char const* path) { return sys::setxattr(path, name, value.data(), value.size(), flags); }));
}

int list_attributes(detail::handle_or_name const& of, mutable_buffer into, last_link how,
                    std::size_t& needed) noexcept {
  target at(of, how);
  return read_whole(into, needed, [&](void* names, std::size_t n) {
    auto* const text = static_cast<char*>(names);
    return at.call([&](int fd) { return sys::flistxattr(fd, text, n); },
                   [&](char const* path) { return sys::listxattr(path, text, n); });
  });
}

int remove_attribute(detail::handle_or_name const& of, path_view attribute, last_link how) noexcept {
  if (int const r = attribute.check(); r != 0) return r;
  target at(of, how);
  return static_cast<int>(
      at.call([&](int fd) { return sys::fremovexattr(fd, attribute.c_str()); },
              [&](char const* path) { return sys::removexattr(path, attribute.c_str()); }));
}

} // namespace
} // namespace unio::op

namespace unio::inline v0_1 {

constinit operation_faces const async_get_attribute::table_ =
    op::call_faces<async_get_attribute, op::get_attribute>("get_attribute");
constinit operation_faces const async_set_attribute::table_ =
    op::call_faces<async_set_attribute, op::set_attribute>("set_attribute");
constinit operation_faces const async_list_attributes::table_ =
    op::call_faces<async_list_attributes, op::list_attributes>("list_attributes");
constinit operation_faces const async_remove_attribute::table_ =
    op::call_faces<async_remove_attribute, op::remove_attribute>("remove_attribute");

} // namespace unio
