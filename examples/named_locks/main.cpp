// Shows     many names locked as one between processes, and the report to the next owner after one was
//           killed.
// Run       build/release/examples/example_named_locks [PATH]
// Read next include/unio/locks/shared_fs_mutex.hpp, examples/bank_transfer

#include <unio/locks/byte_ranges.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace {

void repair() { std::printf("the last owner died: its work is looked through\n"); }

void transfer(unio::path_view path) {
  auto m = unio::fs::byte_ranges::open(path).value();
  std::array both{unio::fs::entity_of("account 7"), unio::fs::entity_of("account 9")};
  auto held = m.lock(both).value(); // both or none; one after the other may deadlock
  if (held.owner_died()) repair();  // the last owner of one of them was killed
  std::printf("%d holds both\n", static_cast<int>(::getpid()));
}

// Locks one of the two, and is killed.
void die_with_it(unio::path_view path) {
  auto m = unio::fs::byte_ranges::open(path).value();
  auto const held = m.lock(unio::fs::entity_of("account 9")).value();
  std::raise(SIGKILL);
}

} // namespace

int main(int argc, char** argv) {
  std::string const path = argc > 1 ? argv[1] : "/tmp/unio-named-locks-" + std::to_string(::getpid());
  transfer(path);
  std::fflush(stdout);
  pid_t const child = ::fork();
  if (child == 0) {
    die_with_it(path);
    std::_Exit(0);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  transfer(path);
  if (argc <= 1) ::unlink(path.c_str());
  return 0;
}
