// What every shared_fs_mutex promises, for each of them: exclusion, sharing, trying, deadlines, deaths,
// forks. Another algorithm takes part by a line in `algorithms`.

#include "locks/append_layout.hpp"
#include "locks/lock_file.hpp"
#include "locks/map_layout.hpp"
#include "locks/ranges_layout.hpp"
#include "support/calls.hpp"
#include "support/descriptors.hpp"
#include "support/file_size.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>

#include <linux/io_uring.h>

#include <random>

namespace {

using namespace test;
using namespace unio::fs;

template <class Mutex> std::unique_ptr<shared_fs_mutex> opened(std::string const& path) {
  unio::result<Mutex> m = Mutex::open(path);
  if (!m) {
    ADD_FAILURE() << path << ": " << m.error().message();
    ::_exit(99);
  }
  return std::make_unique<Mutex>(std::move(*m));
}

struct algorithm {
  char const* name;
  std::unique_ptr<shared_fs_mutex> (*open)(std::string const& directory);
  std::size_t most_entities = 1'000'000; // what it can lock at once, if that is less than a test would have
};

algorithm const algorithms[] = {
    {"atomic_append", [](std::string const& d) { return opened<unio::fs::atomic_append>(d + "/lock"); }},
    {"byte_ranges", [](std::string const& d) { return opened<unio::fs::byte_ranges>(d + "/lock"); }},
    {"lock_files",
     [](std::string const& d) {
       ::mkdir((d + "/locks").c_str(), 0700);
       return opened<unio::fs::lock_files>(d + "/locks");
     }},
    {"memory_map", [](std::string const& d) { return opened<unio::fs::memory_map<>>(d + "/lock"); }},
};

class shared_fs_mutex_ : public ::testing::TestWithParam<algorithm> {
 protected:
  std::unique_ptr<shared_fs_mutex> open() { return GetParam().open(directory.path()); }

  // A process that holds `entities` until it hears something.
  process holder(std::vector<entity> entities) {
    return process([this, entities](process::channel& with) {
      auto const m = open();
      auto held = m->lock(entities);
      CHILD_EXPECTS(held);
      with.say(held->owner_died() ? 'd' : 'h');
      with.hear();
      return 0;
    });
  }
  // Can another process lock it, now?
  bool is_free(entity e) {
    return process([this, e](process::channel&) {
             auto const m = open();
             auto const held = m->try_lock(e);
             if (held) return 0;
             return held.error() == condition::would_block ? 1 : 2;
           }).wait() == 0;
  }

  test::temporary_directory directory;
};

constexpr entity a(7);
constexpr entity b(8);

// ── happy ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_P(shared_fs_mutex_, holds_until_the_guard_ends) {
  auto const m = open();
  {
    auto const held = m->lock(a).value();
    EXPECT_TRUE(held.owns_lock());
    EXPECT_FALSE(held.owner_died());
    EXPECT_EQ(held.mutex(), m.get());
    EXPECT_FALSE(is_free(a));
    EXPECT_TRUE(is_free(b));
  }
  EXPECT_TRUE(is_free(a));
}

TEST_P(shared_fs_mutex_, locks_many_as_one_and_leaves_the_callers_order_alone) {
  auto const m = open();
  std::array const wanted{entity(30), entity(10), entity(20), entity(10)};
  auto const before = wanted;
  auto held = m->lock(wanted).value();
  EXPECT_EQ(wanted, before);
  for (entity const e : wanted) EXPECT_FALSE(is_free(e));
  held.unlock();
  for (entity const e : wanted) EXPECT_TRUE(is_free(e));
}

TEST_P(shared_fs_mutex_, takes_a_duplicate_once_and_exclusively_if_one_of_them_is) {
  auto const m = open();
  auto held = m->lock(std::array{a.shared(), a, a.shared()}).value();
  EXPECT_FALSE(is_free(a.shared()));
  held = m->lock(std::array{b.shared(), b.shared()}).value();
  EXPECT_TRUE(is_free(b.shared()));
  EXPECT_TRUE(is_free(a));
}

