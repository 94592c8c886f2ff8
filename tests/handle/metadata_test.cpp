// metadata.hpp: what is asked of files and filesystems, and what is set.

#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/filesystems.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sys/statvfs.h>
#include <sys/sysmacros.h>

namespace {

using namespace test;

unio::file_time time_of(timespec const& t) {
  return unio::file_time(std::chrono::seconds(t.tv_sec) + std::chrono::nanoseconds(t.tv_nsec));
}

class metadata_on : public test::on_each_filesystem {};

TEST_P(metadata_on, is_what_the_system_says) {
  directory().write("a", "say hello");
  unio::file_handle f = unio::file({}, directory() / "a").value();
  metadata const m = f.stat(stat_fields::everything).value();
  struct stat s{};
  ASSERT_EQ(::stat((directory() / "a").c_str(), &s), 0);
  EXPECT_TRUE(has(m.known, stat_fields::basic));
  EXPECT_EQ(m.kind, unio::entry_kind::file);
  EXPECT_EQ(m.permissions, s.st_mode & 07777);
  EXPECT_EQ(m.owner, s.st_uid);
  EXPECT_EQ(m.group, s.st_gid);
  EXPECT_EQ(m.link_count, s.st_nlink);
  EXPECT_EQ(m.inode, s.st_ino);
  EXPECT_EQ(::makedev(m.device.major, m.device.minor), s.st_dev);
  EXPECT_EQ(m.size, 9U);
  EXPECT_EQ(m.allocated, static_cast<std::uint64_t>(s.st_blocks) * 512);
  EXPECT_EQ(m.block_size, static_cast<std::uint32_t>(s.st_blksize));
  EXPECT_EQ(m.modified, time_of(s.st_mtim));
  EXPECT_EQ(m.changed, time_of(s.st_ctim));
  EXPECT_EQ(m.accessed, time_of(s.st_atim));
  if (has(m.known, stat_fields::born)) {
    EXPECT_LE(m.born, m.changed);
    EXPECT_GT(m.born, unio::file_time());
  }
  EXPECT_EQ(f.unique_id().value(), m.id());
  // Of the same name relative to a directory, by another description.
  metadata const again =
      unio::stat(directory().handle(), "a", stat_fields::everything, last_link::itself).value();
  EXPECT_EQ(again.id(), m.id());
}

TEST_P(metadata_on, is_set_to_the_nanosecond) {
  directory().write("a", "");
  unio::file_handle f = unio::file({}, directory() / "a").value();
  unio::file_time const then{std::chrono::seconds(1'234'567'890) + 123'456'789ns};
  unio::file_time const before_the_epoch{-1ns};
  ASSERT_TRUE(f.set_metadata({.permissions = 0604, .accessed = before_the_epoch, .modified = then}));
  metadata const m = f.stat().value();
  EXPECT_EQ(m.permissions, 0604);
  if (GetParam() != "xfs") { // whose older formats have no such times
    EXPECT_EQ(m.accessed, before_the_epoch);
  }
  EXPECT_EQ(m.modified, then);
  // What is not named is kept.
  ASSERT_TRUE(f.set_metadata({.accessed = then}));
  EXPECT_EQ(f.stat().value().modified, then);
  EXPECT_EQ(f.stat().value().accessed, then);
  ASSERT_TRUE(f.set_metadata({.modified = metadata_change::now}));
  EXPECT_GT(f.stat().value().modified, then);
  EXPECT_EQ(f.stat().value().accessed, then);
  EXPECT_TRUE(f.set_metadata({}));
}

TEST_P(metadata_on, is_set_by_name_and_through_handles_without_access) {
  directory().write("a", "");
  std::filesystem::create_symlink("a", directory() / "link");
  unio::path_handle const& in = directory().handle();
  unio::file_time const then{1s}, later{2s};
  ASSERT_TRUE(unio::set_metadata(in, "link", {.permissions = 0600, .modified = then}, last_link::followed));
  EXPECT_EQ(unio::stat(in, "a")->permissions, 0600);
  EXPECT_EQ(unio::stat(in, "a")->modified, then);
  ASSERT_TRUE(unio::set_metadata(in, "link", {.modified = later}, last_link::itself));
  EXPECT_EQ(unio::stat(in, "link")->modified, later);
  EXPECT_EQ(unio::stat(in, "a")->modified, then);
  EXPECT_EQ(unio::set_metadata(in, "link", {.permissions = 0600}, last_link::itself).error().value(),
            EOPNOTSUPP);
  unio::file_handle f = unio::file(in, "a", mode::attributes).value();
  ASSERT_TRUE(f.set_metadata({.permissions = 0640, .modified = later}));
  EXPECT_EQ(f.stat()->permissions, 0640);
  EXPECT_EQ(f.stat()->modified, later);
  unio::symlink_handle link = unio::symlink_handle::symlink(in, "link").value();
  ASSERT_TRUE(link.set_metadata({.modified = then}));
  EXPECT_EQ(link.stat()->modified, then);
  EXPECT_EQ(link.stat()->kind, unio::entry_kind::symlink);
}

TEST_P(metadata_on, of_a_name_follows_the_last_link_only_if_told) {
  directory().write("a", "four");
  std::filesystem::create_symlink("a", directory() / "link");
  std::filesystem::create_symlink("nowhere", directory() / "broken");
  std::filesystem::create_symlink("loop", directory() / "loop");
  unio::path_handle const& in = directory().handle();
  auto const kind = [&](char const* name, last_link how) {
    auto const m = unio::stat(in, name, stat_fields::kind, how);
    return m ? static_cast<int>(m->kind) : -m.error().value();
  };
  EXPECT_EQ(kind("link", last_link::itself), static_cast<int>(unio::entry_kind::symlink));
  EXPECT_EQ(kind("link", last_link::followed), static_cast<int>(unio::entry_kind::file));
  EXPECT_EQ(kind("broken", last_link::itself), static_cast<int>(unio::entry_kind::symlink));
  EXPECT_EQ(kind("broken", last_link::followed), -ENOENT);
  EXPECT_EQ(kind("loop", last_link::followed), -ELOOP);
  EXPECT_EQ(kind("a/b", last_link::itself), -ENOTDIR);
  EXPECT_EQ(kind("", last_link::itself), -ENOENT);
}

TEST_P(metadata_on, has_the_volume_in_bytes) {
  unio::path_handle in = unio::path_handle::path(directory().path()).value();
  unio::volume const v = in.stat_volume().value();
  struct statvfs s{};
  ASSERT_EQ(::statvfs(directory().path().c_str(), &s), 0);
  EXPECT_EQ(v.total, std::uint64_t{s.f_blocks} * s.f_frsize);
  EXPECT_LE(v.available, v.free);
  EXPECT_LE(v.free, v.total);
  EXPECT_EQ(v.longest_name, s.f_namemax);
  EXPECT_FALSE(v.is_read_only);
  if (GetParam() != "default") {
    EXPECT_EQ(v.is_in_memory(), GetParam() == "tmpfs");
  }
}

UNIO_ON_EACH_FILESYSTEM(metadata_on);

TEST(metadata, of_the_root_of_a_mount_says_so) {
  unio::directory_handle proc = unio::directory_handle::directory("/proc").value();
  metadata const m = proc.stat().value();
  if (!has(m.attributes_known, unio::file_attributes::mount_root)) GTEST_SKIP() << "the kernel does not say";
  EXPECT_TRUE(has(m.attributes, unio::file_attributes::mount_root));
  unio::directory_handle below = unio::directory_handle::directory(proc, "self").value();
  EXPECT_FALSE(has(below.stat()->attributes, unio::file_attributes::mount_root));
}

TEST(metadata, of_pipes_sockets_and_devices_is_known_too) {
  auto ends = unio::pipe_handle::anonymous().value();
  EXPECT_EQ(ends.reader.stat()->kind, unio::entry_kind::pipe);
  EXPECT_EQ(ends.writer.unique_id().value(), ends.reader.unique_id().value());
  auto socket = unio::socket_handle::create(unio::address_family::ipv4).value();
  EXPECT_EQ(socket.stat()->kind, unio::entry_kind::socket);
  metadata const null = unio::stat({}, "/dev/null").value();
  EXPECT_EQ(null.kind, unio::entry_kind::character_device);
  EXPECT_EQ(null.represents, (unio::device_id{1, 3}));
  unio::handle closed;
  EXPECT_EQ(closed.stat().error().value(), EBADF);
  EXPECT_EQ(closed.unique_id().error().value(), EBADF);
}

DIRECTORY_TEST(metadata, of_many_names_is_empty_where_one_has_failed) {
  directory.write("a", "");
  unio::stat_of_name all[] = {{.name = "a"}, {.name = "missing"}};
  all[1].value = unio::stat(directory.handle(), "a").value(); // of an earlier call
  ASSERT_TRUE(unio::stat_all(directory.handle(), all));
  EXPECT_FALSE(all[0].error);
  EXPECT_TRUE(has(all[0].value.known, stat_fields::basic));
  EXPECT_EQ(all[1].error, std::errc::no_such_file_or_directory);
  EXPECT_EQ(all[1].value.known, stat_fields::none);
  EXPECT_EQ(all[1].value.inode, 0U);
}

// No field is left as an earlier call has set it.
DIRECTORY_TEST(metadata, of_many_names_replaces_all_that_was_there) {
  directory.write("a", "");
  unio::stat_of_name all[] = {{.name = "a"}, {.name = "a"}};
  std::memset(static_cast<void*>(&all[0].value), 0, sizeof(metadata));
  std::memset(static_cast<void*>(&all[1].value), 0xff, sizeof(metadata));
  ASSERT_TRUE(unio::stat_all(directory.handle(), all, stat_fields::everything));
  auto const bytes = [](metadata const& m) { return reinterpret_cast<unsigned char const*>(&m); };
  std::size_t left = 0;
  for (std::size_t i = 0; i != sizeof(metadata); ++i)
    left += bytes(all[0].value)[i] != bytes(all[1].value)[i] ? 1 : 0;
  constexpr std::size_t padding = offsetof(metadata, permissions) - offsetof(metadata, kind) - 1;
  EXPECT_LE(left, padding);
}

DIRECTORY_TEST(metadata, cuts_times_that_it_cannot_hold) {
  directory.write("a", "");
  test::failing_calls calls;
  calls.answer<&unio::sys::table::statx>(
      [](int dir, char const* path, int flags, unsigned mask, struct statx* s) noexcept {
        std::int64_t const r = unio::sys::kernel.statx(dir, path, flags, mask, s);
        s->stx_mtime.tv_sec = std::numeric_limits<std::int64_t>::max();
        s->stx_atime.tv_sec = std::numeric_limits<std::int64_t>::min();
        return r;
      });
  metadata const m = unio::stat(directory.handle(), "a").value();
  EXPECT_EQ(m.modified, unio::file_time::max());
  EXPECT_EQ(m.accessed, unio::file_time::min());
}

DIRECTORY_TEST(metadata, that_cannot_be_set_says_why_and_stops_there) {
  directory.write("a", "");
  unio::file_handle f = unio::file(directory.handle(), "a").value();
  metadata_change const all{.permissions = 0600, .owner = ::geteuid(), .modified = metadata_change::now};
  {
    test::failing_calls calls;
    calls.fail<&unio::sys::table::fchownat>(EPERM);
    EXPECT_EQ(f.set_metadata(all).error().value(), EPERM);
    EXPECT_EQ(calls.count<&unio::sys::table::fchmod>(), 0);
    calls.fail<&unio::sys::table::fchmod>(EROFS);
    EXPECT_EQ(f.set_metadata(all).error().value(), EROFS);
    EXPECT_EQ(calls.count<&unio::sys::table::utimensat>(), 0);
    calls.fail<&unio::sys::table::utimensat>(EACCES);
    EXPECT_EQ(f.set_metadata(all).error().value(), EACCES);
    EXPECT_TRUE(f.set_metadata(all));
  }
  // Before Linux 6.6 a name whose last link is not followed takes a detour.
  test::failing_calls calls;
  calls.answer<&unio::sys::table::fchmodat2>(
      [](int dir, char const* path, unsigned permissions, int flags) noexcept -> std::int64_t {
        if (flags != 0) return -ENOSYS;
        return unio::sys::kernel.fchmodat2(dir, path, permissions, flags);
      });
  EXPECT_TRUE(unio::set_metadata(directory.handle(), "a", {.permissions = 0611}, last_link::itself));
  EXPECT_EQ(f.stat()->permissions, 0611);
  std::filesystem::create_symlink("a", directory / "link");
  EXPECT_EQ(unio::set_metadata(directory.handle(), "link", {.permissions = 0600}, last_link::itself)
                .error()
                .value(),
            EOPNOTSUPP);
}

class metadata_with : public test::on_each_driver {};

// Where the filesystem is on a disk of this machine, its metadata is in memory.
TEST_P(metadata_with, what_is_at_hand_takes_no_thread) {
  test::temporary_directory const directory;
  directory.write("a", "four");
  unio::file_handle f = unio::file(directory.handle(), "a").value();
  if (f.stat()->device.major == 0) GTEST_SKIP() << "the temporary directory is on no disk";
  ASSERT_TRUE(unio::stat(directory.handle(), "a")); // now the name is cached
  std::vector<unio::io_result<metadata>> told;
  unio::path_handle in = unio::path_handle::path(directory.path()).value();
  for (unio::handle* h : {static_cast<unio::handle*>(&f), static_cast<unio::handle*>(&in)}) {
    h->set_multiplexer(m_.get());
  }
  auto by_handle = unio::connect(unio::async_stat(f, stat_fields::size), test::keep{&told});
  auto by_name =
      unio::connect(unio::async_stat(in, "a", stat_fields::size, last_link::itself), test::keep{&told});
  by_handle.start();
  by_name.start();
  while (!by_name.finished() || !by_handle.finished()) (void)m_->run();
  ASSERT_EQ(told.size(), 2U);
  EXPECT_EQ(told[0]->size, 4U);
  EXPECT_EQ(told[1]->size, 4U);
  EXPECT_EQ(m_->counters().worker_jobs, 0U);
}

TEST_P(metadata_with, what_a_server_may_have_to_be_asked_for_is_asked_by_a_thread) {
  test::on_filesystem const memory("tmpfs"); // as a network's, it has no device
  if (!memory.missing().empty()) GTEST_SKIP() << memory.missing();
  memory.directory().write("a", "four");
  unio::file_handle f = unio::file(memory.directory().handle(), "a").value();
  f.set_multiplexer(m_.get());
  std::vector<unio::io_result<metadata>> told;
  auto connected = unio::connect(unio::async_stat(f, stat_fields::size), test::keep{&told});
  connected.start();
  while (!connected.finished()) (void)m_->run();
  EXPECT_EQ(told.at(0)->size, 4U);
  EXPECT_EQ(m_->counters().worker_jobs, 1U);
}
UNIO_ON_BOTH_DRIVERS(metadata_with);

} // namespace
