// Accepting when something is short or connections die early: promise P11; cases 30, 48, 52.

#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/test.hpp"

#include <sys/resource.h>

namespace {

using namespace test;

class kernel_accept : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_accept);

// After these accept(2) advises to retry, as after EAGAIN.
constexpr int dead_connections[] = {ECONNABORTED, EPROTO,       ENETDOWN,   ENOPROTOOPT, EHOSTDOWN,
                                    ENONET,       EHOSTUNREACH, EOPNOTSUPP, ENETUNREACH};

// Case 30, P11; bun#32705: re-arming at once spins. The clients are the parent's, so that only the server is
// short.
ISOLATED_TEST(kernel_accept, of_many_pauses_without_descriptors_and_goes_on_when_there_are_some) {
  auto [accepting, port] = listener(nullptr);
  auto serve = [&server = accepting] {
    auto const m = made_multiplexer();
    server.set_multiplexer(m.get());
    watched accept{unio::async_accept_many(server)};
    submit_all(*m); // a ring is set up by now
    int const next = ::dup(2);
    ::close(next);
    rlimit const few{.rlim_cur = static_cast<rlim_t>(next) + 10, .rlim_max = static_cast<rlim_t>(next) + 10};
    CHILD_EXPECTS(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    accept.start();
    CHILD_EXPECTS(drive(*m, [&] { return accept.accepted.size() == 10 && accept.errors.size() == 1; }));
    CHILD_EXPECTS(accept.errors[0].value() == EMFILE);

    double const cpu = cpu_seconds();
    std::uint64_t const turns = m->counters().turns;
    auto const end = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < end) (void)m->try_run_until(end);
    CHILD_EXPECTS(cpu_seconds() - cpu <= 0.3); // a spin takes all of the second
    CHILD_EXPECTS(m->counters().turns - turns <= 300);
    CHILD_EXPECTS(accept.errors.size() == 1); // said once, not each time
    CHILD_EXPECTS(!accept.ended());

    // It recovers, as often as it takes.
    for (std::size_t seen = 10; seen < 30; seen += 10) {
      accept.accepted.clear();
      CHILD_EXPECTS(
          drive(*m, [&] { return accept.accepted.size() == std::min<std::size_t>(10, 25 - seen); }));
      if (seen + 10 >= 25) break;
    }
    accept.accepted.clear();
    accept.cancel();
    CHILD_EXPECTS(drive(*m, [&] { return accept.ended(); }));
    CHILD_EXPECTS(accept.ended_once() && accept.error == unio::condition::canceled);
    return CHILD_MEETS(m->counters().started == m->counters().finished);
  };
  std::vector<raw> clients;
  for (int i = 0; i < 25; ++i) clients.push_back(raw_connection(port));
  expect_in_child(serve);
}