TEST_P(shared_fs_mutex_, shares_what_is_shared_and_excludes_who_wants_it_alone) {
  auto const one = open();
  auto const other = open();
  auto first = one->lock(a.shared()).value();
  auto second = other->lock(std::array{a.shared(), b}).value();
  EXPECT_TRUE(is_free(a.shared()));
  EXPECT_FALSE(is_free(a));
  EXPECT_FALSE(is_free(b.shared()));
  first.unlock();
  EXPECT_FALSE(is_free(a));
  second.unlock();
  EXPECT_TRUE(is_free(a));
}

TEST_P(shared_fs_mutex_, excludes_guards_of_one_object_and_of_two_objects_in_one_process) {
  auto const one = open();
  auto const other = open();
  auto const held = one->lock(a).value();
  EXPECT_EQ(one->try_lock(a).error(), condition::would_block);
  EXPECT_EQ(other->try_lock(a).error(), condition::would_block);
  EXPECT_TRUE(other->try_lock(b).has_value());
}

TEST_P(shared_fs_mutex_, moves_guards_and_unlocks_once) {
  auto const m = open();
  entities_guard held = m->lock(a).value();
  entities_guard moved(std::move(held));
  EXPECT_FALSE(held.owns_lock()); // NOLINT(bugprone-use-after-move)
  held.unlock();
  EXPECT_FALSE(is_free(a));
  held = m->lock(b).value();
  held = std::move(moved);
  EXPECT_TRUE(is_free(b));
  EXPECT_FALSE(is_free(a));
  held.unlock();
  auto const again = m->lock(a).value();
  held.unlock(); // not what another guard holds
  EXPECT_FALSE(is_free(a));
}

TEST_P(shared_fs_mutex_, keeps_what_is_released_until_the_process_ends) {
  process other([this](process::channel& with) {
    auto const m = open();
    m->lock(a).value().release();
    with.say('h');
    with.hear();
    return 0;
  });
  other.hear();
  EXPECT_FALSE(is_free(a));
  other.kill();
  EXPECT_TRUE(is_free(a));
}

TEST_P(shared_fs_mutex_, holds_nothing_for_no_entities) {
  auto const m = open();
  auto const held = m->lock(std::span<entity const>());
  ASSERT_TRUE(held.has_value());
  EXPECT_FALSE(held->owns_lock());
}

TEST_P(shared_fs_mutex_, lets_a_guard_end_in_another_thread) {
  auto const m = open();
  entities_guard held = m->lock(a).value();
  std::thread([g = std::move(held)]() mutable { g.unlock(); }).join();
  EXPECT_TRUE(is_free(a));
}

// ── exclusion, checked by those that would break it ────────────────────────────────────────────────────────

constexpr unsigned tested_entities = 5;

struct checked {
  std::atomic<int> writers{0};
  std::atomic<int> readers{0};
  std::uint64_t counter = 0; // written without care: lost updates show
  std::atomic<std::uint64_t> expected{0};
};
struct checker {
  checked of[tested_entities];
  std::atomic<int> violations{0};
};

