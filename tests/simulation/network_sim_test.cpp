// The simulated network, as a program sees it that opens its own sockets: names, connecting, what arrives and
// when, how connections break, and what is refused because it is not simulated.

#include "driver/shared.hpp"
#include "simulation/support.hpp"
#include "support/posix.hpp"
#include "support/test.hpp"
#include "sys/calls.hpp"

#include <unio/adopt.hpp>

namespace {

using namespace test;
using unio::testing::route;

constexpr auto& without_resets = with<&simulation_options::resets, false>;

endpoint at(std::string_view text) { return unio::parse_endpoint(text).value(); }

std::string text_of(std::size_t n, std::uint64_t from = 0) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>(byte_at(from + i));
  return s;
}

// Everything that comes until the end, or until it fails.
std::string read_all(socket_handle& s, std::error_code& why) {
  std::string all;
  std::array<char, 300> room;
  for (;;) {
    auto const got = s.read(unio::mutable_buffer(room));
    why = got.error();
    if (!got || got->empty()) return all;
    all.append(room.data(), got.bytes_transferred());
  }
}

// ---- connecting

SEEDED_TEST(simulated_network, connects_sockets_of_every_family, 500, without_resets) {
  char const* const places[] = {"127.0.0.1:0", "10.1.2.3:80", "[::1]:0", "unix:/run/x", "unix:@x"};
  endpoint const here = at(places[s.seed() % 5]);
  auto listening = listening_socket_handle::listen(here).value();
  endpoint const there = listening.local_endpoint().value();
  if (here.family() != unio::address_family::unix_path) {
    EXPECT_NE(there.port(), 0);
  }
  auto client = socket_handle::connected_to(there).value();
  auto server = listening.accept().value();
  EXPECT_EQ(client.remote_endpoint().value(), there);
  EXPECT_EQ(server.local_endpoint().value(), there);
  EXPECT_EQ(server.remote_endpoint().value(), client.local_endpoint().value());

  std::string const said = text_of(700), answered = text_of(300, 5000);
  for (std::size_t n = 0; n != said.size();)
    n += client.write(unio::const_buffer(said.data() + n, said.size() - n)).bytes_transferred();
  ASSERT_TRUE(client.shutdown(socket_handle::side::send));
  std::error_code why;
  EXPECT_EQ(read_all(server, why), said);
  EXPECT_FALSE(why);
  for (std::size_t n = 0; n != answered.size();)
    n += server.write(unio::const_buffer(answered.data() + n, answered.size() - n)).bytes_transferred();
  ASSERT_TRUE(server.close());
  EXPECT_EQ(read_all(client, why), answered);
  EXPECT_FALSE(why);
}

SEEDED_TEST(simulated_network, connects_in_every_style, 1000, without_resets) {
  auto listening = listening_socket_handle::listen(at("[::1]:0")).value();
  endpoint const there = listening.local_endpoint().value();
  bool done = false;
  auto const serve = [&]() -> task<> {
    auto server = (co_await listening.co_accept()).value();
    std::array<char, 1> byte{};
    (void)co_await server.co_read(unio::mutable_buffer(byte));
    done = byte[0] == 'x';
  };
  auto const ask = [&]() -> task<> {
    auto client = socket_handle::create(there.family()).value();
    auto const connected = co_await client.co_connect(there);
    EXPECT_TRUE(connected);
    (void)co_await client.co_write(unio::const_buffer("x", 1));
  };
  unio::async_run(s.multiplexer(), serve());
  unio::run(ask());
  EXPECT_TRUE(run_until(s, [&] { return done; }));
}

