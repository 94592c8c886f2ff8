// unio/path_view.hpp: a zero-terminated path.

#pragma once

#include <unio/config.hpp>

#include <string>

namespace unio::inline v0_1 {

/// A view of a zero-terminated path, made from zero-terminated text only, so that it is never copied.
///
/// Errors  functions that take it report error::embedded_nul for a std::string with a NUL inside, and
///         ENAMETOOLONG for a name of more than 255 bytes or a path of more than 4095
/// Buffers the text must live as long as the operation that uses it
/// Thread safety  any number of readers
/// Cost    none but finding the end of the text
class path_view {
 public:
  constexpr path_view() = default;
  constexpr path_view(char const* text) noexcept // NOLINT: implicit
      : text_(text), size_(std::char_traits<char>::length(text)) {}
  path_view(std::string const& text) noexcept : text_(text.c_str()), size_(text.size()) {} // NOLINT: implicit
  [[nodiscard]] constexpr char const* c_str() const noexcept { return text_; }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  /// 0, or the negative native code for why the system cannot take it.
  [[nodiscard]] UNIO_API int check() const noexcept;

 private:
  char const* text_ = "";
  std::size_t size_ = 0;
};

} // namespace unio
