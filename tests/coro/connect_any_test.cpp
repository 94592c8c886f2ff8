// unio/connect_any.hpp, on real sockets: who wins, what is reported, and that nothing stays open. When each
// attempt begins is in tests/simulation/connect_any_sim_test.cpp.

#include "support/receivers.hpp"
#include "support/test.hpp"

#include <unio/connect_any.hpp>

namespace {

using namespace test;

listening_socket_handle listening(endpoint const& at = endpoint::ipv4_loopback(0)) {
  return listening_socket_handle::listen(at).value();
}

// An address that nobody listens at.
endpoint nobody() { return listening().local_endpoint().value(); }

// A listener whose queue is full: what connects to it gets no answer (listen(2), the backlog).
struct silent {
  silent() : listener(listening_socket_handle::listen(endpoint::ipv4_loopback(0), {.backlog = 0}).value()) {
    for (int i = 0; i != 8; ++i) {
      socket_handle s = socket_handle::create(address_family::ipv4).value();
      if (!s.try_connect_for(at(), 20ms).has_value()) break;
      waiting.push_back(std::move(s));
    }
  }
  [[nodiscard]] endpoint at() const { return listener.local_endpoint().value(); }
  listening_socket_handle listener;
  std::vector<socket_handle> waiting;
};

TEST(connect_any, connects_to_the_only_address) {
  auto const l = listening();
  endpoint const at[] = {l.local_endpoint().value()};
  auto const s = run(co_connect_any(at, 10s));
  ASSERT_TRUE(s.has_value()) << s.error().message();
  EXPECT_EQ(s->remote_endpoint().value(), at[0]);
}

TEST(connect_any, goes_on_to_the_next_address_when_one_refuses) {
  auto const l = listening();
  endpoint const at[] = {nobody(), l.local_endpoint().value()};
  std::vector<connect_attempt> attempts;
  auto const s = run(co_connect_any(at, 10s, {.attempt_delay = 1h, .attempts = &attempts}));
  ASSERT_TRUE(s.has_value()) << s.error().message();
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].why, std::errc::connection_refused);
  EXPECT_FALSE(attempts[1].why);
  EXPECT_EQ(attempts[1].to, at[1]);
}

TEST(connect_any, passes_by_an_address_that_does_not_answer) {
  silent const first;
  auto const l = listening();
  endpoint const at[] = {first.at(), l.local_endpoint().value()};
  std::vector<connect_attempt> attempts;
  auto const s = run(co_connect_any(at, 60s, {.attempt_delay = 1ms, .attempts = &attempts}));
  ASSERT_TRUE(s.has_value()) << s.error().message();
  EXPECT_EQ(s->remote_endpoint().value(), at[1]);
  EXPECT_EQ(attempts.at(0).why, condition::canceled);
}

TEST(connect_any, tries_the_families_in_turns) {
  auto const l = listening();
  endpoint const four = nobody();
  endpoint const six = endpoint::ipv6_loopback(four.port());
  endpoint const at[] = {six, six, four, l.local_endpoint().value()};
  std::vector<connect_attempt> attempts;
  auto const s = run(co_connect_any(at, 60s, {.attempt_delay = 1h, .attempts = &attempts}));
  ASSERT_TRUE(s.has_value());
  ASSERT_EQ(attempts.size(), 4u);
  EXPECT_EQ(attempts[0].to, six);
  EXPECT_EQ(attempts[1].to, four);
  EXPECT_EQ(attempts[2].to, six);
  EXPECT_EQ(attempts[3].to, at[3]);
}

TEST(connect_any, reports_each_address_and_its_error) {
  endpoint const at[] = {nobody(), nobody()};
  std::string why;
  auto const s = run(co_connect_any(at, 10s, {.why = &why}));
  EXPECT_EQ(s.error(), std::errc::connection_refused);
  std::string const reason = std::make_error_code(std::errc::connection_refused).message();
  EXPECT_EQ(why, to_string(at[0]) + ": " + reason + "; " + to_string(at[1]) + ": " + reason);
}

TEST(connect_any, names_the_address_in_its_failure_and_in_that_of_each_attempt) {
  endpoint const at[] = {nobody(), nobody()};
  std::vector<connect_attempt> attempts;
  auto const s = run(co_connect_any(at, 10s, {.attempts = &attempts}));
  std::string const reason = ": " + std::make_error_code(std::errc::connection_refused).message();
  EXPECT_EQ(s.error().message(), "connect " + to_string(at[0]) + reason);
  ASSERT_EQ(attempts.size(), 2u);
  EXPECT_EQ(attempts[0].why.message(), "connect " + to_string(at[0]) + reason);
  EXPECT_EQ(attempts[1].why.message(), "connect " + to_string(at[1]) + reason);
  EXPECT_STREQ(run(co_connect_any({}, 1s)).error().operation(), "connect");
}

TEST(connect_any, names_an_address_for_which_there_is_no_socket) {
  endpoint const at[] = {endpoint()};
  unio::failure const why = run(co_connect_any(at, 10s)).error();
  EXPECT_STREQ(why.operation(), "connect");
  EXPECT_EQ(why, std::errc::address_family_not_supported);
}

TEST(connect_any, prefers_what_another_host_says_to_what_this_one_cannot_reach) {
  // 255.255.255.255 is no host: a TCP connect to it fails at once with ENETUNREACH.
  endpoint const at[] = {endpoint::ipv4({255, 255, 255, 255}, 9), nobody()};
  EXPECT_EQ(run(co_connect_any(at, 10s)).error(), std::errc::connection_refused);
}

