// thread_pool.hpp, strand.hpp: posting, dispatching, strands and whole tasks on a pool allocate nothing and
// lock no mutex once warm; counted on the threads of the pool as well.

#include "alloc/counting.hpp"
#include "support/tasks.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

namespace {

using namespace test;

/// What each thread of a pool, and the calling one, spend on `body()`, which is called `warm_up` times
/// before. The threads meet: each of them is asked.
class all_threads {
 public:
  explicit all_threads(thread_pool& p) : pool_(p), spent_(static_cast<std::size_t>(p.size())) {}

  costs sum() {
    for (costs& c : spent_) c = {};
    std::atomic<int> next = 0, met = 0;
    struct asks : unio::work {
      asks() : work(&invoke) {}
      static void invoke(unio::work& w, bool) noexcept {
        auto& self = static_cast<asks&>(w);
        int const all = static_cast<int>(self.to->size());
        (*self.to)[static_cast<std::size_t>(self.next->fetch_add(1))] = test::costs_so_far();
        self.met->fetch_add(1, std::memory_order_release);
        until(*self.met, all); // so that another thread takes the next
        self.left->fetch_add(1, std::memory_order_release);
      }
      std::vector<costs>* to = nullptr;
      std::atomic<int>*next = nullptr, *met = nullptr, *left = nullptr;
    };
    std::atomic<int> left = 0;
    std::vector<asks> questions(spent_.size());
    for (asks& a : questions) {
      a.to = &spent_, a.next = &next, a.met = &met, a.left = &left;
      pool_.post(static_cast<unio::work&>(a));
    }
    until(left, pool_.size());
    costs total;
    for (costs const& c : spent_) total.allocations += c.allocations, total.locks += c.locks;
    return total;
  }

