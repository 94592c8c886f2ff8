// watch_handle.hpp: being told of what happens to files and in directories.

#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sys/mount.h>

namespace {

using namespace test;

/// The next events, as text: "3 created name".
std::vector<watch_event> read_from(watch_handle& w, unio::mutable_buffer memory) {
  std::vector<watch_event> all;
  auto const r = w.read(memory, long_time);
  if (!r.has_value()) {
    ADD_FAILURE() << r.error().message();
    return all;
  }
  for (watch_event const& e : *r) all.push_back(e);
  return all;
}

TEST(watch, tells_what_happens_in_a_directory) {
  test::temporary_directory d;
  watch_handle w = watch_handle::create().value();
  EXPECT_EQ(w.kind(), unio::handle_kind::watch);
  int const id = w.add(d.handle(), "",
                       watch_kinds::created | watch_kinds::removed | watch_kinds::moved_from |
                           watch_kinds::moved_to | watch_kinds::closed_written)
                     .value();
  char memory[4096];
  EXPECT_EQ(w.try_read(unio::mutable_buffer(memory)).error(), unio::condition::would_block);
  EXPECT_EQ(w.try_read_for(unio::mutable_buffer(memory), 2ms).error(), unio::condition::timed_out);
  d.write("file", "text");
  ASSERT_EQ(::mkdir((d / "a directory").c_str(), 0700), 0);
  ASSERT_EQ(::rename((d / "file").c_str(), (d / "other").c_str()), 0);
  ASSERT_EQ(::unlink((d / "other").c_str()), 0);
  auto const all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_EQ(all.size(), 6U);
  EXPECT_TRUE(all[0].is(watch_kinds::created) && all[0].name == "file" && all[0].watch == id);
  EXPECT_TRUE(all[1].is(watch_kinds::closed_written) && all[1].name == "file");
  EXPECT_TRUE(all[2].is(watch_kinds::created) && all[2].is(watch_kinds::of_directory));
  EXPECT_EQ(all[2].name, "a directory");
  EXPECT_TRUE(all[3].is(watch_kinds::moved_from) && all[3].name == "file");
  EXPECT_TRUE(all[4].is(watch_kinds::moved_to) && all[4].name == "other");
  EXPECT_NE(all[3].cookie, 0U);
  EXPECT_EQ(all[3].cookie, all[4].cookie);
  EXPECT_TRUE(all[5].is(watch_kinds::removed) && all[5].name == "other");
}

TEST(watch, is_found_relative_to_a_directory_and_by_a_path) {
  test::temporary_directory d;
  d.write("a", "");
  d.write("b", "");
  watch_handle w = watch_handle::create().value();
  int const a = w.add(d.handle(), "a", watch_kinds::modified).value();
  int const b = w.add({}, d / "b", watch_kinds::modified).value();
  int const c = w.add(d.handle(), d / "b", watch_kinds::modified).value();
  EXPECT_NE(a, b);
  EXPECT_EQ(b, c) << "the same file";
  std::ofstream(d / "a", std::ios::app) << "more";
  std::ofstream(d / "b", std::ios::app) << "more";
  char memory[1024];
  auto const all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].watch, a);
  EXPECT_EQ(all[1].watch, b);
  EXPECT_TRUE(all[0].name.empty());
}

TEST(watch, that_follows_no_link_watches_its_base_all_the_same) {
  test::temporary_directory d;
  watch_handle w = watch_handle::create().value();
  ASSERT_TRUE(w.add(d.handle(), "", watch_kinds::created | watch_kinds::no_follow));
  d.write("file", "");
  char memory[1024];
  auto const all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, "file");
}

TEST(watch, ends_when_it_is_removed_and_when_its_object_is) {
  test::temporary_directory d;
  d.write("file", "");
  watch_handle w = watch_handle::create().value();
  int const directory = w.add(d.handle(), "", watch_kinds::created).value();
  int const file = w.add(d.handle(), "file", watch_kinds::self_removed).value();
  char memory[1024];
  ASSERT_TRUE(w.remove(directory));
  EXPECT_EQ(w.remove(directory).error().value(), EINVAL);
  auto all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_TRUE(all[0].is(watch_kinds::ended) && all[0].watch == directory);
  ASSERT_EQ(::unlink((d / "file").c_str()), 0);
  all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_EQ(all.size(), 2U);
  EXPECT_TRUE(all[0].is(watch_kinds::self_removed) && all[0].watch == file);
  EXPECT_TRUE(all[1].is(watch_kinds::ended));
}

