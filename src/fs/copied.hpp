// src/fs/copied.hpp: what a copy has read of its source, so that nothing else is removed after it.

#pragma once

#include "fs/metadata.hpp"
#include "fs/tree.hpp"

#include <mutex>
#include <string_view>

namespace unio::inline v0_1::fs::trees {

/// Stands for a path below the source, which itself has 0: for `name` in the directory that has the key `in`.
inline std::uint64_t key_of(std::uint64_t in, std::string_view name) noexcept {
  std::uint64_t h = in ^ 0xcbf29ce484222325U;
  for (char const c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return (h ^ h >> 29) * 0x9e3779b97f4a7c15U;
}

/// By paths, sizes and times, and one of two more: the number of the inode, which changes on vfat and FUSE
/// while a large tree is copied; or the time of its last change, which changes when another of its names is
/// removed. Of a file that another process has renamed to the path both differ, though it may be as large and
/// as old.
///
/// Thread safety  note() and has(): any thread
class copied {
 public:
  descriptor root; ///< what was copied, so that nothing else gets its number

  /// What has `key` was copied as `a` says, or later. 0 or -ENOMEM.
  int note(std::uint64_t key, attributes const& a) noexcept {
    std::lock_guard const lock(mutex_);
    bool added = false;
    bool const has_room = all_.find_or_add(by_inode(key, a), added) != nullptr &&
                          all_.find_or_add(by_change(key, a), added) != nullptr;
    return has_room ? 0 : -ENOMEM;
  }
  /// Whether what has `key` is, as `a` says, as it was when it was copied.
  bool has(std::uint64_t key, attributes const& a) noexcept {
    std::lock_guard const lock(mutex_);
    return all_.find(by_inode(key, a)) != nullptr || all_.find(by_change(key, a)) != nullptr;
  }

 private:
  static inode_id entry(std::uint64_t key, attributes const& a, std::uint64_t x, std::uint64_t y) noexcept {
    std::uint64_t const is[] = {
        a.size, static_cast<std::uint64_t>(a.modified_s), a.modified_ns, a.mode & S_IFMT, x, y};
    return {key, key_of(0, {reinterpret_cast<char const*>(is), sizeof is})};
  }
  static inode_id by_inode(std::uint64_t key, attributes const& a) noexcept {
    return entry(key, a, a.id.device, a.id.inode);
  }
  static inode_id by_change(std::uint64_t key, attributes const& a) noexcept {
    return entry(key, a, static_cast<std::uint64_t>(a.changed_s), a.changed_ns);
  }

  std::mutex mutex_;
  inode_table<char> all_;
};

} // namespace unio::fs::trees
