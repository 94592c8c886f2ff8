// Shows     locks on files: two processes count in one file, and none of their steps is lost; waiting for a
//           lock until a deadline, and in a coroutine; ranges of one file, locked separately.
// Run       build/release/examples/example_file_lock
// Read next <unio/file_lock.hpp>, for what a lock guarantees

#include <unio/unio.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

using namespace std::chrono_literals;
using unio::file_handle;
using unio::lock_kind;

namespace {

constexpr int steps = 1000;

file_handle open(std::string const& path) {
  return file_handle::file({}, path, unio::handle::mode::write).value();
}

// Reads the number and writes it back incremented: without the lock concurrent increments would be lost.
void count(file_handle& file) {
  std::uint64_t n = 0;
  file.read({unio::mutable_buffer(&n, sizeof n), 0}).value();
  ++n;
  file.write({unio::const_buffer(&n, sizeof n), 0}).value();
}

// A handle of its own in each process: a lock belongs to the open file, not to its user.
void count_blocking(std::string const& path) {
  file_handle lock_file = open(path + ".lock"), file = open(path);
  for (int i = 0; i != steps; ++i) {
    unio::file_lock const lock = lock_file.lock_file(lock_kind::exclusive).value();
    count(file);
  }
}

unio::task<> count_awaiting(std::string const& path) {
  file_handle lock_file = open(path + ".lock"), file = open(path);
  unio::file_lock const lock = (co_await lock_file.co_lock_file(lock_kind::exclusive)).value();
  count(file);
}

int run(std::string const& path) {
  for (std::string const& name : {path, path + ".lock"})
    file_handle::file({}, name, unio::handle::mode::write, unio::handle::creation::always_new).value();
  std::uint64_t n = 0;
  open(path).write({unio::const_buffer(&n, sizeof n), 0}).value();

  pid_t const child = ::fork();
  count_blocking(path);
  if (child == 0) ::_exit(0);
  ::waitpid(child, nullptr, 0);
  unio::run(count_awaiting(path));

  open(path).read({unio::mutable_buffer(&n, sizeof n), 0}).value();
  std::printf("two processes took %d steps each, and a coroutine one: %d\n", steps, static_cast<int>(n));

  // Ranges that do not overlap are locked separately; the bytes need not exist.
  file_handle first = open(path), second = open(path);
  unio::file_lock lock = first.lock_range(0, 100, lock_kind::exclusive).value();
  bool const apart = second.try_lock_range(100, 100, lock_kind::exclusive).has_value();
  bool const late = second.lock_range(50, 1, lock_kind::shared, 5ms).error() == unio::condition::timed_out;
  lock.unlock().value();
  bool const after = second.try_lock_range(50, 1, lock_kind::shared).has_value();
  std::printf("beside it: %s, within it: %s, once it is unlocked: %s\n", apart ? "locked" : "refused",
              late ? "timed out" : "locked", after ? "locked" : "refused");
  return n == 2 * steps + 1 && apart && late && after ? 0 : 1;
}

} // namespace

int main() {
  std::string directory = (std::filesystem::temp_directory_path() / "unio-file-lock-XXXXXX").string();
  if (::mkdtemp(directory.data()) == nullptr) return std::perror(directory.c_str()), 1;
  int const status = run(directory + "/counter");
  std::filesystem::remove_all(directory);
  return status;
}