// The same with coroutines.
ISOLATED_TEST(kernel_accept, of_each_connection_pauses_without_descriptors_and_goes_on_when_there_are_some) {
  auto [accepting, port] = listener(nullptr);
  auto serve = [&server = accepting] {
    auto const m = made_multiplexer();
    server.set_multiplexer(m.get());
    submit_all(*m); // a ring is set up by now
    {
      // The multiplexer has waited once by now: what UBSan meets for the first time it needs a descriptor to
      // look at.
      auto p = unio::pipe_handle::anonymous().value();
      p.reader.set_multiplexer(m.get());
      char byte;
      CHILD_EXPECTS(p.reader.read(unio::mutable_buffer(&byte, 1), 2ms).error() == unio::condition::timed_out);
    }
    int const next = ::dup(2);
    ::close(next);
    rlimit const few{.rlim_cur = static_cast<rlim_t>(next) + 10, .rlim_max = static_cast<rlim_t>(next) + 10};
    CHILD_EXPECTS(::setrlimit(RLIMIT_NOFILE, &few) == 0);
    std::vector<unio::socket_handle> held;
    std::vector<std::error_code> told;
    std::error_code ended;
    unio::stop_source stop;
    unio::async_run(*m,
                    unio::co_for_each_connection(
                        server, [&held](unio::socket_handle s) { held.push_back(std::move(s)); },
                        [&told](std::error_code e) { told.push_back(e); }),
                    [&ended](unio::task_outcome<unio::result<void>> o) { ended = (*o).error(); },
                    {.stop = stop.get_token()});
    CHILD_EXPECTS(drive(*m, [&] { return held.size() == 10 && told.size() == 1; }));
    CHILD_EXPECTS(told[0].value() == EMFILE);

    double const cpu = cpu_seconds();
    std::uint64_t const turns = m->counters().turns;
    auto const end = std::chrono::steady_clock::now() + 1s;
    while (std::chrono::steady_clock::now() < end) (void)m->try_run_until(end);
    CHILD_EXPECTS(cpu_seconds() - cpu <= 0.3); // a spin takes all of the second
    CHILD_EXPECTS(m->counters().turns - turns <= 300);
    CHILD_EXPECTS(told.size() == 1); // said once, not each time
    CHILD_EXPECTS(!ended);

    // It recovers, and no connection is lost.
    for (std::size_t const more : {10, 5}) {
      held.clear();
      CHILD_EXPECTS(drive(*m, [&] { return held.size() == more; }));
    }
    held.clear();
    stop.request_stop();
    CHILD_EXPECTS(drive(*m, [&] { return static_cast<bool>(ended); }));
    CHILD_EXPECTS(ended == unio::condition::canceled);
    return CHILD_MEETS(m->counters().started == m->counters().finished);
  };
  std::vector<raw> clients;
  for (int i = 0; i < 25; ++i) clients.push_back(raw_connection(port));
  expect_in_child(serve);
}

// The same with one at a time: the error is the caller's.
ISOLATED_TEST(kernel_accept, reports_that_there_are_no_descriptors) {
  auto [accepting, port] = listener(nullptr);
  raw const client = raw_connection(port);
  expect_in_child([&server = accepting] {
    auto const m = made_multiplexer();
    (void)m->try_run();
    server.set_multiplexer(m.get());
    rlimit before{};
    ::getrlimit(RLIMIT_NOFILE, &before);
    rlimit const none{.rlim_cur = 3, .rlim_max = before.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &none);
    CHILD_EXPECTS(server.accept().error().value() == EMFILE);
    server.set_multiplexer(nullptr);
    CHILD_EXPECTS(server.accept().error().value() == EMFILE);
    ::setrlimit(RLIMIT_NOFILE, &before);
    return CHILD_MEETS(server.accept().has_value());
  });
}

// Case 52, accept(2): errors of a connection that died while it waited are not errors of accepting.
ISOLATED_TEST(kernel_accept, goes_on_after_connections_that_died_while_they_waited) {
  for (int const error : dead_connections) {
    SCOPED_TRACE(error);
    for (bool const blocking : {false, true}) {
      auto const m = made_multiplexer();
      auto [accepting, port] = listener(blocking ? nullptr : m.get());
      raw const client = raw_connection(port);
      failing_calls calls;
      calls.fail<&table::accept4>(error, {.times = 3});
      auto const accepted = accepting.accept(20s);
      EXPECT_TRUE(accepted.has_value()) << accepted.error().message();
      if (blocking) {
        EXPECT_EQ(calls.failures<&table::accept4>(), 3);
        EXPECT_EQ(calls.count<&table::accept4>(), 4);
      }
    }
  }
}