TEST(connect_any, fails_without_an_address) {
  std::string why;
  EXPECT_EQ(run(co_connect_any({}, 1s, {.why = &why})).error(), std::errc::destination_address_required);
  EXPECT_EQ(why, "there is no address to connect to");
}

TEST(connect_any, ends_when_the_time_for_all_is_over) {
  silent const nothing;
  endpoint const at[] = {nothing.at(), nobody(), nothing.at()};
  EXPECT_EQ(run(co_connect_any(at, 30ms, {.attempt_delay = 1ms})).error(), condition::timed_out);
  EXPECT_EQ(run(co_connect_any(at, 5ms, {.attempt_delay = 1h})).error(), condition::timed_out);
}

TEST(connect_any, ends_when_it_is_asked_to_stop) {
  silent const nothing;
  endpoint const at[] = {nothing.at(), nothing.at()};
  stop_source stop;
  auto stops = [](stop_source& s) -> task<> {
    (void)co_await co_sleep(5ms);
    s.request_stop();
  };
  async_run(this_thread::multiplexer(), stops(stop));
  EXPECT_EQ(run(co_connect_any(at, {}, {.attempt_delay = 1ms}), {.stop = stop.get_token()}).error(),
            condition::canceled);
  EXPECT_EQ(run(co_connect_any(at), {.stop = stop.get_token()}).error(), condition::canceled);
}

TEST(connect_any, may_be_destroyed_under_way) {
  silent const nothing;
  endpoint const at[] = {nothing.at(), nothing.at()};
  auto const outcome = run([](std::span<endpoint const> to) -> task<std::error_code> {
    {
      auto racing = co_connect_any(to, {}, {.attempt_delay = 1ms});
      result<socket_handle> const r = co_await timeout(5ms, std::move(racing));
      EXPECT_EQ(r.error(), condition::timed_out);
    }
    co_return std::error_code();
  }(at));
  EXPECT_FALSE(outcome);
  // Not awaited to its end: the connection's destructor ends it.
  auto op = connect(async_connect_any(at), test::ignore());
  op.start();
  EXPECT_EQ(op.poll(), io_status::pending);
}

TEST(connect_any, waits_for_a_thread_that_waits) {
  auto const l = listening();
  endpoint const at[] = {nobody(), l.local_endpoint().value()};
  EXPECT_TRUE(connect_any(at, 10s).has_value());
  EXPECT_EQ(connect_any(std::span(at).first(1), 10s).error(), std::errc::connection_refused);
}

// Keeps what it gets.
struct keeper {
  std::optional<result<socket_handle>>* got;
  int* ends;
  void set_value(result<socket_handle> r) noexcept { got->emplace(std::move(r)); }
  void set_done() noexcept { ++*ends; }
};

TEST(connect_any, can_be_polled) {
  auto const l = listening();
  endpoint const at[] = {nobody(), l.local_endpoint().value()};
  std::optional<result<socket_handle>> got;
  int ends = 0;
  auto op = connect(async_connect_any(at, 10s), keeper{&got, &ends});
  EXPECT_EQ(op.poll(), io_status::not_started);
  op.start();
  while (op.poll() == io_status::pending) continue;
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(ends, 1);
  ASSERT_TRUE(got.has_value());
  EXPECT_EQ((*got)->remote_endpoint().value(), at[1]);
}

struct calls_at_the_end {
  std::function<void()>* end;
  void set_value(result<socket_handle> const&) noexcept {}
  void set_done() noexcept { (*end)(); }
};

TEST(connect_any, may_be_destroyed_by_its_receiver_while_it_is_polled) {
  auto const l = listening();
  endpoint const at[] = {l.local_endpoint().value()};
  std::function<void()> end;
  using operation = decltype(connect(async_connect_any(at), calls_at_the_end{&end}));
  alignas(operation) std::array<std::byte, sizeof(operation)> room;
  auto* const op = new (room.data()) operation(async_connect_any(at, 10s), calls_at_the_end{&end});
  bool ended = false;
  end = [&] {
    op->~operation();
    room.fill(std::byte{0});
    ended = true;
  };
  op->start();
  io_status last = io_status::pending;
  while (!ended) last = op->poll();
  EXPECT_EQ(last, io_status::completed);
}

TEST(connect_any, ends_once_when_it_is_canceled_while_polled) {
  silent const nothing;
  endpoint const at[] = {nothing.at()};
  std::optional<result<socket_handle>> got;
  int ends = 0;
  auto op = connect(async_connect_any(at), keeper{&got, &ends});
  op.start();
  EXPECT_EQ(op.poll(), io_status::pending);
  op.cancel();
  while (op.poll() == io_status::pending) continue;
  EXPECT_EQ(got->error(), condition::canceled);
  EXPECT_EQ(ends, 1);
}

TEST(connect_any, runs_on_a_pool_of_threads) {
  thread_pool pool(2);
  auto const l = listening();
  std::vector<endpoint> const at = {nobody(), nobody(), l.local_endpoint().value(), nobody(),
                                    l.local_endpoint().value()};
  for (int i = 0; i != 100; ++i) {
    auto const s = sync_wait(pool.executor(), co_connect_any(at, 60s, {.attempt_delay = 0ms}));
    ASSERT_TRUE(s.has_value()) << s.error().message();
    EXPECT_EQ(s->remote_endpoint().value(), l.local_endpoint().value());
  }
}

} // namespace
