// Prints the version of the unio that it was built with, if unio::net works.

#include <unio/resolver.hpp>
#include <unio/unio.hpp>

#include <cstdio>

int main() {
  unio::resolver names;
  auto const found = names.resolve("127.0.0.1", 80); // needs no server
  if (!found || found->size() != 1) return 1;
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
