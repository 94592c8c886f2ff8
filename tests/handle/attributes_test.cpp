// attributes.hpp: extended attributes of what is open, and of names.

#include "support/failing_calls.hpp"
#include "support/filesystems.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sys/xattr.h>

namespace {

using namespace test;

static_assert(std::forward_iterator<unio::attribute_names::iterator>);

std::string_view text(unio::mutable_buffer b) { return {reinterpret_cast<char const*>(b.data()), b.size()}; }
unio::const_buffer bytes(std::string_view s) { return {s.data(), s.size()}; }

class attributes_on : public test::on_each_filesystem {
 protected:
  void SetUp() override {
    on_each_filesystem::SetUp();
    if (IsSkipped()) return;
    directory().write("a", "");
    if (::setxattr((directory() / "a").c_str(), "user.probe", "x", 1, 0) != 0)
      GTEST_SKIP() << "no extended attributes of users here";
    ::removexattr((directory() / "a").c_str(), "user.probe");
  }
  std::array<char, 512> memory_;
};

TEST_P(attributes_on, are_set_read_listed_and_removed) {
  unio::path_handle const& in = directory().handle();
  unio::file_handle f = unio::file(in, "a").value();
  EXPECT_TRUE(f.set_attribute("user.one", bytes("first"), attribute_mode::set));
  EXPECT_EQ(f.set_attribute("user.one", bytes("x"), attribute_mode::create).error().value(), EEXIST);
  EXPECT_EQ(f.set_attribute("user.two", bytes("x"), attribute_mode::replace).error().value(), ENODATA);
  EXPECT_TRUE(f.set_attribute("user.two", {}, attribute_mode::create));
  EXPECT_TRUE(f.set_attribute("user.one", bytes("once more"), attribute_mode::replace));
  EXPECT_EQ(text(f.get_attribute("user.one", memory_).value()), "once more");
  EXPECT_TRUE(f.get_attribute("user.two", memory_)->empty());
  std::set<std::string> names;
  auto const listed = f.list_attributes(memory_).value();
  for (std::string_view const n : listed)
    if (n.starts_with("user.")) names.emplace(n);
  EXPECT_EQ(names, (std::set<std::string>{"user.one", "user.two"}));
  EXPECT_TRUE(f.remove_attribute("user.one"));
  EXPECT_EQ(f.remove_attribute("user.one").error().value(), ENODATA);
  EXPECT_EQ(f.get_attribute("user.one", memory_).error().value(), ENODATA);
}

TEST_P(attributes_on, are_those_of_names_and_of_handles_without_access) {
  unio::path_handle const& in = directory().handle();
  ASSERT_TRUE(unio::make_symlink(in, "link", "a", unio::relink_mode::replace));
  EXPECT_TRUE(
      unio::set_attribute(in, "link", "user.one", bytes("value"), attribute_mode::set, last_link::followed));
  EXPECT_EQ(text(unio::get_attribute(in, "a", "user.one", memory_, last_link::itself).value()), "value");
  // Links have none of users.
  EXPECT_EQ(unio::set_attribute(in, "link", "user.one", bytes("v"), attribute_mode::set, last_link::itself)
                .error()
                .value(),
            EPERM);
  EXPECT_EQ(unio::get_attribute(in, "missing", "user.one", memory_, last_link::itself).error().value(),
            ENOENT);
  unio::file_handle f = unio::file(in, "a", unio::handle::mode::attributes).value();
  EXPECT_EQ(text(f.get_attribute("user.one", memory_).value()), "value");
  EXPECT_TRUE(f.set_attribute("user.two", bytes("x"), attribute_mode::set));
  EXPECT_FALSE(f.list_attributes(memory_)->empty());
  EXPECT_TRUE(f.remove_attribute("user.two"));
  unio::path_handle d = unio::path_handle::path(directory().path()).value();
  EXPECT_TRUE(d.set_attribute("user.one", bytes("of a directory"), attribute_mode::set));
  EXPECT_EQ(text(d.get_attribute("user.one", memory_).value()), "of a directory");
  EXPECT_FALSE(unio::list_attributes(in, ".", memory_, last_link::itself)->empty());
  EXPECT_TRUE(unio::remove_attribute(in, ".", "user.one", last_link::itself));
}

TEST_P(attributes_on, into_a_buffer_that_is_too_small_say_how_much_there_is) {
  unio::file_handle f = unio::file(directory().handle(), "a").value();
  ASSERT_TRUE(f.set_attribute("user.one", bytes("0123456789"), attribute_mode::set));
  for (std::size_t n = 0; n != 12; ++n) {
    auto const r = f.get_attribute("user.one", unio::mutable_buffer(memory_.data(), n));
    EXPECT_EQ(r.error().value(), n < 10 ? ERANGE : 0) << n;
    EXPECT_EQ(r.bytes_transferred(), 10U) << n;
  }
  auto const names = f.list_attributes(unio::mutable_buffer(memory_.data(), 1));
  EXPECT_EQ(names.error().value(), ERANGE);
  EXPECT_TRUE(f.list_attributes(unio::mutable_buffer(memory_.data(), names.bytes_transferred())));
}

UNIO_ON_EACH_FILESYSTEM(attributes_on);

TEST(attributes, that_shrink_under_way_are_read_again) {
  static int calls_left;
  calls_left = 2;
  test::failing_calls calls;
  calls.answer<&table::fgetxattr>([](int, char const*, void* value, std::size_t n) noexcept -> std::int64_t {
    if (n == 0) return 3; // its size by then
    if (calls_left-- > 0) return -ERANGE;
    std::memcpy(value, "abc", 3);
    return 3;
  });
  unio::file_handle f = unio::file_handle::temp_inode().value();
  std::array<char, 4> memory;
  auto const r = f.get_attribute("user.one", memory);
  ASSERT_TRUE(r) << r.error().message();
  EXPECT_EQ(text(*r), "abc");
}

TEST(attributes, that_cannot_be_say_why) {
  test::temporary_directory const directory;
  directory.write("a", "");
  unio::file_handle f = unio::file(directory.handle(), "a").value();
  std::array<char, 4> memory;
  EXPECT_EQ(f.get_attribute(std::string("user.\0x", 7), memory).error(), unio::error::embedded_nul);
  EXPECT_EQ(f.set_attribute("user." + std::string(300, 'n'), bytes("x"), attribute_mode::set).error().value(),
            ENAMETOOLONG);
  EXPECT_EQ(f.get_attribute("nonsense", memory).error().value(), EOPNOTSUPP);
  test::failing_calls calls;
  calls.fail<&table::fsetxattr>(ENOSPC);
  EXPECT_EQ(f.set_attribute("user.one", bytes("x"), attribute_mode::set).error().value(), ENOSPC);
  calls.fail<&table::openat>(EMFILE);
  EXPECT_EQ(
      unio::get_attribute(directory.handle(), "a", "user.one", memory, last_link::itself).error().value(),
      EMFILE);
  unio::handle closed;
  EXPECT_EQ(closed.list_attributes(memory).error().value(), EBADF);
}

} // namespace
