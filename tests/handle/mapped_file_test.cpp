// mapped_file_handle.hpp: views of the map, growing, and files that others make shorter.

#include "handle/mapped_view.hpp"
#include "support/child.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

std::string_view text_of(std::byte const* at, std::int64_t n) {
  return {reinterpret_cast<char const*>(at), static_cast<std::size_t>(n)};
}

std::string view_text(mapped_file_handle& f, unio::extent_type offset, std::size_t bytes) {
  std::byte* at = nullptr;
  std::int64_t const n = unio::detail::mapped_view.load()(f, offset, bytes, at);
  return n < 0 ? "error" : std::string(text_of(at, n));
}

DIRECTORY_TEST(mapped_file, shows_what_is_in_the_file) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  EXPECT_EQ(f.kind(), unio::handle_kind::mapped_file);
  EXPECT_EQ(f.length(), 10U);
  EXPECT_EQ(text_of(f.address(), 10), "0123456789");
  EXPECT_EQ(view_text(f, 3, 4), "3456");
}

DIRECTORY_TEST(mapped_file, read_is_a_view_each_time_that_it_is_started) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  char memory[4] = {};
  unio::async_read op(f, unio::mutable_buffer(memory));
  for (std::string_view const expected : {"0123", "4567", "89", ""}) {
    op.run_blocking();
    unio::mutable_buffers const got = op.result().value();
    EXPECT_EQ(got.bytes(), expected.size());
    if (!got.empty()) {
      EXPECT_EQ(text_of(got.front().data(), static_cast<std::int64_t>(got.bytes())), expected);
    }
    op.reset();
  }
  EXPECT_EQ(memory[0], '\0');
}

DIRECTORY_TEST(mapped_file, view_ends_where_the_file_ends) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  EXPECT_EQ(view_text(f, 8, 100), "89");
  EXPECT_EQ(view_text(f, 10, 1), "");
  EXPECT_EQ(view_text(f, 1'000'000'000, 1), "");
  EXPECT_EQ(view_text(f, unio::no_offset - 1, static_cast<std::size_t>(-1)), "");
  EXPECT_EQ(view_text(f, 2, static_cast<std::size_t>(-1)), "23456789");
}

DIRECTORY_TEST(mapped_file, view_without_an_offset_goes_on_where_the_last_one_ended) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  EXPECT_EQ(view_text(f, unio::no_offset, 4), "0123");
  EXPECT_EQ(view_text(f, 0, 2), "01");
  EXPECT_EQ(view_text(f, unio::no_offset, 4), "4567");
  EXPECT_EQ(view_text(f, unio::no_offset, 4), "89");
  EXPECT_EQ(view_text(f, unio::no_offset, 4), "");
}

DIRECTORY_TEST(mapped_file, read_returns_the_map_and_not_the_buffer) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  char memory[4];
  unio::io_result<unio::mutable_buffers> const r = f.read({memory, 2});
  ASSERT_TRUE(r);
  EXPECT_EQ(r->front().data(), f.address() + 2);
  EXPECT_EQ(r.bytes_transferred(), 4U);
}

DIRECTORY_TEST(mapped_file, sees_what_is_written_through_the_handle) {
  mapped_file_handle f =
      mapped_file_handle::mapped_file(directory.handle(), "a", mode::write, creation::if_needed).value();
  EXPECT_EQ(f.address(), nullptr);
  ASSERT_TRUE(f.write({unio::const_buffer("hello", 5), 0}));
  EXPECT_EQ(view_text(f, 0, 100), "hello");
  EXPECT_NE(f.address(), nullptr);
}

DIRECTORY_TEST(mapped_file, grows_in_place_within_its_reservation) {
  directory.write("a", "start");
  mapped_file_handle f =
      mapped_file_handle::mapped_file(directory.handle(), "a", mode::write, creation::open_existing, 64 << 20)
          .value();
  std::byte* const before = f.address();
  EXPECT_EQ(f.truncate(64 << 20).value(), 64U << 20);
  EXPECT_EQ(f.address(), before);
  EXPECT_EQ(view_text(f, (64 << 20) - 2, 9), std::string(2, '\0'));
}

DIRECTORY_TEST(mapped_file, grows_beyond_its_reservation_by_moving) {
  directory.write("a", "start");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a", mode::write).value();
  EXPECT_EQ(f.truncate(100 << 20).value(), 100U << 20);
  EXPECT_EQ(f.length(), 100U << 20);
  EXPECT_EQ(view_text(f, 0, 5), "start");
  EXPECT_EQ(view_text(f, (100 << 20) - 1, 5), std::string(1, '\0'));
}

