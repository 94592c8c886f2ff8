// byte_ranges: which files it accepts, what it makes of them, its notes of deaths and their bounds. What all
// mutexes have in common is in shared_fs_mutex_test.cpp.

#include "locks/lock_file_fixture.hpp"
#include "locks/ranges_layout.hpp"
#include "support/calls.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/ofd_lock.hpp"

#include <unio/locks/byte_ranges.hpp>

#include <linux/magic.h>
#include <sys/vfs.h>

namespace {

using namespace test;
using namespace unio::fs;

constexpr std::size_t notes_bytes = 4096 + 8192 * 64;
constexpr entity a(7);

class byte_ranges_ : public test::lock_file_fixture<byte_ranges> {
 protected:
  // More than a word has bits; among them those of `dead`, shared.
  static std::vector<entity> a_hundred() {
    std::vector<entity> all;
    for (std::uint64_t v = 0; v != 100; ++v) all.emplace_back(v, v % 3 == 0);
    return all;
  }
  std::vector<entity> const dead{entity(50), entity(70), entity(98)};
  std::string const notes = directory / ".lock.notes";
};

// ── happy ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(byte_ranges_, makes_a_file_of_its_own_that_others_may_not_read) {
  (void)open();
  struct stat s;
  ASSERT_EQ(::stat(path.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600U);
  EXPECT_EQ(s.st_size, 4096);
  EXPECT_EQ(directory.read("lock").substr(0, 16), "unio byte_ranges");
  ASSERT_EQ(::stat(notes.c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 0600U);
  EXPECT_EQ(s.st_size, static_cast<off_t>(notes_bytes));
}

TEST_F(byte_ranges_, is_found_from_a_directory) {
  byte_ranges m = byte_ranges::open(directory.handle(), "lock").value();
  byte_ranges other = open();
  auto const held = m.lock(a).value();
  EXPECT_EQ(other.try_lock(a).error(), condition::would_block);
}

TEST_F(byte_ranges_, may_be_moved_while_it_holds_nothing) {
  byte_ranges m = open();
  byte_ranges moved(std::move(m));
  EXPECT_TRUE(moved.lock(a).has_value());
  m = std::move(moved);
  EXPECT_TRUE(m.lock(a).has_value());
}

TEST_F(byte_ranges_, makes_one_system_call_for_each_entity_and_one_to_let_go) {
  byte_ranges m = open();
  (void)m.lock(a).value(); // has a description from now on
  failing_calls calls;
  (void)m.lock(std::array{entity(10), entity(20), entity(30)}).value();
  EXPECT_EQ(calls.count<&table::fcntl>(), 4);
  EXPECT_EQ(calls.count_all(), 4);
}

// ── boundary ───────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(byte_ranges_, locks_from_zero_to_the_greatest_value_and_nothing_beyond) {
  byte_ranges m = open();
  byte_ranges other = open();
  std::array const ends{entity(0), entity(byte_ranges::greatest_value)};
  auto const held = m.lock(ends).value();
  for (entity const e : ends) EXPECT_EQ(other.try_lock(e).error(), condition::would_block);
  for (std::uint64_t beyond = 1; beyond != 3; ++beyond)
    EXPECT_EQ(m.try_lock(std::array{a, entity(byte_ranges::greatest_value + beyond)}).error(),
              system_error(EINVAL));
  EXPECT_TRUE(other.try_lock(a).has_value());
}

TEST_F(byte_ranges_, locks_what_it_has_no_room_to_note) {
  byte_ranges m = open();
  std::vector<entity> many; // more than all words of the file
  for (std::uint64_t i = 0; i != 3000; ++i) many.emplace_back(i << 40);
  std::string const before = directory.read(".lock.notes");
  {
    auto const held = m.lock(many).value();
    for (std::size_t i = 0; i != many.size(); i += 500)
      EXPECT_EQ(m.try_lock(many[i]).error(), condition::would_block);
  }
  EXPECT_TRUE(directory.read(".lock.notes") == before) << "a note was left behind";
}

TEST_F(byte_ranges_, finishes_a_file_that_was_not_finished) {
  std::string const whole = good();
  for (std::size_t const size : {std::size_t{0}, std::size_t{4096}, std::size_t{4097}, notes_bytes}) {
    std::string text = whole.substr(0, size);
    text.resize(size); // with the room that earlier versions made in it
    directory.write("file", text);
    byte_ranges m = byte_ranges::open(directory / "file").value();
    EXPECT_TRUE(m.lock(a).has_value());
    EXPECT_EQ(directory.read("file").substr(0, 4096), whole);
  }
  directory.write("file", std::string(4096, '\0')); // a power loss
  EXPECT_TRUE(byte_ranges::open(directory / "file").value().lock(a).has_value());
  EXPECT_EQ(directory.read("file"), whole);
  for (std::size_t const size : {std::size_t{0}, std::size_t{1}, std::size_t{4096}, notes_bytes}) {
    directory.write(".lock.notes", std::string(size, '\0'));
    die_with({a});
    EXPECT_EQ(directory.read(".lock.notes").size(), notes_bytes);
    EXPECT_TRUE(open().lock(a).value().owner_died());
  }
}

// ── what others do to its files ────────────────────────────────────────────────────────────────────────────

TEST_F(byte_ranges_, goes_on_when_its_file_is_cut_off_by_somebody_else) {
  byte_ranges m = open();
  auto held = m.lock(std::array{a, entity(8)}).value();
  std::filesystem::resize_file(path, 0); // : > lock
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
  EXPECT_TRUE(m.lock(entity(9)).has_value());
  EXPECT_EQ(open().try_lock(a).error(), condition::would_block); // makes it anew
  EXPECT_EQ(directory.read("lock").size(), 4096U);
  held.unlock();
  die_with({a});
  EXPECT_TRUE(m.lock(a).value().owner_died());
}

TEST_F(byte_ranges_, leaves_notes_alone_that_are_those_of_a_file_which_was_removed) {
  byte_ranges m = open();
  std::filesystem::remove(path);
  directory.write("in its place", ""); // keeps the number of its inode
  byte_ranges anew = open();
  die_with({a});
  EXPECT_FALSE(m.lock(a).value().owner_died());
  EXPECT_TRUE(anew.lock(a).value().owner_died());
}

TEST_F(byte_ranges_, does_not_touch_a_file_of_somebody_else_where_its_notes_should_be) {
  for (std::string const& text : {std::string("somebody's"), std::string(10'000, '\0') + "somebody's"}) {
    directory.write(".lock.notes", text);
    EXPECT_EQ(opening("lock"), error::not_a_lock_file);
    EXPECT_TRUE(directory.read(".lock.notes") == text);
  }
  std::filesystem::remove(notes);
  std::filesystem::create_symlink("elsewhere", notes);
  EXPECT_EQ(opening("lock"), system_error(ELOOP));
  EXPECT_EQ(directory.read("elsewhere"), "");
}

TEST_F(byte_ranges_, fills_no_empty_notes_that_another_may_be_about_to_fill) {
  expect_not_filled(".lock.notes", a);
}

// The maker of the notes gives them to the group a moment later.
TEST_F(byte_ranges_, waits_for_notes_that_are_not_open_to_its_group_yet) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  ASSERT_EQ(::chown(directory.path().c_str(), 0, 65534), 0);
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0770));
  (void)open();
  ASSERT_EQ(::chown(path.c_str(), 0, 65534), 0);
  std::filesystem::permissions(path, std::filesystem::perms(0660));
  int const maker = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_EQ(unio::sys::ofd_lock(maker, unio::fs::ranges_layout::making_byte, 1, true, false), 0);
  process one([&](process::channel& with) {
    ::close(maker);
    CHILD_EXPECTS(::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65533, 65533, 65533) == 0);
    with.say('o');
    return CHILD_MEETS(!opening("lock"));
  });
  one.hear();
  std::this_thread::sleep_for(20ms);
  ASSERT_EQ(::chown(notes.c_str(), 0, 65534), 0);
  std::filesystem::permissions(notes, std::filesystem::perms(0660));
  ::close(maker);
  EXPECT_EQ(one.wait(), 0);
}

