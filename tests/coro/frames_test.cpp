// frame_pool and frame allocators: sizes, bounds, threads that come and go, and whose frame it is.

#include "support/other_thread.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

void fill(void* p, std::size_t n) { std::memset(p, 0x5a, n); }

// ---- the pool ---------------------------------------------------------------------------------------------

TEST(frame_pool, gives_memory_of_every_size) {
  std::vector<std::pair<void*, std::size_t>> taken;
  auto const take = [&taken](std::size_t n) {
    void* const p = frame_pool::allocate(n);
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(p) % __STDCPP_DEFAULT_NEW_ALIGNMENT__, 0u);
    fill(p, n);
    taken.emplace_back(p, n);
  };
  for (std::size_t n : {0, 1, 63, 64, 65, 1023, 1024, 1025, 2048, 2049, 65536, 131072, 131073, 1 << 20})
    for (int i = 0; i < 3; ++i) take(n);
  for (std::size_t n = 1024; n < 140'000; n += n / 40) take(n), take(n + 1);
  for (auto const& [p, n] : taken) frame_pool::deallocate(p, n);
}

TEST(frame_pool, gives_the_same_block_again) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees each frame come from the heap";
  for (std::size_t n : {40, 640, 5000}) {
    void* const first = frame_pool::allocate(n);
    frame_pool::deallocate(first, n);
    void* const second = frame_pool::allocate(n);
    EXPECT_EQ(first, second);
    frame_pool::deallocate(second, n);
  }
}