 private:
  thread_pool& pool_;
  std::vector<costs> spent_;
};

template <class Body>
void expect_free(thread_pool& pool, Body body, int warm_up = 2000, int measured = 2000) {
  all_threads threads(pool);
  for (int i = 0; i != warm_up; ++i) body();
  costs const inside = threads.sum();
  costs const before = test::costs_so_far();
  for (int i = 0; i != measured; ++i) body();
  EXPECT_EQ(test::costs_so_far() - before, costs{}) << "outside";
  EXPECT_EQ(threads.sum() - inside, costs{}) << "on the threads of the pool";
}

struct counts : unio::work {
  counts() : work(&invoke) {}
  static void invoke(unio::work& w, bool) noexcept {
    static_cast<counts&>(w).n.fetch_add(1, std::memory_order_release);
  }
  std::atomic<int> n = 0;
};

class on_a_pool_of : public ::testing::TestWithParam<int> {
 protected:
  thread_pool pool_{GetParam()};
};
INSTANTIATE_TEST_SUITE_P(executors, on_a_pool_of, ::testing::Values(1, 2, 3));

TEST_P(on_a_pool_of, a_post_costs_nothing) {
  counts w;
  int posted = 0;
  expect_free(pool_, [&] {
    pool_.post(w);
    until(w.n, ++posted);
  });
}

TEST_P(on_a_pool_of, a_post_of_a_function_costs_a_block_of_the_pool_only) {
  if (GetParam() != 1)
    GTEST_SKIP() << "where many threads give blocks back, batches of them move under a lock";
  std::atomic<int> n = 0;
  int posted = 0;
  auto const one = [&] {
    pool_.post([&] {
      pool_.post([&] { n.fetch_add(1, std::memory_order_release); }); // taken and given back by one thread
    });
    until(n, ++posted);
  };
  all_threads threads(pool_);
  for (int i = 0; i != 2000; ++i) one();
  costs const inside = threads.sum(), before = test::costs_so_far();
  for (int i = 0; i != 2000; ++i) one();
  EXPECT_EQ((test::costs_so_far() - before).allocations, 0u);
  EXPECT_EQ((threads.sum() - inside).allocations, 0u);
}

TEST_P(on_a_pool_of, a_strand_costs_nothing) {
  unio::strand const s{pool_.executor()};
  counts w;
  int posted = 0;
  expect_free(pool_, [&] {
    s.post(w);
    until(w.n, ++posted);
  });
}

TEST_P(on_a_pool_of, a_strand_inside_of_a_strand_costs_nothing) {
  unio::strand const s{pool_.executor()};
  unio::strand<unio::strand<thread_pool::executor_type>> const inner(s);
  counts w;
  int posted = 0;
  expect_free(pool_, [&] {
    inner.post(w);
    until(w.n, ++posted);
  });
}

// A task that hops from a strand to another and back, for ever: what it costs between two looks.
task<> hops(unio::strand<thread_pool::executor_type> there, std::atomic<int>& rounds, std::atomic<bool>& over,
            std::atomic<int>& ended) {
  auto nothing = []() -> task<> { co_return; };
  while (!over.load(std::memory_order_acquire)) {
    task<> trip = nothing();
    co_await unio::run_on(there, std::move(trip));
    (co_await unio::co_no_op()).value();
    rounds.fetch_add(1, std::memory_order_release);
  }
  ended.store(1, std::memory_order_release);
}

// Frames that one thread takes and another gives back move in batches until each thread has enough: warm is a
// stretch without an allocation, and it must come.
template <class Stretch> void expect_free_stretch(all_threads& threads, Stretch stretch, int at_most = 200) {
  std::uint64_t allocated = 1;
  for (int i = 0; i != at_most && allocated != 0; ++i) {
    costs const inside = threads.sum();
    stretch();
    allocated = (threads.sum() - inside).allocations;
  }
  EXPECT_EQ(allocated, 0u);
}

TEST_P(on_a_pool_of, a_task_that_goes_from_strand_to_strand_allocates_nothing) {
  unio::strand const here{pool_.executor()}, there{pool_.executor()};
  std::atomic<int> rounds = 0, ended = 0;
  std::atomic<bool> over = false;
  all_threads threads(pool_);
  unio::async_run(here, hops(there, rounds, over, ended));
  expect_free_stretch(threads, [&] {
    int const n = rounds;
    until(rounds, n + 2000);
  });
  over.store(true, std::memory_order_release);
  until(ended, 1);
}

TEST_P(on_a_pool_of, ten_thousand_tasks_that_fork_and_join_allocate_nothing) {
  all_threads threads(pool_);
  expect_free_stretch(threads, [&] { EXPECT_EQ(unio::sync_wait(pool_.executor(), fibonacci(18)), 2584); });
}

// Each starts ten, down to a million that start none: more than the pools of frames hold.
task<> tree(thread_pool& pool, std::atomic<int>& ended, int depth) {
  for (int i = 0; depth != 0 && i != 10; ++i) unio::async_run(pool.executor(), tree(pool, ended, depth - 1));
  ended.fetch_add(1, std::memory_order_release);
  co_return;
}

TEST_P(on_a_pool_of, a_million_tasks_that_tasks_start_allocate_nothing) {
  std::atomic<int> ended = 0;
  all_threads threads(pool_);
  expect_free_stretch(
      threads,
      [&] {
        ended = 0;
        unio::async_run(pool_.executor(), tree(pool_, ended, 6));
        until(ended, 1'111'111);
      },
      20);
}

TEST(executors, async_run_on_a_pool_of_one_thread_from_inside_costs_nothing) {
  thread_pool pool(1);
  struct starts : unio::work {
    explicit starts(thread_pool& p) : work(&invoke), pool(&p) {}
    static task<> one(starts& self) {
      (co_await unio::co_no_op()).value();
      if (++self.n == 5000) self.ended.store(1, std::memory_order_release);
      if (self.n == 2000) self.before = test::costs_so_far();
      if (self.n == 5000) self.spent = test::costs_so_far() - self.before;
      if (self.n < 5000) self.pool->post(static_cast<unio::work&>(self));
    }
    static void invoke(unio::work& w, bool) noexcept {
      auto& self = static_cast<starts&>(w);
      unio::async_run(self.pool->executor(), one(self));
    }
    thread_pool* pool;
    int n = 0;
    costs before, spent;
    std::atomic<int> ended = 0;
  } s(pool);
  pool.post(static_cast<unio::work&>(s));
  pool.join();
  EXPECT_EQ(s.ended, 1);
  EXPECT_EQ(s.spent, costs{});
}

TEST(executors, the_counting_of_these_tests_sees_the_threads_of_a_pool) {
  thread_pool pool(2);
  all_threads threads(pool);
  costs const before = threads.sum();
  counts w;
  pool.post([&] {
    auto const p = std::make_unique<int>(1);
    asm volatile("" : : "r"(p.get()) : "memory");
    w.n = 1;
  });
  until(w.n, 1);
  EXPECT_GE((threads.sum() - before).allocations, 1u);
}

} // namespace