TEST_F(byte_ranges_, makes_nothing_where_the_name_of_its_notes_would_be_too_long) {
  EXPECT_EQ(opening(std::string(249, 'x')), system_error(ENAMETOOLONG));
  EXPECT_EQ(directory.count(), 0);
  EXPECT_EQ(opening(std::string(248, 'x')), std::error_code());
}

TEST_F(byte_ranges_, is_made_by_many_at_once) {
  for (int i = 0; i != 20; ++i) {
    std::string const name = directory / ("lock" + std::to_string(i));
    std::vector<process> all;
    for (int k = 0; k != 4; ++k)
      all.emplace_back([&](process::channel& with) {
        with.hear();
        unio::result<byte_ranges> m = byte_ranges::open(name);
        return CHILD_MEETS(m && m->lock(a));
      });
    for (process const& p : all) p.say('g');
    for (process& p : all) EXPECT_EQ(p.wait(), 0);
  }
}

// ── deaths ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(byte_ranges_, keeps_notes_where_the_file_is_opened_anew) {
  die_with({a});
  EXPECT_TRUE(open().lock(a).value().owner_died());
  EXPECT_FALSE(open().lock(a).value().owner_died());
}

TEST_F(byte_ranges_, keeps_its_notes_when_the_device_has_another_number_after_a_restart) {
  die_with({a});
  std::string text = directory.read(".lock.notes");
  text[offsetof(unio::fs::ranges_layout::notes_header, device)] ^= 0x55;
  directory.write(".lock.notes", text);
  EXPECT_TRUE(open().lock(a).value().owner_died());
  EXPECT_FALSE(open().lock(a).value().owner_died());
}

