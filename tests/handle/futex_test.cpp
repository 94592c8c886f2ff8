// futex.hpp: waiting until another thread or process has changed a word of memory. That it ends the same in
// every style is in tests/op/waiting_rows.cpp.

#include "support/child.hpp"
#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/map_handle.hpp>

#include <linux/futex.h>

#include <ctime>

namespace {

using namespace test;
using word = std::atomic<std::uint32_t>;

class futex_on : public test::on_each_driver {};
UNIO_ON_BOTH_DRIVERS(futex_on);

struct tells {
  int* ended;
  std::optional<async_wait_on::result_type>* last;
  void set_value(async_wait_on::result_type&& r) { *last = r; }
  void set_done() { ++*ended; }
};

// Waits that are started together.
class waits {
 public:
  explicit waits(io_multiplexer& m) : m_(m) {}
  void start(futex const& f, std::uint32_t expected, unio::deadline d = {}) {
    auto& last = results_.emplace_back();
    all_.push_back(std::make_unique<operation>(async_wait_on(f, expected, d), tells{&ended_, &last}));
    all_.back()->start(&m_);
  }
  // Runs until so many have ended.
  bool run(int how_many) {
    auto const give_up = std::chrono::steady_clock::now() + 30s;
    while (ended_ < how_many && std::chrono::steady_clock::now() < give_up) (void)m_.try_run_for(1s);
    return ended_ >= how_many;
  }
  [[nodiscard]] int ended() const { return ended_; }
  auto& operator[](std::size_t n) { return *all_[n]; }
  auto& result(std::size_t n) { return results_[n]; }
  [[nodiscard]] std::size_t size() const { return all_.size(); }

