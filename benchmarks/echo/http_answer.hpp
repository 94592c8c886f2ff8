// What echo_load has to know of HTTP: where an answer ends.
#pragma once

#include <charconv>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace benchmarks {

/// How many bytes the answer has that begins with `text`; 0: its head is not complete. Throws if it is not a
/// success, or does not say how long it is in the header field that servers write.
inline std::size_t size_of_http_answer(std::string_view text) {
  constexpr std::string_view blank_line = "\r\n\r\n", field = "\r\nContent-Length: ";
  std::size_t const end = text.find(blank_line);
  if (end == std::string_view::npos) return 0;
  std::string_view const head = text.substr(0, end + 2);
  if (!head.starts_with("HTTP/1.1 200 "))
    throw std::runtime_error("the server answers: " + std::string(head.substr(0, head.find("\r\n"))));
  std::size_t const at = head.find(field);
  std::size_t length = 0;
  if (at == std::string_view::npos) throw std::runtime_error("the answer has no Content-Length");
  char const* const digits = head.data() + at + field.size();
  auto const [rest, error] = std::from_chars(digits, head.data() + head.size(), length);
  if (error != std::errc() || *rest != '\r') throw std::runtime_error("the Content-Length is no number");
  return end + blank_line.size() + length;
}

} // namespace benchmarks
