// The last name of a path.

#pragma once

#include <string_view>

/// Empty for "/", "." and "..", at the end of a path, too: what has no name of its own.
inline std::string_view own_name(std::string_view path) {
  while (path.ends_with('/')) path.remove_suffix(1);
  std::string_view const name = path.substr(path.rfind('/') + 1);
  return name == "." || name == ".." ? std::string_view() : name;
}
