// file_operations.hpp: what the operations on a file's length and space do, and by which system calls.

#include "support/calls.hpp"
#include "support/direct_io.hpp"
#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/ofd_lock.hpp"

#include <linux/fs.h>
#include <sys/ioctl.h>

namespace {

using namespace test;
using unio::file_handle;

constexpr extent_type mebibyte = 1 << 20;

file_handle open(test::temporary_directory const& d, char const* name, creation c = creation::if_needed) {
  return file_handle::file(d.handle(), name, mode::write, c).value();
}
void put(file_handle& f, std::string_view text, extent_type at) {
  ASSERT_EQ(f.write({unio::const_buffer(text), at}).value().bytes(), text.size());
}
std::vector<file_extent> all_extents(file_handle& f) {
  std::vector<file_extent> all;
  for (extent_type from = 0;;) {
    std::array<file_extent, 2> some; // so that it takes several calls
    auto const r = f.extents(some, from).value();
    all.insert(all.end(), r.begin(), r.end());
    if (r.size() != some.size()) return all;
    from = r.back().offset + r.back().bytes;
  }
}

// ---- extents ----------------------------------------------------------------------------------------------

// 1 MiB of data, a hole, data at 4 MiB, a hole up to 8 MiB.
file_handle sparse(test::temporary_directory const& d, char const* name) {
  file_handle f = open(d, name);
  put(f, std::string(mebibyte, 'a'), 0);
  put(f, std::string(mebibyte, 'b'), 4 * mebibyte);
  EXPECT_TRUE(f.truncate(8 * mebibyte));
  return f;
}
bool has_holes(file_handle& f) { return all_extents(f).size() == 2; }

TEST(extents, are_the_parts_with_data_and_do_not_move_the_position) {
  test::temporary_directory const d;
  file_handle f = sparse(d, "a");
  ASSERT_EQ(::lseek(f.native_handle(), 77, SEEK_SET), 77);
  std::vector<file_extent> const all = all_extents(f);
  if (all.size() == 1) GTEST_SKIP() << "the filesystem has no holes";
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0], (file_extent{0, mebibyte}));
  EXPECT_EQ(all[1], (file_extent{4 * mebibyte, mebibyte}));
  EXPECT_EQ(::lseek(f.native_handle(), 0, SEEK_CUR), 77);
  std::array<file_extent, 4> some;
  EXPECT_EQ(f.extents(some, 512).value()[0], (file_extent{512, mebibyte - 512}));
  EXPECT_TRUE(f.extents(some, 5 * mebibyte).value().empty());
  EXPECT_TRUE(f.extents(some, unio::no_offset).value().empty());
  EXPECT_TRUE(f.extents({}, 0).value().empty());
}

TEST(extents, are_the_whole_file_where_nobody_can_tell) {
  test::temporary_directory const d;
  file_handle f = sparse(d, "a");
  test::replaced_calls calls;
  calls->lseek = [](int, std::int64_t, int) noexcept -> std::int64_t { return -EINVAL; };
  EXPECT_EQ(all_extents(f), (std::vector<file_extent>{{0, 8 * mebibyte}}));
}

TEST(extents, are_the_whole_file_where_it_cannot_be_opened_again) {
  test::temporary_directory const d;
  file_handle f = sparse(d, "a");
  test::replaced_calls calls;
  calls->openat = [](int, char const*, int, unsigned) noexcept -> std::int64_t { return -ENOENT; };
  EXPECT_EQ(all_extents(f), (std::vector<file_extent>{{0, 8 * mebibyte}}));
}

// ---- space ------------------------------------------------------------------------------------------------

TEST(zero, gives_storage_back) {
  test::temporary_directory const d;
  file_handle f = sparse(d, "a");
  if (!has_holes(f)) GTEST_SKIP() << "the filesystem has no holes";
  ASSERT_TRUE(f.zero(0, mebibyte));
  EXPECT_EQ(all_extents(f), (std::vector<file_extent>{{4 * mebibyte, mebibyte}}));
}

