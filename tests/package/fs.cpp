// Prints the version of the unio that it was built with, if unio::fs works.

#include <unio/fs/walk.hpp>
#include <unio/unio.hpp>

#include <cstdio>

int main() {
  auto const here = unio::path_handle::path(".");
  if (!here || !unio::fs::summarize(*here, ".", {})) return 1;
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
