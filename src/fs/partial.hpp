// src/fs/partial.hpp: the hidden directory that is filled until it is a whole tree, and gets its name.
//
//   .NAME.unio-copy      the directory, which only its owner may enter
//   .NAME.unio-copy-of   beside it, a file that says what it is a copy of. Locked by the process that fills
//                        the directory, so that no other does
//
//   take()     lock the file; is the directory there, of this source, and may it be continued? Otherwise
//              write the file, make the directory
//   forget()   the directory is gone: has its name, or was removed. Removes the file
//
// A process that is killed leaves both, or one of them: a directory without its file belongs to no copy, and
// is not continued; a file without its directory is written anew.

#pragma once

#include "fs/tree.hpp"

namespace unio::inline v0_1::fs::trees {

class partial {
 public:
  partial() = default;
  partial(partial const&) = delete;
  partial& operator=(partial const&) = delete;
  ~partial();

  /// Makes the directory for `target` in `folder`, which must stay open; `resume`: or takes the one that is
  /// there. Returns its descriptor, or a negative code: EBUSY while another process fills it; EALREADY if it
  /// is there, and not to be continued; ESTALE if it is there, but nothing says of what it is a copy; EPERM
  /// if it or the file is another user's, and not because the filesystem keeps no owners, or the file has
  /// several names. If it is empty, or of something else than `source`, it is made anew.
  int take(int folder, char const* target, int source, bool resume) noexcept;
  void forget() noexcept;

  [[nodiscard]] char const* name() const noexcept { return name_; }
  /// Whether it was there.
  [[nodiscard]] bool was_there() const noexcept { return was_there_; }

 private:
  int lock() noexcept;
  int find(int source, bool resume) noexcept;

  int folder_ = -1;
  int of_ = -1; // the file, locked
  bool was_there_ = false;
  char name_[unio::detail::longest_name + 1] = {};
  char of_name_[unio::detail::longest_name + 1] = {};
};

/// Has a directory that may have got its owner, mode and ACLs already be this user's alone, for as long as
/// there is something to be made in it. Returns 0 or -errno.
int take_over(int directory) noexcept;

} // namespace unio::fs::trees