TEST(allocate, keeps_space_and_never_emulates_it) {
  test::temporary_directory const d;
  file_handle f = open(d, "a");
  ASSERT_TRUE(f.allocate(0, mebibyte, unio::allocation::keep_size));
  struct stat s{};
  ASSERT_EQ(::fstat(f.native_handle(), &s), 0);
  EXPECT_EQ(s.st_size, 0);
  EXPECT_GE(s.st_blocks * 512, static_cast<std::int64_t>(mebibyte));
  EXPECT_EQ(f.allocate(0, 0, unio::allocation::grow).error().value(), EINVAL);
  EXPECT_EQ(f.allocate(unio::no_offset, 1, unio::allocation::grow).error().value(), EFBIG);
  EXPECT_EQ(f.allocate(1, unio::no_offset, unio::allocation::grow).error().value(), EFBIG);
  test::replaced_calls calls;
  static std::atomic<int> writes;
  writes = 0;
  calls->fallocate = [](int, int, std::int64_t, std::int64_t) noexcept -> std::int64_t {
    return -EOPNOTSUPP;
  };
  calls->pwritev2 = [](int, iovec const*, int, std::int64_t, int) noexcept -> std::int64_t {
    ++writes;
    return -EIO;
  };
  EXPECT_EQ(f.allocate(0, mebibyte, unio::allocation::grow).error().value(), EOPNOTSUPP);
  EXPECT_EQ(writes, 0);
}

TEST(write_back, never_makes_a_call_that_waits_for_the_device) {
  test::temporary_directory const d;
  file_handle f = open(d, "a");
  static std::atomic<int> synced, started;
  synced = started = 0;
  test::replaced_calls calls;
  calls->fsync = calls->fdatasync = [](int) noexcept -> std::int64_t { return ++synced, 0; };
  calls->sync_file_range = [](int, std::int64_t, std::int64_t, unsigned flags) noexcept -> std::int64_t {
    EXPECT_EQ(flags, static_cast<unsigned>(SYNC_FILE_RANGE_WRITE));
    return ++started, 0;
  };
  ASSERT_TRUE(f.write_back(0, 0));
  EXPECT_EQ(synced, 0);
  EXPECT_EQ(started, 1);
  EXPECT_EQ(f.write_back(unio::no_offset, 1).error().value(), EINVAL);
}

TEST(try_barrier, never_waits_for_the_device) {
  test::temporary_directory const d;
  file_handle f = open(d, "a");
  static std::atomic<int> synced;
  synced = 0;
  test::replaced_calls calls;
  calls->fsync = calls->fdatasync = [](int) noexcept -> std::int64_t { return ++synced, 0; };
  EXPECT_EQ(f.try_barrier(unio::barrier_kind::wait_all).error(), unio::condition::would_block);
  for (auto const& driver : test::available_drivers()) {
    auto const m = test::make_multiplexer(driver.c_str()).value();
    f.set_multiplexer(m.get());
    EXPECT_EQ(f.try_barrier(unio::barrier_kind::wait_all).error(), unio::condition::would_block);
    f.set_multiplexer(nullptr);
  }
  EXPECT_EQ(synced, 0);
}

struct effect_of_caching {
  caching kind;
  int flags; // of those that it has: O_DIRECT, O_SYNC and O_DSYNC
  int syncs;
};
void expect_effects(test::temporary_directory const& d, std::vector<effect_of_caching> const& all) {
  static std::atomic<int> synced;
  for (effect_of_caching const& wanted : all) {
    synced = 0;
    std::string const name = "a" + std::to_string(static_cast<int>(wanted.kind));
    test::replaced_calls calls;
    calls->fsync = [](int fd) noexcept -> std::int64_t { return ++synced, unio::sys::kernel.fsync(fd); };
    auto f = file_handle::file(d.handle(), name, mode::write, creation::only_if_not_exist, wanted.kind);
    ASSERT_TRUE(f.has_value()) << name << ": " << f.error().message();
    int const flags = ::fcntl(f->native_handle(), F_GETFL);
    EXPECT_EQ(flags & (O_DIRECT | O_SYNC), wanted.flags) << name; // O_SYNC contains O_DSYNC
    ASSERT_TRUE(f->close());
    EXPECT_EQ(synced, wanted.syncs) << name;
  }
}

