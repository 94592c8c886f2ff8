// What lies at a lock's path while an attacker changes it all the time: no file of another is touched,
// nothing hangs. And users in other pid namespaces, whose numbers mean nothing here.

#include "locks/lock_file_fixture.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>

#include <sstream>

namespace {

using namespace test;
using namespace unio::fs;

constexpr uid_t nobody = 65534;

struct algorithm {
  char const* name;
  unio::result<std::unique_ptr<shared_fs_mutex>> (*open)(std::string const& path);
};

void PrintTo(algorithm const& a, std::ostream* out) { *out << a.name; }

class attacked : public ::testing::TestWithParam<algorithm> {};

INSTANTIATE_TEST_SUITE_P(file, attacked,
                         ::testing::Values(algorithm{"byte_ranges", opened<unio::fs::byte_ranges>},
                                           algorithm{"atomic_append", opened<unio::fs::atomic_append>},
                                           algorithm{"memory_map", opened<unio::fs::memory_map<>>}),
                         [](auto const& p) { return std::string(p.param.name); });

// Puts one thing after the other at the path, until it is killed.
[[noreturn]] void attack(std::string const& folder, std::string const& victim) {
  if (::setgid(nobody) != 0 || ::setuid(nobody) != 0) ::_exit(1);
  std::string const path = folder + "/lock";
  std::string const other = folder + "/other";
  for (unsigned i = 0;; ++i) {
    ::unlink(other.c_str());
    ::rmdir(other.c_str());
    switch (i % 6) {
      case 0:
        (void)!::symlink(victim.c_str(), other.c_str());
        break;
      case 1:
        (void)::mkfifo(other.c_str(), 0666);
        break;
      case 2:
        (void)::mkdir(other.c_str(), 0777);
        break;
      case 3:
        (void)!::link(victim.c_str(), other.c_str());
        break;
      case 4:
        (void)!::symlink("/dev/tty", other.c_str());
        break;
      default:
        ::close(::open(other.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0666));
    }
    (void)::rename(other.c_str(), path.c_str());
    if (i % 3 == 0) {
      ::unlink(path.c_str());
      ::rmdir(path.c_str());
    }
  }
}

std::string contents(std::string const& file) {
  std::ostringstream out;
  out << std::ifstream(file).rdbuf();
  return out.str();
}

TEST_P(attacked, touches_nothing_of_others_and_does_not_hang) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  test::temporary_directory const directory;
  ::chmod(directory.path().c_str(), 0711);
  std::string const folder = directory / "open";
  std::string const victim = directory / "victim";
  std::filesystem::create_directory(folder);
  ::chmod(folder.c_str(), 01777); // as /tmp
  std::ofstream(victim) << "precious";
  ::chmod(victim.c_str(), 0666);
  test::process const attacker([&](auto&) -> int { attack(folder, victim); });

  int opened_ones = 0;
  int refused = 0;
  auto const end = std::chrono::steady_clock::now() + 400ms;
  while (std::chrono::steady_clock::now() < end) {
    auto m = GetParam().open(folder + "/lock");
    ++(m ? opened_ones : refused);
    if (!m) continue;
    auto const held = (*m)->lock(entity(7), 1s);
    EXPECT_TRUE(held) << held.error().message();
    ::unlink((folder + "/lock").c_str()); // the attacker may not: it is root's
  }
  EXPECT_EQ(contents(victim), "precious");
  struct stat s;
  ASSERT_EQ(::stat(victim.c_str(), &s), 0);
  EXPECT_EQ(s.st_size, 8);
  EXPECT_GT(opened_ones + refused, 0);
}

class in_another_namespace : public ::testing::TestWithParam<algorithm> {};

INSTANTIATE_TEST_SUITE_P(of_pids, in_another_namespace,
                         ::testing::Values(algorithm{"byte_ranges", opened<unio::fs::byte_ranges>},
                                           algorithm{"atomic_append", opened<unio::fs::atomic_append>},
                                           algorithm{"memory_map", opened<unio::fs::memory_map<>>}),
                         [](auto const& p) { return std::string(p.param.name); });

// Its process is number 1 there, as ours may be here: only the lock on its byte says whether it lives.
TEST_P(in_another_namespace, a_holder_is_respected_while_it_lives_and_recovered_when_it_dies) {
  test::temporary_directory const directory;
  std::string const path = directory / "lock";
  auto ours = GetParam().open(path);
  ASSERT_TRUE(ours) << ours.error().message();
  test::process holder([&](auto& channel) {
    if (::unshare(CLONE_NEWPID) != 0) {
      channel.say('-');
      return 1;
    }
    pid_t const first = ::fork(); // number 1 of the namespace
    if (first == 0) {
      auto m = GetParam().open(path);
      auto const held = m ? (*m)->lock(entity(7)) : unio::result<unio::fs::entities_guard>(m.error());
      channel.say(held ? 'h' : '!');
      channel.hear();
      ::raise(SIGKILL); // number 1 cannot be killed from its namespace, so:
      ::_exit(0);
    }
    int status = 0;
    ::waitpid(first, &status, 0);
    channel.say('d');
    channel.hear();
    return 0;
  });
  char const said = holder.hear();
  if (said == '-') GTEST_SKIP() << "may not make a pid namespace";
  ASSERT_EQ(said, 'h');
  EXPECT_EQ((*ours)->try_lock(entity(7)).error(), unio::condition::would_block);
  holder.say('.');
  ASSERT_EQ(holder.hear(), 'd');
  auto const held = (*ours)->lock(entity(7), 5s);
  ASSERT_TRUE(held) << held.error().message();
  EXPECT_TRUE(held->owner_died());
}

} // namespace
