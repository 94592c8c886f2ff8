// Shows     a program that opens its own sockets, run in a simulation: a thousand seeds, of which each is
//           another network, find the defect of one version, and none in the other. The seed replays it.
// Run       build/release/examples/example_simulated_program [SEED]: with a seed, what happens in that one
// Read next <unio/testing.hpp>, ../echo_server_awaited/main.cpp

#include <unio/stream.hpp>
#include <unio/testing.hpp>
#include <unio/unio.hpp>

#include <array>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <string_view>

using namespace std::chrono_literals;

namespace {

// ---- the program: it knows nothing of simulations ---------------------------------------------------------

using unio::task;

// Adds the numbers that each connection sends, a line each, and answers each with the sum so far.
task<> serves(unio::socket_handle connection) {
  std::string text;
  for (int sum = 0;;) {
    auto const n = co_await unio::co_read_until(connection, unio::dynamic_buffer(text, 100), "\n", 10s);
    if (!n) co_return;
    int more = 0;
    std::from_chars(text.data(), text.data() + *n, more);
    text.erase(0, *n);
    if (!co_await unio::co_write(connection, std::to_string(sum += more) + "\n", 10s)) co_return;
  }
}

task<> serves_all(unio::listening_socket_handle& listening) {
  unio::task_group connections(co_await unio::this_coro::environment);
  (void)co_await unio::co_for_each_connection(
      listening, [&](unio::socket_handle s) { connections.start(serves(std::move(s))); });
  co_await connections.co_join();
}

// The defect: it takes what one read brings for a line.
task<unio::io_result<int>> asks_hastily(unio::socket_handle& server, std::string_view line) {
  if (auto const sent = co_await unio::co_write(server, line, 10s); !sent) co_return sent.error();
  std::array<char, 100> room;
  auto const got = co_await server.co_read(room, 10s);
  if (!got) co_return got.error();
  int answer = 0;
  std::from_chars(room.data(), room.data() + got.bytes_transferred(), answer);
  co_return answer;
}

task<unio::io_result<int>> asks(unio::socket_handle& server, std::string_view line) {
  if (auto const sent = co_await unio::co_write(server, line, 10s); !sent) co_return sent.error();
  std::string text;
  auto const n = co_await unio::co_read_until(server, unio::dynamic_buffer(text, 100), "\n", 10s);
  if (!n) co_return n.error();
  int answer = 0;
  std::from_chars(text.data(), text.data() + *n, answer);
  co_return answer;
}

// 100 + 200 + … + 1000. Nothing if the connection broke.
task<std::optional<int>> adds(unio::endpoint there, bool hastily) {
  auto server = unio::socket_handle::create(there.family()).value();
  if (!co_await server.co_connect(there, 10s)) co_return std::nullopt;
  int sum = 0;
  for (int i = 100; i <= 1000; i += 100) {
    std::string const line = std::to_string(i) + "\n";
    // Two statements: g++ 12 destroys what `a ? co_await b : co_await c` yields twice.
    std::optional<unio::io_result<int>> answer;
    if (hastily) answer = co_await asks_hastily(server, line);
    if (!hastily) answer = co_await asks(server, line);
    if (!*answer) co_return std::nullopt;
    sum = **answer;
  }
  co_return sum;
}

std::optional<int> run_program(bool hastily) {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  unio::endpoint const here = listening.local_endpoint().value();
  unio::io_multiplexer& m = unio::this_thread::multiplexer();
  unio::stop_source stop;
  bool ended = false;
  auto const says = [&](unio::task_outcome<void>) { ended = true; };
  unio::async_run(m, serves_all(listening), says, {.stop = stop.get_token()});
  std::optional<int> const sum = unio::run(adds(here, hastily));
  stop.request_stop();
  while (!ended) m.run().value();
  return sum;
}

// ---- its test ---------------------------------------------------------------------------------------------

struct outcome {
  std::optional<int> sum;
  std::uint64_t fingerprint = 0;
};

outcome simulate(std::uint64_t seed, bool hastily, bool record = false) {
  auto options = unio::testing::simulation_options::from_seed(seed);
  options.record = record;
  unio::testing::simulation s(options);
  outcome const o{run_program(hastily), s.fingerprint()};
  if (record) std::fputs(s.trace().c_str(), stdout);
  return o;
}

constexpr int right = 5500;

} // namespace

int main(int argc, char** argv) {
  if (argc > 1) {
    std::uint64_t seed = 0;
    std::from_chars(argv[1], argv[1] + std::string_view(argv[1]).size(), seed);
    outcome const o = simulate(seed, true, true);
    std::printf("seed %llu: the sum is %d\n", static_cast<unsigned long long>(seed), o.sum.value_or(-1));
    return 0;
  }
  int whole = 0, broken = 0, found = 0;
  std::uint64_t first_found = 0;
  for (std::uint64_t seed = 0; seed != 1000; ++seed) {
    outcome const careful = simulate(seed, false);
    if (careful.sum && *careful.sum != right)
      return std::printf("seed %llu: the sum is %d\n", static_cast<unsigned long long>(seed), *careful.sum),
             1;
    ++(careful.sum ? whole : broken);
    outcome const hasty = simulate(seed, true);
    if (hasty.sum && *hasty.sum != right && ++found == 1) first_found = seed;
  }
  std::printf("careful: right in %d networks, without an answer in %d\n", whole, broken);
  std::printf("hasty:   wrong in %d, the first is seed %llu\n", found,
              static_cast<unsigned long long>(first_found));
  outcome const once = simulate(first_found, true), again = simulate(first_found, true);
  bool const same = once.sum == again.sum && once.fingerprint == again.fingerprint;
  std::printf("replayed: %s\n", same ? "the same again" : "something else");
  return found != 0 && whole > 500 && broken != 0 && same ? 0 : 1;
}
