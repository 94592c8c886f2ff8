// directory_entry.hpp: the records of getdents64(2).

#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/calls.hpp"

namespace {

static_assert(std::forward_iterator<unio::directory_entries::iterator>);

TEST(directory_entries, have_name_kind_and_inode_and_leave_out_the_directory_itself) {
  test::temporary_directory const directory;
  std::string const longest(255, 'n');
  directory.write("file", "");
  directory.write(longest, "");
  directory.write(".hidden", "");
  directory.write("..two", "");
  directory.write("not\xff\x80utf-8", "");
  ASSERT_EQ(::mkdir((directory / "below").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("file", (directory / "link").c_str()), 0);
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);

  int const fd = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  std::array<std::byte, 4096> buffer;
  std::int64_t const n = unio::sys::getdents64(fd, buffer.data(), buffer.size());
  ::close(fd);
  ASSERT_GT(n, 0);

  std::map<std::string, unio::entry_kind> found;
  for (unio::directory_entry const e : unio::directory_entries(buffer.data(), static_cast<std::size_t>(n))) {
    EXPECT_TRUE(found.emplace(e.name(), e.kind()).second) << e.name();
    EXPECT_EQ(e.name(), e.c_str());
    struct stat s{};
    ASSERT_EQ(::lstat((directory / e.name()).c_str(), &s), 0);
    EXPECT_EQ(e.inode(), s.st_ino);
  }
  using unio::entry_kind;
  std::map<std::string, entry_kind> const expected{
      {"file", entry_kind::file},    {longest, entry_kind::file},     {".hidden", entry_kind::file},
      {"..two", entry_kind::file},   {"fifo", entry_kind::pipe},      {"not\xff\x80utf-8", entry_kind::file},
      {"link", entry_kind::symlink}, {"below", entry_kind::directory}};
  ASSERT_EQ(found.size(), expected.size());
  for (auto const& [name, kind] : expected)
    if (found.at(name) != entry_kind::unknown) {
      EXPECT_EQ(found.at(name), kind) << name;
    }
}

TEST(directory_entries, of_an_empty_directory_are_none) {
  EXPECT_TRUE(unio::directory_entries().empty());
  std::array<std::byte, 512> buffer;
  test::temporary_directory const directory;
  int const fd = ::open(directory.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  std::int64_t const n = unio::sys::getdents64(fd, buffer.data(), buffer.size());
  ::close(fd);
  ASSERT_GT(n, 0);
  EXPECT_TRUE(unio::directory_entries(buffer.data(), static_cast<std::size_t>(n)).empty());
}

} // namespace
