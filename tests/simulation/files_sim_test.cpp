// The simulated filesystem: what a program finds there is what it would find on the real one, unless the
// simulation was asked for failures.

#include "simulation/support.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/texts.hpp"

namespace {

using namespace test;
using unio::file_handle;

std::span<std::byte const> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

// A script of a hundred calls on four names and four handles, the same for the same number. Returns what it
// saw.
std::string act(unio::path_handle const& in, std::uint64_t number) {
  dice d(number);
  std::string seen;
  auto const say = [&](char what, auto const& r, auto const& value) {
    seen.push_back(what);
    if (!r) seen.push_back('!');
    seen.append(std::to_string(r ? static_cast<int>(value()) : r.error().value())).push_back(' ');
  };
  file_handle files[4];
  char const* const names[] = {"a", "b", "nowhere/c", "a/d"};
  for (int i = 0; i != 100; ++i) {
    file_handle& f = files[d.below(4)];
    switch (d.below(10)) {
      case 0:
      case 1: {
        char const* const name = names[d.below(5) % 4];
        auto const m = static_cast<handle::mode>(2 + d.below(3));
        auto const c = static_cast<handle::creation>(d.below(5));
        auto opened = file_handle::file(in, name, m, c);
        say('o', opened, [] { return 0; });
        if (opened) f = std::move(*opened);
        break;
      }
      case 2: {
        if (!f.is_open()) break;
        std::string const text(1 + d.below(50), static_cast<char>('a' + d.below(26)));
        auto const r = f.write({unio::const_buffer(text.data(), text.size()), d.below(100)});
        say('w', r, [&] { return r.bytes_transferred(); });
        break;
      }
      case 3: {
        if (!f.is_open()) break;
        std::string room(1 + d.below(80), '-');
        auto const r = f.read({unio::mutable_buffer(room.data(), room.size()), d.below(100)});
        say('r', r, [&] { return r.bytes_transferred(); });
        seen += room;
        break;
      }
      case 4: {
        if (!f.is_open()) break;
        auto const r = f.truncate(d.below(120));
        say('t', r, [&] { return *r; });
        break;
      }
      case 5: {
        if (!f.is_open()) break;
        auto const r = f.maximum_extent();
        say('e', r, [&] { return *r; });
        break;
      }
      case 6: {
        if (!f.is_open()) break;
        auto const r = f.unlink();
        say('u', r, [] { return 0; });
        break;
      }
      case 7: {
        if (!f.is_open()) break;
        auto const r = f.zero(d.below(100), d.below(60));
        say('z', r, [] { return 0; });
        break;
      }
      case 8: {
        if (!f.is_open()) break;
        auto const r = f.allocate(d.below(100), d.below(60), static_cast<unio::allocation>(d.below(2)));
        say('s', r, [] { return 0; });
        break;
      }
      default: {
        if (!f.is_open()) break;
        auto const path = f.current_path();
        seen.append(path ? path->substr(path->rfind('/')) : path.error().code().message());
        if (d.below(3) == 0) (void)f.close();
      }
    }
  }
  return seen;
}

TEST(simulated_files, are_as_the_real_ones) {
  for (std::uint64_t number = 0; number != 200; ++number) {
    std::string real, simulated;
    {
      temporary_directory const here;
      real = act(here.handle(), number);
    }
    {
      simulation s(simulation_options::orderly());
      auto const here = unio::path_handle::path("/tmp").value();
      simulated = act(here, number);
      EXPECT_EQ(s.refused(), "");
    }
    ASSERT_EQ(real, simulated) << "script " << number;
  }
}

// The canary.
TEST(simulated_files, that_differ_from_the_real_ones_are_noticed) {
  int different = 0;
  for (std::uint64_t number = 0; number != 20; ++number) {
    temporary_directory const here;
    std::string const real = act(here.handle(), number);
    simulation s(simulation_options::orderly());
    s.put_file("/tmp/b", bytes_of("one byte more"));
    different += act(unio::path_handle::path("/tmp").value(), number) != real ? 1 : 0;
  }
  EXPECT_GT(different, 3);
}

// What programs do seldom, and what comes of it: a line each.
std::string act_oddly(unio::path_handle const& in) {
  std::string seen;
  auto const say = [&](char const* what, std::error_code why) {
    seen.append(what).append(": ").append(std::to_string(why.value())).push_back('\n');
  };
  auto const make = [&](char const* name) {
    return file_handle::file(in, name, handle::mode::write, handle::creation::if_needed);
  };
  (void)unio::make_directory(in, "d", 0755U);
  (void)unio::make_directory(in, "d/e", 0755U);
  (void)make("f");
  (void)make("d/g");
  for (char const* const name : {"new/.", "f/.", "f/./.", "missing/..", "d/.", "d/.."}) {
    seen.append(name).push_back('\n');
    say("open", file_handle::file(in, name).error());
    say("make a file", make(name).error());
    say("make a directory", unio::make_directory(in, name, 0755U).error());
    say("look", unio::stat(in, name, unio::stat_fields::basic, unio::last_link::itself).error());
    say("remove a file", unio::unlink(in, name, unio::unlink_mode::file).error());
    say("rename", unio::rename(in, name, in, "h", unio::relink_mode::replace).error());
    say("rename to it", unio::rename(in, "f", in, name, unio::relink_mode::replace).error());
    say("remove", unio::unlink(in, name, unio::unlink_mode::directory).error());
  }
  say("look", unio::stat(in, "./d/./e/../e", unio::stat_fields::basic, unio::last_link::itself).error());
  using enum unio::relink_mode;
  say("rename to itself", unio::rename(in, "f", in, "f", replace).error());
  say("the same, not to replace", unio::rename(in, "f", in, "f", no_replace).error());
  say("rename to its directory", unio::rename(in, "d/g", in, "d", replace).error());
  say("rename a directory to that", unio::rename(in, "d/e", in, "d", replace).error());
  say("rename into itself", unio::rename(in, "d", in, "d/e", replace).error());
  say("the same, not to replace", unio::rename(in, "d", in, "d/e", no_replace).error());
  say("the same, to a new name", unio::rename(in, "d", in, "d/h", no_replace).error());

  file_handle reads = file_handle::file(in, "f").value();
  file_handle appends = file_handle::file(in, "f", handle::mode::append).value();
  say("lock what is read", reads.try_lock_range(0, 1, unio::lock_kind::exclusive).error());
  say("share what is read", reads.try_lock_range(0, 1, unio::lock_kind::shared).error());
  say("lock what is appended to", appends.try_lock_range(1, 1, unio::lock_kind::exclusive).error());
  say("share what is appended to", appends.try_lock_range(1, 1, unio::lock_kind::shared).error());
  say("lock too much", reads.try_lock_range(unio::no_offset / 2, 2, unio::lock_kind::shared).error());
  say("lock the last byte", reads.try_lock_range(unio::no_offset / 2, 1, unio::lock_kind::shared).error());

  file_handle writes = make("f").value();
  std::string room(4, '-');
  unio::extent_type const far = unio::no_offset / 2 + 8;
  say("write far away", writes.write({unio::const_buffer("abcd", 4), far}).error());
  say("read far away", writes.read({unio::mutable_buffer(room.data(), 4), far}).error());
  say("length", std::error_code(static_cast<int>(*writes.maximum_extent()), std::system_category()));
  auto const directory = file_handle::file(in, "d");
  if (directory)
    say("read a directory", file_handle::file(in, "d")->read(unio::mutable_buffer(room.data(), 4)).error());
  return seen;
}

TEST(simulated_files, are_as_the_real_ones_in_odd_cases) {
  std::string real, simulated;
  {
    temporary_directory const here;
    real = act_oddly(here.handle());
  }
  {
    simulation s(simulation_options::orderly());
    auto const here = unio::path_handle::path("/tmp").value();
    simulated = act_oddly(here);
    EXPECT_EQ(s.refused(), "");
  }
  EXPECT_EQ(real, simulated);
}

// A real filesystem may have room for the holes.
TEST(simulated_files, have_a_largest_size) {
  simulation s(simulation_options::orderly());
  file_handle files[] = {
      s.file(), file_handle::file({}, "/tmp/a", handle::mode::write, handle::creation::if_needed).value()};
  for (file_handle& f : files) {
    constexpr unio::extent_type far = unio::no_offset / 2 - 4096;
    EXPECT_TRUE(is(f.truncate(far).error(), EFBIG));
    EXPECT_TRUE(is(f.allocate(far, 4096, unio::allocation::grow).error(), EFBIG));
    EXPECT_TRUE(is(f.write({unio::const_buffer("abcd", 4), far}).error(), EFBIG));
    EXPECT_EQ(f.maximum_extent().value(), 0U);
    EXPECT_TRUE(f.truncate(1 << 20));
  }
}

TEST(simulated_files, have_no_space_kept_on_a_full_disk) {
  simulation_options o = simulation_options::orderly();
  o.disk_capacity = 1000;
  simulation const s(o);
  auto f = file_handle::file({}, "/tmp/a", handle::mode::write, handle::creation::if_needed).value();
  using enum unio::allocation;
  EXPECT_TRUE(f.allocate(0, 600, grow));
  EXPECT_TRUE(is(f.allocate(0, 1001, grow).error(), ENOSPC));
  EXPECT_TRUE(is(f.allocate(600, 401, keep_size).error(), ENOSPC));
  EXPECT_TRUE(f.allocate(600, 400, keep_size));
  EXPECT_EQ(f.maximum_extent().value(), 600U);
}

TEST(simulated_files, are_found_by_whoever_looks) {
  simulation s(simulation_options::orderly());
  s.put_file("/srv/data/page", bytes_of("contents"));
  auto file = file_handle::file({}, "/srv/data/page").value();
  std::string room(20, '-');
  EXPECT_EQ(file.read(unio::mutable_buffer(room.data(), room.size()))->front().size(), 8u);
  EXPECT_EQ(file.current_path().value(), "/srv/data/page");
  EXPECT_TRUE(is(file.write(unio::const_buffer("x", 1)).error(), EBADF));
  EXPECT_TRUE(is(file_handle::file({}, "/srv/data").error(), EISDIR) ||
              file_handle::file({}, "/srv/data").has_value());
  EXPECT_TRUE(is(file_handle::file({}, "/srv/data/page/x").error(), ENOTDIR));
  EXPECT_TRUE(is(s.file_contents("/srv/nothing").error(), ENOENT));
  EXPECT_TRUE(is(s.file_contents("/srv").error(), EISDIR));

  auto const data = unio::path_handle::path("/srv/data").value();
  auto made = file_handle::file(data, "../new", handle::mode::write, handle::creation::if_needed).value();
  (void)made.write(unio::const_buffer("abc", 3));
  EXPECT_EQ(text_of(s.file_contents("/srv/new").value()), "abc");

  auto temporary = file_handle::temp_file().value();
  auto const path = temporary.current_path().value();
  EXPECT_TRUE(s.file_contents(path).has_value());
  ASSERT_TRUE(temporary.close());
  EXPECT_TRUE(is(s.file_contents(path).error(), ENOENT));
  EXPECT_TRUE(file_handle::temp_inode().has_value());
}

// What a program that replaces a file leaves behind, whatever fails: the old contents or the new ones.
bool replace(char const* path, std::string_view with) {
  auto made = file_handle::file({}, path, handle::mode::write, handle::creation::always_new);
  if (!made) return false;
  for (std::size_t n = 0; n != with.size();) {
    auto const r = made->write({unio::const_buffer(with.data() + n, with.size() - n), n});
    if (!r) return false;
    n += r.bytes_transferred();
  }
  return made->barrier(unio::barrier_kind::wait_all).has_value();
}

TEST(simulated_files, fail_as_often_as_was_asked) {
  int failed = 0, done = 0;
  for_seeds<with<&simulation_options::failing_files, 5>>(500, [&](simulation& s) {
    simulation_options const& o = s.options();
    EXPECT_EQ(o.failing_files, 5u);
    ++(replace("/tmp/x", "the new contents") ? done : failed);
  });
  EXPECT_GT(failed, 50);
  EXPECT_GT(done, 50);
}

SEEDED_TEST(simulated_files, fill_the_disk, 200, with<&simulation_options::disk_capacity, 1000>) {
  auto first = file_handle::file({}, "/tmp/a", handle::mode::write, handle::creation::if_needed).value();
  std::string const much(700, 'x');
  std::size_t n = 0;
  std::error_code why;
  while (!why) {
    auto const r = first.write({unio::const_buffer(much.data(), much.size()), n});
    n += r.bytes_transferred();
    why = r.error();
  }
  EXPECT_TRUE(is(why, ENOSPC)) << why.message();
  EXPECT_EQ(n, 1000u);
  ASSERT_TRUE(first.truncate(10));
  EXPECT_TRUE(first.write({unio::const_buffer(much.data(), 5), 10}));
  EXPECT_EQ(s.file_contents("/tmp/a")->size() <= 1000, true);
}

SEEDED_TEST(simulated_files, are_locked_by_one_of_two_that_opened_them, 300) {
  auto const open = [] {
    return file_handle::file({}, "/tmp/l", handle::mode::write, handle::creation::if_needed).value();
  };
  auto a = open(), b = open();
  auto of_a = a.lock_range(0, 10, unio::lock_kind::exclusive, 1s);
  ASSERT_TRUE(of_a.has_value());
  EXPECT_EQ(b.lock_range(5, 10, unio::lock_kind::shared, 20ms).error(), unio::condition::timed_out);
  EXPECT_TRUE(b.lock_range(10, 10, unio::lock_kind::shared, 1s).has_value());
  EXPECT_TRUE(of_a->unlock());
  EXPECT_TRUE(b.lock_range(5, 10, unio::lock_kind::shared, 1s).has_value());
  // The end of a description is the end of its locks.
  auto again = a.lock_range(0, 1, unio::lock_kind::exclusive, 1s);
  ASSERT_TRUE(again.has_value());
  EXPECT_TRUE(again->unlock());
}

SEEDED_TEST(simulated_files, are_opened_by_coroutines, 500) {
  s.put_file("/etc/x", bytes_of("0123456789"));
  auto const reads = [&]() -> task<> {
    auto file = (co_await unio::co_open({}, "/etc/x")).value();
    std::string got;
    std::array<char, 4> room;
    for (;;) {
      auto const r = co_await file.co_read({unio::mutable_buffer(room), got.size()});
      if (r.value().empty()) break;
      got.append(room.data(), r.bytes_transferred());
    }
    EXPECT_EQ(got, "0123456789");
  };
  unio::run(reads());
  EXPECT_EQ(s.refused(), "");
}

TEST(simulated_files, cannot_be_mapped_and_are_refused_by_name) {
  simulation s(simulation_options::orderly());
  s.put_file("/tmp/data", bytes_of("some"));
  ::testing::internal::CaptureStderr();
  auto const mapped = unio::mapped_file_handle::mapped_file({}, "/tmp/data");
  EXPECT_TRUE(is(mapped.error(), ENOSYS)) << mapped.error().message();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "unio::testing: mmap(2) is not simulated\n");
  EXPECT_EQ(s.refused(), "mmap(2) is not simulated\n");
  EXPECT_EQ(s.open_descriptors(), 0u);
}

} // namespace
