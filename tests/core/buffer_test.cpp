// buffer.hpp: buffers, lists of them, and lists cut short.

#include <unio/buffer.hpp>

#include <gtest/gtest.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

namespace {

using unio::const_buffer;
using unio::const_buffers;
using unio::mutable_buffer;
using unio::mutable_buffers;

static_assert(sizeof(mutable_buffers) == 24);
static_assert(std::is_convertible_v<mutable_buffer, const_buffer>);
static_assert(!std::is_convertible_v<const_buffer, mutable_buffer>);
static_assert(!std::is_constructible_v<mutable_buffer, std::string_view>);
static_assert(!std::is_constructible_v<mutable_buffer, std::vector<mutable_buffer>&>);
static_assert(!std::is_constructible_v<mutable_buffer, std::vector<const_buffer>&>);
static_assert(!std::is_constructible_v<const_buffer, std::vector<mutable_buffer>&>);
static_assert(std::is_convertible_v<std::vector<mutable_buffer>&, mutable_buffers>);
static_assert(std::is_convertible_v<std::vector<const_buffer>, const_buffers>);
static_assert(!std::is_constructible_v<mutable_buffer, std::vector<std::string>&>);

TEST(buffer, is_made_from_anything_contiguous) {
  char array[3];
  std::vector<int> numbers(5);
  std::string text = "four";
  EXPECT_EQ(mutable_buffer(array).size(), 3U);
  EXPECT_EQ(mutable_buffer(numbers).size(), 5 * sizeof(int));
  EXPECT_EQ(mutable_buffer(numbers).data(), reinterpret_cast<std::byte*>(numbers.data()));
  EXPECT_EQ(mutable_buffer(text).size(), 4U);
  EXPECT_EQ(const_buffer(std::string_view("seven!!")).size(), 7U);
  EXPECT_TRUE(mutable_buffer().empty());
}

TEST(buffer_list, holds_one_buffer_by_value) {
  char memory[8];
  mutable_buffers const list = memory;
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(list.bytes(), 8U);
  EXPECT_EQ(list.array()->data(), reinterpret_cast<std::byte*>(memory));
  mutable_buffers const copy = list;
  EXPECT_NE(copy.array(), list.array());
  EXPECT_EQ(copy.front().data(), list.front().data());
}

TEST(buffer_list, views_an_array_of_buffers) {
  char a[2];
  char b[3];
  std::array<mutable_buffer, 2> many{mutable_buffer(a), mutable_buffer(b)};
  mutable_buffers const list = many; // not one buffer over the array itself
  EXPECT_EQ(list.size(), 2U);
  EXPECT_EQ(list.bytes(), 5U);
  EXPECT_EQ(list.array(), many.data());
  std::size_t bytes = 0;
  for (mutable_buffer const one : list) bytes += one.size();
  EXPECT_EQ(bytes, 5U);
}

TEST(buffer_list, of_one_in_an_array_is_held_by_value) {
  char a[2];
  std::array<mutable_buffer, 1> many{mutable_buffer(a)};
  mutable_buffers const list = many;
  many[0] = mutable_buffer();
  EXPECT_EQ(list.size(), 1U);
  EXPECT_EQ(list.bytes(), 2U);
  EXPECT_EQ(list.front().data(), reinterpret_cast<std::byte*>(a));
}

TEST(buffer_list, without_buffers_is_empty) {
  mutable_buffers const nothing;
  mutable_buffers const none = std::span<mutable_buffer const>();
  EXPECT_TRUE(nothing.empty());
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.bytes(), 0U);
  EXPECT_EQ(none.first(5).bytes(), 0U);
}

TEST(buffer_list, is_cut_to_every_length_without_touching_the_array) {
  char const a[2] = {};
  char const b[1] = {};
  char const c[3] = {};
  const_buffer const many[] = {a, const_buffer(), b, c};
  const_buffers const list = many;
  for (std::size_t n = 0; n <= 6; ++n) {
    const_buffers const cut = list.first(n);
    std::size_t bytes = 0;
    for (const_buffer const one : cut) bytes += one.size();
    EXPECT_EQ(bytes, n);
    EXPECT_EQ(cut.bytes(), n);
    EXPECT_EQ(cut.empty(), n == 0);
  }
  EXPECT_EQ(list.first(99).bytes(), 6U);
  EXPECT_EQ(list.bytes(), 6U);
  EXPECT_EQ(many[3].size(), 3U);
}

TEST(buffer_list, can_be_cut_again) {
  char const memory[10] = {};
  const_buffers const list = memory;
  EXPECT_EQ(list.first(7).first(4).bytes(), 4U);
  EXPECT_EQ(list.first(4).first(7).bytes(), 4U);
  EXPECT_EQ(list.first(0).first(3).bytes(), 0U);
}

} // namespace
