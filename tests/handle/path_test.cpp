// file_handle.hpp: paths, and directories to resolve them from.

#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

TEST(path, is_taken_as_it_is) {
  EXPECT_EQ(path_view("/tmp/x").check(), 0);
  EXPECT_EQ(path_view("").check(), 0);
  EXPECT_EQ(path_view(std::string("a//b/../c/")).check(), 0);
}

TEST(path, with_an_embedded_nul_is_refused) {
  std::string const text("a\0b", 3);
  EXPECT_EQ(path_view(text).check(), unio::detail::native(unio::error::embedded_nul));
  EXPECT_EQ(path_handle::path(text).error(), unio::error::embedded_nul);
  EXPECT_EQ(unio::file({}, text).error(), unio::error::embedded_nul);
}

TEST(path, is_refused_if_a_name_is_over_255_bytes) {
  std::string const name(255, 'n');
  EXPECT_EQ(path_view(name).check(), 0);
  EXPECT_EQ(path_view("x/" + name + "/y").check(), 0);
  EXPECT_EQ(path_view("x/" + name + "n/y").check(), -ENAMETOOLONG);
  EXPECT_EQ(path_handle::path(name + "n").error().value(), ENAMETOOLONG);
}

TEST(path, is_refused_if_it_is_over_4095_bytes) {
  std::string text;
  while (text.size() < 4094) text += "a/";
  text.resize(4095, 'b');
  EXPECT_EQ(path_view(text).check(), 0);
  EXPECT_EQ(path_view(text + "b").check(), -ENAMETOOLONG);
}

DIRECTORY_TEST(path_handle, opens_a_directory) {
  unio::result<path_handle> const opened = path_handle::path(directory.path());
  ASSERT_TRUE(opened);
  EXPECT_TRUE(opened->is_open());
  EXPECT_EQ(opened->kind(), unio::handle_kind::path);
  EXPECT_EQ(opened->current_path().value(), directory.path());
}

DIRECTORY_TEST(path_handle, resolves_relative_to_another) {
  std::filesystem::create_directory(directory / "inner");
  EXPECT_EQ(path_handle::path(directory.handle(), "inner").value().current_path().value(),
            directory / "inner");
}

DIRECTORY_TEST(path_handle, refuses_what_is_not_a_directory) {
  directory.write("file", "");
  EXPECT_EQ(path_handle::path(directory.handle(), "file").error().value(), ENOTDIR);
  EXPECT_EQ(path_handle::path(directory.handle(), "nothing").error().value(), ENOENT);
  EXPECT_EQ(path_handle::path("").error().value(), ENOENT);
}

} // namespace