TEST(watch, tells_that_its_filesystem_was_unmounted) {
  test::temporary_directory d;
  if (::mount("none", d.path().c_str(), "tmpfs", 0, nullptr) != 0) GTEST_SKIP() << "no right to mount";
  watch_handle w = watch_handle::create().value();
  ASSERT_TRUE(w.add({}, d.path(), watch_kinds::created).has_value());
  ASSERT_EQ(::umount(d.path().c_str()), 0);
  char memory[1024];
  auto const all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_FALSE(all.empty());
  EXPECT_TRUE(all[0].is(watch_kinds::unmounted));
  EXPECT_TRUE(all.back().is(watch_kinds::ended));
}

TEST(watch, tells_that_its_queue_has_overflowed) {
  test::temporary_directory d;
  std::ifstream limit("/proc/sys/fs/inotify/max_queued_events");
  int most = 0;
  if (!(limit >> most) || most > 200'000) GTEST_SKIP() << "a queue of " << most << " events takes too long";
  d.write("a", "");
  watch_handle w = watch_handle::create().value();
  ASSERT_TRUE(w.add(d.handle(), "", watch_kinds::moved_from | watch_kinds::moved_to).has_value());
  for (int i = 0; i <= most / 2; ++i)
    ASSERT_EQ(::rename((d / (i % 2 == 0 ? "a" : "b")).c_str(), (d / (i % 2 == 0 ? "b" : "a")).c_str()), 0);
  std::vector<char> memory(1 << 20);
  int events = 0;
  bool overflowed = false;
  while (!overflowed) {
    auto const r = w.try_read(unio::mutable_buffer(memory.data(), memory.size()));
    ASSERT_TRUE(r.has_value()) << r.error().message();
    for (watch_event const& e : *r) {
      ++events;
      overflowed = overflowed || (e.is(watch_kinds::overflow) && e.watch == -1);
    }
  }
  EXPECT_EQ(events, most + 1);
}

TEST(watch, needs_a_buffer_with_room_for_an_event) {
  test::temporary_directory d;
  watch_handle w = watch_handle::create().value();
  ASSERT_TRUE(w.add(d.handle(), "", watch_kinds::created).has_value());
  std::string const name(255, 'n');
  d.write(name, "");
  char memory[watch_handle::largest_event];
  EXPECT_EQ(w.read(unio::mutable_buffer(memory, sizeof memory - 1)).error().value(), EINVAL);
  auto const all = read_from(w, unio::mutable_buffer(memory));
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].name, name);
}

TEST(watch, says_why_it_cannot_be_added) {
  test::temporary_directory d;
  d.write("file", "");
  watch_handle w = watch_handle::create().value();
  EXPECT_EQ(w.add(d.handle(), "missing", watch_kinds::created).error().value(), ENOENT);
  EXPECT_EQ(w.add(d.handle(), "file", watch_kinds::created | watch_kinds::only_directory).error().value(),
            ENOTDIR);
  EXPECT_EQ(w.add(d.handle(), "file", watch_kinds::none).error().value(), EINVAL);
  EXPECT_EQ(w.add(d.handle(), std::string("a\0b", 3), watch_kinds::created).error(),
            unio::error::embedded_nul);
  EXPECT_EQ(w.add(d.handle(), std::string(4090, 'x'), watch_kinds::created).error().value(), ENAMETOOLONG);
  test::failing_calls calls;
  calls.fail<&unio::sys::table::inotify_add_watch>(ENOSPC);
  EXPECT_EQ(w.add(d.handle(), "file", watch_kinds::created).error().value(), ENOSPC);
  calls.fail<&unio::sys::table::inotify_init>(EMFILE);
  EXPECT_EQ(watch_handle::create().error().value(), EMFILE);
  EXPECT_EQ(watch_handle().add({}, "/", watch_kinds::created).error().value(), EBADF);
}

// What is cut short, or says of itself that it is longer than it is, is not read past its end.
TEST(watch, reads_no_event_past_the_end_of_its_bytes) {
  alignas(8) std::byte bytes[64] = {};
  bytes[12] = std::byte{200}; // the length of the name
  bytes[16] = std::byte{'x'};
  for (std::size_t n = 0; n <= sizeof bytes; ++n) {
    std::vector<std::byte> const exact(bytes, bytes + n);
    unio::watch_events const events(unio::mutable_buffer(const_cast<std::byte*>(exact.data()), n));
    int count = 0;
    for (watch_event const& e : events) {
      ++count;
      EXPECT_LE(e.name.size(), n);
    }
    EXPECT_EQ(count, n < 16 ? 0 : 1) << n;
  }
}

} // namespace
