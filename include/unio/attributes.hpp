// unio/attributes.hpp: extended attributes: named values of a file, apart from its bytes.
//
//   attribute_mode           whether one may exist before it is set
//   attribute_names          the names in a buffer that was filled
//   async_get_attribute      handle::get_attribute, …; of a name: unio::get_attribute, …
//   async_set_attribute      handle::set_attribute, …; of a name: unio::set_attribute, …
//   async_list_attributes    handle::list_attributes, …; of a name: unio::list_attributes, …
//   async_remove_attribute   handle::remove_attribute, …; of a name: unio::remove_attribute, …
//
// The name of an attribute is zero-terminated text of at most 255 bytes that begins with its namespace: a
// program's own are "user.…", which only files and directories have; a value has at most 65,536 bytes.
// Filesystems allow less (ext4: one block for all of a file).

#pragma once

#include <unio/buffer.hpp>
#include <unio/detail/declared.hpp>
#include <unio/metadata.hpp>
#include <unio/path_view.hpp>

namespace unio::inline v0_1 {

/// Whether an attribute may exist before it is set.
enum class attribute_mode : std::uint8_t {
  set,     ///< created or replaced
  create,  ///< EEXIST if it exists
  replace, ///< ENODATA if it does not
};

/// The names of attributes, each followed by a NUL, in a buffer: a range of std::string_view. A view.
///
/// Thread safety  distinct: safe; shared: any number of readers
class attribute_names {
 public:
  constexpr attribute_names() = default;
  constexpr attribute_names(char const* text, std::size_t bytes) noexcept
      : begin_(text), end_(text + bytes) {}

  class iterator {
   public:
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::forward_iterator_tag;
    constexpr iterator() = default;
    constexpr explicit iterator(char const* at) noexcept : at_(at) {}
    [[nodiscard]] constexpr std::string_view operator*() const noexcept { return at_; }
    constexpr iterator& operator++() noexcept {
      at_ += std::string_view(at_).size() + 1;
      return *this;
    }
    constexpr iterator operator++(int) noexcept {
      iterator const before = *this;
      ++*this;
      return before;
    }
    [[nodiscard]] bool operator==(iterator const&) const = default;

   private:
    char const* at_ = nullptr;
  };
  [[nodiscard]] constexpr iterator begin() const noexcept { return iterator(begin_); }
  [[nodiscard]] constexpr iterator end() const noexcept { return iterator(end_); }
  [[nodiscard]] constexpr bool empty() const noexcept { return begin_ == end_; }

 private:
  char const* begin_ = nullptr;
  char const* end_ = nullptr;
};

// Of all four:
//
//   Errors        EOPNOTSUPP where the filesystem has none, or not in this namespace; EPERM, EACCES as
//                 xattr(7); error::embedded_nul; those of a name (stat)
//   Buffers       names, value and buffer must live until it has finished
//   Cancellation  the deadline and a stop bound the wait to begin
//   Cost          no allocation; one system call for an open file; two for a handle without access
//                 (mode::none, path_handle), three for a name: Linux before 6.13 has no call relative to a
//                 directory
//   Runs as       fgetxattr(2), …, or getxattr(2) of /proc/self/fd, on a thread that may block
//   Source        docs/features.md H-05, L-02; xattr(7)

/// Reads the value of an attribute.
///
/// Returns       the part of the buffer that was filled
/// Errors        ENODATA: there is none of that name. ERANGE: the buffer is too small, and then
///               bytes_transferred() is the size that it has. It may have changed since: a value that is
///               small enough by then is read
UNIO_OPERATION_ON_HANDLE_OR_NAME(get_attribute, detail::filled_or_needed<mutable_buffer>, handle,
                                 ((last_link, how)), (path_view, attribute), (mutable_buffer, into))

/// Sets an attribute.
///
/// Returns       nothing
/// Errors        EEXIST, ENODATA as the mode says; ENOSPC, EDQUOT; E2BIG, ERANGE: value or name too long
UNIO_OPERATION_ON_HANDLE_OR_NAME(set_attribute, void, handle, ((last_link, how)), (path_view, attribute),
                                 (const_buffer, value), (attribute_mode, mode))

/// Lists the names of the attributes.
///
/// Returns       the names, as views of the buffer
/// Errors        ERANGE as async_get_attribute
UNIO_OPERATION_ON_HANDLE_OR_NAME(list_attributes, detail::filled_or_needed<attribute_names>, handle,
                                 ((last_link, how)), (mutable_buffer, into))

/// Removes an attribute.
///
/// Returns       nothing
/// Errors        ENODATA: there is none of that name
UNIO_OPERATION_ON_HANDLE_OR_NAME(remove_attribute, void, handle, ((last_link, how)), (path_view, attribute))

} // namespace unio