SEEDED_TEST(simulated_network, refuses_and_times_out_as_a_network_does, 300, without_resets) {
  EXPECT_TRUE(is(socket_handle::connected_to(at("127.0.0.1:9")).error(), ECONNREFUSED));
  EXPECT_TRUE(is(socket_handle::connected_to(at("unix:/nowhere")).error(), ENOENT));
  EXPECT_TRUE(is(socket_handle::connected_to(at("unix:@nowhere")).error(), ECONNREFUSED));

  auto listening = listening_socket_handle::listen(at("192.0.2.1:80")).value();
  s.set_route(at("192.0.2.1:0"), {.error = std::errc::host_unreachable});
  EXPECT_TRUE(is(socket_handle::connected_to(at("192.0.2.1:80")).error(), EHOSTUNREACH));

  s.set_route(at("192.0.2.1:0"), {.is_lost = true});
  auto began = unio::now();
  EXPECT_EQ(socket_handle::connected_to(at("192.0.2.1:80"), 700ms).error(), unio::condition::timed_out);
  EXPECT_GE(unio::now() - began, 700ms);
  EXPECT_LT(unio::now() - began, 1s);
  began = unio::now();
  EXPECT_TRUE(is(socket_handle::connected_to(at("192.0.2.1:80")).error(), ETIMEDOUT));
  EXPECT_GT(unio::now() - began, 1min);

  // An answer that is late comes all the same.
  s.set_route(at("192.0.2.1:0"), {.latency = 40ms});
  began = unio::now();
  EXPECT_TRUE(socket_handle::connected_to(at("192.0.2.1:80")).has_value());
  EXPECT_GE(unio::now() - began, 80ms);
}

TEST(simulated_network, lets_a_connection_wait_for_room_in_the_backlog) {
  simulation s(simulation_options::orderly());
  auto listening = listening_socket_handle::listen(at("127.0.0.1:80"), {.backlog = 0}).value();
  auto first = socket_handle::connected_to(at("127.0.0.1:80")).value();
  auto second = socket_handle::create(unio::address_family::ipv4).value();
  EXPECT_EQ(second.connect(at("127.0.0.1:80"), 100ms).error(), unio::condition::timed_out);
  auto accepted = listening.accept().value();
  auto third = socket_handle::connected_to(at("127.0.0.1:80"), 5s);
  EXPECT_TRUE(third.has_value());
}

// ---- names

SEEDED_TEST(simulated_network, gives_names_as_the_kernel_does, 100, without_resets) {
  auto const listen = [](std::string_view where, unio::listen_options o = {}) {
    return listening_socket_handle::listen(at(where), o);
  };
  auto first = listen("127.0.0.1:80").value();
  EXPECT_TRUE(is(listen("127.0.0.1:80").error(), EADDRINUSE));
  EXPECT_TRUE(is(listen("0.0.0.0:80").error(), EADDRINUSE));
  EXPECT_TRUE(is(listen("[::]:80", {.ipv6_only = false}).error(), EADDRINUSE));
  auto other_family = listen("[::]:80").value();
  auto other_address = listen("127.0.0.2:80").value();

  std::set<std::uint16_t> ports;
  std::vector<listening_socket_handle> many;
  for (int i = 0; i != 20; ++i) {
    many.push_back(listen("127.0.0.1:0").value());
    ports.insert(many.back().local_endpoint()->port());
  }
  EXPECT_EQ(ports.size(), 20u);

  auto client = socket_handle::create(unio::address_family::ipv4).value();
  ASSERT_TRUE(client.bind(at("127.0.0.1:4000")));
  EXPECT_TRUE(is(client.bind(at("127.0.0.1:4001")).error(), EINVAL));
  EXPECT_TRUE(is(client.remote_endpoint().error(), ENOTCONN));
  ASSERT_TRUE(client.connect(at("127.0.0.1:80")));
  EXPECT_TRUE(is(client.connect(at("127.0.0.1:80")).error(), EISCONN));
  EXPECT_EQ(first.accept()->remote_endpoint().value(), at("127.0.0.1:4000"));

  // A path stays behind its socket, an abstract name does not.
  auto path = listen("unix:/run/x").value();
  EXPECT_TRUE(is(listen("unix:/run/x").error(), EADDRINUSE));
  ASSERT_TRUE(path.close());
  EXPECT_TRUE(is(socket_handle::connected_to(at("unix:/run/x")).error(), ECONNREFUSED));
  EXPECT_TRUE(is(listen("unix:/run/x").error(), EADDRINUSE));
  EXPECT_EQ(unio::sys::unlinkat(AT_FDCWD, "/run/x", 0), 0);
  EXPECT_TRUE(listen("unix:/run/x").has_value());
  auto abstract = listen("unix:@x").value();
  EXPECT_TRUE(is(listen("unix:@x").error(), EADDRINUSE));
  ASSERT_TRUE(abstract.close());
  EXPECT_TRUE(listen("unix:@x").has_value());
}