TEST(caching, decides_what_reaches_the_device) {
  test::temporary_directory const d;
  expect_effects(d, {{caching::reads, O_SYNC, 0},
                     {caching::reads_and_metadata, O_DSYNC, 0},
                     {caching::all, 0, 0},
                     {caching::safety_barriers, 0, 2},
                     {caching::temporary, 0, 0}});
}

// ---- direct I/O -------------------------------------------------------------------------------------------

TEST(direct, is_refused_where_it_would_be_buffered) {
  test::temporary_directory const d;
  if (std::string const why = test::no_direct_io(d.path()); !why.empty()) GTEST_SKIP() << why;
  test::replaced_calls calls;
  calls->statx = [](int dir, char const* path, int flags, unsigned mask, struct statx* s) noexcept {
    std::int64_t const r = unio::sys::kernel.statx(dir, path, flags, mask, s);
    if ((mask & STATX_DIOALIGN) != 0) {
      s->stx_mask |= STATX_DIOALIGN;
      s->stx_dio_mem_align = s->stx_dio_offset_align = 0;
    }
    return r;
  };
  for (creation const c : {creation::only_if_not_exist, creation::always_new}) {
    auto const f = file_handle::file(d.handle(), "a", mode::write, c, caching::only_metadata);
    int const e = f.error().value();
    EXPECT_TRUE(e == EOPNOTSUPP || e == EINVAL) << f.error().message();
    EXPECT_EQ(d.count(), 0);
  }
  d.write("a", "text");
  auto const f =
      file_handle::file(d.handle(), "a", mode::write, creation::truncate_existing, caching::only_metadata);
  EXPECT_FALSE(f);
  EXPECT_EQ(d.read("a"), "text");
}

// open(2) has made the file by then.
TEST(direct, leaves_no_new_file_where_the_kernel_refuses_it) {
  test::temporary_directory const d;
  test::replaced_calls calls;
  calls->openat = [](int dir, char const* path, int flags, unsigned mode) noexcept -> std::int64_t {
    std::int64_t const fd = unio::sys::kernel.openat(dir, path, flags & ~O_DIRECT, mode);
    if (fd < 0 || (flags & O_DIRECT) == 0) return fd;
    ::close(static_cast<int>(fd));
    return -EINVAL;
  };
  calls->fcntl = [](int fd, int command, long argument) noexcept -> std::int64_t {
    if (command == F_SETFL && (argument & O_DIRECT) != 0) return -EINVAL;
    return unio::sys::kernel.fcntl(fd, command, argument);
  };
  for (creation const c : {creation::only_if_not_exist, creation::always_new}) {
    auto const f = file_handle::file(d.handle(), "a", mode::write, c, caching::only_metadata);
    EXPECT_EQ(f.error().value(), EINVAL);
    EXPECT_EQ(d.count(), 0);
  }
}

TEST(direct, is_asked_for_by_two_kinds_of_caching) {
  test::temporary_directory const d;
  if (std::string const why = test::no_direct_io(d.path()); !why.empty()) GTEST_SKIP() << why;
  expect_effects(d, {{caching::none, O_DIRECT | O_SYNC, 0}, {caching::only_metadata, O_DIRECT, 0}});
}

