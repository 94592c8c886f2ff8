// Failures that say how a file is open: what is read was opened for appending, what is written for reading.

#include "support/direct_io.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/map_handle.hpp>

namespace {

using unio::failure;
using namespace test;
using unio::file_handle;

// A file with text in it.
struct opened : ::testing::Test {
  opened() { directory.write("log", "four"); }

  file_handle open(mode m, unio::handle::caching c = unio::handle::caching::all) {
    return file_handle::file(directory.handle(), "log", m, creation::open_existing, c).value();
  }
  void expect(failure const& why, int code, char const* operation, char const* how) const {
    EXPECT_EQ(why.value(), code) << why.message();
    EXPECT_STREQ(why.operation(), operation);
    EXPECT_EQ(why.object(), directory / "log" + how);
    EXPECT_EQ(why.message(), operation + (" " + (directory / "log") + how + ": ") + why.code().message());
  }
  test::temporary_directory directory;
  std::array<char, 8> room{};
  std::string_view const text = "more";
};

TEST_F(opened, for_appending_only_is_said_of_reading) {
  file_handle f = open(mode::append);
  constexpr char const* how = " (open for appending only)";
  expect(f.read({unio::mutable_buffer(room), 0}).error(), EBADF, "read", how);
  expect(f.read({unio::mutable_buffer(room), 0}, std::chrono::seconds(1)).error(), EBADF, "read", how);
  unio::run([](opened& t, file_handle& of) -> task<> {
    t.expect((co_await of.co_read({unio::mutable_buffer(t.room), 0})).error(), EBADF, "read", how);
  }(*this, f));
  EXPECT_TRUE(f.write({unio::const_buffer(text.data(), text.size()), 0}).has_value());
  EXPECT_EQ(directory.read("log"), "fourmore");
}

TEST_F(opened, for_reading_only_is_said_of_what_changes_a_file) {
  file_handle f = open(mode::read);
  constexpr char const* how = " (open for reading only)";
  expect(f.write({unio::const_buffer(text.data(), text.size()), 0}).error(), EBADF, "write", how);
  unio::run([](opened& t, file_handle& of) -> task<> {
    auto const wrote = co_await of.co_write({unio::const_buffer(t.text.data(), t.text.size()), 0});
    t.expect(wrote.error(), EBADF, "write", how);
  }(*this, f));
  expect(f.truncate(1).error(), EINVAL, "truncate", how);
  expect(f.allocate(0, 4096, unio::allocation::grow).error(), EBADF, "allocate", how);
  expect(f.zero(0, 1).error(), EBADF, "zero", how);
}

TEST_F(opened, for_appending_is_said_where_bytes_have_their_place) {
  file_handle from = open(mode::read);
  directory.write("other", "four");
  file_handle to = file_handle::file(directory.handle(), "other", mode::append).value();
  failure const cloned = from.clone_extents_to(0, 4, to, 0).error();
  EXPECT_EQ(cloned, std::errc::bad_file_descriptor);
  EXPECT_EQ(cloned.object(), directory / "other" + " (open for appending)");
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  (void)writer.write(unio::const_buffer(text.data(), text.size()));
  failure const spliced = unio::splice(reader, to, {.bytes = 4}).error();
  EXPECT_EQ(spliced, std::errc::invalid_argument);
  EXPECT_EQ(spliced.object(), directory / "other" + " (open for appending)");
}

TEST_F(opened, for_something_else_is_said_of_maps) {
  file_handle f = open(mode::append);
  expect(unio::map_handle::section(f, 0, 4, unio::map_access::read).error(), EACCES, "section",
         " (open for appending only)");
  file_handle const r = open(mode::read);
  expect(unio::map_handle::section(r, 0, 4, unio::map_access::write).error(), EACCES, "section",
         " (open for reading only)");
  failure const mapped =
      unio::mapped_file_handle::mapped_file(directory.handle(), "log", mode::append).error();
  expect(mapped, EACCES, "mapped_file", " (open for appending only)");
}

TEST_F(opened, for_direct_transfers_is_said_of_what_is_not_aligned) {
  if (std::string const why = test::no_direct_io(directory.path()); !why.empty()) GTEST_SKIP() << why;
  file_handle f = open(mode::read, unio::handle::caching::none);
  if (!test::refuses_unaligned(f.native_handle()))
    GTEST_SKIP() << "this filesystem reads what is not aligned";
  expect(f.read({unio::mutable_buffer(room.data() + 1, 3), 1}).error(), EINVAL, "read",
         " (open for direct I/O)");
}

TEST_F(opened, is_said_of_pipes_without_a_path) {
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  failure const read = writer.read(unio::mutable_buffer(room)).error();
  EXPECT_EQ(read.message(), "read descriptor " + std::to_string(writer.native_handle()) +
                                " (open for writing only): Bad file descriptor");
  failure const wrote = reader.write(unio::const_buffer(text.data(), text.size())).error();
  EXPECT_EQ(wrote.object(),
            "descriptor " + std::to_string(reader.native_handle()) + " (open for reading only)");
}

TEST_F(opened, keeps_the_end_of_a_long_path) {
  std::string const name(200, 'n');
  directory.write(name, "four");
  file_handle f = file_handle::file(directory.handle(), name, mode::append).value();
  std::string const object = f.read({unio::mutable_buffer(room), 0}).error().object();
  EXPECT_TRUE(object.starts_with("...nnn")) << object;
  EXPECT_TRUE(object.ends_with("nnn (open for appending only)")) << object;
}

TEST_F(opened, is_not_said_where_it_explains_nothing) {
  file_handle f = open(mode::write);
  failure const far = f.read({unio::mutable_buffer(room), static_cast<unio::extent_type>(-2)}).error();
  EXPECT_EQ(far.object(), "descriptor " + std::to_string(f.native_handle())) << far.message();
  file_handle closed = open(mode::append);
  int const fd = closed.native_handle();
  ASSERT_EQ(::close(fd), 0); // by somebody else
  failure const gone = closed.read({unio::mutable_buffer(room), 0}).error();
  EXPECT_EQ(gone, std::errc::bad_file_descriptor);
  EXPECT_EQ(gone.object(), "descriptor " + std::to_string(fd));
  (void)closed.release();
}

} // namespace