TEST(frame_pool, wastes_less_than_an_eighth_of_a_large_block) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees each frame come from the heap";
  auto const block_for = [](std::size_t n) {
    frame_pool::trim();
    frame_pool::deallocate(frame_pool::allocate(n), n);
    return frame_pool::held().this_thread_bytes;
  };
  EXPECT_EQ(block_for(1048), 1048u);
  EXPECT_EQ(block_for(1049), 1152u);
  EXPECT_EQ(block_for(1152), 1152u);
  EXPECT_EQ(block_for(2048), 2048u);
  EXPECT_EQ(block_for(2049), 2304u);
  EXPECT_EQ(block_for(4096 + 528), 5120u) << "a frame with a buffer of a page";
  EXPECT_EQ(block_for(65'536 + 528), 73'728u);
  EXPECT_EQ(block_for(131'072), 131'072u);
  EXPECT_EQ(block_for(131'073), 0u) << "not kept";
  for (std::size_t n = 1025; n <= 131'072; n += n / 50) {
    std::size_t const block = block_for(n);
    EXPECT_GE(block, n);
    EXPECT_LT((block - n) * 8, n) << n;
  }
}

// malloc keeps a word with each block, and its pieces are multiples of 16 bytes.
TEST(frame_pool, wastes_less_than_32_bytes_of_a_small_block_and_nothing_beside_it) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees each frame come from the heap";
  for (std::size_t n = 1; n <= 1048; ++n) {
    frame_pool::trim();
    frame_pool::deallocate(frame_pool::allocate(n), n);
    std::size_t const block = frame_pool::held().this_thread_bytes;
    ASSERT_GE(block, n);
    ASSERT_LT(block - n, 32u) << n;
    ASSERT_EQ((block + sizeof(std::size_t)) % 16, 0u) << n;
  }
}

TEST(frame_pool, bounds_what_a_thread_keeps_of_all_sizes_together) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees each frame come from the heap";
  std::thread fresh([] {
    for (std::size_t n = 64; n <= 131'072; n += n < 1024 ? 32 : n / 16) {
      std::vector<void*> blocks;
      for (int i = 0; i < 100; ++i) blocks.push_back(frame_pool::allocate(n));
      for (void* const p : blocks) frame_pool::deallocate(p, n);
    }
    auto const held = frame_pool::held();
    EXPECT_LE(held.this_thread_bytes, (49u << 20) / 10);
    EXPECT_GT(held.this_thread_bytes, 3u << 20) << "all sizes were reached";
    EXPECT_LE(held.global_bytes, 64u << 20);
    frame_pool::trim();
    EXPECT_EQ(frame_pool::held().this_thread_bytes, 0u);
    EXPECT_EQ(frame_pool::held().global_bytes, 0u);
  });
  fresh.join();
}

TEST(frame_pool, holds_a_bounded_amount_and_trim_gives_it_back) {
  if (!UNIO_POOLS_FRAMES) GTEST_SKIP() << "a sanitizer sees each frame come from the heap";
  std::thread fresh([] {
    frame_pool::trim();
    auto const before = frame_pool::held();
    EXPECT_EQ(before.this_thread_bytes, 0u);
    std::vector<void*> blocks;
    for (int i = 0; i < 1000; ++i) blocks.push_back(frame_pool::allocate(100));
    for (void* const p : blocks) frame_pool::deallocate(p, 100);
    auto const after = frame_pool::held();
    EXPECT_LE(after.this_thread_bytes, 64u * 128);
    EXPECT_GT(after.this_thread_bytes, 0u);
    EXPECT_LE(after.global_bytes, 1000u * 128) << "the rest is there for others";
    frame_pool::trim();
    auto const trimmed = frame_pool::held();
    EXPECT_EQ(trimmed.this_thread_bytes, 0u);
    EXPECT_EQ(trimmed.global_bytes, 0u);
    EXPECT_LE(trimmed.heap_blocks, before.heap_blocks);
  });
  fresh.join();
}

// One thread takes, another gives back, without end: what is held does not grow.
TEST(frame_pool, is_bounded_where_one_thread_takes_and_another_gives_back) {
  frame_pool::trim();
  auto const before = frame_pool::held();
  constexpr std::size_t size = 300;
  constexpr std::size_t in_flight = 100;
  std::array<std::atomic<void*>, in_flight> slots{};
  std::uint64_t most = 0;
  std::thread gives([&] {
    for (int i = 0; i < 50'000; ++i) {
      std::atomic<void*>& slot = slots[static_cast<std::size_t>(i) % in_flight];
      void* p;
      while ((p = slot.exchange(nullptr, std::memory_order_acquire)) == nullptr) std::this_thread::yield();
      frame_pool::deallocate(p, size);
    }
  });
  for (int i = 0; i < 50'000; ++i) {
    std::atomic<void*>& slot = slots[static_cast<std::size_t>(i) % in_flight];
    while (slot.load(std::memory_order_relaxed) != nullptr) std::this_thread::yield();
    void* const p = frame_pool::allocate(size);
    fill(p, size);
    slot.store(p, std::memory_order_release);
    if (i % 1000 == 0) most = std::max(most, frame_pool::held().heap_blocks);
  }
  gives.join();
  EXPECT_LE(most, before.heap_blocks + in_flight + 3 * 64)
      << "the blocks in flight, and the lists of two threads";
  frame_pool::trim();
  EXPECT_LE(frame_pool::held().heap_blocks, before.heap_blocks) << "the end of a thread gave up what it held";
}

// Destructors of a thread's objects may take and give back after its lists have gone.
struct uses_at_the_end {
  void* kept = nullptr;
  ~uses_at_the_end() {
    frame_pool::deallocate(kept, 200);
    void* const p = frame_pool::allocate(200);
    fill(p, 200);
    frame_pool::deallocate(p, 200);
  }
};

TEST(frame_pool, can_be_used_while_a_thread_ends) {
  frame_pool::trim();
  auto const before = frame_pool::held();
  std::thread ends([] {
    static thread_local uses_at_the_end at_end; // made before the lists, so destroyed after them
    at_end.kept = nullptr;
    at_end.kept = frame_pool::allocate(200);
  });
  ends.join();
  frame_pool::trim();
  EXPECT_EQ(frame_pool::held().heap_blocks, before.heap_blocks);
}

// ---- allocators of one's own ------------------------------------------------------------------------------

class watching : public unio::frame_allocator {
 public:
  void* allocate(std::size_t n) override {
    void* const p = ::operator new(n);
    blocks_[p] = n;
    ++taken;
    return p;
  }
  void deallocate(void* p, std::size_t n) noexcept override {
    auto const found = blocks_.find(p);
    EXPECT_TRUE(found != blocks_.end()) << "not its own";
    if (found == blocks_.end()) return;
    EXPECT_EQ(found->second, n) << "another size than was taken";
    blocks_.erase(found);
    ::operator delete(p);
  }
  int taken = 0;
  [[nodiscard]] std::size_t out() const { return blocks_.size(); }

 private:
  std::map<void*, std::size_t> blocks_;
};

struct by_reference {
  watching& a;
  [[nodiscard]] watching& get_frame_allocator() const { return a; }
  task<int> member(int n) const { co_return n; } // its object is the first parameter
};
struct by_pointer {
  watching* a;
  [[nodiscard]] watching* get_frame_allocator() const { return a; }
};
struct has_none {
  task<int> member(by_reference const&, int n) { co_return n; }
};
task<int> first(by_reference const&, int n) { co_return n; }
task<int> first_by_pointer(by_pointer, int n) { co_return n; }
task<int> third(int, int, by_reference const&) { co_return 3; }
task<int> with_environment(unio::environment const&, int n) { co_return n; }

TEST(frame_allocator, of_the_first_or_second_parameter_gives_the_frame) {
  watching a;
  by_reference const given{a};
  EXPECT_EQ(unio::run(first(given, 1)), 1);
  EXPECT_EQ(a.taken, 1);
  EXPECT_EQ(unio::run(first_by_pointer({&a}, 2)), 2);
  EXPECT_EQ(a.taken, 2);
  EXPECT_EQ(unio::run(first_by_pointer({nullptr}, 3)), 3) << "from the pool";
  EXPECT_EQ(a.taken, 2);
  EXPECT_EQ(unio::run(given.member(4)), 4);
  EXPECT_EQ(a.taken, 3);
  has_none object;
  EXPECT_EQ(unio::run(object.member(given, 5)), 5);
  EXPECT_EQ(a.taken, 4);
  EXPECT_EQ(unio::run(third(1, 2, given)), 3);
  EXPECT_EQ(a.taken, 4) << "only the first two are asked";
  EXPECT_EQ(a.out(), 0u);
}

unio::async_generator<int> counts_up(by_reference const&, int n) {
  for (int i = 0; i != n; ++i) co_yield i;
}

// All promises that choose between the pool and an allocator do so through with_given_frames.
TEST(frame_allocator, of_a_parameter_gives_the_frame_of_an_async_generator) {
  watching a;
  by_reference const given{a};
  int sum = 0;
  unio::run([](by_reference const& from, int& to) -> task<> {
    unio::async_generator<int> numbers = counts_up(from, 4);
    while (int* const n = co_await numbers.co_next()) to += *n;
  }(given, sum));
  EXPECT_EQ(sum, 6);
  EXPECT_EQ(a.taken, 2) << "the task's and the generator's";
  EXPECT_EQ(a.out(), 0u);
}

// The class of a lambda is not complete while its body is compiled, so it must not be asked for a member. It
// is known by the name that GCC gives it, and nothing else may be taken for one.
template <class...> struct of_types {};
TEST(frame_allocator, is_asked_of_no_lambda) {
  auto const lambda = [](by_reference const&, int n) -> task<int> { co_return n; };
  [[maybe_unused]] auto const generic = [&](auto const& from) mutable { return lambda(from, 1); };
  auto local_of = [](bool (*)(int)) {
    struct local : by_reference {};
    return static_cast<local*>(nullptr);
  };
  using lambda_type = std::remove_cvref_t<decltype(lambda)>;
  using local_type = std::remove_pointer_t<decltype(local_of(nullptr))>;
#ifndef __clang__
  static_assert(unio::detail::is_lambda<lambda_type>());
  static_assert(unio::detail::is_lambda<std::remove_cvref_t<decltype(generic)>>());
  static_assert(unio::detail::is_lambda<decltype(local_of)>());
#endif
  static_assert(!unio::detail::is_lambda<by_reference>());
  static_assert(!unio::detail::is_lambda<local_type>());
  static_assert(!unio::detail::is_lambda<of_types<lambda_type>>());
  static_assert(!unio::detail::is_lambda<of_types<lambda_type, int(int)>>());
  static_assert(!unio::detail::is_lambda<int(int)>());
  static_assert(unio::detail::gives_frames<lambda_type const&, by_reference const&>);
  static_assert(unio::detail::gives_frames<local_type&>);
  watching a;
  by_reference const given{a};
  EXPECT_EQ(unio::run(lambda(given, 3)), 3);
  EXPECT_EQ(a.taken, 1) << "its second parameter gives the frame";
  EXPECT_EQ(a.out(), 0u);
}

TEST(frame_allocator, of_the_environment_gives_frames_that_ask_for_it) {
  watching a;
  auto body = []() -> task<int> {
    unio::environment const& e = co_await unio::this_coro::environment;
    task<int> named = with_environment(e, 6); // awaited where it is called it may need no frame (Clang 20)
    int const n = co_await std::move(named);
    co_return n;
  };
  EXPECT_EQ(unio::run(body(), {.frames = &a}), 6);
  EXPECT_EQ(a.taken, 1);
  EXPECT_EQ(unio::run(body()), 6);
  EXPECT_EQ(a.taken, 1);
  EXPECT_EQ(a.out(), 0u);
}

TEST(frame_allocator, takes_back_a_frame_that_never_ran) {
  watching a;
  by_reference const given{a};
  {
    task<int> const t = first(given, 1);
    asm volatile(""
                 :
                 : "r"(&t)
                 : "memory"); // the compiler does not see where it goes, and so cannot do without the frame
    EXPECT_EQ(a.out(), 1u);
  }
  EXPECT_EQ(a.out(), 0u);
}

} // namespace