DIRECTORY_TEST(mapped_file, takes_in_that_others_made_the_file_longer) {
  directory.write("a", "start");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  std::filesystem::resize_file(directory / "a", 10 << 20);
  EXPECT_EQ(f.length(), 5U);
  EXPECT_EQ(view_text(f, 5, 3), std::string(3, '\0'));
  EXPECT_EQ(f.length(), 10U << 20);
}

DIRECTORY_TEST(mapped_file, takes_in_that_others_made_the_file_shorter) {
  directory.write("a", std::string(10'000, 'x'));
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  std::filesystem::resize_file(directory / "a", 3);
  EXPECT_EQ(f.update_map().value(), 3U);
  EXPECT_EQ(view_text(f, 0, 100), "xxx");
}

DIRECTORY_TEST(mapped_file, read_copy_survives_that_another_process_truncates_the_file) {
  directory.write("a", std::string(100'000, 'x'));
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  ASSERT_EQ(test::in_child([&] { return ::truncate((directory / "a").c_str(), 5); }), 0);
  EXPECT_EQ(f.length(), 100'000U); // it has not looked
  char memory[50'000];
  unio::io_result<unio::mutable_buffers> const r = f.read_copy({memory, 0});
  ASSERT_TRUE(r);
  EXPECT_EQ(r.bytes_transferred(), 5U);
  EXPECT_EQ(f.read_copy({memory, 50'000}).value().bytes(), 0U);
}

DIRECTORY_TEST(mapped_file, read_copy_fills_all_buffers_and_keeps_its_position) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  char a[3];
  char b[3];
  unio::mutable_buffer const many[] = {a, unio::mutable_buffer(), b};
  EXPECT_EQ(f.read_copy(unio::mutable_buffers(many)).value().bytes(), 6U);
  EXPECT_EQ(std::string(a, 3) + std::string(b, 3), "012345");
  EXPECT_EQ(f.read_copy(unio::mutable_buffers(many)).value().bytes(), 4U);
  EXPECT_EQ(std::string(a, 3) + b[0], "6789");
  EXPECT_EQ(f.read_copy({a, unio::extent_type{1} << 63}).error().value(), EINVAL);
}

DIRECTORY_TEST(mapped_file, refuses_what_cannot_be_mapped) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(mapped_file_handle::mapped_file(directory.handle(), "fifo").error().value(), ENODEV);
  EXPECT_EQ(mapped_file_handle::mapped_file(directory.handle(), "a").error().value(), ENOENT);
  EXPECT_EQ(mapped_file_handle::mapped_file(directory.handle(), "a", mode::append, creation::if_needed)
                .error()
                .value(),
            EACCES);
  EXPECT_EQ(mapped_file_handle::mapped_file(directory.handle(), "a", mode::read, creation::open_existing,
                                            unio::extent_type{1} << 63)
                .error()
                .value(),
            ENOMEM);
}

DIRECTORY_TEST(mapped_file, moves_its_map) {
  directory.write("a", "text");
  mapped_file_handle a = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  std::byte* const at = a.address();
  mapped_file_handle b = std::move(a);
  EXPECT_EQ(b.address(), at);
  EXPECT_EQ(a.address(), nullptr); // NOLINT(bugprone-use-after-move)
  a = std::move(b);
  EXPECT_EQ(view_text(a, 0, 4), "text");
  ASSERT_TRUE(a.close());
  EXPECT_EQ(a.address(), nullptr);
  EXPECT_EQ(a.length(), 0U);
  EXPECT_TRUE(a.close());
}

DIRECTORY_TEST(mapped_file, clones_as_a_plain_file) {
  directory.write("a", "text");
  mapped_file_handle const f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  EXPECT_EQ(f.clone().value().kind(), unio::handle_kind::file);
  EXPECT_EQ(f.handle::clone().value().kind(), unio::handle_kind::file);
}

DIRECTORY_TEST(mapped_file, looks_at_a_closed_handle_without_harm) {
  directory.write("a", "0123456789");
  mapped_file_handle f = mapped_file_handle::mapped_file(directory.handle(), "a").value();
  ASSERT_TRUE(f.close());
  EXPECT_EQ(view_text(f, 0, 1), "error");
  EXPECT_EQ(f.update_map().error().value(), EBADF);
  EXPECT_EQ(f.length(), 0U);
}

} // namespace
