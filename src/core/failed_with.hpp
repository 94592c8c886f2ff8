// src/core/failed_with.hpp: failures of what has only a code, perhaps of a category of its own.

#pragma once

#include <unio/error.hpp>

#include <string_view>

namespace unio::inline v0_1::detail {

/// Appends a name; one that is empty as '', or the text would not say that there was one.
[[gnu::cold]] inline void append_name(failed_object& to, std::string_view name,
                                      std::size_t most = failed_object::capacity) noexcept {
  if (name.empty()) name = "''";
  to.append(name.data(), name.size(), most);
}

/// The failure of `operation`, a literal, on `object`. One that knows where it comes from stays as it is. Of
/// what would block or was canceled no object is kept, as of operations.
[[gnu::cold]] inline failure failed_with(failure const& why, char const* operation,
                                         failed_object const& object) noexcept {
  if (!why || why.origin() != origin::unknown) return why;
  bool const is_ordinary = why == condition::would_block || why == condition::canceled || object.size == 0;
  failure const here = is_ordinary ? failed(0, operation) : failed(0, operation, object);
  return {why.code(), here.origin()};
}

/// The same, with the object's text.
[[gnu::cold]] inline failure failed_with(failure const& why, char const* operation,
                                         std::string_view object) noexcept {
  failed_object o;
  o.append(object.data(), object.size());
  return failed_with(why, operation, o);
}

} // namespace unio::detail
