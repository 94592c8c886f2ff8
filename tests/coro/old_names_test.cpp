// The names from before what is awaited began with co_: each does what the new one does. They go with the
// next version; what the compiler says of them is in messages/old_name.cpp.

#include "support/test.hpp"

#include <unio/connect_any.hpp>

#include <concepts>

#pragma GCC diagnostic ignored "-Wdeprecated-declarations"

namespace {

template <class Old, class New> constexpr bool are_alike = std::same_as<Old, New>;

template <class T> T& some() noexcept;

#define UNIO_MEMBER_ALIKE(type, old, now, ...) \
  static_assert(are_alike<decltype(some<type>().old(__VA_ARGS__)), decltype(some<type>().now(__VA_ARGS__))>)
#define UNIO_ALIKE(old, now, ...) \
  static_assert(are_alike<decltype(unio::old(__VA_ARGS__)), decltype(unio::now(__VA_ARGS__))>)

UNIO_MEMBER_ALIKE(unio::async_mutex, lock, co_lock);
UNIO_MEMBER_ALIKE(unio::semaphore, acquire, co_acquire, 2);
UNIO_MEMBER_ALIKE(unio::auto_reset_event, wait, co_wait);
UNIO_MEMBER_ALIKE(unio::event, wait, co_wait);
UNIO_MEMBER_ALIKE(unio::latch, wait, co_wait);
UNIO_MEMBER_ALIKE(unio::latch, arrive_and_wait, co_arrive_and_wait);
UNIO_MEMBER_ALIKE(unio::rendezvous<>, arrive_and_wait, co_arrive_and_wait);
UNIO_MEMBER_ALIKE(unio::task_group, join, co_join);
UNIO_MEMBER_ALIKE(unio::channel<int>, send, co_send, 1);
UNIO_MEMBER_ALIKE(unio::channel<int>, send, co_send, some<int>());
UNIO_MEMBER_ALIKE(unio::channel<int>, receive, co_receive);
UNIO_MEMBER_ALIKE(unio::async_generator<int>, next, co_next);
UNIO_MEMBER_ALIKE(unio::line_reader, next, co_next);
UNIO_MEMBER_ALIKE(unio::receiving, next, co_next);

UNIO_ALIKE(read, co_read, some<unio::io_handle>(), unio::mutable_buffer());
UNIO_ALIKE(write, co_write, some<unio::io_handle>(), unio::const_buffer());
UNIO_ALIKE(read_until, co_read_until, some<unio::io_handle>(), some<std::string>(), std::string_view());
UNIO_ALIKE(read_all, co_read_all, some<unio::io_handle>(), some<std::string>());
UNIO_ALIKE(read_all, co_read_all, some<unio::io_handle>(), some<std::string>(), unio::deadline());
UNIO_ALIKE(copy, co_copy, some<unio::io_handle>(), some<unio::io_handle>());
UNIO_ALIKE(copy, co_copy, some<unio::io_handle>(), some<unio::io_handle>(), unio::deadline());
UNIO_ALIKE(copy, co_copy, some<unio::buffered_reader>(), some<unio::io_handle>());
UNIO_ALIKE(copy, co_copy, some<unio::buffered_reader>(), some<unio::io_handle>(), unio::deadline());
UNIO_ALIKE(for_each_connection, co_for_each_connection, some<unio::listening_socket_handle>(),
           [](unio::socket_handle) {});
UNIO_ALIKE(sync_connect_any, connect_any, std::span<unio::endpoint const>());
UNIO_ALIKE(sync_link, link, std::declval<unio::async_read>(), std::declval<unio::async_write>());
UNIO_ALIKE(sync_link, link, unio::deadline(), std::declval<unio::async_read>());
UNIO_ALIKE(try_sync_link, try_link, std::declval<unio::async_read>());

TEST(old_names, do_what_the_new_ones_do) {
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  std::string text = "hello\nagain\n";
  EXPECT_EQ(unio::run(unio::write(p.writer, text)).value().bytes(), text.size());
  char word[2];
  EXPECT_EQ(unio::run(unio::read(p.reader, unio::mutable_buffer(word))).value().bytes(), 2U);
  std::string line, rest;
  EXPECT_EQ(unio::run(unio::read_until(p.reader, unio::dynamic_buffer(line, 4), "\n")).value(), 4U);
  EXPECT_TRUE(p.writer.close());
  EXPECT_EQ(unio::run(unio::read_all(p.reader, rest)).value(), 6U);
  EXPECT_EQ(line + rest, "llo\nagain\n");
  EXPECT_EQ(unio::sync_connect_any({}).error(), std::errc::destination_address_required);
  unio::run([]() -> unio::task<> {
    unio::channel<int> values(1);
    EXPECT_TRUE((co_await values.send(7)).has_value());
    EXPECT_EQ((co_await values.receive()).value(), 7);
    unio::async_mutex m;
    EXPECT_TRUE((co_await m.lock()).has_value());
    unio::task_group none(co_await unio::this_coro::environment);
    co_await none.join();
  }());
}

} // namespace
