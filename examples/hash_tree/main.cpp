// Shows     a hash of every file of a tree, in parallel, with a bound on what is in flight: sixteen
//           coroutines take the next name when they have finished the last, so at most sixteen files are open
//           and sixteen buffers filled, however large the tree is.
// Run       build/release/examples/example_hash_tree [DIRECTORY]
// Read next ../channel_pipeline/main.cpp: coroutines that pass on what they have made

#include <unio/fs/walk.hpp>
#include <unio/unio.hpp>

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

namespace {

constexpr int in_flight = 16;

struct work_list {
  unio::path_handle root;
  unio::fs::tree_contents names;
  std::atomic<std::size_t> next = 0;
  std::vector<std::optional<std::uint64_t>> hashes; // of files that could be read
};

// FNV-1a, a piece at a time.
std::uint64_t hashed(std::uint64_t h, std::span<std::byte const> bytes) {
  for (std::byte const b : bytes) h = (h ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3U;
  return h;
}

unio::task<unio::result<std::uint64_t>> hash(unio::path_handle const& root, char const* path,
                                             std::span<std::byte> buffer) {
  auto file = co_await unio::co_open(root, path);
  if (!file) co_return file.error();
  std::uint64_t h = 0xcbf29ce484222325U;
  for (unio::extent_type at = 0;;) {
    auto const got = co_await file->co_read({unio::mutable_buffer(buffer), at});
    if (!got) co_return got.error();
    if (got.bytes_transferred() == 0) co_return h;
    h = hashed(h, buffer.first(got.bytes_transferred()));
    at += got.bytes_transferred();
  }
}

unio::task<> hasher(work_list& list) {
  std::array<std::byte, 16384> buffer;
  for (;;) {
    std::size_t const i = list.next.fetch_add(1, std::memory_order_relaxed);
    if (i >= list.names.size()) co_return;
    if (list.names[i].kind != unio::entry_kind::file) continue;
    auto const h = co_await hash(list.root, list.names[i].path, buffer);
    if (h) {
      list.hashes[i] = *h;
    } else {
      std::fprintf(stderr, "%s: %s\n", list.names[i].path, h.error().code().message().c_str());
    }
  }
}

// What is hashed if nothing is named.
struct some_files {
  some_files() {
    std::string name = (std::filesystem::temp_directory_path() / "unio-hash-XXXXXX").string();
    path = ::mkdtemp(name.data());
    for (int d = 0; d != 5; ++d) {
      std::filesystem::create_directory(path + "/" + std::to_string(d));
      for (int f = 0; f != 20; ++f)
        std::ofstream(path + "/" + std::to_string(d) + "/" + std::to_string(f)) << "file " << d << " " << f;
    }
  }
  some_files(some_files const&) = delete;
  some_files& operator=(some_files const&) = delete;
  ~some_files() { std::filesystem::remove_all(path); }
  std::string path;
};

} // namespace

int main(int argc, char** argv) {
  some_files const made;
  std::string const root = argc > 1 ? argv[1] : made.path;
  work_list list;
  list.root = unio::path_handle::path(root).value();
  list.names = unio::fs::contents(list.root, ".").value();
  list.hashes.resize(list.names.size());
  {
    unio::thread_pool pool(2);
    for (int i = 0; i != in_flight; ++i) unio::async_run(pool.executor(), hasher(list));
    pool.join();
  }
  std::uint64_t all = 0;
  std::size_t files = 0, unread = 0;
  for (std::size_t i = 0; i != list.names.size(); ++i) {
    if (list.names[i].kind != unio::entry_kind::file) continue;
    ++(list.hashes[i] ? files : unread);
    if (!list.hashes[i]) continue;
    all = (all ^ *list.hashes[i]) * 0x100000001b3U; // the names are sorted: the same tree, the same hash
    if (argc > 1)
      std::printf("%016llx  %s\n", static_cast<unsigned long long>(*list.hashes[i]), list.names[i].path);
  }
  std::printf("%zu files, %016llx\n", files, static_cast<unsigned long long>(all));
  return unread == 0 && (argc > 1 || files == 100) ? 0 : 1;
}
