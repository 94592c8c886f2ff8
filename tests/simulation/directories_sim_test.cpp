// Directories of the simulated filesystem: made, listed, renamed, and names that stay beneath one.

#include "simulation/support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

task<std::multiset<std::string>> list(unio::path_view name, std::size_t bytes) {
  std::multiset<std::string> names;
  auto d = co_await unio::co_open_directory({}, name);
  EXPECT_TRUE(d) << d.error().message();
  std::array<std::byte, 4096> memory;
  for (bool at_end = !d; !at_end;) {
    auto const listing = co_await d->co_read(unio::mutable_buffer(memory.data(), bytes), {});
    EXPECT_TRUE(listing) << listing.error().message();
    at_end = !listing || listing->at_end();
    if (listing)
      for (unio::directory_entry const e : *listing) {
        names.emplace(e.name());
        auto const m =
            co_await unio::co_stat(*d, e.c_str(), unio::stat_fields::basic, unio::last_link::itself);
        EXPECT_TRUE(m && m->kind == e.kind() && m->inode == e.inode()) << e.name();
      }
  }
  co_return names;
}

task<> program(std::uint64_t number) {
  dice d(number);
  EXPECT_TRUE(co_await unio::co_make_directory({}, "/work", 0700U));
  auto const again = co_await unio::co_make_directory({}, "/work", 0700U);
  EXPECT_EQ(again.error().value(), EEXIST);
  unio::path_handle in = (co_await unio::co_open_path({}, "/work")).value();
  std::multiset<std::string> expected;
  for (int i = 0; i != 40; ++i) {
    std::string const name = "name-" + std::to_string(i);
    expected.insert(name);
    if (i % 4 == 0) {
      EXPECT_TRUE(co_await unio::co_make_directory(in, name, 0700U));
    } else {
      EXPECT_TRUE(unio::file(in, name, handle::mode::write, handle::creation::only_if_not_exist));
    }
  }
  std::multiset<std::string> const seen = co_await list("/work", 280 + d.below(3000));
  EXPECT_EQ(seen, expected);

  // A file and a directory get each other's names.
  auto const swapped = co_await unio::co_rename(in, "name-0", in, "name-1", relink_mode::exchange);
  EXPECT_TRUE(swapped) << swapped.error().message();
  auto const is = [](auto const& m, unio::entry_kind k) { return m && m->kind == k; };
  auto const zero = co_await unio::co_stat(in, "name-0", unio::stat_fields::kind, unio::last_link::itself);
  EXPECT_TRUE(is(zero, unio::entry_kind::file));
  auto const taken = co_await unio::co_rename(in, "name-2", in, "name-3", relink_mode::no_replace);
  EXPECT_EQ(taken.error().value(), EEXIST);
  auto const removed = co_await unio::co_unlink(in, "name-1", unlink_mode::directory);
  EXPECT_TRUE(removed);

  // What is open is followed.
  unio::file_handle f = unio::file(in, "name-2").value();
  EXPECT_TRUE(co_await f.co_relink(in, "name-4/moved", relink_mode::no_replace));
  auto const parent = co_await unio::co_parent_of(f);
  EXPECT_EQ(parent->current_path().value(), "/work/name-4");
  EXPECT_TRUE(co_await f.co_unlink());

  // Nothing leads out.
  auto const out =
      co_await unio::co_open(in, "name-4/../../etc", handle::mode::read, handle::creation::open_existing,
                             handle::caching::all, handle::flag::beneath);
  EXPECT_EQ(out.error().value(), EXDEV);
  auto const inside =
      co_await unio::co_open(in, "name-4/../name-3", handle::mode::read, handle::creation::open_existing,
                             handle::caching::all, handle::flag::beneath);
  EXPECT_TRUE(inside);

  auto gone = co_await unio::co_open_directory(in, "made", handle::creation::if_needed);
  EXPECT_TRUE(co_await unio::co_unlink(in, "made", unlink_mode::directory));
  std::array<std::byte, 512> memory;
  auto const listing = co_await gone->co_read(memory, {});
  EXPECT_EQ(listing.error().value(), ENOENT);
}

SEEDED_TEST(simulated_directories, are_made_listed_and_renamed, 200) {
  unio::run(program(s.options().seed));
  EXPECT_EQ(s.refused(), "");
}

TEST(simulated_directories, have_no_links_and_say_so) {
  unio::testing::simulation s(unio::testing::simulation_options::from_seed(1));
  auto const r = unio::make_symlink({}, "/link", "target", relink_mode::no_replace);
  EXPECT_EQ(r.error().value(), ENOSYS);
  EXPECT_NE(s.refused(), "");
}

} // namespace
