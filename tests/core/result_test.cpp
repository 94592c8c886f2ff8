// result.hpp and io_request.hpp: a value or the reason why there is none.

#include "support/test.hpp"

namespace {

using namespace test;

TEST(result, holds_a_value) {
  result<int> const r = 3;
  EXPECT_TRUE(r);
  EXPECT_EQ(*r, 3);
  EXPECT_EQ(r.value(), 3);
  EXPECT_FALSE(r.error());
}

TEST(result, holds_an_error_made_from_a_code_or_an_enumerator) {
  result<int> const from_code = std::make_error_code(std::errc::no_such_file_or_directory);
  result<std::string> const from_own = error::embedded_nul;
  EXPECT_FALSE(from_code);
  EXPECT_EQ(from_code.error(), std::errc::no_such_file_or_directory);
  EXPECT_EQ(from_own.error(), error::embedded_nul);
}

TEST(io_result, is_made_without_a_value_where_that_can_be_made_of_nothing) {
  io_result<unio::mutable_buffers> const buffers;
  io_result<void> const nothing;
  EXPECT_TRUE(buffers && nothing);
  EXPECT_TRUE(buffers->empty());
  EXPECT_EQ(buffers.bytes_transferred(), 0u);
}

TEST(result, moves_its_value_out) {
  result<std::unique_ptr<int>> r = std::make_unique<int>(5);
  std::unique_ptr<int> const taken = std::move(r).value();
  EXPECT_EQ(*taken, 5);
}

TEST(result, of_nothing_is_a_success_or_an_error) {
  result<> const good;
  result<> const bad = error::truncated;
  EXPECT_TRUE(good);
  EXPECT_FALSE(good.error());
  EXPECT_FALSE(bad);
  EXPECT_EQ(bad.error(), error::truncated);
  good.value();
}

#ifdef __cpp_exceptions
TEST(result, throws_its_error_when_asked_for_a_value_it_has_not) {
  result<int> const r = error::invalid_address;
  try {
    (void)r.value();
    FAIL() << "nothing was thrown";
  } catch (std::system_error const& e) {
    EXPECT_EQ(e.code(), error::invalid_address);
  }
  result<> const nothing = error::truncated;
  EXPECT_THROW(nothing.value(), std::system_error);
}
#else
TEST(result, ends_the_program_when_asked_for_a_value_it_has_not) {
  result<int> const r = error::invalid_address;
  EXPECT_DEATH((void)r.value(), "not an address");
}
#endif

TEST(io_result, says_how_many_bytes_moved_beside_a_value_and_beside_an_error) {
  io_result<int> const good(result<int>(1), 7);
  io_result<int> const bad(make_error_code(error::truncated), 3);
  EXPECT_EQ(good.bytes_transferred(), 7U);
  EXPECT_EQ(*good, 1);
  EXPECT_EQ(bad.bytes_transferred(), 3U);
  EXPECT_EQ(bad.error(), unio::condition::truncated);
}

TEST(io_result, moved_nothing_if_nobody_says_so) {
  io_result<int> const r = 1;
  EXPECT_EQ(r.bytes_transferred(), 0U);
}

TEST(result, equals_a_value_an_error_and_another_result) {
  result<int> const three = 3, four = 4, bad = error::truncated, worse = error::end_of_stream;
  EXPECT_TRUE(three == 3 && 3 == three && three != 4 && bad != 3);
  EXPECT_TRUE(three == result<int>(3) && three != four && three != bad && bad != three);
  EXPECT_TRUE(bad == result<int>(error::truncated) && bad != worse);
  EXPECT_TRUE(bad == std::unexpected(make_error_code(error::truncated)) &&
              three != std::unexpected(bad.error()));
  EXPECT_TRUE(three == (std::expected<int, std::error_code>(3)) && three == result<long>(3));
  EXPECT_TRUE(result<>() == result<>() && result<>() != result<>(error::truncated));
  EXPECT_TRUE(io_result<int>(three, 1) == io_result<int>(three, 2) && io_result<int>(three) == three);
}

TEST(io_request, is_made_from_a_buffer_and_an_offset) {
  char memory[4];
  unio::io_request<unio::mutable_buffers> const here = memory;
  unio::io_request<unio::mutable_buffers> const there = {memory, 9};
  EXPECT_EQ(here.buffers.bytes(), 4U);
  EXPECT_EQ(here.offset, unio::no_offset);
  EXPECT_EQ(there.offset, 9U);
}

} // namespace