// The same for many; and where a firewall forbids one, which is reported, and then paused after: who else
// says EPERM may say it for ever. On a ring no call of ours fails, so its decoder is asked as well.
DRIVER_TEST(kernel_accept, of_many_goes_on_after_what_concerns_one_connection) {
  auto [accepting, port] = listener(&m);
  unio::async_accept_many decoded(accepting);
  for (int const error : dead_connections)
    EXPECT_EQ(decoded.faces().complete(decoded, -error, 0), unio::driver::outcome::again) << error;
  for (int const error : {EMFILE, ENFILE, ENOBUFS, ENOMEM, EPERM})
    EXPECT_EQ(decoded.faces().complete(decoded, -error, 0), unio::driver::outcome::pause) << error;
  EXPECT_EQ(decoded.faces().complete(decoded, -EINVAL, 0), unio::driver::outcome::finished);

  started accept{unio::async_accept_many(accepting)};
  submit_all(m);
  for (int const error : {EPERM, ECONNABORTED, EOPNOTSUPP}) {
    failing_calls calls;
    calls.fail<&table::accept4>(error, {.times = 2});
    accept.accepted.clear();
    raw const client = raw_connection(port);
    ASSERT_TRUE(drive(m, [&] { return accept.accepted.size() == 1; })) << error;
    EXPECT_FALSE(accept.ended()) << error;
    if (!is_ring()) {
      EXPECT_EQ(calls.failures<&table::accept4>(), 2);
      ASSERT_EQ(accept.errors.size(), 1u);
      EXPECT_EQ(accept.errors[0].value(), EPERM);
    }
  }
  accept.accepted.clear();
  accept.cancel();
  EXPECT_TRUE(drive(m, [&] { return accept.ended(); }));
}

// A kernel that says so for ever is not asked for ever.
ISOLATED_TEST(kernel_accept, that_meets_only_dead_connections_ends_with_its_deadline) {
  auto [accepting, port] = listener(nullptr);
  raw const client = raw_connection(port);
  failing_calls calls;
  calls.fail<&table::accept4>(ECONNABORTED, {.times = which_calls::all});
  EXPECT_EQ(accepting.try_accept().error(), unio::condition::would_block);
}

// P10: what is not expected is passed on, and not tried again.
ISOLATED_TEST(kernel_accept, passes_an_unexpected_error_on_after_one_call) {
  auto [accepting, port] = listener(nullptr);
  raw const client = raw_connection(port);
  failing_calls calls;
  calls.fail<&table::accept4>(EIO, {.times = which_calls::all});
  EXPECT_EQ(accepting.accept(20s).error().value(), EIO);
  EXPECT_EQ(calls.count<&table::accept4>(), 1);
}

// Case 48: a reset that comes before the connection is accepted.
DRIVER_TEST(kernel_accept, survives_connections_that_were_reset_before) {
  auto [accepting, port] = listener(&m);
  for (int i = 0; i < 20; ++i) raw_connection(port).reset_connection();
  raw const alive = raw_connection(port);
  alive.write("abc");
  bool found = false;
  for (int i = 0; i < 21 && !found; ++i) {
    auto accepted = accepting.accept(5s);
    ASSERT_TRUE(accepted.has_value()) << accepted.error().message();
    accepted->set_multiplexer(&m);
    std::array<char, 8> memory{};
    auto const r = accepted->read(unio::mutable_buffer(memory), 5s);
    if (r.has_value()) {
      found = std::string(memory.data(), r.bytes_transferred()) == "abc";
    } else {
      EXPECT_EQ(r.error().value(), ECONNRESET);
    }
  }
  EXPECT_TRUE(found);
}

// Case 31. Addresses of peers are asked of each socket, not taken from memory that a ring shares among many.
// What its descriptor says is not taken for what the kernel knows.
DRIVER_TEST(kernel_accept, of_many_from_what_does_not_listen_any_more_changes_nothing_for_others) {
  bool const before = m.capabilities().multishot_accept;
  auto [ended, unused] = listener(&m);
  ASSERT_EQ(::shutdown(ended.native_handle(), SHUT_RDWR), 0);
  started accept_none{unio::async_accept_many(ended)};
  ASSERT_TRUE(drive(m, [&] { return accept_none.ended(); }));
  EXPECT_EQ(accept_none.error.value(), EINVAL);
  EXPECT_EQ(m.capabilities().multishot_accept, before);
}

