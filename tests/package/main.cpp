// Prints the version of the unio that it was built with.

#include <unio/unio.hpp>

#include <cstdio>

int main() {
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