TEST_F(byte_ranges_, tells_the_next_one_too_if_who_was_told_is_killed_however_much_it_shares) {
  die_with(dead);
  die_with(a_hundred());
  byte_ranges m = open();
  for (entity const e : dead) EXPECT_TRUE(m.lock(e).value().owner_died()) << e.value;
  for (entity const e : a_hundred()) EXPECT_EQ(m.lock(e).value().owner_died(), e.exclusive == 1) << e.value;
}

TEST_F(byte_ranges_, leaves_no_note_when_it_was_told_however_much_it_shares) {
  die_with(dead);
  byte_ranges m = open();
  EXPECT_TRUE(m.lock(a_hundred()).value().owner_died());
  EXPECT_EQ(directory.read(".lock.notes").find_first_not_of('\0', 4096), std::string::npos);
}

TEST_F(byte_ranges_, does_not_tell_of_deaths_on_a_remote_filesystem) {
  test::replaced_calls calls;
  calls->fstatfs = [](int fd, struct statfs* s) noexcept {
    auto const r = unio::sys::kernel.fstatfs(fd, s);
    s->f_type = NFS_SUPER_MAGIC;
    return r;
  };
  die_with({a});
  byte_ranges m = open();
  auto held = m.lock(a).value();
  EXPECT_FALSE(held.owner_died());
  EXPECT_EQ(open().try_lock(a).error(), condition::would_block);
  EXPECT_EQ(directory.read("lock").size(), 4096U);
  EXPECT_FALSE(std::filesystem::exists(notes));
}

TEST_F(byte_ranges_, does_not_tell_of_whom_it_could_not_note_and_keeps_what_is_noted) {
  (void)open();
  std::string full = directory.read(".lock.notes");
  std::memset(full.data() + 4096, 0x55,
              full.size() - 4096); // notes of entities that are never locked again
  directory.write(".lock.notes", full);
  die_with({a});
  EXPECT_FALSE(open().lock(a).value().owner_died());
  EXPECT_TRUE(directory.read(".lock.notes") == full);
}

// ── errors ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(byte_ranges_, refuses_what_is_no_regular_file_of_one_name) {
  std::string const whole = good();
  std::filesystem::create_directory(directory / "directory");
  std::filesystem::create_symlink("lock", directory / "link");
  std::filesystem::create_symlink("nowhere", directory / "dangling");
  std::filesystem::create_hard_link(path, directory / "second");
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  auto const names = directory.count();
  EXPECT_EQ(opening("directory"), system_error(EISDIR));
  EXPECT_EQ(opening("link"), system_error(ELOOP));
  EXPECT_EQ(opening("dangling"), system_error(ELOOP));
  EXPECT_EQ(opening("second"), error::several_names);
  EXPECT_EQ(opening("fifo"), error::not_a_lock_file);
  EXPECT_EQ(opening("nowhere/lock"), system_error(ENOENT));
  EXPECT_EQ(byte_ranges::open("/dev/null").error(), error::not_a_lock_file);
  EXPECT_EQ(byte_ranges::open("").error(), std::errc::no_such_file_or_directory);
  EXPECT_EQ(directory.count(), names);
  EXPECT_TRUE(directory.read("lock") == whole);
}

TEST_F(byte_ranges_, refuses_foreign_content_and_leaves_it_alone) {
  std::string const whole = good();
  expect_refused("x", error::not_a_lock_file);
  expect_refused(std::string(notes_bytes, '\0'), error::not_a_lock_file);
  expect_refused("unio byte_ranges", error::damaged_lock_file);
  expect_refused(whole.substr(0, 4095), error::damaged_lock_file);
  expect_refused("unio memory_map " + whole.substr(16), error::different_lock_file);
  expect_refused(whole + std::string(notes_bytes - 4096 + 1, '\0'), error::damaged_lock_file);
  std::string changed = whole;
  changed[16] = 2; // the version, without its checksum
  expect_refused(changed, error::damaged_lock_file);
}

TEST_F(byte_ranges_, refuses_a_file_of_a_newer_version) {
  std::string newer = good();
  newer[16] = 2;
  std::uint64_t const checksum = unio::fs::entity_of(std::string_view(newer).substr(0, 32)).value;
  std::memcpy(newer.data() + 32, &checksum, sizeof checksum);
  expect_refused(newer, error::newer_lock_file);
}

