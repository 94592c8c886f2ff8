// src/core/immortal.hpp: objects that are never destroyed.

#pragma once

namespace unio::inline v0_1::detail {

/// For categories of errors: their codes are compared and printed by the destructors of other static objects
/// too.
template <class T> union immortal {
  constexpr immortal() : object() {}
  ~immortal() {} // NOLINT(modernize-use-equals-default): the defaulted one would be deleted
  T object;
};

} // namespace unio::detail
