// unio/task_group.hpp: co_for_each_connection. What it does when descriptors are short is in
// tests/kernel/accept_test.cpp, and at random in tests/simulation/accept_loop_sim_test.cpp.

#include "support/drivers.hpp"
#include "support/test.hpp"

#include <sys/socket.h>

namespace {

using namespace test;

listening_socket_handle a_listener() {
  return listening_socket_handle::listen(endpoint::ipv4_loopback(0)).value();
}
socket_handle client_of(listening_socket_handle const& l) {
  return socket_handle::connected_to(l.local_endpoint().value()).value();
}

task<> echoes_once(socket_handle s) {
  std::array<char, 16> room;
  auto const got = co_await s.co_read(room);
  auto const sent = co_await co_write(s, const_buffer(room.data(), got.bytes_transferred()));
  EXPECT_TRUE(sent.has_value());
}

// As the headers show it.
TEST(co_for_each_connection, starts_a_task_for_each_until_it_is_stopped) {
  listening_socket_handle listener = a_listener();
  run([](listening_socket_handle& l) -> task<> {
    int served = 0;
    stop_source stop;
    auto server = [](listening_socket_handle& at, int& n) -> task<result<void>> {
      task_group group(co_await this_coro::environment);
      auto const start = [&](socket_handle s) {
        ++n;
        group.start(echoes_once(std::move(s)));
      };
      result<void> const ended = co_await co_for_each_connection(at, start);
      co_await group.co_join();
      co_return ended;
    };
    auto clients = [](listening_socket_handle& at) -> task<> {
      for (int i = 0; i != 3; ++i) {
        socket_handle c = client_of(at);
        std::array<char, 16> room;
        (void)co_await co_write(c, std::string_view("abc"));
        auto const got = co_await c.co_read(room);
        EXPECT_EQ(got.bytes_transferred(), 3u);
      }
    };
    auto const r = co_await when_any(server(l, served), clients(l));
    EXPECT_EQ(r.index, 1u);
    EXPECT_EQ(std::get<0>(r.outcomes)->error(), condition::canceled);
    EXPECT_EQ(served, 3);
    result<void> const in_time =
        co_await timeout(1ms, co_for_each_connection(l, [](socket_handle const&) {}));
    EXPECT_EQ(in_time.error(), condition::timed_out);
  }(listener));
}

TEST(co_for_each_connection, awaits_what_the_function_returns_before_it_accepts_the_next) {
  listening_socket_handle listener = a_listener();
  std::vector<socket_handle> clients;
  for (int i = 0; i != 5; ++i) clients.push_back(client_of(listener));
  run([](listening_socket_handle& l) -> task<> {
    int now = 0, most = 0, all = 0;
    auto const serve = [&](socket_handle) -> task<> {
      ++all;
      most = std::max(most, ++now);
      (void)co_await co_sleep(1ms);
      --now;
    };
    auto counts = [](int& n) -> task<> {
      for (int ms = 0; ms != 20'000 && n != 5; ++ms) (void)co_await co_sleep(1ms);
    };
    (void)co_await when_any(co_for_each_connection(l, serve), counts(all));
    EXPECT_EQ(all, 5);
    EXPECT_EQ(most, 1);
  }(listener));
}

TEST(co_for_each_connection, ends_with_what_the_listening_socket_fails_with) {
  listening_socket_handle listener = a_listener();
  socket_handle const client = client_of(listener);
  int shortages = 0;
  result<void> const ended = run([](listening_socket_handle& l, int& n) -> task<result<void>> {
    auto const closes = [&l](socket_handle const&) { ::shutdown(l.native_handle(), SHUT_RD); };
    co_return co_await co_for_each_connection(l, closes, [&n](std::error_code) { ++n; });
  }(listener, shortages));
  EXPECT_EQ(ended.error(), std::errc::invalid_argument);
  EXPECT_EQ(shortages, 0);
}

TEST(co_for_each_connection, says_why_there_is_no_driver) {
  listening_socket_handle listener = a_listener();
  test::environment_variable const driver("UNIO_DRIVER", "no such driver");
  std::thread fresh([&listener] { // has no multiplexer yet
    result<void> const ended = run(co_for_each_connection(listener, [](socket_handle const&) {}));
    EXPECT_EQ(ended.error(), error::unknown_driver);
  });
  fresh.join();
}

TEST(co_for_each_connection, calls_the_function_on_the_executor) {
  listening_socket_handle listener = a_listener();
  socket_handle const client = client_of(listener);
  thread_pool pool(1);
  std::atomic<bool> elsewhere{false};
  result<void> const ended = sync_wait(
      pool.executor(), [](listening_socket_handle& l, std::atomic<bool>& there) -> task<result<void>> {
        auto const here = std::this_thread::get_id();
        auto const looks = [&](socket_handle const&) { there = std::this_thread::get_id() == here; };
        co_return co_await timeout(50ms, co_for_each_connection(l, looks));
      }(listener, elsewhere));
  EXPECT_EQ(ended.error(), condition::timed_out);
  EXPECT_TRUE(elsewhere);
}

} // namespace
