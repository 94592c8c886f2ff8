// unio/directory_entry.hpp: what a directory lists.
//
//   entry_kind          what a name leads to
//   directory_entry     a name with its kind and inode, as the directory has them
//   directory_entries   all of them in a buffer that was read
//   directory_filter    which of them are wanted
//   directory_listing   what one read of a directory has listed

#pragma once

#include <unio/config.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <string_view>

namespace unio::inline v0_1 {

/// What a name leads to. The values are those of readdir(3), and bits 12 … 15 of a mode.
enum class entry_kind : std::uint8_t {
  unknown = 0, ///< the filesystem's directories do not have it: ask with stat
  pipe = 1,
  character_device = 2,
  directory = 4,
  block_device = 6,
  file = 8,
  symlink = 10,
  socket = 12,
  whiteout = 14, ///< overlayfs: hides a name of a lower layer
};

/// One name of a directory: a view of the buffer that the directory was read into.
///
/// Thread safety  distinct: safe; shared: any number of readers
class directory_entry {
 public:
  constexpr directory_entry(std::string_view name, entry_kind kind, std::uint64_t inode) noexcept
      : name_(name), inode_(inode), kind_(kind) {}
  /// Bytes of any value but '/' and NUL; not always UTF-8. A NUL follows. 1 … 255 of them, on vfat, exFAT,
  /// NTFS and FUSE perhaps more.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }
  /// The same, zero-terminated.
  [[nodiscard]] constexpr char const* c_str() const noexcept { return name_.data(); }
  /// entry_kind::unknown on filesystems whose directories do not say.
  [[nodiscard]] constexpr entry_kind kind() const noexcept { return kind_; }
  /// The inode that the directory has. Of a mount point it is that of the directory below the mount; on
  /// overlayfs it may differ from what stat says.
  [[nodiscard]] constexpr std::uint64_t inode() const noexcept { return inode_; }

 private:
  std::string_view name_;
  std::uint64_t inode_;
  entry_kind kind_;
};

/// The entries in a buffer that getdents64(2) has filled, without "." and "..": a range of directory_entry.
///
/// Thread safety  any number of readers
/// Lifetime       a view: the buffer must live, and not be read into again
/// Cost           nothing is allocated or copied; a step looks at one record
class directory_entries {
 public:
  constexpr directory_entries() = default;
  /// `bytes` at `data`, as the kernel has written them.
  constexpr directory_entries(std::byte const* data, std::size_t bytes) noexcept
      : begin_(data), end_(data + bytes) {}

  class iterator {
   public:
    using value_type = directory_entry;
    using difference_type = std::ptrdiff_t;
    using iterator_concept = std::forward_iterator_tag;

    constexpr iterator() = default;
    iterator(std::byte const* at, std::byte const* end) noexcept : at_(at), end_(end) { skip(); }
    [[nodiscard]] directory_entry operator*() const noexcept {
      return {{name(), std::strlen(name())}, kind(), number<std::uint64_t>(0)};
    }
    iterator& operator++() noexcept {
      at_ += size();
      skip();
      return *this;
    }
    iterator operator++(int) noexcept {
      iterator const before = *this;
      ++*this;
      return before;
    }
    [[nodiscard]] bool operator==(iterator const& other) const noexcept { return at_ == other.at_; }

    /// The record itself: where it begins, and its size in bytes.
    [[nodiscard]] std::byte const* record() const noexcept { return at_; }
    [[nodiscard]] std::size_t size() const noexcept { return number<std::uint16_t>(offset_of_size); }

   private:
    // struct linux_dirent64: inode, cookie, size of the record, kind, name (getdents64(2)).
    static constexpr std::size_t offset_of_size = 16, offset_of_kind = 18, offset_of_name = 19;
    template <class T> [[nodiscard]] T number(std::size_t offset) const noexcept {
      T n;
      std::memcpy(&n, at_ + offset, sizeof(n));
      return n;
    }
    [[nodiscard]] char const* name() const noexcept {
      return reinterpret_cast<char const*>(at_ + offset_of_name);
    }
    [[nodiscard]] entry_kind kind() const noexcept {
      return static_cast<entry_kind>(number<std::uint8_t>(offset_of_kind));
    }
    [[nodiscard]] bool is_dot() const noexcept {
      char const* const n = name();
      return n[0] == '.' && (n[1] == 0 || (n[1] == '.' && n[2] == 0));
    }
    void skip() noexcept {
      while (at_ != end_ && is_dot()) at_ += size();
    }

    std::byte const* at_ = nullptr;
    std::byte const* end_ = nullptr;
  };

  [[nodiscard]] iterator begin() const noexcept { return {begin_, end_}; }
  [[nodiscard]] iterator end() const noexcept { return {end_, end_}; }
  [[nodiscard]] bool empty() const noexcept { return begin() == end(); }

 private:
  std::byte const* begin_ = nullptr;
  std::byte const* end_ = nullptr;
};

/// Which entries are wanted: all, or those for which `wants` returns true.
///
/// Concurrency  `wants` is called on a thread of the library while the operation runs, one call at a time; it
///              must not wait, nor start operations
struct directory_filter {
  bool (*wants)(directory_entry const& e, void* context) noexcept = nullptr;
  void* context = nullptr;
};

/// What one read has listed: a range of directory_entry, without "." and "..", in the directory's order.
///
/// Lifetime  views of the buffer: until it is read into again
class directory_listing : public directory_entries {
 public:
  constexpr directory_listing() = default;
  directory_listing(directory_entries e, bool at_end, bool is_snapshot) noexcept
      : directory_entries(e), at_end_(at_end), is_snapshot_(is_snapshot) {}
  /// True if this was all, or the rest. Otherwise read again; a listing may then be empty.
  [[nodiscard]] bool at_end() const noexcept { return at_end_; }
  /// True if it has all entries and one call of the system returned them: the directory at one moment. A name
  /// that is made, removed or renamed between two calls may be listed once, never, or under both names.
  [[nodiscard]] bool is_snapshot() const noexcept { return is_snapshot_; }

 private:
  bool at_end_ = true;
  bool is_snapshot_ = false;
};

/// Bytes of the largest record of a name of 255 bytes: what a buffer needs to be sure to have room for one.
inline constexpr std::size_t largest_directory_record = 280;

} // namespace unio