TEST(simulated_network, spreads_connections_over_a_group_and_maps_ipv4_into_ipv6) {
  int of_first = 0, of_second = 0;
  for_seeds<without_resets>(200, [&](simulation&) {
    unio::listen_options const group{.reuse_port = true};
    auto first = listening_socket_handle::listen(at("127.0.0.1:80"), group).value();
    auto second = listening_socket_handle::listen(at("127.0.0.1:80"), group).value();
    auto client = socket_handle::connected_to(at("127.0.0.1:80")).value();
    bool const went_to_first = first.accept(unio::deadline(1us)).has_value();
    EXPECT_EQ(second.accept(unio::deadline(1us)).has_value(), !went_to_first);
    ++(went_to_first ? of_first : of_second);

    auto both = listening_socket_handle::listen(at("[::]:81"), {.ipv6_only = false}).value();
    auto mapped = socket_handle::connected_to(at("127.0.0.1:81")).value();
    EXPECT_EQ(to_string(both.accept()->local_endpoint().value()), "[::ffff:127.0.0.1]:81");
  });
  EXPECT_GT(of_first, 20);
  EXPECT_GT(of_second, 20);
}

TEST(simulated_network, keeps_options_and_refuses_what_it_does_not_know) {
  simulation s(simulation_options::orderly());
  auto socket = socket_handle::create(unio::address_family::ipv4).value();
  ASSERT_TRUE(socket.no_delay(true));
  ASSERT_TRUE(socket.keep_alive(true));
  ASSERT_TRUE(socket.send_buffer(10'000));
  EXPECT_EQ(socket.send_buffer().value(), 20'000);
  EXPECT_EQ(s.refused(), "");
  ::testing::internal::CaptureStderr();
  int value = 1;
  EXPECT_EQ(unio::sys::setsockopt(socket.native_handle(), SOL_SOCKET, 12345, &value, sizeof(value)),
            -ENOPROTOOPT);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "unio::testing: setsockopt(2) of this option is not simulated\n");
  EXPECT_EQ(s.refused(), "setsockopt(2) of this option is not simulated\n");
}

template <class Handle> bool stays(Handle h) {
  int const fd = h.release();
  auto const what = unio::adopt(fd);
  return what && std::holds_alternative<Handle>(*what) && std::get<Handle>(*what).native_handle() == fd;
}

TEST(simulated_network, tells_what_a_descriptor_is) {
  simulation const s(simulation_options::orderly());
  EXPECT_TRUE(stays(socket_handle::create(unio::address_family::ipv4).value()));
  EXPECT_TRUE(stays(listening_socket_handle::listen(at("127.0.0.1:4001")).value()));
  EXPECT_TRUE(stays(unio::datagram_handle::create(unio::address_family::ipv6).value()));
  EXPECT_TRUE(
      stays(unio::file_handle::file({}, "/f", unio::handle::mode::write, unio::handle::creation::if_needed)
                .value()));
  auto pipe = unio::pipe_handle::anonymous().value();
  EXPECT_TRUE(stays(std::move(pipe.reader)));
  EXPECT_TRUE(stays(std::move(pipe.writer)));
  EXPECT_TRUE(stays(unio::event_handle::create().value()));
  EXPECT_EQ(s.refused(), "");
}

TEST(simulated_network, gives_the_credentials_of_the_peer) {
  simulation const s(simulation_options::orderly());
  auto const [a, b] = socket_handle::pair().value();
  auto const peer = unio::credentials_of_peer(a);
  ASSERT_TRUE(peer);
  EXPECT_EQ(peer->process, ::getpid());
  EXPECT_EQ(peer->user, ::getuid());
  auto const inet = socket_handle::create(unio::address_family::ipv4).value();
  EXPECT_TRUE(is(unio::credentials_of_peer(inet).error(), EOPNOTSUPP));
  EXPECT_EQ(s.refused(), "");
}

// A script of sixty calls on listening sockets and connections at four places, the same for the same number.
// Returns what it saw.
std::string act(std::uint64_t number, std::vector<endpoint> const& places) {
  dice d(number);
  std::string seen;
  auto const say = [&](char what, auto const& r) {
    seen.push_back(what);
    seen.append(std::to_string(r.error().value())).push_back(' ');
  };
  auto const say_name = [&](char what, unio::result<endpoint> const& r) {
    auto const place = r ? std::ranges::find(places, *r) - places.begin() : -r.error().value();
    seen.push_back(what);
    seen.append(std::to_string(place)).push_back(' ');
  };
  // A connection is seen by accept(2) a moment after connect(2) has returned: so what waits is counted.
  struct listener {
    listening_socket_handle socket;
    std::size_t at = 0;
  };
  std::vector<int> waiting(places.size());
  listener listening[3];
  socket_handle connections[5];
  for (int i = 0; i != 60; ++i) {
    auto& [l, l_at] = listening[d.below(3)];
    socket_handle& c = connections[d.below(5)];
    std::size_t const at_place = d.below(places.size());
    endpoint const& place = places[at_place];
    auto const connect = [&](socket_handle& socket) {
      auto const r = socket.connect(place, 1s);
      say('c', r);
      if (r) ++waiting[at_place];
    };
    auto const stop_listening = [&, &of = l, &there = l_at] {
      if (of.is_open()) waiting[there] = 0;
      (void)of.close();
    };
    switch (d.below(8)) {
      case 0:
      case 1: {
        auto made = listening_socket_handle::listen(place, {.wait_for_address = unio::deadline::zero()});
        say('l', made);
        if (!made) break;
        stop_listening();
        l = std::move(*made);
        l_at = at_place;
        break;
      }
      case 2:
      case 3: {
        auto made = socket_handle::create(place.family());
        if (made) {
          connect(*made);
          say_name('p', made->remote_endpoint());
          c = std::move(*made);
        }
        break;
      }
      case 4: {
        if (!l.is_open()) break;
        auto accepted = l.accept(waiting[l_at] != 0 ? unio::deadline(5s) : unio::deadline::zero());
        say('a', accepted);
        if (accepted) --waiting[l_at];
        if (accepted) say_name('n', accepted->local_endpoint());
        if (accepted) c = std::move(*accepted);
        break;
      }
      case 5:
        if (c.is_open()) connect(c);
        break;
      case 6:
        if (l.is_open()) say_name('n', l.local_endpoint());
        break;
      default:
        if (d.below(2) == 0) stop_listening();
        if (d.below(2) == 0) (void)c.close();
    }
  }
  return seen;
}

// On Unix names, and on loopback addresses that nobody else uses.
TEST(simulated_network, names_and_connects_as_the_real_one) {
  for (std::uint64_t number = 0; number != 400; ++number) {
    std::string const own = std::to_string(::getpid()) + "." + std::to_string(number);
    auto const low = static_cast<std::uint8_t>(1 + number % 200);
    auto const high = static_cast<std::uint8_t>(::getpid() & 0xff);
    auto const middle = static_cast<std::uint8_t>(::getpid() >> 8 & 0xff);
    std::uint8_t const address[4] = {127, high, middle, low};
    std::vector<endpoint> const places = {endpoint::ipv4(address, 4001), endpoint::ipv4(address, 4002),
                                          endpoint::unix_path("@unio-sim-a" + own).value(),
                                          endpoint::unix_path("@unio-sim-b" + own).value()};
    std::string const real = act(number, places);
    simulation s(simulation_options::orderly());
    ASSERT_EQ(real, act(number, places)) << "script " << number;
    EXPECT_EQ(s.refused(), "");
  }
}

// ---- what arrives

// One end writes as much as it can and closes; what the other reads is what was written, or its beginning.
TEST(simulated_network, delivers_all_bytes_in_order_or_reports_that_it_did_not) {
  int broken = 0, whole = 0;
  for_seeds(2000, [&](simulation& s) {
    auto listening = listening_socket_handle::listen(at("10.0.0.1:80")).value();
    std::string const said = text_of(1 + s.seed() * 37 % 40'000);
    std::string heard;
    std::error_code of_writer, of_reader;
    auto const serve = [&]() -> task<> {
      auto server = (co_await listening.co_accept()).value();
      std::array<char, 999> room;
      for (;;) {
        auto const got = co_await server.co_read(unio::mutable_buffer(room));
        of_reader = got.error();
        if (!got || got->empty()) co_return;
        heard.append(room.data(), got.bytes_transferred());
      }
    };
    auto const ask = [&]() -> task<> {
      auto client = socket_handle::create(unio::address_family::ipv4).value();
      (co_await client.co_connect(at("10.0.0.1:80"))).value();
      for (std::size_t n = 0; n != said.size();) {
        auto const sent = co_await client.co_write(unio::const_buffer(said.data() + n, said.size() - n));
        n += sent.bytes_transferred();
        of_writer = sent.error();
        if (!sent) co_return;
      }
    };
    unio::run([&]() -> task<> { co_await unio::when_all(serve(), ask()); }());
    EXPECT_EQ(heard, said.substr(0, heard.size()));
    for (std::error_code const e : {of_writer, of_reader}) {
      EXPECT_TRUE(!e || is(e, ECONNRESET) || is(e, EPIPE)) << e.message();
    }
    if (!of_reader) {
      EXPECT_EQ(heard, said);
    }
    ++(of_reader ? broken : whole);
  });
  EXPECT_GT(broken, 20) << "no connection was reset";
  EXPECT_GT(whole, 200);
}

SEEDED_TEST(simulated_network, ends_a_silent_connection_with_the_limit_that_two_tasks_share, 500,
            without_resets) {
  auto listening = listening_socket_handle::listen(at("10.0.0.1:80")).value();
  auto client = socket_handle::connected_to(at("10.0.0.1:80")).value();
  auto server = listening.accept().value();
  // Any byte in either direction counts as a sign of life.
  auto last = unio::now();
  auto const began = last;
  auto const idle = [&]() -> task<> {
    while (last + 50ms > unio::now()) (void)co_await unio::co_sleep(last + 50ms);
  };
  auto const reads = [&]() -> task<> {
    std::array<char, 1> byte;
    while (auto const got = co_await server.co_read(unio::mutable_buffer(byte))) last = unio::now();
  };
  auto const writes = [&]() -> task<> {
    for (int i = 0; i != 5; ++i) {
      (void)co_await unio::co_sleep(30ms);
      (void)co_await client.co_write(unio::const_buffer("x", 1));
    }
    (void)co_await unio::co_sleep(1h);
  };
  unio::run([&]() -> task<> { (void)co_await unio::when_any(idle(), reads(), writes()); }());
  EXPECT_GE(unio::now() - began, 200ms);
  EXPECT_LT(unio::now() - began, 400ms);
  EXPECT_EQ(s.now(), unio::now());
}

TEST(simulated_network, tells_a_writer_late_that_its_peer_has_gone) {
  simulation s(simulation_options::orderly());
  s.set_route(at("10.0.0.1:0"), {.latency = 10ms});
  auto listening = listening_socket_handle::listen(at("10.0.0.1:80")).value();
  auto client = socket_handle::connected_to(at("10.0.0.1:80")).value();
  (void)listening.accept().value().close();
  EXPECT_TRUE(client.write(unio::const_buffer("x", 1)).has_value()) << "it does not know yet";
  s.advance(10ms);
  EXPECT_TRUE(client.write(unio::const_buffer("x", 1)).has_value())
      << "the answer to the first byte is on its way";
  s.advance(10ms);
  EXPECT_TRUE(is(client.write(unio::const_buffer("x", 1)).error(), EPIPE));
}

// ---- programs

SEEDED_TEST(simulated_program, makes_its_own_multiplexers, 300, without_resets) {
  EXPECT_EQ(&unio::this_thread::multiplexer(), &s.multiplexer());
  auto own = unio::io_multiplexer::best_available(1).value();
  EXPECT_STREQ(own->capabilities().driver, "simulated");
  auto listening = listening_socket_handle::listen(at("10.0.0.1:80")).value();
  listening.set_multiplexer(own.get());
  // What one of them has submitted goes on while the other one sleeps.
  bool accepted = false;
  unio::async_run(*own, [](listening_socket_handle& l, bool& done) -> task<> {
    done = (co_await l.co_accept()).has_value();
  }(listening, accepted));
  (void)own->try_run();
  auto client = unio::run([]() -> task<socket_handle> {
    auto c = socket_handle::create(unio::address_family::ipv4).value();
    (co_await c.co_connect(at("10.0.0.1:80"))).value();
    co_return c;
  }());
  while (!accepted) ASSERT_TRUE(own->run().has_value());
  ASSERT_TRUE(client.close());
  ASSERT_TRUE(listening.close());
}

SEEDED_TEST(simulated_program, opens_pipes_and_events, 300) {
  auto event = unio::event_handle::create().value();
  auto [reader, writer] = unio::pipe_handle::anonymous().value();
  auto [a, b] = socket_handle::pair().value();
  std::uint64_t signals = 0;
  auto const waits = [&]() -> task<> {
    while (signals < 3) signals += (co_await event.co_wait()).value();
    (co_await writer.co_write(unio::const_buffer("x", 1))).value();
  };
  auto const acts = [&]() -> task<> {
    for (int i = 0; i != 3; ++i) {
      (void)co_await unio::co_sleep(1ms);
      EXPECT_TRUE(event.signal());
    }
    std::array<char, 1> byte{};
    (co_await reader.co_read(unio::mutable_buffer(byte))).value();
    EXPECT_EQ(byte[0], 'x');
  };
  unio::run([&]() -> task<> { co_await unio::when_all(waits(), acts()); }());
  EXPECT_EQ(signals, 3u);
}

TEST(simulated_program, that_waits_for_ever_is_told_so) {
  simulation s;
  auto listening = listening_socket_handle::listen(at("10.0.0.1:80")).value();
  EXPECT_EQ(listening.accept().error(), std::errc::resource_deadlock_would_occur);
}

// ---- what is refused: a canary for each way out of the simulation

std::string refused_by(simulation& s, auto f) {
  std::string const before = s.refused();
  ::testing::internal::CaptureStderr();
  f();
  std::string const said = ::testing::internal::GetCapturedStderr();
  EXPECT_NE(said, "");
  return s.refused().substr(before.size());
}

TEST(simulated_program, is_refused_what_is_not_simulated) {
  simulation s(simulation_options::orderly());
  EXPECT_EQ(refused_by(s, [] { EXPECT_EQ(unio::sys::epoll_create(0), -ENOSYS); }),
            "epoll_create(2) is not simulated\n");
  EXPECT_EQ(refused_by(s, [] { EXPECT_EQ(unio::sys::io_uring_setup(1, nullptr), -ENOSYS); }),
            "io_uring_setup(2) is not simulated\n");
  EXPECT_EQ(refused_by(s, [] { EXPECT_EQ(unio::sys::mkfifo(AT_FDCWD, "/tmp/x", 0), -ENOSYS); }),
            "mkfifo(2) is not simulated\n");
  EXPECT_EQ(refused_by(s, [] { EXPECT_EQ(unio::sys::socket(AF_NETLINK, SOCK_RAW, 0), -ENOSYS); }),
            "socket(2) of this family, type and protocol is not simulated\n");
  auto file = s.file();
  EXPECT_EQ(
      refused_by(s, [&] { EXPECT_EQ(unio::sys::mmap(nullptr, 1, 0, 0, file.native_handle(), 0), -ENOSYS); }),
      "mmap(2) is not simulated\n");
  int const fd = file.native_handle();
  EXPECT_EQ(refused_by(s, [&] { EXPECT_EQ(unio::sys::fcntl(fd, F_GETLEASE, 0), -EINVAL); }),
            "fcntl(2) with this command is not simulated\n");
  EXPECT_EQ(
      refused_by(
          s, [&] { EXPECT_EQ(unio::sys::fallocate(fd, FALLOC_FL_COLLAPSE_RANGE, 0, 4096), -EOPNOTSUPP); }),
      "fallocate(2) of this mode is not simulated\n");
  EXPECT_EQ(refused_by(s, [&] { EXPECT_EQ(unio::sys::lseek(fd, 0, SEEK_HOLE), -EINVAL); }),
            "lseek(2) to holes and data is not simulated\n");
  auto pipe = s.pipe();
  EXPECT_EQ(refused_by(s, [&] { EXPECT_FALSE(unio::splice(pipe.reader, file, {.bytes = 1})); }),
            "splice(2) is not simulated\n");
}

TEST(simulated_program, is_refused_other_threads) {
  simulation s(simulation_options::orderly());
  EXPECT_EQ(refused_by(s,
                       [] {
                         EXPECT_EQ(unio::io_multiplexer::best_available(2).error(),
                                   std::errc::operation_not_supported);
                       }),
            "a multiplexer of several threads is not simulated\n");
  auto pipe = s.pipe();
  ::testing::internal::CaptureStderr();
  std::thread([&] {
    EXPECT_EQ(unio::sys::write(pipe.writer.native_handle(), "x", 1), -ENOSYS);
    EXPECT_EQ(unio::sys::socket(AF_INET, SOCK_STREAM, 0), -ENOSYS);
  }).join();
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "unio::testing: write(2) of a simulated descriptor on a thread that is not the simulation's\n"
            "unio::testing: socket(2) on a thread that is not the simulation's: it has one "
            "(simulation_options::other_threads)\n");
  EXPECT_EQ(s.refused(),
            "a multiplexer of several threads is not simulated\n"
            "write(2) of a simulated descriptor on a thread that is not the simulation's\n"
            "socket(2) on a thread that is not the simulation's: it has one "
            "(simulation_options::other_threads)\n");
}

TEST(simulated_program, cannot_make_a_thread_pool) {
  simulation s(simulation_options::orderly());
  EXPECT_EQ(refused_by(s,
                       [] {
                         EXPECT_EQ(unio::driver::make_pool_multiplexer(1).error(),
                                   std::errc::operation_not_supported);
                       }),
            "a multiplexer of several threads is not simulated\n");
}

// ---- the seed decides everything

std::pair<std::uint64_t, std::string> run_once(std::uint64_t seed) {
  simulation_options o = simulation_options::from_seed(seed);
  o.record = true;
  simulation s(o);
  auto listening = listening_socket_handle::listen(at("10.0.0.1:0")).value();
  endpoint const there = listening.local_endpoint().value();
  auto const serve = [&]() -> task<> {
    auto const answer = [](socket_handle connection) -> task<> {
      std::array<char, 64> room;
      while (auto const got = co_await connection.co_read(unio::mutable_buffer(room), 20ms)) {
        if (got->empty()) break;
        (void)co_await unio::co_write(connection, unio::const_buffer(room.data(), got.bytes_transferred()));
      }
    };
    for (int i = 0; i != 3; ++i) co_await answer((co_await listening.co_accept()).value());
  };
  auto const ask = [&]() -> task<> {
    for (int i = 0; i != 3; ++i) {
      auto client = socket_handle::create(there.family()).value();
      if (!co_await client.co_connect(there)) continue;
      std::array<char, 64> room;
      (void)co_await client.co_write(unio::const_buffer("some words", 10));
      (void)co_await client.co_read(unio::mutable_buffer(room), 30ms);
    }
  };
  unio::run([&]() -> task<> { co_await unio::when_all(serve(), ask()); }());
  return {s.fingerprint(), s.trace()};
}

TEST(simulated_program, does_the_same_again_with_the_same_seed) {
  std::set<std::uint64_t> different;
  for (std::uint64_t seed = 0; seed != 200; ++seed) {
    auto const first = run_once(seed);
    auto const second = run_once(seed);
    ASSERT_EQ(first, second) << "UNIO_SEED=" << seed;
    different.insert(first.first);
  }
  EXPECT_GT(different.size(), 190u);
}

} // namespace