// A Unix socket says so only to who may wait; poll(2) has it readable for ever.
DRIVER_TEST(kernel_accept, ends_once_the_listening_socket_was_shut_down_whatever_it_is) {
  for (bool const waits : {false, true})
    for (unio::io_multiplexer* const own : {static_cast<unio::io_multiplexer*>(nullptr), &m})
      for (endpoint const& at : {endpoint::ipv4_loopback(0), endpoint::unix_unnamed()}) {
        auto ended = unio::listening_socket_handle::listen(at).value();
        ended.set_multiplexer(&m);
        std::optional<started<unio::async_accept>> accept;
        std::optional<started<unio::async_accept_many>> accept_many;
        if (waits) {
          accept.emplace(unio::async_accept(ended));
          accept_many.emplace(unio::async_accept_many(ended));
          submit_all(m);
        }
        ASSERT_EQ(::shutdown(ended.native_handle(), SHUT_RD), 0);
        if (waits) {
          ASSERT_TRUE(drive(m, [&] { return accept->ended() && accept_many->ended(); }));
          EXPECT_EQ(accept->error.value(), EINVAL);
          EXPECT_EQ(accept_many->error.value(), EINVAL);
        }
        ended.set_multiplexer(own);
        for (int i = 0; i != 2; ++i) EXPECT_EQ(ended.accept(10s).error().value(), EINVAL);
        ended.set_multiplexer(&m);
        started accept_none{unio::async_accept_many(ended)};
        ASSERT_TRUE(drive(m, [&] { return accept_none.ended(); }));
        EXPECT_EQ(accept_none.error.value(), EINVAL);
      }
}

// No thread runs the multiplexer: only poll() looks.
DRIVER_TEST(kernel_accept, that_is_only_polled_ends_once_the_listening_socket_was_shut_down) {
  for (bool const is_first : {false, true})
    for (endpoint const& at : {endpoint::ipv4_loopback(0), endpoint::unix_unnamed()}) {
      auto ended = unio::listening_socket_handle::listen(at).value();
      ended.set_multiplexer(&m);
      if (is_first) {
        ASSERT_EQ(::shutdown(ended.native_handle(), SHUT_RD), 0);
      }
      started accept{unio::async_accept(ended)};
      for (int i = 0; i != 3; ++i) (void)accept.poll();
      if (!is_first) {
        ASSERT_EQ(::shutdown(ended.native_handle(), SHUT_RD), 0);
      }
      auto const give_up = std::chrono::steady_clock::now() + long_time;
      while (accept.poll() == unio::io_status::pending && std::chrono::steady_clock::now() < give_up)
        continue;
      EXPECT_TRUE(accept.ended());
      EXPECT_EQ(accept.error.value(), EINVAL);
    }
}

DRIVER_TEST(kernel_accept, of_many_leaves_each_connection_its_own_peer) {
  auto [accepting, port] = listener(&m);
  auto const at = unio::endpoint::ipv4_loopback(port);
  std::vector<unio::socket_handle> clients;
  std::vector<std::string> expected;
  for (std::uint8_t i = 0; i < 20; ++i) {
    unio::endpoint const from = unio::endpoint::ipv4({127, 0, 0, static_cast<std::uint8_t>(2 + i % 5)}, 0);
    clients.push_back(unio::socket_handle::connected_to(at, {.from = from}, 20s).value());
    expected.push_back(to_string(clients.back().local_endpoint().value()));
  }
  started accept{unio::async_accept_many(accepting)};
  ASSERT_TRUE(drive(m, [&] { return accept.accepted.size() == clients.size(); }));
  accept.cancel();
  ASSERT_TRUE(drive(m, [&] { return accept.ended(); }));
  std::vector<std::string> seen;
  for (unio::socket_handle const& s : accept.accepted) seen.push_back(to_string(s.remote_endpoint().value()));
  std::ranges::sort(expected);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, expected);
}

} // namespace
