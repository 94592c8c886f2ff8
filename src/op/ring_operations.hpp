// src/op/ring_operations.hpp: the table of io_uring's operations: what unio does with each.

#pragma once

namespace unio::inline v0_1::op {

/// A row of the table.
struct ring_use {
  char const* name; ///< as ring_operation::name
  bool is_used;
  char const* use; ///< as ring_operation::use
};

/// The name of an operation, or "of an unknown number".
char const* name_of_ring_operation(unsigned number) noexcept;

} // namespace unio::op