checker& shared_checker() {
  void* const at =
      ::mmap(nullptr, sizeof(checker), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return *new (at) checker;
}

void work(shared_fs_mutex& m, checker& c, unsigned seed, int rounds) {
  std::minstd_rand random(seed);
  for (int i = 0; i != rounds; ++i) {
    std::vector<entity> wanted;
    for (auto n = 1 + random() % 4; n != 0; --n)
      wanted.emplace_back(random() % tested_entities, random() % 3 != 0);
    deadline const d = random() % 8 == 0 ? deadline::zero() : random() % 4 == 0 ? deadline(1ms) : deadline();
    auto held = m.lock(wanted, d, random() % 8 == 0);
    if (!held) {
      if (held.error() != condition::timed_out && held.error() != condition::would_block) ++c.violations;
      continue;
    }
    if (held->owner_died()) ++c.violations;
    bool exclusive[tested_entities] = {};
    bool any[tested_entities] = {};
    for (entity const e : wanted) {
      any[e.value] = true;
      exclusive[e.value] = exclusive[e.value] || e.exclusive;
    }
    for (unsigned k = 0; k != tested_entities; ++k) {
      if (!any[k]) continue;
      checked& x = c.of[k];
      if (exclusive[k]) {
        if (x.writers.fetch_add(1) != 0 || x.readers.load() != 0) ++c.violations;
        std::uint64_t volatile& counter = x.counter;
        std::uint64_t const before = counter;
        if (random() % 4 == 0) std::this_thread::yield();
        counter = before + 1;
        ++x.expected;
      } else {
        ++x.readers;
        if (x.writers.load() != 0) ++c.violations;
      }
    }
    if (random() % 4 == 0) std::this_thread::yield();
    for (unsigned k = 0; k != tested_entities; ++k) {
      if (!any[k]) continue;
      if (exclusive[k]) {
        --c.of[k].writers;
      } else {
        --c.of[k].readers;
      }
    }
  }
}

void expect_exclusion(checker& c) {
  EXPECT_EQ(c.violations, 0);
  for (checked& x : c.of) EXPECT_EQ(x.counter, x.expected);
  ::munmap(&c, sizeof c);
}

TEST_P(shared_fs_mutex_, excludes_processes) {
  checker& c = shared_checker();
  std::vector<process> all;
  for (unsigned i = 0; i != 4; ++i)
    all.emplace_back([this, &c, i](process::channel&) {
      work(*open(), c, i + 1, 400);
      return 0;
    });
  for (process& p : all) EXPECT_EQ(p.wait(), 0);
  expect_exclusion(c);
}

TEST_P(shared_fs_mutex_, excludes_threads) {
  checker& c = shared_checker();
  auto const one = open();
  auto const other = open();
  test::threads all(4, [&](unsigned i) { work(i % 2 == 0 ? *one : *other, c, i + 10, 400); });
  all.join();
  expect_exclusion(c);
}

TEST_P(shared_fs_mutex_, excludes_threads_of_several_processes) {
  checker& c = shared_checker();
  std::vector<process> all;
  for (unsigned i = 0; i != 2; ++i)
    all.emplace_back([this, &c, i](process::channel&) {
      auto const m = open();
      std::thread second([&] { work(*m, c, i + 20, 300); });
      work(*m, c, i + 30, 300);
      second.join();
      return 0;
    });
  for (process& p : all) EXPECT_EQ(p.wait(), 0);
  expect_exclusion(c);
}

// The first to come makes the file, the last to leave leaves it as it is: nobody is with another one than the
// others.
TEST_P(shared_fs_mutex_, excludes_processes_that_open_and_close_it_all_the_time) {
  checker& c = shared_checker();
  std::vector<process> all;
  for (unsigned i = 0; i != 4; ++i)
    all.emplace_back([this, &c, i](process::channel&) {
      for (unsigned k = 0; k != 60; ++k) work(*open(), c, 100 * i + k + 1, 3);
      return 0;
    });
  for (process& p : all) EXPECT_EQ(p.wait(), 0);
  expect_exclusion(c);
}

// ── waiting ────────────────────────────────────────────────────────────────────────────────────────────────

std::atomic<bool> has_waited{false};

TEST_P(shared_fs_mutex_, never_waits_when_it_tries) {
  auto const m = open();
  auto const held = m->lock(a).value();
  test::replaced_calls calls;
  calls->fcntl = [](int fd, int command, long argument) noexcept {
    if (command == F_OFD_SETLKW || command == F_SETLKW) has_waited = true;
    return unio::sys::kernel.fcntl(fd, command, argument);
  };
  calls->futex = [](std::uint32_t* word, int operation, std::uint32_t value,
                    timespec const* timeout) noexcept {
    has_waited = true;
    return unio::sys::kernel.futex(word, operation, value, timeout);
  };
  EXPECT_EQ(m->try_lock(a).error(), condition::would_block);
  EXPECT_EQ(m->try_lock(a.shared()).error(), condition::would_block);
  EXPECT_EQ(m->lock(std::array{b, a}, 0ms).error(), condition::would_block);
  EXPECT_TRUE(m->try_lock(b).has_value()); // the failure unlocked it
  EXPECT_FALSE(has_waited);
}

TEST_P(shared_fs_mutex_, gives_up_at_the_deadline_and_not_before) {
  auto const m = open();
  auto const held = m->lock(a).value();
  for (bool const spin : {false, true}) {
    auto const begin = std::chrono::steady_clock::now();
    EXPECT_EQ(m->lock(std::array{b, a}, 30ms, spin).error(), condition::timed_out);
    EXPECT_GE(std::chrono::steady_clock::now(), begin + 30ms);
    EXPECT_EQ(m->lock(a, begin + 60ms, spin).error(), condition::timed_out);
    EXPECT_GE(std::chrono::steady_clock::now(), begin + 60ms);
    EXPECT_EQ(m->lock(a, std::chrono::system_clock::now() + 30ms, spin).error(), condition::timed_out);
    EXPECT_GE(std::chrono::steady_clock::now(), begin + 90ms);
    EXPECT_EQ(m->lock(a, begin, spin).error(), condition::timed_out); // long past
    EXPECT_EQ(m->lock(a.shared(), 1ns, spin).error(), condition::timed_out);
  }
  EXPECT_TRUE(m->try_lock(b).has_value());
  EXPECT_TRUE(m->lock(b, std::chrono::steady_clock::now() - 1s).has_value()); // past, and free
}

TEST_P(shared_fs_mutex_, gets_it_when_it_is_let_go_before_the_deadline) {
  for (bool const spin : {false, true}) {
    for (deadline const d : {deadline(), deadline(60s), deadline(std::chrono::steady_clock::now() + 60s),
                             deadline(std::chrono::system_clock::now() + 60s)}) {
      auto const m = open();
      process other = holder({a});
      other.hear();
      std::atomic<bool> is_waiting{false};
      std::thread ends_it([&] {
        while (!is_waiting) std::this_thread::yield();
        std::this_thread::sleep_for(5ms);
        other.say('e');
      });
      is_waiting = true;
      auto const held = m->lock(std::array{a, b}, d, spin);
      ends_it.join();
      ASSERT_TRUE(held.has_value()) << held.error().message();
      EXPECT_FALSE(held->owner_died());
      EXPECT_EQ(other.wait(), 0);
    }
  }
}

TEST_P(shared_fs_mutex_, uses_no_processor_while_it_waits) {
  auto const m = open();
  entities_guard held = m->lock(a).value();
  std::vector<process> all;
  for (deadline const d : {deadline(), deadline(60s)})
    all.emplace_back([this, d](process::channel& with) {
      auto const own = open();
      rusage before;
      ::getrusage(RUSAGE_SELF, &before);
      with.say('w');
      CHILD_EXPECTS(own->lock(a.shared(), d));
      rusage after;
      ::getrusage(RUSAGE_SELF, &after);
      auto const us = [](timeval t) { return t.tv_sec * 1'000'000 + t.tv_usec; };
      auto const used = us(after.ru_utime) + us(after.ru_stime) - us(before.ru_utime) - us(before.ru_stime);
      return CHILD_MEETS(used < 200'000); // of a second
    });
  for (process& p : all) p.hear();
  std::this_thread::sleep_for(1s);
  held.unlock();
  for (process& p : all) EXPECT_EQ(p.wait(), 0);
}

unio::task<unio::result<entities_guard>> lock_within(shared_fs_mutex& m, deadline d) {
  co_return co_await unio::timeout(d, unio::fs::co_lock(m, a));
}

TEST_P(shared_fs_mutex_, is_awaited) {
  auto const m = open();
  {
    auto const held = unio::run(unio::fs::co_lock(*m, std::array{a, b}));
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_FALSE(is_free(b));
    EXPECT_EQ(unio::run(unio::fs::co_lock(*m, a, deadline::zero())).error(), condition::would_block);
    unio::failure const late = unio::run(unio::fs::co_lock(*m, a, 20ms)).error();
    EXPECT_EQ(late, condition::timed_out);
    EXPECT_STREQ(late.operation(), "lock");
    EXPECT_FALSE(unio::run(lock_within(*m, 20ms)).has_value()); // asked to stop while it waits
  }
  entities_guard held = m->lock(a).value();
  std::thread ends_it([&] {
    std::this_thread::sleep_for(10ms);
    held.unlock();
  });
  EXPECT_TRUE(unio::run(unio::fs::co_lock(*m, a)).has_value());
  ends_it.join();
}

unio::task<> lock_and_say(shared_fs_mutex& m, std::optional<std::error_code>& said) {
  auto const held = co_await unio::fs::co_lock(m, a);
  said = held ? std::error_code() : held.error();
}

TEST_P(shared_fs_mutex_, is_not_awaited_any_longer_after_a_stop) {
  auto const m = open();
  entities_guard held = m->lock(a).value();
  unio::io_multiplexer& here = unio::this_thread::multiplexer();
  unio::stop_source stop;
  std::optional<std::error_code> said;
  unio::async_run(here, lock_and_say(*m, said), {.stop = stop.get_token()});
  (void)here.try_run();
  EXPECT_FALSE(said.has_value());
  stop.request_stop();
  while (!said) (void)here.run();
  EXPECT_EQ(*said, condition::canceled);
  held.unlock();
  EXPECT_TRUE(is_free(a));
}

// ── deaths ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_P(shared_fs_mutex_, tells_the_next_owner_once_that_the_last_one_was_killed) {
  auto const m = open();
  process other = holder({a, b});
  EXPECT_EQ(other.hear(), 'h');
  other.kill();
  auto held = m->lock(std::array{a, entity(100)}).value();
  EXPECT_TRUE(held.owner_died());
  held.unlock();
  EXPECT_FALSE(m->lock(a).value().owner_died());
  EXPECT_TRUE(m->lock(b).value().owner_died());
  EXPECT_FALSE(m->lock(b).value().owner_died());
}

TEST_P(shared_fs_mutex_, tells_one_of_those_who_share_it) {
  auto const m = open();
  process other = holder({a});
  other.hear();
  other.kill();
  auto first = m->lock(a.shared()).value();
  auto second = m->lock(a.shared()).value();
  EXPECT_TRUE(first.owner_died());
  EXPECT_FALSE(second.owner_died());
  first.unlock();
  EXPECT_FALSE(m->lock(a.shared()).value().owner_died());
  second.unlock();
  EXPECT_FALSE(m->lock(a).value().owner_died());
}

TEST_P(shared_fs_mutex_, tells_the_next_one_too_if_who_was_told_is_killed) {
  auto const m = open();
  for (entity const e : {a, a.shared()}) {
    process first = holder({a});
    first.hear();
    first.kill();
    process second = holder({e});
    EXPECT_EQ(second.hear(), 'd');
    second.kill();
    EXPECT_TRUE(m->lock(a).value().owner_died());
    EXPECT_FALSE(m->lock(a).value().owner_died());
  }
}

TEST_P(shared_fs_mutex_, tells_nobody_of_a_request_that_failed_meanwhile) {
  auto const m = open();
  process dead = holder({a});
  dead.hear();
  dead.kill();
  process other = holder({b});
  other.hear();
  EXPECT_EQ(m->try_lock(std::array{a, b}).error(), condition::would_block);
  EXPECT_EQ(m->lock(std::array{a.shared(), b}, 5ms).error(), condition::timed_out);
  EXPECT_TRUE(m->lock(a).value().owner_died()); // still
  other.say('e');
  EXPECT_EQ(other.wait(), 0);
  EXPECT_FALSE(m->lock(b).value().owner_died());
}

TEST_P(shared_fs_mutex_, says_nothing_of_the_death_of_one_that_shared_it) {
  auto const m = open();
  process other = holder({a.shared()});
  other.hear();
  other.kill();
  EXPECT_FALSE(m->lock(a).value().owner_died());
}

TEST_P(shared_fs_mutex_, wakes_who_waits_when_the_holder_is_killed) {
  auto const m = open();
  for (deadline const d : {deadline(), deadline(60s)}) {
    process other = holder({a});
    other.hear();
    std::thread ends_it([&] {
      std::this_thread::sleep_for(10ms);
      other.kill();
    });
    auto const held = m->lock(a, d);
    ends_it.join();
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_TRUE(held->owner_died());
  }
}

TEST_P(shared_fs_mutex_, does_not_take_from_a_stopped_holder) {
  auto const m = open();
  process other = holder({a});
  other.hear();
  other.stop();
  EXPECT_EQ(m->try_lock(a).error(), condition::would_block);
  EXPECT_EQ(m->lock(a, 100ms).error(), condition::timed_out);
  EXPECT_TRUE(m->lock(b).has_value());
  other.go_on();
  other.say('e');
  auto const held = m->lock(a).value();
  EXPECT_FALSE(held.owner_died());
  EXPECT_EQ(other.wait(), 0);
}

// Makes the next process of this namespace have that number, if it is free. Another may come in between.
bool next_process_is(pid_t id) {
  std::ofstream last("/proc/sys/kernel/ns_last_pid");
  last << id - 1 << std::flush;
  return last.good();
}

TEST_P(shared_fs_mutex_, takes_a_dead_holder_for_dead_although_its_number_lives_on) {
  if (!next_process_is(::getpid() + 1)) GTEST_SKIP() << "may not choose the numbers of processes";
  auto const m = open();
  for (int attempts = 0; attempts != 100; ++attempts) {
    process dead = holder({a});
    dead.hear();
    pid_t const number = dead.id();
    dead.kill();
    (void)next_process_is(number);
    process const other([](process::channel& with) { return with.hear(); });
    bool const has_it = other.id() == number;
    auto const held = m->lock(a, 20s);
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_TRUE(held->owner_died());
    if (has_it) return;
  }
  GTEST_SKIP() << "others start processes all the time";
}

TEST_P(shared_fs_mutex_, survives_whoever_is_killed_at_whatever_time) {
  checker& c = shared_checker();
  auto const m = open();
  std::minstd_rand random(3);
  for (int i = 0; i != 30; ++i) {
    std::vector<process> all;
    for (unsigned k = 0; k != 3; ++k)
      all.emplace_back([this, seed = static_cast<unsigned>(random())](process::channel& with) {
        checker mine; // those that are killed leave nothing that could be checked by others
        auto const own = open();
        with.say('w');
        work(*own, mine, seed, 1'000'000);
        return 0;
      });
    for (process& p : all) p.hear();
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
    for (process& p : all) p.kill();
    for (unsigned e = 0; e != tested_entities; ++e) {
      EXPECT_TRUE(m->lock(entity(e), 60s).has_value()) << e;
      EXPECT_FALSE(m->lock(entity(e), 60s).value().owner_died()) << e;
    }
  }
  expect_exclusion(c);
}

TEST_P(shared_fs_mutex_, recovers_ten_thousand_entities) {
  std::size_t const n = std::min<std::size_t>(10'000, GetParam().most_entities);
  std::vector<entity> many;
  for (std::size_t i = n; i != 0; --i) many.emplace_back(i * 3);
  rlimit before;
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit const more{.rlim_cur = 20'000, .rlim_max = std::max<rlim_t>(before.rlim_max, 20'000)};
  if (::setrlimit(RLIMIT_NOFILE, &more) != 0) GTEST_SKIP() << "may not have 20,000 descriptors";
  {
    process other = holder(many);
    EXPECT_EQ(other.hear(), 'h');
    auto const m = open();
    EXPECT_EQ(m->try_lock(many.back()).error(), condition::would_block);
    other.kill();
    auto held = m->lock(many);
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_TRUE(held->owner_died());
    held->unlock();
    held = m->lock(many);
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_FALSE(held->owner_died());
  }
  ::setrlimit(RLIMIT_NOFILE, &before);
}

// ── fork, exec, descriptors ────────────────────────────────────────────────────────────────────────────────

// A lock whose descriptor a ring knows may outlive a killed process for a while: none of these is known to
// one. In the child a read is with the kernel, and a timer was, on which it waited for the lock.
unio::task<> lock_and_read(shared_fs_mutex& m, unio::pipe_handle& in, process::channel& with) {
  auto const held = co_await unio::fs::co_lock(m, a);
  bool const has_ring = std::string(unio::this_thread::multiplexer().capabilities().driver) == "io_uring";
  with.say(!held ? '!' : has_ring ? 'h' : '-');
  std::array<std::byte, 8> some;
  unio::mutable_buffer const buffer(some);
  (void)co_await in.co_read(buffer);
}

constexpr int no_ring = -1;

int runs_in_which_it_is_kept(int of, std::function<void(process::channel&)> const& hold,
                             std::function<bool()> const& is_free_now) {
  int kept = 0;
  for (int i = 0; i != of; ++i) {
    process other([&](process::channel& with) {
      hold(with);
      return 0;
    });
    char const said = other.hear();
    if (said == '-') return no_ring;
    EXPECT_EQ(said, 'h');
    other.kill();
    if (!is_free_now()) ++kept;
  }
  return kept;
}

TEST_P(shared_fs_mutex_, is_given_back_with_the_end_of_a_process_that_has_a_ring) {
  auto const m = open();
  int const kept = runs_in_which_it_is_kept(
      20,
      [this](process::channel& with) {
        auto const own = open();
        unio::anonymous_pipe ends = unio::pipe_handle::anonymous().value();
        unio::run(lock_and_read(*own, ends.reader, with));
      },
      [&] {
        auto const held = m->try_lock(a);
        return held.has_value() && held->owner_died();
      });
  if (kept == no_ring) GTEST_SKIP() << "there are no rings";
  EXPECT_EQ(kept, 0);
}

// A descriptor that has locked some bytes of a file, or -1. 0: all of it.
int locked_by_hand(std::string const& path, std::uint64_t at, std::uint64_t bytes) {
  struct flock l = {};
  l.l_type = F_WRLCK;
  l.l_start = static_cast<off_t>(at);
  l.l_len = static_cast<off_t>(bytes);
  int const fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (::fcntl(fd, F_OFD_SETLK, &l) == 0) return fd;
  ::close(fd);
  return -1;
}

// Another process may be stopped while it opens the file.
template <class Mutex> void expect_open_to_wait(std::string const& path, std::uint64_t byte) {
  auto const open = [&](deadline d) { return Mutex::open(path, d); };
  int const other = locked_by_hand(path, byte, 1);
  ASSERT_GE(other, 0);
  EXPECT_EQ(open(deadline::zero()).error(), condition::would_block);
  EXPECT_EQ(open(5ms).error(), condition::timed_out);
  EXPECT_EQ(open(std::chrono::steady_clock::now() - 1s).error(), condition::timed_out);
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    ::close(other);
  });
  EXPECT_TRUE(open(1min).has_value());
  later.join();
  EXPECT_TRUE(open(deadline::zero()).has_value());
}

