// Replacing entries of the table of system calls for the length of a test.

#pragma once

#include "sys/calls.hpp"

namespace test {

/// While it lives, the table is this copy of the kernel's, of which the test may change entries.
class replaced_calls {
 public:
  replaced_calls() { unio::sys::current = &table_; }
  replaced_calls(replaced_calls const&) = delete;
  replaced_calls& operator=(replaced_calls const&) = delete;
  ~replaced_calls() { unio::sys::current = before_; }

  unio::sys::table* operator->() { return &table_; }

 private:
  unio::sys::table const* before_ = unio::sys::current;
  unio::sys::table table_ = *before_;
};

} // namespace test
