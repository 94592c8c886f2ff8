// error.hpp: what compares equal to a condition, and what the codes say.

#include "support/test.hpp"

namespace {

using namespace test;

std::error_code system_code(int value) { return {value, std::system_category()}; }
std::error_code generic_code(int value) { return {value, std::generic_category()}; }

TEST(error, equals_the_condition_that_its_errno_stands_for) {
  struct {
    int value;
    condition expected;
  } const cases[] = {{ECANCELED, condition::canceled},
                     {ETIMEDOUT, condition::timed_out},
                     {EAGAIN, condition::would_block},
                     {EWOULDBLOCK, condition::would_block},
                     {EOWNERDEAD, condition::owner_died}};
  for (auto const& c : cases) {
    EXPECT_EQ(system_code(c.value), c.expected) << c.value;
    EXPECT_EQ(generic_code(c.value), c.expected) << c.value;
    EXPECT_EQ(c.expected, unio::detail::to_error_code(-c.value)) << c.value;
  }
}

TEST(error, equals_no_condition_of_another_errno) {
  condition const all[] = {condition::end_of_stream, condition::canceled,  condition::timed_out,
                           condition::would_block,   condition::truncated, condition::owner_died};
  for (condition const c : all) {
    EXPECT_NE(system_code(EIO), c);
    EXPECT_NE(std::error_code(), c);
  }
  EXPECT_NE(system_code(ECANCELED), condition::timed_out);
  EXPECT_NE(system_code(EAGAIN), condition::canceled);
}

TEST(error, equals_no_condition_if_the_number_comes_from_a_foreign_category) {
  EXPECT_NE(std::error_code(ECANCELED, unio::error_category()), condition::canceled);
  EXPECT_NE(std::error_code(static_cast<int>(error::truncated), std::system_category()),
            condition::truncated);
}

TEST(error, of_unio_equals_its_condition) {
  EXPECT_EQ(make_error_code(error::end_of_stream), condition::end_of_stream);
  EXPECT_EQ(make_error_code(error::truncated), condition::truncated);
  EXPECT_EQ(make_error_code(error::owner_died), condition::owner_died);
  EXPECT_NE(make_error_code(error::end_of_stream), condition::truncated);
  EXPECT_EQ(make_error_code(error::invalid_address), std::errc::invalid_argument);
}

TEST(error, becomes_a_native_code_by_its_category) {
  EXPECT_EQ(unio::detail::to_native(system_code(ENOMEM)), -ENOMEM);
  EXPECT_EQ(unio::detail::to_native(generic_code(ENOMEM)), -ENOMEM); // std::make_error_code(std::errc)
  EXPECT_EQ(unio::detail::to_native(error::unknown_driver), unio::detail::native(error::unknown_driver));
  std::error_code const own = error::damaged_lock_file;
  EXPECT_EQ(unio::detail::to_error_code(unio::detail::to_native(own)), own);
}

TEST(error, says_something_about_every_value_and_no_two_the_same) {
  std::string before;
  for (int i = 1; i <= static_cast<int>(error::writable_by_all); ++i) {
    std::string const text = unio::error_category().message(i);
    EXPECT_EQ(text.find("unknown unio"), std::string::npos) << i;
    EXPECT_NE(text, before);
    before = text;
  }
  for (int i = 1; i <= static_cast<int>(condition::owner_died); ++i)
    EXPECT_EQ(unio::condition_category().message(i).find("unknown"), std::string::npos) << i;
}

TEST(error, says_so_when_the_value_is_not_one_of_its_own) {
  EXPECT_EQ(unio::error_category().message(77), "unknown unio error 77");
  EXPECT_EQ(unio::condition_category().message(0), "unknown unio condition 0");
  EXPECT_EQ(unio::error_category().default_error_condition(77).value(), 77);
}

TEST(error, has_two_categories_with_names) {
  EXPECT_STREQ(unio::error_category().name(), "unio");
  EXPECT_STREQ(unio::condition_category().name(), "unio.condition");
}

TEST(error, survives_the_way_through_a_native_code) {
  EXPECT_EQ(unio::detail::to_error_code(unio::detail::native(error::embedded_nul)), error::embedded_nul);
  EXPECT_EQ(unio::detail::to_error_code(-ENOENT), std::errc::no_such_file_or_directory);
  EXPECT_EQ(unio::detail::to_error_code(-4095).category(), std::system_category());
}

TEST(error, broken_preconditions_end_the_program_with_their_message) {
  EXPECT_DEATH(UNIO_EXPECTS(1 + 1 == 3, "the sum is wrong"),
               "error_test.cpp:[0-9]+: unio: the sum is wrong.*1 \\+ 1 == 3");
}

TEST(error, version_is_the_one_of_the_headers) {
  EXPECT_EQ(unio::version_string(), std::to_string(UNIO_VERSION_MAJOR) + "." +
                                        std::to_string(UNIO_VERSION_MINOR) + "." +
                                        std::to_string(UNIO_VERSION_PATCH));
}

} // namespace
