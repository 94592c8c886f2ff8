// src/op/call.hpp: operations that are a system call for which readiness means nothing: names, attributes,
// space on a disk.
//
// On every driver a thread of the library makes the call. A ring would give each to a thread of the kernel,
// which costs more (most prep functions of io_uring/fs.c and io_uring/statx.c set REQ_F_FORCE_ASYNC), and
// whose start depends on how many of those there are.

#pragma once

#include "op/face.hpp"

#include <type_traits>

namespace unio::inline v0_1::op {

/// For operations whose call always has to be made by a thread that may block.
template <class Operation> int never_at_once(Operation&) noexcept { return -EAGAIN; }

template <class Operation, int (*F)(Operation&) noexcept> struct function {};

/// The names that it was to be done on, for the text of its failure. One on what a handle has open has none,
/// and a descriptor instead.
template <class Operation> bool append_names(io_operation const& op, detail::failed_object& to) noexcept {
  auto const& self = static_cast<Operation const&>(op);
  auto const append = [&to](auto const& name, std::size_t most) {
    to.append(name.c_str(), name.size(), most);
  };
  if (self.name().size() == 0) return false;
  if constexpr (requires { self.to().c_str(); }) {
    static constexpr char between[] = " to ";
    constexpr std::size_t half = (detail::failed_object::capacity - sizeof(between)) / 2;
    append(self.name(), half);
    to.append(between);
    append(self.to(), half);
  } else {
    append(self.name(), detail::failed_object::capacity);
  }
  return true;
}

template <class Operation> constexpr auto object_of() noexcept -> decltype(operation_faces::object) {
  if constexpr (requires(Operation const& o) { o.name().c_str(); }) return append_names<Operation>;
  return nullptr;
}

/// A deadline or a cancel ends it until a thread has begun it; from then on the call decides.
///
/// The faces of an operation of class `Operation`. `Call` makes the call and may block. `AtOnce` does the
/// same where it cannot block (arguments that are refused, what is answered from a cache), else it returns
/// -EAGAIN. Both return >= 0, or -errno; what does not fit into an int they keep in the operation.
/// A blocking call goes to `Call` alone, so that this has to refuse what `AtOnce` refuses.
/// `changes_directory`: the call changes the directory fd().
template <class Operation, int (*Call)(Operation&) noexcept,
          int (*AtOnce)(Operation&) noexcept = never_at_once<Operation>>
constexpr operation_faces call_faces(char const* name, bool changes_directory = false) noexcept {
  // By their types: g++ compares no addresses in a constant where they are checked at run time (UBSan).
  constexpr bool tries =
      !std::is_same_v<function<Operation, AtOnce>, function<Operation, never_at_once<Operation>>>;
  return {.name = name,
          .tries = tries ? inline_attempt::always : inline_attempt::never,
          .flow = direction::either,
          .wants = wants<readiness::worker>,
          .perform =
              [](io_operation& op, attempt how) noexcept {
                auto& self = static_cast<Operation&>(op);
                return how == attempt::blocking ? Call(self) : AtOnce(self);
              },
          .complete = decode,
          .object = object_of<Operation>(),
          .changes_directory = changes_directory};
}

} // namespace unio::op
