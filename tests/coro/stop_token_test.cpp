// stop_source, stop_token, stop_callback: called once, by the requesting thread, and not once destroyed.

#include "support/test.hpp"
#include "support/work.hpp"

namespace {

using namespace test;

static_assert(sizeof(stop_token) == sizeof(void*));

struct counts {
  std::atomic<int>* n;
  void operator()() const noexcept { n->fetch_add(1); }
};

TEST(stop_token, by_default_says_that_nobody_ever_asks) {
  stop_token const none;
  EXPECT_FALSE(none.stop_possible());
  EXPECT_FALSE(none.stop_requested());
  std::atomic<int> n{0};
  stop_callback const c(none, counts{&n});
  EXPECT_EQ(n, 0);
}

TEST(stop_source, asks_once) {
  stop_source s;
  stop_token const t = s.get_token();
  EXPECT_TRUE(t.stop_possible());
  EXPECT_FALSE(t.stop_requested());
  EXPECT_TRUE(s.request_stop());
  EXPECT_FALSE(s.request_stop());
  EXPECT_TRUE(t.stop_requested());
  EXPECT_TRUE(s.stop_requested());
  EXPECT_EQ(t, s.get_token());
}

TEST(stop_callback, is_called_once_and_not_after_it_has_gone) {
  stop_source s;
  std::atomic<int> first{0}, second{0}, third{0};
  stop_callback const a(s.get_token(), counts{&first});
  {
    stop_callback const b(s.get_token(), counts{&second});
  }
  s.request_stop();
  EXPECT_EQ(first, 1);
  EXPECT_EQ(second, 0);
  stop_callback const late(s.get_token(), counts{&third});
  EXPECT_EQ(third, 1) << "at once, on the thread that comes late";
}

TEST(stop_callback, runs_on_the_thread_that_asks) {
  stop_source s;
  std::thread::id where;
  auto f = [&where]() noexcept { where = std::this_thread::get_id(); };
  stop_callback const c(s.get_token(), f);
  std::thread asks([&] { s.request_stop(); });
  std::thread::id const id = asks.get_id();
  asks.join();
  EXPECT_EQ(where, id);
}

struct self_destroying;
struct destroys {
  self_destroying* all;
  void operator()() const noexcept;
};
struct self_destroying {
  stop_source& source;
  std::atomic<int>& n;
  std::optional<stop_callback<counts>> other;
  std::optional<stop_callback<destroys>> self;
};
void destroys::operator()() const noexcept {
  self_destroying& s = *all; // this object goes
  s.self.reset();
  s.other.reset();
  stop_callback const late(s.source.get_token(), counts{&s.n}); // called at once
  EXPECT_FALSE(s.source.request_stop());
}

TEST(stop_callback, may_destroy_itself_and_others_and_attach_new_ones) {
  stop_source s;
  std::atomic<int> n{0};
  self_destroying all{s, n, {}, {}};
  all.other.emplace(s.get_token(), counts{&n});
  all.self.emplace(s.get_token(), destroys{&all}); // the last to come is called first
  s.request_stop();
  EXPECT_EQ(n, 1);
  EXPECT_FALSE(all.self.has_value() || all.other.has_value());
}

TEST(stop_callback, waits_for_a_call_that_another_thread_is_making) {
  for (int round = 0; round < 50; ++round) {
    stop_source s;
    std::atomic<bool> entered{false}, leave{false}, left{false};
    auto f = [&]() noexcept {
      entered = true;
      while (!leave) std::this_thread::yield();
      left = true;
    };
    auto c = std::make_unique<stop_callback<decltype(f)>>(s.get_token(), f);
    std::thread asks([&] { s.request_stop(); });
    while (!entered) std::this_thread::yield();
    std::thread lets([&] { leave = true; });
    c.reset();
    EXPECT_TRUE(left);
    asks.join();
    lets.join();
  }
}

// A request that has made its last call does not look at the source again.
TEST(stop_source, may_end_once_its_callbacks_have_though_a_request_has_not_returned) {
  alignas(stop_source) std::array<unsigned char, sizeof(stop_source)> room;
  std::atomic<stop_source*> asked{nullptr};
  std::atomic<bool> over{false}, called{false}, returned{false};
  std::thread asks([&] {
    while (!over)
      if (stop_source* const s = asked.exchange(nullptr); s != nullptr) {
        s->request_stop();
        returned = true;
      }
  });
  bool is_left_alone = true;
  for (unsigned i = 0; i != 5'000 && is_left_alone; ++i) {
    called = returned = false;
    auto* const s = new (room.data()) stop_source;
    {
      auto const calls = [&]() noexcept {
        called = true;
        for (unsigned spin = 0; spin != i % 64; ++spin) asm volatile("");
      };
      stop_callback const c(s->get_token(), calls);
      asked = s;
      while (!called) std::this_thread::yield();
    }
    s->~stop_source();
    room.fill(0xaa);
    while (!returned) std::this_thread::yield();
    is_left_alone = std::ranges::all_of(room, [](unsigned char c) { return c == 0xaa; });
  }
  EXPECT_TRUE(is_left_alone);
  over = true;
  asks.join();
}

TEST(stop_source, calls_thousands_of_callbacks) {
  stop_source s;
  std::atomic<int> n{0};
  std::deque<stop_callback<counts>> all;
  for (int i = 0; i < 10'000; ++i) all.emplace_back(s.get_token(), counts{&n});
  for (int i = 0; i < 1'000; ++i) all.pop_front(), all.pop_back();
  s.request_stop();
  EXPECT_EQ(n, 8'000);
}

TEST(stop_source, is_safe_against_all_at_once) {
  for (int round = 0; round < 200; ++round) {
    stop_source s;
    std::atomic<int> called{0}, missed{0}, total{0};
    std::atomic<bool> go{false};
    test::threads registering(3, [&] {
      while (!go) std::this_thread::yield();
      for (int i = 0; i < 100; ++i) {
        std::atomic<int> mine{0};
        {
          stop_callback const a(s.get_token(), counts{&mine});
          stop_callback const b(s.get_token(), counts{&mine});
          if (i % 10 == 0) std::this_thread::yield();
        }
        EXPECT_LE(mine, 2);
        called += mine;
        missed += 2 - mine;
        total += 2;
      }
    });
    std::atomic<int> firsts{0};
    test::threads stopping(2, [&] {
      while (!go) std::this_thread::yield();
      firsts += s.request_stop() ? 1 : 0;
    });
    go = true;
    registering.join();
    stopping.join();
    EXPECT_EQ(firsts, 1);
    EXPECT_EQ(called + missed, total);
  }
}

TEST(stop_source, destroyed_before_its_callbacks_ends_the_program) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        std::atomic<int> n{0};
        std::optional<stop_source> s(std::in_place);
        stop_callback const c(s->get_token(), counts{&n});
        s.reset();
      },
      "a stop source was destroyed before its callbacks");
}

} // namespace
