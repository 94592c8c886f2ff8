// Whole programs in the simulation: the examples, word for word, with their own sockets, events, pipes and
// multiplexers. Only what starts them is different.

#ifndef __clang__ // types of an anonymous namespace in a file that is included: only here
#pragma GCC diagnostic ignored "-Wsubobject-linkage"
#endif

#include "simulation/support.hpp"
#include "support/test.hpp"

#include <unio/unio.hpp>

#include <csignal>
#include <list>

// Each in a namespace of its own. Their includes stand above.
#define main program
namespace echo_server_awaited {
#include "../../examples/echo_server_awaited/main.cpp"
}
namespace udp_echo {
#include "../../examples/udp_echo/main.cpp"
}
namespace channel_pipeline {
#include "../../examples/channel_pipeline/main.cpp"
}
namespace timeouts {
#include "../../examples/timeouts/main.cpp"
}
#undef main

namespace {

using namespace test;

constexpr char const* place = "10.0.0.1:7777";

// What a program prints in each of a thousand runs is of no interest; that it prints the same is.
template <class Program> int run_quietly(Program program) {
  ::testing::internal::CaptureStdout();
  int const status = program();
  (void)::testing::internal::GetCapturedStdout();
  return status;
}

struct answers {
  int right = 0;
  int wrong = 0;
  int broken = 0;
};

// Connects, sends lines in pieces, and compares what comes back. Now and then it just stays silent.
task<> is_a_client(answers& a, dice d) {
  unio::endpoint const there = unio::parse_endpoint(place).value();
  auto socket = unio::socket_handle::create(there.family()).value();
  (void)co_await unio::co_sleep(std::chrono::microseconds(d.below(20'000)));
  auto const connected = co_await socket.co_connect(there, 1min);
  if (!connected) {
    ++a.broken;
    co_return;
  }
  for (std::uint64_t rounds = 1 + d.below(4); rounds != 0; --rounds) {
    std::string said(1 + d.below(9'000), '\0');
    for (char& c : said) c = static_cast<char>(d.below(256));
    auto const sent = co_await unio::co_write(socket, unio::const_buffer(said.data(), said.size()), 1min);
    std::string heard(said.size(), '\0');
    auto const got = co_await unio::co_read(socket, unio::mutable_buffer(heard.data(), heard.size()),
                                            unio::deadline(1min));
    if (!sent || !got) {
      ++a.broken;
      co_return;
    }
    ++(heard == said ? a.right : a.wrong);
  }
  if (d.below(4) != 0) co_return;
  std::array<char, 1> room;
  auto const began = unio::now();
  auto const end = co_await socket.co_read(unio::mutable_buffer(room), 1h); // the server's limit ends it
  if (!end || !end->empty()) {
    ++a.broken;
  } else if (unio::now() - began < 29s) {
    ++a.wrong;
  }
}

task<> are_clients(answers& a, std::uint64_t seed) {
  {
    unio::task_group group(co_await unio::this_coro::environment);
    for (std::uint64_t i = 0; i != 1 + seed % 5; ++i) group.start(is_a_client(a, dice(seed * 8 + i)));
    co_await group.co_join();
  }
  std::raise(SIGTERM);
}

answers serve_echo(simulation& s) {
  answers a;
  auto const before = std::signal(SIGTERM, SIG_DFL);
  auto const before_int = std::signal(SIGINT, SIG_DFL);
  unio::async_run(s.multiplexer(), are_clients(a, s.seed()));
  std::string name = "echo", where = place;
  char* arguments[] = {name.data(), where.data(), nullptr};
  EXPECT_EQ(run_quietly([&] { return echo_server_awaited::program(2, arguments); }), 0);
  (void)std::signal(SIGTERM, before);
  (void)std::signal(SIGINT, before_int);
  EXPECT_TRUE(echo_server_awaited::end_wanted.close());
  EXPECT_EQ(s.refused(), "");
  return a;
}

TEST(simulated_program, echo_server_answers_right_or_not_at_all) {
  answers all;
  for_seeds(1000, [&](simulation& s) {
    answers const a = serve_echo(s);
    EXPECT_EQ(a.wrong, 0);
    if (!s.options().resets) {
      EXPECT_EQ(a.broken, 0);
    }
    all.right += a.right;
    all.broken += a.broken;
  });
  EXPECT_GT(all.right, 2000);
  EXPECT_GT(all.broken, 50);
}

TEST(simulated_program, udp_echo_serves_itself) {
  int came_back = 0;
  for_seeds(1000, [&](simulation& s) {
    std::string name = "udp_echo", where = "127.0.0.1:0";
    char* arguments[] = {name.data(), nullptr};
    int const status = run_quietly([&] { return udp_echo::program(1, arguments); });
    if (!s.options().lost_datagrams && !s.options().double_datagrams) {
      EXPECT_EQ(status, 0);
    }
    came_back += status == 0 ? 1 : 0;
    EXPECT_EQ(s.refused(), "");
  });
  EXPECT_GT(came_back, 100);
}

TEST(simulated_program, channel_pipeline_counts_every_word) {
  for_seeds(300, [&](simulation& s) {
    EXPECT_EQ(run_quietly([] { return channel_pipeline::program(); }), 0);
    EXPECT_EQ(s.refused(), "");
  });
}

TEST(simulated_program, timeouts_come_in_virtual_time) {
  for_seeds(300, [&](simulation& s) {
    EXPECT_EQ(run_quietly([] { return timeouts::program(); }), 0);
    EXPECT_EQ(s.refused(), "");
  });
}

TEST(simulated_program, prints_the_same_again_with_the_same_seed) {
  for (std::uint64_t seed = 0; seed != 50; ++seed) {
    std::uint64_t fingerprints[2];
    for (std::uint64_t& f : fingerprints) {
      simulation s(simulation_options::from_seed(seed));
      (void)serve_echo(s);
      f = s.fingerprint();
    }
    ASSERT_EQ(fingerprints[0], fingerprints[1]) << "UNIO_SEED=" << seed;
  }
}

} // namespace