TEST(shared_fs_mutex_open, waits_until_its_deadline_for_who_opens_the_file_before) {
  test::temporary_directory const directory;
  expect_open_to_wait<unio::fs::byte_ranges>(directory / "byte_ranges", unio::fs::ranges_layout::making_byte);
  expect_open_to_wait<unio::fs::atomic_append>(directory / "atomic_append", unio::fs::init_byte);
  expect_open_to_wait<unio::fs::memory_map<>>(directory / "memory_map", unio::fs::init_byte);
}

// The control: a lock whose descriptor a ring does know.
TEST(shared_fs_mutex_control, a_lock_that_a_ring_knows_outlives_its_process) {
  test::temporary_directory const directory;
  auto const locked = [&] { return locked_by_hand(directory / "lock", 0, 0); };
  int const kept = runs_in_which_it_is_kept(
      20,
      [&](process::channel& with) {
        int fd = -1;
        while ((fd = locked()) < 0) ::usleep(1000); // until the one before has gone
        io_uring_params asked{};
        auto const ring = ::syscall(SYS_io_uring_setup, 8, &asked);
        bool const knows_it =
            ring >= 0 && ::syscall(SYS_io_uring_register, ring, IORING_REGISTER_FILES, &fd, 1) == 0;
        with.say(knows_it ? 'h' : '-');
        with.hear();
      },
      [&] {
        int const fd = locked();
        if (fd >= 0) ::close(fd);
        return fd >= 0;
      });
  if (kept == no_ring) GTEST_SKIP() << "there are no rings";
  EXPECT_GT(kept, 0) << "the canary: the test above would see a lock that stays";
}