// That the right bytes come proves nothing: they come through the cache as well.
TEST(direct, goes_past_the_page_cache_on_every_driver) {
  test::temporary_directory const d;
  if (std::string const why = test::no_direct_io(d.path()); !why.empty()) GTEST_SKIP() << why;
  d.write("a", std::string(4096, 'x'));
  if (auto const f = file_handle::file(d.handle(), "a", mode::read, creation::open_existing, caching::none);
      !test::refuses_unaligned(f.value().native_handle()))
    GTEST_SKIP() << "this filesystem reads what is not aligned: direct I/O cannot be told from other";
  alignas(4096) static std::byte page[4096];
  std::vector<std::string> drivers = test::available_drivers();
  drivers.emplace_back(); // blocking
  for (caching const k : {caching::none, caching::only_metadata})
    for (std::string const& driver : drivers) {
      SCOPED_TRACE(::testing::Message() << static_cast<int>(k) << ' ' << driver);
      auto const m = driver.empty() ? nullptr : test::make_multiplexer(driver.c_str()).value();
      std::string const name = "a" + std::to_string(static_cast<int>(k)) + driver;
      file_handle f = file_handle::file(d.handle(), name, mode::write, creation::if_needed, k).value();
      f.set_multiplexer(m.get());
      int const flags = ::fcntl(f.native_handle(), F_GETFL);
      EXPECT_EQ(flags & (O_DIRECT | O_SYNC), k == caching::none ? O_DIRECT | O_SYNC : O_DIRECT);

      std::fill(std::begin(page), std::end(page), std::byte{'x'});
      EXPECT_EQ(f.write({unio::const_buffer(page), 0}, 10s).bytes_transferred(), sizeof page);
      std::fill(std::begin(page), std::end(page), std::byte{0});
      EXPECT_EQ(f.read({unio::mutable_buffer(page), 0}, 10s).bytes_transferred(), sizeof page);
      EXPECT_EQ(page[4095], std::byte{'x'});
      EXPECT_EQ(f.read({unio::mutable_buffer(page + 1, 511), 1}, 10s).error().value(), EINVAL);
      EXPECT_EQ(f.write({unio::const_buffer(page + 1, 511), 1}, 10s).error().value(), EINVAL);
      EXPECT_EQ(test::cached_pages(d / name), 0);

      file_handle buffered = open(d, name.c_str());
      EXPECT_EQ(buffered.read({unio::mutable_buffer(page + 1, 511), 1}).value().bytes(), 511U);
      EXPECT_EQ(test::cached_pages(d / name), 1) << "the canary: what is read otherwise is in the cache";
      f.set_multiplexer(nullptr);
    }
}

TEST(direct, tells_what_it_has_to_be_aligned_to) {
  test::temporary_directory const d;
  if (std::string const why = test::no_direct_io(d.path()); !why.empty()) GTEST_SKIP() << why;
  auto f = file_handle::file(d.handle(), "a", mode::write, creation::if_needed, caching::only_metadata);
  ASSERT_TRUE(f.has_value()) << f.error().message();
  unio::io_alignment const a = f->direct_alignment().value();
  if (a.offset == 0) GTEST_SKIP() << "the kernel does not tell";
  EXPECT_EQ(4096 % a.offset, 0U);
  EXPECT_EQ(4096 % a.memory, 0U);
  EXPECT_LE(a.read_offset, a.offset);

  // The tail is written padded, and cut off.
  unio::buffer_pool pool(2, 8192);
  unio::lent_buffer b = pool.try_take();
  ASSERT_TRUE(b);
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % 4096, 0U);
  std::string const text(5000, 'x');
  std::copy(text.begin(), text.end(), reinterpret_cast<char*>(b.data()));
  std::fill(b.data() + text.size(), b.data() + 8192, std::byte{0});
  ASSERT_EQ(f->write({unio::const_buffer(b.data(), 8192), 0}).value().bytes(), 8192U);
  ASSERT_EQ(f->truncate(text.size()).value(), text.size());
  EXPECT_EQ(d.read("a"), text);
  EXPECT_EQ(f->try_read({unio::mutable_buffer(b.data(), 4096), 0}).error(), unio::condition::would_block);
  EXPECT_EQ(f->read({unio::mutable_buffer(b.data(), 4096), 4096}).value().bytes(), text.size() - 4096);
}

// ---- clone ------------------------------------------------------------------------------------------------

std::string contents_of_sparse() {
  return std::string(mebibyte, 'a') + std::string(3 * mebibyte, '\0') + std::string(mebibyte, 'b') +
         std::string(3 * mebibyte, '\0');
}

void clone_and_compare(clone_way expected, bool expect_way) {
  test::temporary_directory const d;
  file_handle from = sparse(d, "a");
  file_handle to = open(d, "b");
  put(to, std::string(9 * mebibyte, 'z'), 0);
  auto const r = from.clone_extents_to(0, unio::no_offset, to, 0).value();
  EXPECT_EQ(r.bytes, 8 * mebibyte);
  if (expect_way) {
    EXPECT_EQ(r.way, expected);
  }
  EXPECT_TRUE(d.read("b") == contents_of_sparse() + std::string(mebibyte, 'z'));
  if (has_holes(from) && r.way != clone_way::shared) {
    EXPECT_EQ(r.data_bytes, 2 * mebibyte);
    EXPECT_EQ(all_extents(to).size(), 3U) << "the holes are kept";
  }
  file_handle shorter = open(d, "c");
  ASSERT_TRUE(from.clone_extents_to(512, 7 * mebibyte, shorter, 100));
  EXPECT_TRUE(d.read("c") == std::string(100, '\0') + contents_of_sparse().substr(512, 7 * mebibyte));
}

