// src/locks/decision.hpp: which files of a tree an update replaces, as the disk has it
// (docs/explanation/update-files.md), and where these files are.
//
//   check_path, place, folders   the paths of the files of an update, and what they lead to
//   decision                     loaded, trusting nothing in it; made, and saved under another name
//   complete                     puts all files in place and removes the decision

#pragma once

#include "handle/names.hpp"
#include "sys/descriptors.hpp"

#include <unio/locks/update_files.hpp>

#include <fcntl.h>

#include <cstring>
#include <memory>
#include <string_view>

namespace unio::inline v0_1::fs::updating {

inline constexpr char decision_name[] = ".unio-update";
inline constexpr char next_decision_name[] = ".unio-update.new";
inline constexpr char turn_name[] = ".unio-update.lock";
inline constexpr std::string_view new_suffix = ".unio-new";

using unio::detail::descriptor;

inline constexpr int making = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW;

/// 0 as well if it is not there.
int remove(int folder, char const* name) noexcept;
int write_all(int fd, std::byte const* bytes, std::size_t n) noexcept;

/// Each file has one path, which stays inside the tree and names none of our files. 0, or a negative code.
int check_path(std::string_view path) noexcept;

/// The folder and the name of a file.
struct place {
  descriptor folder{-EBADF};
  char name[unio::detail::longest_name + 1];
  char new_name[unio::detail::longest_name + 1];

  /// 0, or a negative errno. `path` passed check_path().
  int find(int tree, std::string_view path) noexcept;
};

/// Syncs the folders of files: once those that have several files in a row.
class folders {
 public:
  explicit folders(int tree) noexcept : tree_(tree) {}
  int sync(std::string_view path) noexcept;

 private:
  int tree_;
  std::string_view last_{"\0", 1}; // no folder's name
};

struct header {
  char magic[16];
  std::uint32_t version;
  std::uint32_t files;
  std::uint64_t size;     // of all of it
  std::uint64_t checksum; // of all of it, with 0 here
};
inline constexpr std::size_t largest_decision = std::size_t{256} << 20;

class decision {
 public:
  [[nodiscard]] bool is_there() const noexcept { return size_ != 0; }

  /// None is not an error.
  int load(int tree) noexcept;
  int make(std::size_t size) noexcept {
    bytes_.reset(new (std::nothrow) std::byte[size]);
    size_ = size;
    files_ = 0;
    end_ = sizeof(header);
    return bytes_ == nullptr ? -ENOMEM : 0;
  }
  [[nodiscard]] static std::size_t size_of(std::string_view path) noexcept {
    return sizeof(std::uint32_t) + path.size();
  }
  void add(std::string_view path) noexcept {
    auto const n = static_cast<std::uint32_t>(path.size());
    std::memcpy(bytes_.get() + end_, &n, sizeof n);
    std::memcpy(bytes_.get() + end_ + sizeof n, path.data(), n);
    end_ += sizeof n + n;
    ++files_;
  }
  void seal() noexcept;
  /// Whether what has the name in the folder may be put in place by it: 0, -EPERM, or why that is not known.
  [[nodiscard]] int may_place(int folder, char const* name) const noexcept;
  /// To the disk, under a name that means nothing.
  int save(int tree) const noexcept;

  /// Calls `f(path)` for each, until that returns something other than 0.
  template <class F> int for_each(F&& f) const noexcept {
    std::size_t at = sizeof(header);
    for (std::uint32_t i = 0; i != files_; ++i) {
      std::uint32_t n = 0;
      std::memcpy(&n, bytes_.get() + at, sizeof n);
      at += sizeof n;
      if (int const e = f(std::string_view(reinterpret_cast<char const*>(bytes_.get()) + at, n)); e != 0)
        return e;
      at += n;
    }
    return 0;
  }

 private:
  [[nodiscard]] std::uint64_t checksum() const noexcept {
    return entity_of(std::span<std::byte const>(bytes_.get(), size_)).value;
  }
  int check() noexcept;

  std::unique_ptr<std::byte[]> bytes_;
  bool is_members_ = false; // of the tree's group: it may do what its maker may
  uid_t maker_ = 0;
  std::size_t size_ = 0;
  std::size_t end_ = 0;
  std::uint32_t files_ = 0;
};

/// Puts all files in place and removes the decision, with the turn of the tree. May be repeated any number of
/// times.
int complete(int tree, decision const& d) noexcept;

} // namespace unio::fs::updating