TEST_P(shared_fs_mutex_, gives_a_child_of_fork_nothing) {
  auto const m = open();
  entities_guard held = m->lock(a).value();
  process child([&](process::channel&) {
    CHILD_EXPECTS(m->lock(b).error() == unio::error::inherited_by_fork);
    CHILD_EXPECTS(m->try_lock(a.shared()).error() == unio::error::inherited_by_fork);
    held.unlock(); // the child's copy
    CHILD_EXPECTS(open()->try_lock(a).error() == condition::would_block);
    return CHILD_MEETS(open()->lock(b).has_value());
  });
  EXPECT_EQ(child.wait(), 0);
  EXPECT_FALSE(is_free(a));
  held.unlock();
  auto const again = m->lock(a).value();
  EXPECT_FALSE(again.owner_died());
}

TEST_P(shared_fs_mutex_, is_not_kept_by_a_child_of_a_killed_holder) {
  auto const m = open();
  pid_t grandchild = -1;
  process other([this](process::channel& with) {
    auto const own = open();
    auto const held = own->lock(a);
    pid_t const child = ::fork();
    if (child == 0) {
      ::alarm(30);
      for (;;) ::pause();
    }
    with.say('f');
    with.say_number(child);
    with.hear();
    return 0;
  });
  other.hear();
  grandchild = static_cast<pid_t>(other.hear_number());
  other.kill();
  auto const held = m->lock(a, 20s);
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_TRUE(held->owner_died());
  EXPECT_EQ(::kill(grandchild, 0), 0) << "it should have lived until now";
  ::kill(grandchild, SIGKILL);
}

