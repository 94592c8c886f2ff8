// unio/detail/opening.hpp: what the operations that open a name have in common.

#pragma once

#include <unio/handle.hpp>

namespace unio::inline v0_1::detail {

class UNIO_API open_operation : public io_operation {
 public:
  [[nodiscard]] path_view name() const noexcept { return name_; }

 protected:
  open_operation() = default;
  open_operation(path_handle const& base, path_view name, unio::deadline d) noexcept;
  void refuse_with(int native_code) noexcept {
    if (refused_ == 0) refused_ = native_code;
  }
  void set_flags(int open_flags, handle::flag how) noexcept;
  /// A directory is made first: it must not exist, or may.
  void set_making(unsigned permissions, bool may_exist) noexcept {
    permissions_ = permissions;
    makes_ = may_exist ? making::if_needed : making::always;
  }
  [[nodiscard]] handle_kind opened() const noexcept { return opened_; }

  bool always_new_ = false;
  bool wants_barrier_ = false; // makes a new file durable before returning it

 private:
  friend struct operation_access;
  enum class making : std::uint8_t { nothing, always, if_needed };

  path_view name_;
  int open_flags_ = 0;
  int refused_ = 0; // why the arguments are invalid, or 0
  unsigned permissions_ = 0666;
  unsigned resolve_ = 0; // as openat2(2) has it
  making makes_ = making::nothing;
  handle_kind opened_ = handle_kind::file;
};

} // namespace unio::detail