 private:
  using operation = unio::io_operation_connection<async_wait_on, tells>;
  io_multiplexer& m_;
  int ended_ = 0;
  std::deque<std::optional<async_wait_on::result_type>> results_;
  std::deque<std::unique_ptr<operation>> all_;
};

std::ptrdiff_t threads() {
  return std::distance(std::filesystem::directory_iterator("/proc/self/task"),
                       std::filesystem::directory_iterator());
}

// ---- what it means ----------------------------------------------------------------------------------------

TEST(futex, that_nobody_waits_on_wakes_nobody) {
  word w{0};
  EXPECT_EQ(futex(w).wake(), 0);
  EXPECT_EQ(futex(w, futex_scope::processes).wake_all(), 0);
  EXPECT_EQ(futex(w).wake(0), 0);
  EXPECT_EQ(futex(w).wake(-1), 0);
}

TEST_P(futex_on, wakes_as_many_as_it_is_told_to) {
  word w{0};
  futex const f(w);
  waits all(*m_);
  for (int i = 0; i != 5; ++i) all.start(f, 0);
  (void)m_->try_run();
  // One thread may have to begin before anything waits on the word.
  int woken = 0;
  while ((woken += futex(w).wake(1)) < 1) (void)m_->try_run_for(1ms);
  ASSERT_TRUE(all.run(1));
  for (std::size_t i = 0; i != all.size(); ++i)
    if (all.result(i).has_value()) {
      EXPECT_EQ(all.result(i)->value(), 0U); // a wake-up without a change
    }
  w.store(3);
  futex(w).wake_all();
  ASSERT_TRUE(all.run(5));
  int changed = 0;
  for (std::size_t i = 0; i != all.size(); ++i) changed += all.result(i)->value() == 3 ? 1 : 0;
  EXPECT_GE(changed, 1);
  EXPECT_LE(changed, 4);
}

TEST_P(futex_on, is_awaited_until_the_word_has_changed) {
  word w{0};
  std::thread other([&] {
    std::this_thread::sleep_for(5ms);
    w.store(1);
    futex(w).wake_all();
  });
  auto const wait = [](word& at) -> unio::task<std::uint32_t> {
    futex f(at);
    std::uint32_t seen = at.load();
    while (seen == 0) {
      auto const r = co_await f.co_wait(0, 30s);
      seen = r.value();
    }
    co_return seen;
  };
  EXPECT_EQ(unio::run(*m_, wait(w)), 1U);
  other.join();
}

// ---- others go on -----------------------------------------------------------------------------------------

unio::task<int> opens_files(unio::path_handle const& base, int n) {
  int opened = 0;
  for (int i = 0; i != n; ++i) {
    auto const f = co_await unio::co_open(base, "f", unio::handle::mode::read);
    opened += f.has_value() ? 1 : 0;
  }
  co_return opened;
}

// As a look-up of a name does: posted to threads that may block, and awaited.
TEST_P(futex_on, hold_none_of_the_threads_that_perform_operations) {
  constexpr int how_many = 200;
  test::temporary_directory directory;
  directory.write("f", "hello");
  std::deque<word> words(how_many);
  waits all(*m_);
  auto const before = threads();
  for (word& w : words) all.start(futex(w), 0);
  (void)m_->try_run();
  EXPECT_LE(threads(), before + 2);
  EXPECT_EQ(unio::run(*m_, opens_files(directory.handle(), 50)), 50);
  unio::thread_pool pool(2);
  auto const job = [](unio::thread_pool& on) -> unio::task<int> {
    co_return co_await unio::run_on(on.executor(), []() -> unio::task<int> { co_return 4; }());
  };
  for (int i = 0; i != 10; ++i) EXPECT_EQ(unio::run(*m_, job(pool)), 4);
  EXPECT_EQ(all.ended(), 0);
  for (word& w : words) {
    w.store(1);
    futex(w).wake();
  }
  ASSERT_TRUE(all.run(how_many));
  for (std::size_t i = 0; i != all.size(); ++i) EXPECT_EQ(all.result(i)->value(), 1U);
}

TEST_P(futex_on, may_be_more_than_the_threads_have_places_for) {
  constexpr int how_many = 16 * 127 + 40;
  std::deque<word> words(how_many);
  waits all(*m_);
  for (word& w : words) all.start(futex(w), 0);
  (void)m_->try_run();
  for (word& w : words) {
    w.store(1);
    futex(w).wake();
  }
  ASSERT_TRUE(all.run(how_many));
  for (std::size_t i = 0; i != all.size(); ++i) EXPECT_EQ(all.result(i)->value(), 1U);
}

// ---- between processes ------------------------------------------------------------------------------------

unio::task<std::uint32_t> plays(word& w, std::uint32_t rounds) {
  futex f(w, futex_scope::processes);
  for (std::uint32_t mine = 1; mine < 2 * rounds; mine += 2) {
    w.store(mine);
    f.wake();
    std::uint32_t seen = mine;
    while (seen == mine) {
      auto const r = co_await f.co_wait(mine, 30s);
      if (!r.has_value()) co_return 0;
      seen = *r;
    }
  }
  co_return w.load();
}

TEST_P(futex_on, passes_between_processes_that_map_a_file) {
  constexpr std::uint32_t rounds = 100;
  test::temporary_directory directory;
  directory.write("f", std::string(4096, '\0'));
  auto const map = [&] {
    auto file = unio::file_handle::file(directory.handle(), "f", unio::handle::mode::write).value();
    return unio::mapped<word>::section(file, 0, 1, unio::map_access::write).value();
  };
  pid_t const child = ::fork();
  if (child == 0) {
    auto here = map();
    word& w = here[0];
    futex f(w, futex_scope::processes);
    for (std::uint32_t theirs = 0; theirs != 2 * rounds;) {
      auto const r = f.wait(theirs, 30s);
      if (!r.has_value()) ::_exit(1);
      if (*r == theirs) continue;
      w.store(theirs = *r + 1);
      f.wake();
    }
    ::_exit(0);
  }
  auto here = map();
  EXPECT_EQ(unio::run(*m_, plays(here[0], rounds)), 2 * rounds);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

// The child has one thread when it begins to wait, and gets its second one while it does: there a ring's wait
// would not be woken (op/word_waits.hpp).
TEST_P(futex_on, waits_in_a_forked_child_as_well) {
  if (test::under_thread_sanitizer)
    GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
  word w{0};
  waits mine(*m_);
  mine.start(futex(w), 0);
  (void)m_->try_run();
  test::expect_in_child([&] {
    auto const m = test::make_multiplexer(GetParam().c_str()).value();
    word own{0};
    waits all(*m);
    all.start(futex(own), 0);
    (void)m->try_run();
    std::thread([&] {
      own.store(1);
      futex(own).wake();
    }).join();
    return CHILD_MEETS(all.run(1) && all.result(0)->value() == 1);
  });
  w.store(1);
  futex(w).wake();
  EXPECT_TRUE(mine.run(1));
}

// ---- ends that meet ---------------------------------------------------------------------------------------

TEST_P(futex_on, ends_once_where_a_cancel_meets_the_wake_up) {
  std::deque<word> words(300); // not one, whose wake-up of the round before may be on its way
  for (int round = 0; round != 300; ++round) {
    word& w = words[static_cast<std::size_t>(round)];
    waits one(*m_);
    one.start(futex(w), 0);
    (void)m_->try_run();
    std::thread other([&] {
      w.store(1);
      futex(w).wake();
    });
    if (round % 3 != 0) std::this_thread::yield();
    one[0].cancel();
    other.join();
    ASSERT_TRUE(one.run(1));
    (void)m_->try_run();
    ASSERT_EQ(one.ended(), 1);
    auto const& r = *one.result(0);
    // Cancelled before, or the change.
    if (r.has_value()) {
      ASSERT_EQ(*r, 1U);
    } else {
      ASSERT_EQ(r.error(), condition::canceled);
    }
  }
}

// As any program does. False: nothing woke it, for ten seconds.
bool sleep_on(word& w, std::uint32_t known) {
  timespec const long_time{.tv_sec = 10, .tv_nsec = 0};
  return ::syscall(SYS_futex, &w, FUTEX_WAIT_PRIVATE, known, &long_time) == 0 || errno != ETIMEDOUT;
}

// A wait that is cancelled must not keep the wake-up that another needs. The other's thread sleeps in the
// kernel, behind those that are cancelled, and looks at the word only when it is woken.
TEST_P(futex_on, that_is_cancelled_passes_its_wake_up_on) {
  constexpr int rounds = 200;
  word w{0};
  std::atomic<int> begun{0}, taken{0};
  std::atomic<bool> late{false};
  std::atomic<int> may_begin{0};
  std::thread consumer([&] {
    for (int n = 1; n <= rounds && !late.load(); ++n) {
      while (may_begin.load() < n && !late.load()) std::this_thread::yield();
      begun.store(n);
      for (std::uint32_t one = 1; !w.compare_exchange_strong(one, 0) && !late.load(); one = 1)
        if (!sleep_on(w, 0)) late.store(true);
      taken.store(n);
    }
  });
  for (int n = 1; n <= rounds && !late.load(); ++n) {
    waits some(*m_);
    for (int i = 0; i != 3; ++i) some.start(futex(w), 0);
    (void)m_->try_run();
    std::this_thread::sleep_for(100us); // so that they stand in the kernel
    may_begin.store(n);
    while (begun.load() < n) std::this_thread::yield();
    std::this_thread::sleep_for(100us); // and the other behind them
    for (std::size_t i = 0; i != 3; ++i) some[i].cancel();
    EXPECT_TRUE(some.run(3));
    for (std::size_t i = 0; i != 3; ++i) EXPECT_EQ(some.result(i)->error(), condition::canceled);
    w.store(1);
    futex(w).wake();
    while (taken.load() < n && !late.load()) std::this_thread::yield();
  }
  consumer.join();
  EXPECT_FALSE(late.load()) << "a wake-up was lost";
}

TEST_P(futex_on, leaves_its_memory_alone_once_it_has_ended) {
  void* at = nullptr;
  for (int round = 0; round != 50; ++round) {
    void* const memory = ::mmap(at, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    at = memory;
    auto& w = *new (memory) word(0);
    {
      waits some(*m_);
      some.start(futex(w), 0);
      some.start(futex(w), 0, 1h);
      (void)m_->try_run();
      some[0].cancel();
      ASSERT_TRUE(some.run(1));
    } // the other is destroyed
    ::munmap(memory, 4096);
    // Those that wait elsewhere do not notice.
    word other{0};
    waits one(*m_);
    one.start(futex(other), 0);
    (void)m_->try_run();
    other.store(1);
    futex(other).wake();
    ASSERT_TRUE(one.run(1));
    EXPECT_EQ(one.result(0)->value(), 1U);
  }
}

TEST_P(futex_on, ends_with_its_multiplexer) {
  word w{0};
  int ended = 0;
  std::optional<async_wait_on::result_type> last;
  auto op = unio::connect(async_wait_on(futex(w), 0), tells{&ended, &last});
  op.start(m_.get());
  (void)m_->try_run();
  m_.reset();
  EXPECT_EQ(ended, 1);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ(last->error(), condition::canceled);
}

} // namespace
