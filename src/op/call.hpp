// src/op/call.hpp: operations that are one call for which readiness means nothing: names, attributes, space
// on a disk. Such an operation is a plain function of the arguments that UNIO_OPERATION declares
// (unio/detail/declared.hpp), and a line that makes it the faces of the operation:
//
//   constinit operation_faces const async_unlink::table_ = op::call_faces<async_unlink, unlink>("unlink");
//
// On every driver a thread of the library makes the call. A ring would give each to a thread of the kernel,
// which costs more (most prep functions of io_uring/fs.c and io_uring/statx.c set REQ_F_FORCE_ASYNC), and
// whose start depends on how many of those there are.

#pragma once

#include "core/failed_with.hpp"
#include "op/declared.hpp"
#include "op/face.hpp"

#include <type_traits>

namespace unio::inline v0_1::op {

/// f of each argument that is a name: what comes after a directory. Not of other text.
template <class First, class... Rest>
void for_each_name(auto f, First const& first, Rest const&... rest) noexcept {
  if constexpr (std::is_same_v<First, detail::handle_or_name>)
    if (first.is_named) f(first.name);
  bool is_name = std::is_same_v<First, detail::directory_number>;
  [[maybe_unused]] auto const look = [&]<class T>(T const& argument) {
    if constexpr (std::is_same_v<T, path_view>)
      if (is_name) f(argument);
    is_name = std::is_same_v<T, detail::directory_number>;
  };
  (look(rest), ...);
}

/// Why the arguments are invalid, or 0. The first reason counts.
template <class First, class... Rest> int refused(First const& first, Rest const&... rest) noexcept {
  int r = 0;
  if constexpr (std::is_same_v<First, int>) r = first == -1 ? -EBADF : 0;
  if constexpr (std::is_same_v<First, detail::handle_or_name>) r = first.fd == -1 ? -EBADF : 0;
  for_each_name([&r](path_view name) { r = r != 0 ? r : name.check(); }, first, rest...);
  return r;
}

/// The names that it was to be done on, for the text of its failure. One on what a handle has open has none,
/// and a descriptor instead.
template <class Operation> bool append_names(io_operation const& op, detail::failed_object& to) noexcept {
  path_view names[2];
  int count = 0;
  auto& self = const_cast<Operation&>(static_cast<Operation const&>(op));
  detail::declared_access::give(self, [&](auto const& first, auto const&... rest) {
    if constexpr (!std::is_same_v<decltype(first), int const&>)
      for_each_name([&](path_view name) { names[count++] = name; }, first, rest...);
    return 0;
  });
  if (count == 0 || (names[0].size() == 0 && op.fd() >= 0)) return false;
  static constexpr char between[] = " to ";
  constexpr std::size_t half = (detail::failed_object::capacity - sizeof(between)) / 2;
  auto const put = [&to](path_view name, std::size_t most) {
    detail::append_name(to, {name.c_str(), name.size()}, most);
  };
  put(names[0], count == 1 ? detail::failed_object::capacity : half);
  if (count == 1) return true;
  to.append(between);
  put(names[1], half);
  return true;
}

/// One that uses two directories: neither is closed before it has ended.
template <class Operation>
void for_each_directory(io_operation const& op, void (*use)(int fd, void* context), void* context) noexcept {
  use(op.fd(), context);
  auto& self = const_cast<Operation&>(static_cast<Operation const&>(op));
  detail::declared_access::give(self, [&](auto const&, auto const&... rest) {
    [[maybe_unused]] auto const look = [&]<class T>(T const& argument) {
      if constexpr (std::is_same_v<T, detail::directory_number>)
        if (argument.fd != op.fd()) use(argument.fd, context);
    };
    (look(rest), ...);
    return 0;
  });
}

/// Null of one that uses fd() alone.
template <class Operation>
constexpr decltype(operation_faces::for_each_descriptor) directories_of() noexcept {
  if constexpr (detail::declared_access::is_declared<Operation>)
    if constexpr (detail::declared_access::rest_of<Operation>::template has<detail::directory_number>)
      return for_each_directory<Operation>;
  return nullptr;
}

/// Calls `Call` with the arguments of `op`, or with `op`.
template <auto Call, class Operation> int call(Operation& op) noexcept {
  if constexpr (std::is_invocable_v<decltype(Call), Operation&>)
    return Call(op);
  else
    return detail::declared_access::give(op, [](auto&&... arguments) {
      int const r = refused(arguments...);
      return r != 0 ? r : Call(arguments...);
    });
}

/// A deadline or a cancel ends it until a thread has begun it; from then on the call decides.
///
/// The faces of an operation of class `Operation`. `Call` makes the call and may block. `AtOnce` does the
/// same where it cannot block (arguments that are refused, what is answered from a cache), else it returns
/// -EAGAIN. Both return >= 0, or -errno; what does not fit into an int they put into their last argument.
/// A blocking call goes to `Call` alone, so that this has to refuse what `AtOnce` refuses.
/// `changes_directory`: the call changes the directory fd().
template <class Operation, auto Call, auto AtOnce = nullptr>
constexpr operation_faces call_faces(char const* name, bool changes_directory = false) noexcept {
  constexpr bool tries = !std::is_null_pointer_v<decltype(AtOnce)>;
  operation_faces f{.name = name,
                    .tries = tries ? inline_attempt::always : inline_attempt::never,
                    .flow = direction::either,
                    .wants = wants<readiness::worker>,
                    .perform =
                        [](io_operation& op, attempt how) noexcept {
                          auto& self = static_cast<Operation&>(op);
                          if (how == attempt::blocking) return call<Call>(self);
                          if constexpr (tries) return call<AtOnce>(self);
                          return -EAGAIN;
                        },
                    .values_from = 0,
                    .complete = decode,
                    .for_each_descriptor = directories_of<Operation>(), // which is_simple asks for
                    .changes_directory = changes_directory};
  if constexpr (detail::declared_access::is_declared<Operation>) {
    f.object = append_names<Operation>;
    if (detail::declared_access::opens<Operation>) f.reclaim = close_outcome;
  }
  return f;
}

/// The same of a call whose result is not all of its value.
constexpr operation_faces completed_by(operation_faces f, decltype(f.complete) complete) noexcept {
  f.values_from = operation_faces{}.values_from;
  f.complete = complete;
  return f;
}

} // namespace unio::op