TEST_P(shared_fs_mutex_, lets_go_at_exec_and_says_so) {
  auto const m = open();
  process other([this](process::channel&) { // whose end is closed by exec, which is heard here
    auto const own = open();
    auto const held = own->lock(a);
    ::execl("/bin/sleep", "sleep", "30", nullptr);
    return 1;
  });
  EXPECT_EQ(other.hear(), '\0');
  auto const held = m->lock(a, 20s);
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_TRUE(held->owner_died());
  other.kill();
}

TEST_P(shared_fs_mutex_, keeps_its_locks_when_other_descriptors_of_the_inode_are_closed) {
  auto const m = open();
  auto const held = m->lock(a).value();
  for (auto const& f : std::filesystem::recursive_directory_iterator(directory.path())) {
    if (!f.is_regular_file()) continue;
    int const fd = ::open(f.path().c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(fd, 0);
    ::close(fd);
  }
  {
    auto const another = open();
  }
  EXPECT_FALSE(is_free(a));
}

TEST_P(shared_fs_mutex_, leaves_no_descriptor_open) {
  auto const before = test::count_descriptors();
  {
    auto const m = open();
    auto const held = m->lock(std::array{a, b}).value();
    EXPECT_FALSE(m->try_lock(a).has_value());
    auto const more = m->lock(entity(100)).value();
  }
  EXPECT_EQ(test::count_descriptors(), before);
}

template <class Mutex> bool works_or_says_why(std::string const& path) {
  unio::result<Mutex> m = Mutex::open(path);
  if (!m) return m.error().value() == EFBIG;
  auto const held = m->try_lock(a);
  return held || held.error().value() == EFBIG;
}

// SIGXFSZ would end the process.
TEST(shared_fs_mutex, survives_that_no_file_may_grow) {
  test::temporary_directory const directory;
  EXPECT_EQ(process([&](process::channel&) {
              CHILD_EXPECTS(test::limit_file_size(0));
              CHILD_EXPECTS(works_or_says_why<unio::fs::atomic_append>(directory / "append"));
              CHILD_EXPECTS(works_or_says_why<unio::fs::byte_ranges>(directory / "ranges"));
              CHILD_EXPECTS(works_or_says_why<unio::fs::lock_files>(directory.path()));
              return CHILD_MEETS(works_or_says_why<unio::fs::memory_map<>>(directory / "map"));
            }).wait(),
            0);
}

INSTANTIATE_TEST_SUITE_P(of, shared_fs_mutex_, ::testing::ValuesIn(algorithms),
                         [](::testing::TestParamInfo<algorithm> const& p) {
                           return std::string(p.param.name);
                         });

} // namespace
