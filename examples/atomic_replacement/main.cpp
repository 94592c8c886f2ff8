// Shows     replacing a file's contents so that whoever opens it finds the old ones or the new ones, whole,
//           also after a crash: write a new file beside it, make that durable, and only then put it in the
//           place of the old one. (creation::always_new replaces the file first: for what need not be whole.)
// Run       build/release/examples/example_atomic_replacement
// Read next <unio/file_handle.hpp>; for several files at once: <unio/locks/update_files.hpp>

#include <unio/unio.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>

namespace {

using unio::file_handle;
using unio::path_handle;
using creation = unio::handle::creation;
using mode = unio::handle::mode;

// 0, or an error: then the file is as it was.
std::error_code replace(path_handle const& directory, unio::path_view name, std::string_view contents) {
  auto fresh = file_handle::uniquely_named_file(directory, ".new-");
  if (!fresh) return fresh.error();
  auto failed = [&](std::error_code why) {
    (void)fresh->unlink();
    return why;
  };
  for (std::size_t n = 0; n != contents.size();) {
    auto const r = fresh->write({unio::const_buffer(contents.substr(n)), n});
    if (!r) return failed(r.error());
    n += r.bytes_transferred();
  }
  // Only its owner, this user, can read such a file. It becomes as open as the one that it replaces.
  if (auto const old = unio::stat(directory, name, unio::stat_fields::permissions, unio::last_link::followed))
    if (auto const r = fresh->set_metadata({.permissions = old->permissions}); !r) return failed(r.error());
  // Before the name leads to it. Otherwise a crash could leave the name with an empty file.
  if (auto const r = fresh->barrier(); !r) return failed(r.error());
  if (auto const r = fresh->relink(directory, name); !r) return failed(r.error());
  return {};
}

} // namespace

int main() {
  char name[] = "/tmp/unio-replaced-XXXXXX";
  if (::mkdtemp(name) == nullptr) return 1;
  path_handle const directory = path_handle::path(name).value();
  std::string const contents[] = {std::string(100'000, 'a'), std::string(200'000, 'b')};
  if (replace(directory, "settings", contents[0])) return 1;

  std::atomic<bool> stop{false}, torn{false};
  std::atomic<int> readings{0};
  std::thread reader([&] {
    std::string into(300'000, '\0');
    while (!stop) {
      file_handle f = file_handle::file(directory, "settings").value();
      std::size_t const n = f.read({unio::mutable_buffer(into.data(), into.size()), 0}).value().bytes();
      torn = torn || (into.substr(0, n) != contents[0] && into.substr(0, n) != contents[1]);
      ++readings;
    }
  });
  bool fine = true;
  for (int i = 0; i != 50 && fine; ++i) fine = !replace(directory, "settings", contents[i % 2]);
  stop = true;
  reader.join();
  std::printf("50 replacements, %d readings, %s\n", readings.load(), torn ? "some torn" : "none torn");
  (void)unio::unlink(directory, "settings", unio::unlink_mode::file);
  (void)std::remove(name);
  return fine && !torn ? 0 : 1;
}
