// Bytes as text, and text to tell bytes apart by.

#pragma once

#include "support/test.hpp"

namespace test {

inline std::string text_of(const_buffer b) { return {reinterpret_cast<char const*>(b.data()), b.size()}; }
inline std::string text_of(lent_buffer const& b) { return text_of(const_buffer(b.data(), b.size())); }
template <class Buffer> std::string text_of(buffer_list<Buffer> const& list) {
  std::string s;
  for (Buffer const b : list) s += text_of(b);
  return s;
}

inline std::string numbered(std::size_t n) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>('a' + (i * 7 + i / 26) % 26);
  return s;
}

} // namespace test
