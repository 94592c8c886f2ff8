// buffer.hpp: buffers, lists of them, and lists cut short.

#include "support/test.hpp"

namespace {

using namespace test;

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

constexpr std::size_t size_of(const_buffers const& b) { return b.bytes(); }

TEST(const_buffer, of_a_string_literal_has_its_characters_without_the_final_nul) {
  static_assert(const_buffer("hello").size() == 5);
  static_assert(size_of("hello") == 5);
  static_assert(const_buffer("").empty());
  static_assert(const_buffer("a\0b").size() == 3); // a NUL within it is one of them
  static_assert(const_buffer("a\0").size() == 2);
  static_assert(const_buffer(u8"\u00e4").size() == 2);
  EXPECT_EQ(size_of("hello"), 5U);
  unio::io_request<const_buffers> const request = "hello";
  EXPECT_EQ(request.buffers.bytes(), 5U);
  EXPECT_EQ(unio::io_request<const_buffers>("hello", 7).buffers.bytes(), 5U);
  const_buffer const many[] = {"one", "two!"};
  EXPECT_EQ(const_buffers(many).bytes(), 7U);
}

TEST(const_buffer, of_an_array_that_is_no_literal_is_the_whole_array) {
  char room[64] = {};
  unsigned char const bytes[4] = {};
  std::byte const more[4] = {};
  std::array<char, 4> const padded{'a'};
  static constexpr char magic[] = {'u', 'n', 'i', 'o'};
  EXPECT_EQ(const_buffer(room).size(), 64U);
  EXPECT_EQ(mutable_buffer(room).size(), 64U);
  EXPECT_EQ(size_of(room), 64U);
  EXPECT_EQ(size_of(bytes), 4U);
  EXPECT_EQ(size_of(more), 4U);
  EXPECT_EQ(size_of(padded), 4U);
  EXPECT_EQ(size_of(magic), 4U); // which does not end in NUL
  EXPECT_EQ(size_of(L""), sizeof(wchar_t));
}

TEST(const_buffer, of_a_const_array_that_cannot_be_told_from_a_literal_loses_one_nul) {
  char const filled[4] = {'a'};
  EXPECT_EQ(size_of(filled), 3U);
  EXPECT_EQ(size_of(const_buffer(filled, sizeof filled)), 4U);
}

TEST(buffer_list, that_was_read_into_can_be_written) {
  char a[2];
  char b[3];
  char c[4];
  std::array<mutable_buffer, 3> many{mutable_buffer(a), mutable_buffer(b), mutable_buffer(c)};
  mutable_buffers const all = many;
  for (std::size_t n = 0; n <= 9; ++n) {
    mutable_buffers const filled = all.first(n);
    const_buffers const written = filled;
    EXPECT_EQ(written.size(), filled.size());
    EXPECT_EQ(written.bytes(), n);
    for (std::size_t i = 0; i != filled.size(); ++i) {
      EXPECT_EQ(written[i].data(), filled[i].data());
      EXPECT_EQ(written[i].size(), filled[i].size());
    }
    if (n > 2) { // the array itself
      EXPECT_EQ(static_cast<void const*>(written.array()), many.data());
    }
    unio::io_request<const_buffers> const request = filled;
    EXPECT_EQ(request.buffers.bytes(), n);
    EXPECT_EQ(written.first(4).bytes(), n < 4 ? n : 4);
  }
  static_assert(!std::is_convertible_v<const_buffers, mutable_buffers>);
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
  std::array<char, 2> const a{};
  std::array<char, 1> const b{};
  std::array<char, 3> const c{};
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
  std::array<char, 10> const memory{};
  const_buffers const list = memory;
  EXPECT_EQ(list.first(7).first(4).bytes(), 4U);
  EXPECT_EQ(list.first(4).first(7).bytes(), 4U);
  EXPECT_EQ(list.first(0).first(3).bytes(), 0U);
}

} // namespace
