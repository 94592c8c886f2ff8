// Prints the version of the unio that it was built with, if unio::locks works.

#include <unio/locks/byte_ranges.hpp>
#include <unio/unio.hpp>

#include <cstdio>
#include <cstdlib>

int main() {
  char folder[] = "/tmp/unio_locks_XXXXXX";
  if (::mkdtemp(folder) == nullptr) return 1;
  auto const base = unio::path_handle::path(folder);
  if (!base) return 1;
  {
    auto mutex = unio::fs::byte_ranges::open(*base, "lock");
    if (!mutex || !mutex->lock(unio::fs::entity_of("one"))) return 1;
  }
  auto const file = unio::file_handle::file(*base, "lock", unio::handle::mode::write);
  if (!file || !file->unlink() || ::rmdir(folder) != 0) return 1;
  auto const version = unio::version_string();
  std::printf("%.*s\n", static_cast<int>(version.size()), version.data());
}