TEST(clone_extents, copies_data_and_holes) { clone_and_compare(clone_way::none, false); }

void refuse_sharing(test::replaced_calls& calls, int error_number) {
  static int code;
  code = -error_number;
  calls->ioctl = [](int, unsigned long, void*) noexcept -> std::int64_t { return code; };
}
void refuse_copying(test::replaced_calls& calls, int error_number) {
  static int code;
  code = -error_number;
  calls->copy_file_range = [](int, std::int64_t*, int, std::int64_t*, std::size_t,
                              unsigned) noexcept -> std::int64_t { return code; };
}

TEST(clone_extents, copies_in_the_kernel_where_storage_cannot_be_shared) {
  for (int const e : {EOPNOTSUPP, EXDEV, EINVAL, ENOTTY, EPERM}) {
    test::replaced_calls calls;
    refuse_sharing(calls, e);
    clone_and_compare(clone_way::in_kernel, false); // or by hand, on a filesystem that refuses that too
  }
}

TEST(clone_extents, reads_and_writes_where_the_kernel_cannot_copy) {
  for (int const e : {EOPNOTSUPP, EXDEV, EINVAL, ENOSYS, EPERM, EACCES, 0}) { // 0: "read instead"
    test::replaced_calls calls;
    refuse_sharing(calls, EOPNOTSUPP);
    refuse_copying(calls, e);
    clone_and_compare(clone_way::read_and_write, true);
  }
}

TEST(clone_extents, stops_at_errors_of_the_device) {
  test::temporary_directory const d;
  file_handle from = sparse(d, "a");
  file_handle to = open(d, "b");
  for (int const e : {EIO, ENOSPC, EDQUOT}) {
    test::replaced_calls calls;
    static std::atomic<int> copies;
    copies = 0;
    refuse_sharing(calls, e);
    EXPECT_EQ(from.clone_extents_to(0, 100, to, 0).error().value(), e);
    refuse_sharing(calls, EOPNOTSUPP);
    refuse_copying(calls, e);
    calls->pwritev2 = [](int, iovec const*, int, std::int64_t, int) noexcept -> std::int64_t {
      return ++copies, -EIO;
    };
    EXPECT_EQ(from.clone_extents_to(0, 100, to, 0).error().value(), e);
    EXPECT_EQ(copies, 0) << "another way was tried";
  }
}

TEST(clone_extents, of_one_file_may_overlap_in_both_directions) {
  test::temporary_directory const d;
  std::string text;
  for (int i = 0; text.size() < 5 * mebibyte; ++i) text += std::to_string(i) + ",";
  for (auto const& [from, to] : {std::pair{0, 100}, std::pair{100, 0}, std::pair{0, 3'000'000},
                                 std::pair{3'000'000, 5}, std::pair{7, 7}}) {
    d.write("a", text);
    file_handle f = open(d, "a");
    file_handle same = open(d, "a");
    extent_type const n = 3'500'000;
    std::string expected = text;
    std::string const moved = text.substr(static_cast<std::size_t>(from), n);
    if (expected.size() < static_cast<std::size_t>(to) + moved.size())
      expected.resize(static_cast<std::size_t>(to) + moved.size());
    expected.replace(static_cast<std::size_t>(to), moved.size(), moved);
    auto const r = f.clone_extents_to(static_cast<extent_type>(from), n, same, static_cast<extent_type>(to));
    EXPECT_EQ(r.value().bytes, moved.size());
    EXPECT_TRUE(d.read("a") == expected) << from << " to " << to;
  }
}

TEST(clone_extents, reads_files_that_have_no_length) {
  test::temporary_directory const d;
  auto from = file_handle::file({}, "/proc/self/status").value();
  file_handle to = open(d, "b");
  auto const r = from.clone_extents_to(0, unio::no_offset, to, 0).value();
  EXPECT_GT(r.bytes, 100U);
  EXPECT_EQ(d.read("b").size(), r.bytes);
  EXPECT_NE(d.read("b").find("VmSize"), std::string::npos);
}

