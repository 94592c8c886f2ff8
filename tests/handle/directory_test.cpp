// directory_handle.hpp: opening, making and listing directories; entries of every kind and name.

#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/filesystems.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

std::vector<std::byte>& buffer() {
  static std::vector<std::byte> memory(64 * 1024);
  return memory;
}

// All names, by reads into a buffer of `bytes`.
std::multiset<std::string> all_names(directory_handle& d, std::size_t bytes = 64 * 1024) {
  std::multiset<std::string> names;
  std::vector<std::byte> memory(bytes);
  for (;;) {
    auto const listing = d.read(memory);
    EXPECT_TRUE(listing) << listing.error().message();
    if (!listing) return names;
    for (directory_entry const e : *listing) names.emplace(e.name());
    if (listing->at_end()) return names;
  }
}

DIRECTORY_TEST(directory, is_opened_or_made_as_it_is_told) {
  directory.write("file", "");
  auto const open = [&](char const* name, creation c) {
    return directory_handle::directory(directory.handle(), name, c).error().value();
  };
  EXPECT_EQ(open("a", creation::open_existing), ENOENT);
  EXPECT_EQ(open("a", creation::if_needed), 0);
  EXPECT_EQ(open("a", creation::if_needed), 0);
  EXPECT_EQ(open("a", creation::only_if_not_exist), EEXIST);
  EXPECT_EQ(open("b", creation::only_if_not_exist), 0);
  EXPECT_EQ(open("a", creation::open_existing), 0);
  EXPECT_EQ(open("c", creation::always_new), EINVAL);
  EXPECT_EQ(open("a", creation::truncate_existing), EINVAL);
  EXPECT_EQ(open("file", creation::open_existing), ENOTDIR);
  EXPECT_EQ(open("file", creation::if_needed), ENOTDIR);
  EXPECT_EQ(open("", creation::open_existing), ENOENT);
  EXPECT_EQ(open("missing/a", creation::if_needed), ENOENT);
  EXPECT_EQ(directory.count(), 3);
}

DIRECTORY_TEST(directory, is_close_on_exec_and_an_anchor) {
  directory.write("a", "four");
  directory_handle const d = directory_handle::directory(directory.path()).value();
  EXPECT_EQ(d.kind(), unio::handle_kind::directory);
  EXPECT_NE(::fcntl(d.native_handle(), F_GETFD) & FD_CLOEXEC, 0);
  EXPECT_EQ(unio::file(d, "a").value().maximum_extent().value(), 4U);
  EXPECT_EQ(d.current_path().value(), directory.path());
}

DIRECTORY_TEST(directory, that_was_just_made_is_opened_through_no_link_in_its_place) {
  std::filesystem::create_directory(directory / "elsewhere");
  std::string const made = directory / "a";
  static char const* path;
  path = made.c_str();
  test::failing_calls calls;
  calls.answer<&unio::sys::table::mkdirat>(
      [](int, char const*, unsigned) noexcept -> std::int64_t { return ::symlink("elsewhere", path); });
  EXPECT_EQ(directory_handle::directory(directory.handle(), "a", creation::if_needed).error().value(),
            ENOTDIR);
}

class directory_listing_on : public test::on_each_filesystem {};

TEST_P(directory_listing_on, has_each_name_once_whatever_the_buffer) {
  std::multiset<std::string> expected;
  for (int i = 0; i != 300; ++i) {
    std::string name = std::to_string(i);
    if (i % 3 == 0) name.append(std::string(255 - name.size(), 'n'));
    if (i % 3 == 1) name.append("\xff\xfe not utf-8 \n\t");
    directory().write(name, "");
    expected.insert(name);
  }
  directory_handle d = directory_handle::directory(directory().handle(), ".").value();
  for (std::size_t const bytes : {unio::largest_directory_record, std::size_t{512}, std::size_t{4096},
                                  std::size_t{4097}, std::size_t{1} << 20}) {
    ASSERT_TRUE(d.rewind());
    EXPECT_EQ(all_names(d, bytes), expected) << bytes;
  }
}

