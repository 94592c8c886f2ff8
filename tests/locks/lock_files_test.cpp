// lock_files: what lies in the directory and when, what it refuses there. What all mutexes have in common is
// in shared_fs_mutex_test.cpp.

#include "locks/lock_file_fixture.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/locks/lock_files.hpp>

namespace {

using namespace test;
using namespace unio::fs;

constexpr entity a(7);
constexpr char const* name_of_a = "0000000000000007";
constexpr entity b(0x7edcba9876543210);
constexpr char const* name_of_b = "7edcba9876543210";

ino_t inode_of(std::string const& path) {
  struct stat s = {};
  EXPECT_EQ(::lstat(path.c_str(), &s), 0);
  return s.st_ino;
}

class lock_files_ : public ::testing::Test {
 protected:
  [[nodiscard]] std::error_code opening(std::string const& path) const {
    return lock_files::open(path).error();
  }
  [[nodiscard]] lock_files open() const { return lock_files::open(directory.path()).value(); }
  [[nodiscard]] bool exists(char const* name) const { return std::filesystem::exists(directory / name); }
  void die_with(std::vector<entity> const& entities) const {
    test::die_with([this] { return open(); }, entities);
  }

  test::temporary_directory directory;
};

// ── happy ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(lock_files_, shows_what_is_locked_while_it_is) {
  lock_files m = open();
  {
    auto const held = m.lock(std::array{a, b.shared()}).value();
    EXPECT_TRUE(exists(name_of_a));
    EXPECT_TRUE(exists(name_of_b));
    EXPECT_EQ(directory.count(), 2);
  }
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(lock_files_, makes_seven_system_calls_for_each_entity_and_eight_to_share_one) {
  lock_files m = open();
  failing_calls calls;
  (void)m.lock(std::array{a, b}).value();
  EXPECT_EQ(calls.count_all(), 2 * 7);
  failing_calls again;
  (void)m.lock(a.shared()).value();
  EXPECT_EQ(again.count_all(), 8);
}

TEST_F(lock_files_, leaves_nothing_when_shared_owners_leave_in_any_order) {
  lock_files m = open();
  std::vector<entities_guard> all;
  for (int i = 0; i != 4; ++i) all.push_back(m.lock(a.shared()).value());
  all.erase(all.begin() + 1);
  EXPECT_EQ(directory.count(), 1);
  all.clear();
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(lock_files_, leaves_nothing_when_all_have_let_go_at_once) {
  std::vector<process> all;
  for (unsigned i = 0; i != 4; ++i)
    all.emplace_back([&, i](process::channel&) {
      lock_files m = open();
      for (unsigned k = 0; k != 500; ++k) CHILD_EXPECTS(m.lock(entity(k % 2, (k + i) % 3 == 0)));
      return 0;
    });
  for (process& p : all) EXPECT_EQ(p.wait(), 0);
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(lock_files_, is_found_from_a_directory_and_may_be_moved) {
  lock_files m = lock_files::open(directory.handle(), ".").value();
  lock_files moved(std::move(m));
  lock_files other = open();
  auto const held = moved.lock(a).value();
  EXPECT_EQ(other.try_lock(a).error(), condition::would_block);
}

TEST_F(lock_files_, leaves_nothing_of_a_request_that_failed) {
  lock_files m = open();
  lock_files other = open();
  auto const held = m.lock(b).value();
  EXPECT_EQ(other.try_lock(std::array{a, b}).error(), condition::would_block);
  EXPECT_EQ(other.lock(std::array{a.shared(), b}, 5ms).error(), condition::timed_out);
  EXPECT_EQ(directory.count(), 1);
}

// ── deaths ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(lock_files_, removes_what_the_dead_left_when_the_next_owner_lets_go) {
  die_with({a});
  EXPECT_EQ(directory.count(), 1);
  lock_files m = open();
  EXPECT_TRUE(m.lock(a).value().owner_died());
  EXPECT_EQ(directory.count(), 0);
  die_with({a.shared()});
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(lock_files_, takes_a_file_that_nobody_has_locked_for_no_death) {
  directory.write(name_of_a, ""); // its maker died before it could lock it
  std::filesystem::permissions(directory / name_of_a, std::filesystem::perms(0600));
  lock_files m = open();
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(lock_files_, leaves_the_news_to_the_next_one_if_a_told_one_dies_among_shared_owners) {
  die_with({a});
  lock_files m = open();
  process told([&](process::channel& with) {
    lock_files own = open();
    auto const held = own.lock(a.shared()).value();
    with.say(held.owner_died() ? 'd' : 'h');
    with.hear();
    return 0;
  });
  EXPECT_EQ(told.hear(), 'd');
  auto second = m.lock(a.shared()).value();
  EXPECT_FALSE(second.owner_died());
  told.kill();
  second.unlock(); // the last to share it, and not the one that got the report
  EXPECT_TRUE(m.lock(a.shared()).value().owner_died());
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_FALSE(exists(name_of_a)); // an NFS client may still be removing what the dead had open
}

TEST_F(lock_files_, begins_again_when_the_file_it_waited_for_was_replaced) {
  lock_files m = open();
  auto held = m.lock(a).value();
  process waiting([&](process::channel& with) {
    lock_files own = open();
    with.say('w');
    auto const mine = own.lock(a);
    with.say(mine ? 'l' : 'e');
    with.hear();
    return 0;
  });
  EXPECT_EQ(waiting.hear(), 'w');
  std::this_thread::sleep_for(20ms);
  std::filesystem::rename(directory / name_of_a, directory / "elsewhere");
  held.unlock(); // what is waited for is locked now, but is not what the name leads to
  EXPECT_EQ(waiting.hear(), 'l');
  EXPECT_TRUE(exists(name_of_a));
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
}

TEST_F(lock_files_, does_not_remove_what_took_the_place_of_a_removed_file) {
  lock_files m = open();
  auto held = m.lock(a).value();
  std::filesystem::remove(directory / name_of_a);
  lock_files other = open();
  auto const again = other.lock(a).value();
  held.unlock();
  EXPECT_TRUE(exists(name_of_a));
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
}

TEST_F(lock_files_, does_not_call_it_a_death_when_the_file_cannot_be_removed) {
  lock_files m = open();
  {
    auto held = m.lock(a).value();
    failing_calls calls;
    calls.fail<&table::unlinkat>(EIO);
    held.unlock();
  }
  EXPECT_EQ(directory.count(), 1);
  {
    auto held = m.lock(a).value();
    EXPECT_FALSE(held.owner_died());
    failing_calls calls;
    calls.fail<&table::fstat>(EIO);
    held.unlock();
  }
  EXPECT_EQ(directory.count(), 1);
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_EQ(directory.count(), 0);
}

// Where other machines change the files it says in its mode that it is being removed.
TEST_F(lock_files_, removes_what_somebody_was_about_to_remove_who_died) {
  for (entity const e : {a, a.shared()}) {
    directory.write(name_of_a, "");
    std::filesystem::permissions(directory / name_of_a, std::filesystem::perms(0610));
    ino_t const before = inode_of(directory / name_of_a);
    int const keeps_the_number = ::open((directory / name_of_a).c_str(), O_RDONLY | O_CLOEXEC);
    lock_files m = open();
    {
      auto const held = m.try_lock(e).value();
      EXPECT_FALSE(held.owner_died());
      EXPECT_NE(inode_of(directory / name_of_a), before);
    }
    EXPECT_FALSE(exists(name_of_a));
    ::close(keeps_the_number);
  }
}

TEST_F(lock_files_, does_not_remove_what_took_the_place_of_a_file_that_an_nfs_client_has_renamed) {
  lock_files m = open();
  auto held = m.lock(a).value();
  std::filesystem::rename(directory / name_of_a, directory / ".nfs0001");
  std::filesystem::permissions(directory / ".nfs0001", std::filesystem::perms(0610));
  lock_files other = open();
  auto const again = other.lock(a).value();
  held.unlock();
  EXPECT_TRUE(exists(name_of_a));
}

// ── errors ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(lock_files_, refuses_what_is_no_directory_of_ours) {
  directory.write("file", "x");
  std::filesystem::create_directory(directory / "open");
  std::filesystem::permissions(directory / "open", std::filesystem::perms(0777));
  std::filesystem::create_directory(directory / "real");
  std::filesystem::create_directory_symlink("real", directory / "link");
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(opening(directory / "file"), system_error(ENOTDIR));
  EXPECT_EQ(opening(directory / "fifo"), system_error(ENOTDIR));
  EXPECT_EQ(opening("/dev/null"), system_error(ENOTDIR));
  EXPECT_EQ(opening(directory / "link"), system_error(ELOOP));
  EXPECT_EQ(opening(directory / "nowhere"), system_error(ENOENT));
  EXPECT_EQ(opening(directory / "open"), error::writable_by_all);
  EXPECT_EQ(directory.read("file"), "x");
  EXPECT_EQ(directory.count(), 5);
}

TEST_F(lock_files_, refuses_what_is_no_lock_file_at_the_name_of_an_entity) {
  lock_files m = open();
  std::string const at = directory / name_of_a;
  auto const refused = [&](std::error_code why) {
    EXPECT_EQ(m.lock(a).error(), why);
    EXPECT_EQ(m.try_lock(a.shared()).error(), why);
    EXPECT_TRUE(std::filesystem::exists(std::filesystem::symlink_status(at)));
    std::filesystem::remove(at);
  };
  directory.write("other", "");
  std::filesystem::create_symlink("other", at);
  refused(system_error(ELOOP));
  std::filesystem::create_hard_link(directory / "other", at);
  refused(error::several_names);
  std::filesystem::create_directory(at);
  refused(system_error(EISDIR));
  ASSERT_EQ(::mkfifo(at.c_str(), 0600), 0);
  refused(error::not_a_lock_file);
  directory.write(name_of_a, "somebody's work");
  refused(error::not_a_lock_file);
  directory.write(name_of_a, "");
  std::filesystem::permissions(at, std::filesystem::perms(0606));
  refused(error::writable_by_all);
  if (::geteuid() == 0) {
    directory.write(name_of_a, "");
    ASSERT_EQ(::chown(at.c_str(), 65534, 65534), 0);
    refused(system_error(EPERM));
  }
  EXPECT_EQ(directory.count(), 1);
}

TEST_F(lock_files_, refuses_the_directory_of_another_and_one_it_may_not_write) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  std::filesystem::create_directory(directory / "theirs");
  ASSERT_EQ(::chown((directory / "theirs").c_str(), 65534, 65534), 0);
  EXPECT_EQ(opening(directory / "theirs"), system_error(EPERM));
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  process other([&](process::channel&) {
    CHILD_EXPECTS(::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0);
    CHILD_EXPECTS(!opening(directory / "theirs"));
    return CHILD_MEETS(opening(directory.path()) == system_error(EACCES));
  });
  EXPECT_EQ(other.wait(), 0);
}

TEST_F(lock_files_, says_so_where_the_filesystem_has_no_locks_and_makes_nothing) {
  for (bool const has_nameless_files : {true, false}) {
    failing_calls calls;
    calls.fail<&table::fcntl>(ENOLCK, {.times = test::which_calls::all});
    if (!has_nameless_files) calls.fail<&table::openat>(EOPNOTSUPP, {.at = 4});
    EXPECT_EQ(opening(directory.path()), system_error(ENOLCK));
    EXPECT_EQ(directory.count(), 0);
  }
}

TEST_F(lock_files_, reports_errors_as_such_and_holds_nothing) {
  lock_files m = open();
  lock_files other = open();
  auto const failing = [&]<auto Member>(int code, int at) {
    {
      failing_calls calls;
      calls.fail<Member>(code, {.at = at});
      EXPECT_EQ(m.lock(std::array{a, b}, 60s).error(), system_error(code));
      EXPECT_EQ(calls.failures<Member>(), 1);
    }
    auto const held = other.try_lock(std::array{a, b});
    ASSERT_TRUE(held.has_value());
    EXPECT_FALSE(held->owner_died());
  };
  for (int const at : {1, 2}) {
    failing.operator()<&table::openat>(EMFILE, at);
    failing.operator()<&table::fcntl>(ENOLCK, at);
    failing.operator()<&table::fstat>(EIO, at);
    failing.operator()<&table::fchmod>(EROFS, at);
  }
  EXPECT_EQ(directory.count(), 0);
}

TEST_F(lock_files_, begins_again_when_another_machine_has_removed_the_file_but_not_for_ever) {
  lock_files m = open();
  for (unio::deadline const d : {unio::deadline(), unio::deadline(60s), unio::deadline::zero()}) {
    failing_calls calls;
    calls.fail<&table::fstat>(ESTALE, {.times = 3}); // nfs(5)
    EXPECT_TRUE(m.lock(a, d).has_value());
    calls.fail<&table::fstat>(ESTALE, {.times = test::which_calls::all});
    EXPECT_EQ(m.lock(a, d).error(), system_error(ESTALE));
    EXPECT_LT(calls.count<&table::fstat>(), 100);
  }
}

TEST_F(lock_files_, waits_for_an_nfs_client_that_has_a_lease_on_the_file) {
  lock_files m = open();
  for (unio::deadline const d : {unio::deadline(), unio::deadline(60s), unio::deadline::zero()}) {
    directory.write(name_of_a, ""); // its maker died
    failing_calls calls;
    calls.fail<&table::openat>(EAGAIN, {.at = 2}); // open(2), O_NONBLOCK; the first finds the file there
    auto const held = m.lock(a, d);
    EXPECT_EQ(calls.failures<&table::openat>(), 1);
    EXPECT_EQ(held.has_value(), !d.is_zero());
    if (!held) {
      EXPECT_EQ(held.error(), condition::would_block);
    }
  }
}

TEST_F(lock_files_, reports_that_it_cannot_look_at_the_file_of_another) {
  lock_files m = open();
  auto const held = m.lock(a).value();
  lock_files other = open();
  for (unio::deadline const d : {unio::deadline(), unio::deadline(60s), unio::deadline::zero()}) {
    failing_calls calls;
    calls.fail<&table::fstat>(EIO, {.times = test::which_calls::all});
    EXPECT_EQ(other.lock(a, d).error(), system_error(EIO));
    EXPECT_EQ(calls.failures<&table::fstat>(), 1);
  }
}

TEST_F(lock_files_, refuses_more_entities_than_there_can_be_descriptors_before_it_locks_any) {
  process limited([&](process::channel&) {
    rlimit const few{.rlim_cur = 100, .rlim_max = 100};
    ::setrlimit(RLIMIT_NOFILE, &few);
    lock_files m = open();
    std::vector<entity> many;
    for (std::uint64_t i = 0; i != 100; ++i) many.emplace_back(i);
    {
      failing_calls calls;
      CHILD_EXPECTS(m.lock(many).error() == error::too_many_entities && calls.count<&table::openat>() == 0);
    }
    many.pop_back();
    CHILD_EXPECTS(m.lock(many).error() == system_error(EMFILE));
    CHILD_EXPECTS(directory.count() == 0);
    many.resize(50);
    return CHILD_MEETS(m.lock(many).has_value());
  });
  EXPECT_EQ(limited.wait(), 0);
}

TEST_F(lock_files_, reports_that_the_directory_is_gone) {
  std::filesystem::create_directory(directory / "locks");
  lock_files m = lock_files::open(directory / "locks").value();
  std::filesystem::remove(directory / "locks");
  EXPECT_EQ(m.lock(a).error(), system_error(ENOENT));
}

} // namespace
