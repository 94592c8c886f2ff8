// Extended attributes: of a descriptor, or of what a name leads to.

#include "op/name_operation.hpp"

#include <sys/xattr.h>

namespace unio::inline v0_1 {
namespace {

// A descriptor that the calls on descriptors take, or a path that leads to the same: a descriptor opened
// without access (O_PATH) has none of them, and no call is relative to a directory.
class target {
 public:
  target(int fd, detail::name_operation const& op, bool is_named, last_link how) noexcept : fd_(fd) {
    if (!is_named) return;
    opened_ = detail::open_at(fd, op.name().c_str(), O_PATH | (how == last_link::itself ? O_NOFOLLOW : 0), 0);
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

} // namespace

driver::operation_faces const& async_get_attribute::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_get_attribute, call>("get_attribute");
  return faces;
}
async_get_attribute::async_get_attribute(handle const& h, path_view attribute, mutable_buffer into,
                                         unio::deadline d) noexcept
    : name_operation(table(), h, d), attribute_(attribute), value_(into) {
  refuse_with(attribute.check());
}
async_get_attribute::async_get_attribute(path_handle const& base, path_view name, path_view attribute,
                                         mutable_buffer into, last_link how, unio::deadline d) noexcept
    : name_operation(table(), base, name, d), attribute_(attribute), value_(into), how_(how) {
  refuse_with(attribute.check());
}

int async_get_attribute::call(async_get_attribute& op) noexcept {
  if (op.refused() != 0) return op.refused();
  target at(op.fd(), op, op.is_named(), op.how_);
  char const* const attribute = op.attribute_.c_str();
  return read_whole(op.value_, op.needed_, [&](void* to, std::size_t n) {
    return at.call([&](int fd) { return sys::fgetxattr(fd, attribute, to, n); },
                   [&](char const* path) { return sys::getxattr(path, attribute, to, n); });
  });
}

driver::operation_faces const& async_set_attribute::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_set_attribute, call>("set_attribute");
  return faces;
}
async_set_attribute::async_set_attribute(handle const& h, path_view attribute, const_buffer from,
                                         attribute_mode mode, unio::deadline d) noexcept
    : name_operation_without_value(table(), h, d), attribute_(attribute), value_(from), mode_(mode) {
  refuse_with(attribute.check());
}
async_set_attribute::async_set_attribute(path_handle const& base, path_view name, path_view attribute,
                                         const_buffer from, attribute_mode mode, last_link how,
                                         unio::deadline d) noexcept
    : name_operation_without_value(table(), base, name, d),
      attribute_(attribute),
      value_(from),
      mode_(mode),
      how_(how) {
  refuse_with(attribute.check());
}

int async_set_attribute::call(async_set_attribute& op) noexcept {
  if (op.refused() != 0) return op.refused();
  constexpr int flags_of[] = {0, XATTR_CREATE, XATTR_REPLACE};
  int const flags = flags_of[static_cast<unsigned>(op.mode_)];
  target at(op.fd(), op, op.is_named(), op.how_);
  char const* const attribute = op.attribute_.c_str();
  void const* const bytes = op.value_.data();
  std::size_t const n = op.value_.size();
  return static_cast<int>(
      at.call([&](int fd) { return sys::fsetxattr(fd, attribute, bytes, n, flags); },
              [&](char const* path) { return sys::setxattr(path, attribute, bytes, n, flags); }));
}

driver::operation_faces const& async_list_attributes::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_list_attributes, call>("list_attributes");
  return faces;
}
async_list_attributes::async_list_attributes(handle const& h, mutable_buffer names, unio::deadline d) noexcept
    : name_operation(table(), h, d), names_(names) {}
async_list_attributes::async_list_attributes(path_handle const& base, path_view name, mutable_buffer names,
                                             last_link how, unio::deadline d) noexcept
    : name_operation(table(), base, name, d), names_(names), how_(how) {}

int async_list_attributes::call(async_list_attributes& op) noexcept {
  if (op.refused() != 0) return op.refused();
  target at(op.fd(), op, op.is_named(), op.how_);
  return read_whole(op.names_, op.needed_, [&](void* names, std::size_t n) {
    auto* const text = static_cast<char*>(names);
    return at.call([&](int fd) { return sys::flistxattr(fd, text, n); },
                   [&](char const* path) { return sys::listxattr(path, text, n); });
  });
}

driver::operation_faces const& async_remove_attribute::table() noexcept {
  static constexpr operation_faces faces = op::call_faces<async_remove_attribute, call>("remove_attribute");
  return faces;
}
async_remove_attribute::async_remove_attribute(handle const& h, path_view attribute,
                                               unio::deadline d) noexcept
    : name_operation_without_value(table(), h, d), attribute_(attribute) {
  refuse_with(attribute.check());
}
async_remove_attribute::async_remove_attribute(path_handle const& base, path_view name, path_view attribute,
                                               last_link how, unio::deadline d) noexcept
    : name_operation_without_value(table(), base, name, d), attribute_(attribute), how_(how) {
  refuse_with(attribute.check());
}

int async_remove_attribute::call(async_remove_attribute& op) noexcept {
  if (op.refused() != 0) return op.refused();
  target at(op.fd(), op, op.is_named(), op.how_);
  char const* const attribute = op.attribute_.c_str();
  return static_cast<int>(at.call([&](int fd) { return sys::fremovexattr(fd, attribute); },
                                  [&](char const* path) { return sys::removexattr(path, attribute); }));
}

} // namespace unio
