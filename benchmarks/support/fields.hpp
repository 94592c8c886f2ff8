// What subjects and the runner say to each other is lines of fields between tabs.
#pragma once

#include <sstream>
#include <string>
#include <vector>

namespace benchmarks {

inline std::vector<std::string> split(std::string const& line) {
  std::vector<std::string> fields;
  std::istringstream in(line);
  for (std::string field; std::getline(in, field, '\t');) fields.push_back(field);
  return fields;
}

} // namespace benchmarks