TEST_F(byte_ranges_, refuses_a_file_that_all_may_write) {
  (void)good();
  std::filesystem::permissions(path, std::filesystem::perms(0606));
  EXPECT_EQ(opening("lock"), error::writable_by_all);
  EXPECT_NE(opening("lock").message().find("0666"), std::string::npos);
}

TEST_F(byte_ranges_, refuses_what_belongs_to_another_and_what_it_may_not_write) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  (void)good();
  ASSERT_EQ(::chown(path.c_str(), 65534, 65534), 0);
  EXPECT_EQ(opening("lock"), system_error(EPERM));
  ASSERT_EQ(::chown(path.c_str(), 0, 0), 0);
  std::filesystem::permissions(directory.path(), std::filesystem::perms(0755));
  process other([&](process::channel&) {
    CHILD_EXPECTS(::setresgid(65534, 65534, 65534) == 0 && ::setresuid(65534, 65534, 65534) == 0);
    CHILD_EXPECTS(opening("lock") == system_error(EACCES));     // root's, and not for all
    return CHILD_MEETS(opening("new") == system_error(EACCES)); // the directory is root's
  });
  EXPECT_EQ(other.wait(), 0);
  EXPECT_EQ(directory.count(), 2);
}

TEST_F(byte_ranges_, says_so_where_the_filesystem_has_no_locks) {
  byte_ranges m = open();
  failing_calls calls;
  calls.fail<&table::fcntl>(ENOLCK, {.times = test::which_calls::all});
  EXPECT_EQ(opening("lock"), system_error(ENOLCK));
  EXPECT_EQ(m.lock(a).error(), system_error(ENOLCK));
  EXPECT_EQ(m.lock(a, 60s).error(), system_error(ENOLCK));
  EXPECT_EQ(m.try_lock(a).error(), system_error(ENOLCK));
}

TEST_F(byte_ranges_, holds_nothing_after_an_error_in_the_middle) {
  byte_ranges m = open();
  (void)m.lock(a).value();
  {
    failing_calls calls;
    calls.fail<&table::fcntl>(EIO, {.at = 3});
    EXPECT_EQ(m.lock(std::array{entity(1), entity(2), entity(3)}).error(), system_error(EIO));
  }
  byte_ranges other = open();
  for (std::uint64_t v = 1; v != 4; ++v) {
    auto const held = other.try_lock(entity(v));
    ASSERT_TRUE(held.has_value());
    EXPECT_FALSE(held->owner_died());
  }
}

TEST_F(byte_ranges_, reports_each_failure_of_making_the_file_and_is_made_the_next_time) {
  auto const failing = [&]<auto Member>(int code, int at) {
    std::filesystem::remove(path);
    std::filesystem::remove(notes);
    {
      failing_calls calls;
      calls.fail<Member>(code, {.at = at});
      EXPECT_EQ(opening("lock"), system_error(code)) << std::strerror(code);
    }
    EXPECT_EQ(opening("lock"), std::error_code());
  };
  failing.operator()<&table::pwritev2>(ENOSPC, 1);
  failing.operator()<&table::fallocate>(ENOSPC, 1);
  failing.operator()<&table::fdatasync>(EIO, 1);
  failing.operator()<&table::preadv2>(EIO, 1);
  failing.operator()<&table::mmap>(ENOMEM, 1);
  failing.operator()<&table::openat>(EMFILE, 1);
}

TEST_F(byte_ranges_, is_made_where_there_is_no_fallocate) {
  failing_calls calls;
  calls.fail<&table::fallocate>(EOPNOTSUPP, {.times = test::which_calls::all});
  byte_ranges m = open();
  EXPECT_TRUE(m.lock(a).has_value());
  EXPECT_EQ(directory.read(".lock.notes").size(), notes_bytes);
}

TEST_F(byte_ranges_, tells_a_disk_that_fails_from_a_full_one_where_there_is_no_fallocate) {
  failing_calls calls;
  calls.fail<&table::fallocate>(EOPNOTSUPP, {.times = test::which_calls::all});
  calls.fail<&table::pwritev2>(EIO, {.at = 3}); // the header, then zeros
  EXPECT_EQ(byte_ranges::open(path).error(), system_error(EIO));
}

TEST_F(byte_ranges_, reports_that_there_are_no_more_descriptors) {
  byte_ranges m = open();
  failing_calls calls;
  calls.fail<&table::openat>(EMFILE);
  EXPECT_EQ(m.lock(a).error(), system_error(EMFILE));
  EXPECT_TRUE(m.lock(a).has_value());
}

} // namespace
