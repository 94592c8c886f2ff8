// What the HTTP examples know of the protocol (RFC 9110, RFC 9112).

#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace http {

class head {
 public:
  /// `text` ends with the empty line, and outlives this. None: it is malformed.
  static std::optional<head> parse(std::string_view text) {
    if (text.find('\0') != text.npos || !text.ends_with("\r\n\r\n")) return {};
    std::size_t const line = text.find("\r\n");
    head const h(text.substr(0, line), text.substr(line + 2, text.size() - line - 4));
    for (std::string_view rest = h.fields_; !rest.empty();) {
      std::string_view const field = take_line(rest);
      if (field.find_first_of("\r\n") != field.npos) return {}; // a line that only some would see
      std::size_t const colon = field.find_first_of(": \t");    // no space before the colon, no folded lines
      if (colon == 0 || colon == field.npos || field[colon] != ':') return {};
    }
    return h;
  }

  /// The line of the request, or of the status.
  [[nodiscard]] std::string_view line() const noexcept { return line_; }
  /// The value of a field, whose name is given in small letters; empty if there is none. The last one that is
  /// not empty counts.
  [[nodiscard]] std::string_view operator[](std::string_view name) const noexcept {
    std::string_view found;
    for (std::string_view rest = fields_; !rest.empty();) {
      std::string_view const field = take_line(rest);
      std::size_t const colon = field.find(':');
      if (!std::ranges::equal(field.substr(0, colon), name, {}, small)) continue;
      std::string_view value =
          field.substr(std::min(field.find_first_not_of(" \t", colon + 1), field.size()));
      value = value.substr(0, value.find_last_not_of(" \t") + 1);
      if (!value.empty()) found = value;
    }
    return found;
  }

 private:
  head(std::string_view line, std::string_view fields) noexcept : line_(line), fields_(fields) {}
  static char small(char c) noexcept { return static_cast<char>(c >= 'A' && c <= 'Z' ? c + 32 : c); }
  static std::string_view take_line(std::string_view& text) noexcept {
    std::size_t const end = text.find("\r\n");
    std::string_view const line = text.substr(0, end);
    text.remove_prefix(end + 2);
    return line;
  }

  std::string_view line_;
  std::string_view fields_; // each ends with "\r\n"
};

// Relative to the root. Empty: not served, as names are that begin with a dot, ".." among them, or with a
// slash: "//etc/passwd" would be /etc/passwd.
inline std::string path_of(std::string_view target) {
  std::string path;
  target = target.substr(0, target.find('?'));
  for (std::size_t i = 0; i < target.size(); ++i) {
    char c = target[i];
    if (c == '%') {
      unsigned char code = 0;
      char const *const digits = target.data() + i + 1, *const end = target.data() + target.size();
      if (end - digits < 2 || std::from_chars(digits, digits + 2, code, 16).ptr != digits + 2) return {};
      c = static_cast<char>(code);
      if (c == '\0' || c == '/') return {};
      i += 2;
    }
    if (path.empty() ? c != '/' : (c == '.' || c == '/') && path.back() == '/') return {};
    path += c;
  }
  if (path.empty()) return {};
  return path.substr(1) + (path.back() == '/' ? "index.html" : "");
}

struct url {
  bool is_secure = false;
  std::string host; ///< with the port, if it is not the usual one
  std::string target;

  static std::optional<url> parse(std::string_view text) {
    std::size_t const scheme = text.find("://");
    bool const is_secure = text.substr(0, scheme) == "https";
    if (!is_secure && text.substr(0, scheme) != "http") return {};
    if (std::ranges::any_of(text, [](unsigned char c) { return c <= ' ' || c == 127; })) return {};
    text = text.substr(scheme + 3, text.find('#') - scheme - 3);
    std::size_t const end = std::min(text.find_first_of("/?"), text.size());
    std::string const target(text.substr(end));
    return url{is_secure, std::string(text.substr(0, end)), target.starts_with('/') ? target : "/" + target};
  }
  /// Without the port, and without an IPv6 address's brackets.
  [[nodiscard]] std::string name() const {
    return host.starts_with('[') ? host.substr(1, host.find(']') - 1) : host.substr(0, host.find(':'));
  }
  [[nodiscard]] std::string host_and_port() const {
    bool const has_port = host.find(':', host.starts_with('[') ? host.find(']') : 0) != host.npos;
    return has_port ? host : host + (is_secure ? ":443" : ":80");
  }
};

/// Digits, and nothing else.
inline std::optional<std::uint64_t> number(std::string_view digits, int base) {
  std::uint64_t n = 0;
  auto const read = std::from_chars(digits.data(), digits.data() + digits.size(), n, base);
  bool const is_all = read.ec == std::errc() && read.ptr == digits.data() + digits.size();
  return is_all ? std::optional(n) : std::nullopt;
}

struct part {
  std::uint64_t begin = 0, end = 0;
};

// "bytes=5-9", "bytes=5-" or "bytes=-5" of a file. Of others, as of several ranges, all of the file.
inline part part_of(std::string_view range, std::uint64_t size) {
  part const all{0, size};
  if (!range.starts_with("bytes=")) return all;
  char const *const text = range.data() + 6, *const end = range.data() + range.size();
  std::uint64_t first = 0, last = size;
  auto const from = std::from_chars(text, end, first);
  if (from.ec == std::errc::result_out_of_range || from.ptr == end || *from.ptr != '-') return all;
  auto const to = std::from_chars(from.ptr + 1, end, last);
  if (to.ec == std::errc::result_out_of_range || to.ptr != end) return all;
  if (from.ptr == text) return to.ptr == text + 1 ? all : part{size - std::min(last, size), size};
  return last < first ? all : part{first, std::min(last, size - 1) + 1};
}

} // namespace http
