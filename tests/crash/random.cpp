// check_at_random: processes with threads ask for random entities in random ways, for a while. If some are
// killed meanwhile others take their places.

#include "crash/harness.hpp"
#include "crash/oracle.hpp"
#include "crash/processes.hpp"
#include "crash/worker.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sched.h>

#include <random>

namespace crash {

namespace {

using namespace std::chrono_literals;
using unio::fs::entity;

// Requests of few entities most of the time; of all of them, with duplicates, now and then.
std::vector<entity> some_entities(std::mt19937_64& random) {
  std::size_t const n = random() % 4 != 0 ? 1 + random() % 3 : 1 + random() % 12;
  std::vector<entity> all;
  bool const only_shared = random() % 4 == 0;
  for (std::size_t i = 0; i != n; ++i) all.emplace_back(random() % values, !only_shared && random() % 3 != 0);
  return all;
}

void linger(std::mt19937_64& random) {
  switch (random() % 8) {
    case 0:
      sleep_us(static_cast<long>(random() % 300));
      break;
    case 1:
      ::sched_yield();
      break;
    default:
      for (auto n = random() % 500; n != 0; --n) asm volatile("");
  }
}

void act(worker& w, std::uint64_t seed, std::int64_t until_ms) {
  std::mt19937_64 random(seed);
  while (now_ms() < until_ms) {
    std::vector<entity> const all = some_entities(random);
    auto h = how::waits;
    std::chrono::nanoseconds span = 0ns;
    switch (random() % 8) {
      case 0:
      case 1:
        h = how::tries;
        break;
      case 2:
      case 3:
        h = how::within;
        span = std::chrono::microseconds(100 + random() % 10'000);
        break;
      case 4:
        h = how::spins;
        break;
      case 5:
        h = how::spins;
        span = std::chrono::microseconds(100 + random() % 5'000);
        break;
      default:
        break;
    }
    if (!w.request(all, h, span, [&] { linger(random); }) && h == how::tries) linger(random);
  }
}

// The first two threads of a process share an object; the others have one each.
void run_process(oracle& o, algorithm const& a, std::string const& directory,
                 std::vector<unsigned> const& numbers, unsigned user, std::uint64_t seed,
                 std::int64_t until_ms, bool is_timed) {
  std::vector<std::unique_ptr<worker>> all;
  for (unsigned const number : numbers) {
    all.push_back(std::make_unique<worker>(o, a, number));
    if (!is_timed) all.back()->ignore_time();
    if (all.size() == 2) {
      all[1]->use(all[0]->mutex());
    } else if (!all.back()->open(directory, user)) {
      return;
    }
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 1; i < all.size(); ++i)
    threads.emplace_back([&, i] { act(*all[i], seed * 31 + i, until_ms); });
  act(*all[0], seed * 31, until_ms);
  for (std::thread& t : threads) t.join();
}

struct seat {
  child process;
  std::vector<unsigned> numbers;
};

} // namespace

std::string check_at_random(algorithm const& a, random_options const& options, std::uint64_t* grants) {
  test::temporary_directory const directory;
  std::vector<std::string> paths{directory.path()};
  for (std::string const& other : options.elsewhere)
    paths.push_back(other / std::filesystem::path(directory.path()).filename());
  shared<oracle> const o;
  std::mt19937_64 random(options.seed);
  std::int64_t const until_ms = now_ms() + options.span_ms;
  unsigned users = 0;
  auto const sit_down = [&](seat& s) {
    s.numbers.clear();
    for (int i = 0; i != options.threads; ++i) s.numbers.push_back(o->begin(a));
    unsigned const user = users++;
    std::uint64_t const seed = random();
    s.process = child([&] {
      run_process(*o, a, paths[user % paths.size()], s.numbers, user, seed, until_ms, paths.size() == 1);
    });
  };
  std::vector<seat> seats(static_cast<std::size_t>(options.processes));
  for (seat& s : seats) sit_down(s);
  while (options.kill_every_ms != 0 && now_ms() < until_ms - 20 && o->complaints == 0) {
    sleep_us(static_cast<long>(random() % static_cast<std::uint64_t>(2000 * options.kill_every_ms)));
    seat& s = seats[random() % seats.size()];
    for (unsigned const n : s.numbers) o->doom(n);
    s.process.kill();
    sit_down(s);
  }
  std::int64_t const patience_ms = 10'000;
  for (seat& s : seats) {
    std::int64_t const left = until_ms + patience_ms - now_ms();
    bool const is_over =
        await([&] { return s.process.is_over() || o->complaints != 0; }, std::max<std::int64_t>(left, 0));
    if (!is_over) o->complain("stuck: a process waits for ever");
    if (s.process.is_over() && !s.process.ended_well() && o->complaints == 0)
      o->complain("crash: a process ended with status %#x", static_cast<unsigned>(s.process.status()));
  }
  seats.clear();
  if (grants != nullptr) *grants = o->grants;
  if (o->complaints == 0 && o->grants == 0) return "nothing was granted";
  return o->verdict();
}

} // namespace crash
