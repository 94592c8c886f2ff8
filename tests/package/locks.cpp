// Prints the version of the unio that it was built with, if unio::locks works.

#include <unio/locks/byte_ranges.hpp>
#include <unio/unio.hpp>

#include <cstdio>
#include <cstdlib>
#include <filesystem>

int main() {
  char folder[] = "/tmp/unio_locks_XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  auto const base = unio::path_handle::path(folder);
  if (!base) return 1;
  {
    auto mutex = unio::fs::byte_ranges::open(*base, "lock");
    if (!mutex || !mutex->lock(unio::fs::entity_of("one"))) return 1;
  }
  std::filesystem::remove_all(folder);
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