TEST_P(directory_listing_on, says_what_it_knows_of_each) {
  directory().write("file", "");
  ASSERT_EQ(::symlink("file", (directory() / "link").c_str()), 0);
  ASSERT_EQ(::mkfifo((directory() / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(directory() / "below");
  directory_handle d = directory_handle::directory(directory().handle(), ".").value();
  auto const listing = d.read(buffer()).value();
  EXPECT_TRUE(listing.at_end());
  int count = 0;
  for (directory_entry const e : listing) {
    ++count;
    unio::metadata const m = unio::stat(d, e.c_str()).value();
    if (has(unio::known_of(e), unio::stat_fields::kind)) {
      EXPECT_EQ(e.kind(), m.kind) << e.name();
    }
    EXPECT_EQ(e.inode(), m.inode) << e.name();
  }
  EXPECT_EQ(count, 4);
}

TEST_P(directory_listing_on, is_a_snapshot_if_one_call_returned_all) {
  for (int i = 0; i != 40; ++i) directory().write("a-rather-long-name-" + std::to_string(i), "");
  directory_handle d = directory_handle::directory(directory().handle(), ".").value();
  EXPECT_TRUE(d.read(buffer())->is_snapshot());
  auto const rest = d.read(buffer()).value();
  EXPECT_TRUE(rest.empty() && rest.at_end());
  EXPECT_FALSE(rest.is_snapshot()) << "what was read before is missing";
  ASSERT_TRUE(d.rewind());
  unio::mutable_buffer const little(buffer().data(), 1024);
  auto const first = d.read(little).value();
  EXPECT_FALSE(first.at_end());
  EXPECT_FALSE(first.is_snapshot());
  ASSERT_TRUE(d.rewind());
  EXPECT_TRUE(d.read(buffer())->is_snapshot());
}

TEST_P(directory_listing_on, of_a_directory_that_was_removed_is_an_error_or_empty) {
  std::filesystem::create_directory(directory() / "gone");
  directory_handle d = directory_handle::directory(directory().handle(), "gone").value();
  std::filesystem::remove(directory() / "gone");
  auto const listing = d.read(buffer());
  if (listing) {
    EXPECT_TRUE(listing->empty() && listing->at_end());
  } else {
    EXPECT_EQ(listing.error().value(), ENOENT);
  }
  EXPECT_EQ(directory_handle::directory(d, "..").error().value(), 0) << "its parent is still known";
}

UNIO_ON_EACH_FILESYSTEM(directory_listing_on);

DIRECTORY_TEST(directory_listing, needs_room_for_one_name) {
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  std::array<std::byte, unio::largest_directory_record> memory;
  EXPECT_EQ(d.read(unio::mutable_buffer(memory.data(), memory.size() - 1)).error().value(), EINVAL);
  EXPECT_TRUE(d.read(unio::mutable_buffer(memory.data(), memory.size())));
  EXPECT_EQ(d.read({}).error().value(), EINVAL);
  directory_handle closed;
  EXPECT_EQ(closed.read(buffer()).error().value(), EBADF);
}

DIRECTORY_TEST(directory_listing, leaves_out_what_the_filter_does_not_want) {
  for (int i = 0; i != 1000; ++i) directory.write(std::to_string(i), "");
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  int asked = 0;
  unio::directory_filter const filter{.wants =
                                          [](directory_entry const& e, void* context) noexcept {
                                            ++*static_cast<int*>(context);
                                            return e.name().ends_with("7");
                                          },
                                      .context = &asked};
  std::vector<std::byte> memory(8192); // less than all of them take, more than the wanted ones
  auto const listing = d.read(memory, filter).value();
  EXPECT_TRUE(listing.at_end());
  EXPECT_FALSE(listing.is_snapshot());
  std::set<std::string> names;
  for (directory_entry const e : listing) {
    EXPECT_TRUE(e.name().ends_with("7"));
    names.emplace(e.name());
  }
  EXPECT_EQ(names.size(), 100U);
  EXPECT_EQ(asked, 1000);
  // The last and the first are wanted, none is.
  ASSERT_TRUE(d.rewind());
  auto const none = d.read(memory, {.wants = [](directory_entry const&, void*) noexcept { return false; }});
  EXPECT_TRUE(none->empty() && none->at_end());
}

DIRECTORY_TEST(directory_listing, goes_on_where_the_last_read_ended_also_after_an_error) {
  for (int i = 0; i != 100; ++i) directory.write(std::to_string(i), "");
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  std::array<std::byte, 1024> memory;
  std::multiset<std::string> names;
  test::failing_calls calls;
  for (bool at_end = false; !at_end;) {
    calls.fail<&unio::sys::table::getdents64>(names.size() % 2 == 0 ? EIO : EINTR);
    auto const listing = d.read(memory);
    if (!listing) {
      EXPECT_EQ(listing.error().value(), EIO);
      calls.fail<&unio::sys::table::getdents64>(0);
      auto const again = d.read(memory).value();
      for (directory_entry const e : again) names.emplace(e.name());
      at_end = again.at_end();
      continue;
    }
    for (directory_entry const e : *listing) names.emplace(e.name());
    at_end = listing->at_end();
  }
  EXPECT_EQ(names.size(), 100U);
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), 100U);
}

DIRECTORY_TEST(directory_listing, without_kinds_says_that_it_does_not_know_them) {
  directory.write("a", "");
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  test::failing_calls calls;
  calls.answer<&unio::sys::table::getdents64>([](int fd, void* entries, std::size_t n) noexcept {
    std::int64_t const r = unio::sys::kernel.getdents64(fd, entries, n);
    for (std::int64_t at = 0; at < r;) { // as some filesystems do (DT_UNKNOWN)
      auto* const record = static_cast<std::byte*>(entries) + at;
      record[18] = std::byte{0};
      std::uint16_t size;
      std::memcpy(&size, record + 16, sizeof(size));
      at += size;
    }
    return r;
  });
  auto const listing = d.read(buffer()).value();
  ASSERT_FALSE(listing.empty());
  directory_entry const e = *listing.begin();
  EXPECT_EQ(e.kind(), unio::entry_kind::unknown);
  EXPECT_EQ(unio::known_of(e), unio::stat_fields::inode);
}

DIRECTORY_TEST(directory_handle, clones_have_positions_of_their_own) {
  for (int i = 0; i != 50; ++i) directory.write(std::to_string(i), "");
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  std::array<std::byte, 600> memory;
  ASSERT_FALSE(d.read(memory)->at_end());
  directory_handle other = d.clone().value();
  EXPECT_EQ(all_names(other).size(), 50U);
  EXPECT_LT(all_names(d).size(), 50U);
  EXPECT_EQ(directory_handle().clone().error().value(), EBADF);
}

DIRECTORY_TEST(directory_handle, says_when_there_is_no_descriptor_left) {
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  int const next = ::dup(0);
  ::close(next);
  rlimit none = before;
  none.rlim_cur = static_cast<rlim_t>(next);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  int const error = directory_handle::directory(directory.handle(), ".").error().value();
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_EQ(error, EMFILE);
}

DIRECTORY_TEST(directory_handle, makes_its_names_durable) {
  test::failing_calls calls;
  for (std::string const& driver : test::available_drivers()) {
    auto const m = test::make_multiplexer(driver.c_str()).value();
    directory_handle d = directory_handle::directory(directory.handle(), ".").value();
    EXPECT_TRUE(d.barrier());
    d.set_multiplexer(m.get());
    EXPECT_TRUE(d.barrier());
    EXPECT_TRUE(d.barrier(unio::barrier_kind::nowait_all));
  }
  EXPECT_GE(calls.count<&unio::sys::table::fsync>(), 1);
  calls.fail<&unio::sys::table::fsync>(EIO);
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  EXPECT_EQ(d.barrier().error().value(), EIO);
}

// Whatever is made and removed meanwhile: what is there all the time is listed.
DIRECTORY_TEST(directory_listing, while_others_change_the_directory_has_what_stays) {
  for (int i = 0; i != 200; ++i) directory.write("stays-" + std::to_string(i), "");
  std::atomic<bool> stop = false;
  std::thread changing([&] {
    for (int i = 0; !stop; i = (i + 1) % 64) {
      std::string const name = directory / ("moves-" + std::to_string(i));
      std::ofstream(name).close();
      ::rename(name.c_str(), (name + "-on").c_str());
      ::unlink((name + "-on").c_str());
    }
  });
  directory_handle d = directory_handle::directory(directory.handle(), ".").value();
  for (int round = 0; round != 30; ++round) {
    ASSERT_TRUE(d.rewind());
    std::multiset<std::string> const names = all_names(d, 2048);
    EXPECT_EQ(std::ranges::count_if(names, [](auto const& n) { return n.starts_with("stays-"); }), 200);
  }
  stop = true;
  changing.join();
}

class directory_on : public test::on_each_driver {};

TEST_P(directory_on, reads_a_hundred_thousand_names_awaited) {
  test::on_filesystem const memory("tmpfs");
  if (!memory.missing().empty()) GTEST_SKIP() << memory.missing();
  constexpr int count = 100'000;
  int const at = memory.directory().handle().native_handle();
  for (int i = 0; i != count; ++i) ASSERT_EQ(::mknodat(at, std::to_string(i).c_str(), S_IFREG | 0600, 0), 0);
  directory_handle d = directory_handle::directory(memory.directory().handle(), ".").value();
  d.set_multiplexer(m_.get());
  int seen = 0;
  bool done = false;
  auto const list = [](directory_handle& from, int& names, bool& ended) -> test::coroutine {
    for (;;) {
      auto const listing = co_await from.co_read(buffer(), {});
      EXPECT_TRUE(listing);
      for (directory_entry const e : *listing) names += e.name().empty() ? 0 : 1;
      if (listing->at_end()) break;
    }
    ended = true;
  };
  test::coroutine const c = list(d, seen, done);
  while (!done) ASSERT_TRUE(m_->try_run_for(10s));
  EXPECT_EQ(seen, count);
}
UNIO_ON_BOTH_DRIVERS(directory_on);

// fsync(2) refuses what was opened without access, which is no success.
TEST(barrier, of_a_path_handle_makes_names_durable) {
  test::temporary_directory const d;
  path_handle anchor = path_handle::path(d.handle(), ".").value();
  constexpr unio::barrier_kind that_wait[] = {unio::barrier_kind::wait_all,
                                              unio::barrier_kind::wait_data_only};
  for (auto const what : that_wait) {
    EXPECT_TRUE(anchor.barrier(what));
    failing_calls calls;
    calls.fail<&table::fsync>(EIO, {.times = which_calls::all});
    EXPECT_EQ(anchor.barrier(what).error().value(), EIO);
  }
  // After those, as a worker makes a call when its job is done already.
  for (auto const what : that_wait) {
    auto const awaited = [](path_handle& h, unio::barrier_kind k) -> unio::task<std::error_code> {
      co_return (co_await h.co_barrier(k)).error();
    };
    EXPECT_EQ(unio::run(awaited(anchor, what)).value(), 0);
  }
  EXPECT_TRUE(anchor.barrier(unio::barrier_kind::nowait_all));
}

} // namespace
