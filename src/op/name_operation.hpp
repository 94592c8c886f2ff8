// src/op/name_operation.hpp: what the files of operations on names share.

#pragma once

#include "handle/names.hpp"
#include "op/call.hpp"
#include "sys/descriptors.hpp"

#include <fcntl.h>

namespace unio::inline v0_1::op {

/// The faces of an operation that uses two directories: neither is closed before it has ended.
template <class Operation, int (*Call)(Operation&) noexcept>
constexpr operation_faces two_names_faces(char const* name) noexcept {
  operation_faces f = call_faces<Operation, Call>(name, true);
  f.for_each_descriptor = [](io_operation const& op, void (*use)(int, void*), void* context) {
    use(op.fd(), context);
    int const other = static_cast<Operation const&>(op).to_directory();
    if (other != op.fd()) use(other, context);
  };
  return f;
}

constexpr int link_flag(last_link how) noexcept { return how == last_link::itself ? AT_SYMLINK_NOFOLLOW : 0; }

} // namespace unio::op