TEST(clone_extents, refuses_what_it_cannot_write) {
  test::temporary_directory const d;
  file_handle from = sparse(d, "a");
  d.write("b", "text");
  auto reader = file_handle::file(d.handle(), "b").value();
  auto appender = file_handle::file(d.handle(), "b", mode::append).value();
  EXPECT_EQ(from.clone_extents_to(0, 10, reader, 0).error().value(), EBADF);
  EXPECT_EQ(from.clone_extents_to(0, 10, appender, 0).error().value(), EBADF);
  EXPECT_EQ(from.clone_extents_to(unio::no_offset, 10, reader, 0).error().value(), EFBIG);
  EXPECT_EQ(from.clone_extents_to(9 * mebibyte, 10, appender, 0).error().value(), EBADF);
  EXPECT_EQ(d.read("b"), "text");
  auto writer = file_handle::file(d.handle(), "b", mode::write).value();
  extent_type const largest = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(from.clone_extents_to(2 * mebibyte, mebibyte, writer, largest - mebibyte + 1).error().value(),
            EFBIG);
  EXPECT_EQ(d.read("b"), "text");
}

// A range that is copied behind its own file makes that longer: not so the range, from one step to the next.
TEST(clone_extents, of_one_file_may_make_it_longer) {
  test::temporary_directory const d;
  constexpr extent_type length = 200 * mebibyte, gap = 5 * mebibyte;
  for (bool const on_a_multiplexer : {false, true}) {
    file_handle f = open(d, "a");
    file_handle same = open(d, "a");
    ASSERT_TRUE(f.truncate(0));
    put(f, "first", 0);
    put(f, "last", length - 4);
    test::replaced_calls calls;
    refuse_sharing(calls, EOPNOTSUPP);
    auto const m = unio::io_multiplexer::best_available(1).value();
    if (on_a_multiplexer) f.set_multiplexer(m.get());
    auto const r = f.clone_extents_to(0, unio::no_offset, same, length + gap).value();
    EXPECT_EQ(r.bytes, length);
    EXPECT_EQ(f.maximum_extent().value(), 2 * length + gap);
    std::array<char, 5> text;
    ASSERT_TRUE(f.read({unio::mutable_buffer(text), length + gap}));
    EXPECT_EQ(std::string_view(text.data(), 5), "first");
    ASSERT_TRUE(f.read({unio::mutable_buffer(text), 2 * length + gap - 4}));
    EXPECT_EQ(std::string_view(text.data(), 4), "last");
    f.set_multiplexer(nullptr);
  }
}

// Others may fill what is beyond the range, before the file is as long as that.
TEST(clone_extents, cuts_nothing_that_others_write_beyond_its_range) {
  test::temporary_directory const d;
  static std::string path; // empty: they have written
  static auto const others_write = []() noexcept {
    if (path.empty()) return;
    int const other = ::open(std::exchange(path, {}).c_str(), O_WRONLY | O_CLOEXEC);
    EXPECT_EQ(::pwrite(other, "other", 5, 20 * mebibyte), 5);
    ::close(other);
  };
  for (auto const& [target, at] : {std::pair{"b", extent_type{0}}, std::pair{"a", 9 * mebibyte}}) {
    file_handle from = sparse(d, "a");
    file_handle to = open(d, target);
    test::replaced_calls calls;
    refuse_sharing(calls, EOPNOTSUPP);
    calls->lseek = [](int fd, std::int64_t offset, int whence) noexcept { // lengths are known by now
      others_write();
      return unio::sys::kernel.lseek(fd, offset, whence);
    };
    if (at != 0)
      calls->fstat = [](int fd, struct stat* s) noexcept {
        auto const r = unio::sys::kernel.fstat(fd, s);
        others_write();
        return r;
      };
    path = d / target;
    EXPECT_EQ(from.clone_extents_to(0, 8 * mebibyte, to, at).value().bytes, 8 * mebibyte);
    if (!path.empty()) GTEST_SKIP() << "the filesystem has no holes";
    EXPECT_EQ(to.maximum_extent().value(), 20 * mebibyte + 5);
    EXPECT_TRUE(d.read(target).ends_with("other"));
  }
}

// It is stopped between its steps of 64 MiB, and says how far it came.
TEST(clone_extents, is_stopped_between_steps) {
  test::temporary_directory const d;
  file_handle from = open(d, "a");
  file_handle to = open(d, "b");
  constexpr extent_type length = mebibyte << 23; // enough that it cannot end before it is stopped
  if (!from.truncate(length)) GTEST_SKIP() << "the filesystem has no files of 8 TiB";
  static std::atomic<int> steps;
  steps = 0;
  test::replaced_calls calls;
  refuse_sharing(calls, EOPNOTSUPP);
  calls->lseek = [](int, std::int64_t, int) noexcept -> std::int64_t { return -EINVAL; }; // all is data
  calls->copy_file_range = [](int, std::int64_t*, int, std::int64_t*, std::size_t n,
                              unsigned) noexcept -> std::int64_t {
    ++steps;
    return static_cast<std::int64_t>(n); // nothing is copied
  };
  // Its end waits for the worker, which uses the table.
  auto const m = unio::io_multiplexer::best_available(1).value();
  from.set_multiplexer(m.get());
  test::watched op{unio::async_clone_extents(from, 0, unio::no_offset, to, 0)};
  op.start();
  while (steps < 3 && !op.finished()) (void)m->try_run_for(1ms);
  op.cancel();
  while (!op.finished()) (void)m->try_run_for(1s);
  from.set_multiplexer(nullptr);
  unio::clone_result const r = op.result().value();
  EXPECT_GE(r.bytes, 64 * mebibyte);
  EXPECT_LT(r.bytes, length);
  EXPECT_EQ(r.bytes % (64 * mebibyte), 0U);
  EXPECT_EQ(r.way, clone_way::in_kernel);
}

// Without a multiplexer the deadline ends it after a piece; overlapping ranges it does not.
TEST(clone_extents, ends_at_its_deadline_unless_the_ranges_overlap) {
  test::temporary_directory const d;
  file_handle from = open(d, "a");
  file_handle to = open(d, "b");
  put(from, std::string(3 * mebibyte, 'a'), 0);
  test::replaced_calls calls;
  refuse_sharing(calls, EOPNOTSUPP);
  refuse_copying(calls, EXDEV);
  static std::atomic<bool> is_late;
  is_late = false;
  calls->pwritev2 = [](int fd, iovec const* v, int n, std::int64_t at, int flags) noexcept {
    is_late = true;
    return unio::sys::kernel.pwritev2(fd, v, n, at, flags);
  };
  calls->steady_now = []() noexcept -> std::int64_t {
    return unio::sys::kernel.steady_now() + (is_late ? 3'600'000'000'000 : 0);
  };
  auto const r = from.clone_extents_to(0, unio::no_offset, to, 0, 60s).value();
  EXPECT_GT(r.bytes, 0U);
  EXPECT_LT(r.bytes, 3 * mebibyte);
  EXPECT_EQ(r.bytes, to.maximum_extent().value());
  is_late = false;
  EXPECT_EQ(from.clone_extents_to(0, unio::no_offset, from, 10, 60s).value().bytes, 3 * mebibyte);
}

// A POSIX lock of the process is lost when it closes any descriptor of the file.
TEST(extents, lose_no_lock_of_this_process) {
  test::temporary_directory const d;
  file_handle f = sparse(d, "a");
  file_handle to = open(d, "b");
  struct flock lock{};
  lock.l_type = F_RDLCK;
  ASSERT_EQ(::fcntl(f.native_handle(), F_SETLK, &lock), 0);
  EXPECT_EQ(all_extents(f), (std::vector<file_extent>{{0, 8 * mebibyte}}));
  EXPECT_EQ(f.clone_extents_to(0, unio::no_offset, to, 0).value().bytes, 8 * mebibyte);
  EXPECT_TRUE(d.read("b") == contents_of_sparse());
  EXPECT_EQ(unio::sys::ofd_is_locked(f.native_handle(), 0), 1);
}

} // namespace
