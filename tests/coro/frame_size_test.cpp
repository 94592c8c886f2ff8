// What a suspended coroutine weighs. A change here is a decision, not an accident. Always compiled with -O2
// (tests/CMakeLists.txt): without it nothing is as small.

#include "support/test.hpp"

namespace {

using namespace test;

// Gives frames, and says how large the last one was.
class scales {
 public:
  void* allocate(std::size_t n) {
    bytes_ = n;
    return ::operator new(n);
  }
  void deallocate(void* p, std::size_t) noexcept { ::operator delete(p); }
  scales& get_frame_allocator() noexcept { return *this; }
  // Beside the frame stands where it came from: two words.
  [[nodiscard]] std::size_t frame_bytes() const noexcept { return bytes_ - 2 * sizeof(void*); }

 private:
  std::size_t bytes_ = 0;
};

[[gnu::noinline, maybe_unused]] task<> read_once(scales&, pipe_handle& pipe, mutable_buffer into) {
  (void)co_await pipe.co_read(into);
}
[[gnu::noinline]] task<> do_nothing(scales&) { co_return; }

[[maybe_unused]] constexpr std::size_t parameter_bytes = sizeof(pipe_handle*) + sizeof(mutable_buffer);

TEST(frame_size, is_at_most_256_bytes_beside_what_is_the_users_while_a_read_is_awaited) {
#if defined(__clang__) && defined(__OPTIMIZE__)
  if (UNIO_TRACKS_PENDING || !UNIO_POOLS_FRAMES) GTEST_SKIP() << "tracked or sanitized frames are larger";
  scales s;
  pipe_handle pipe;
  task<> const t = read_once(s, pipe, {});
  EXPECT_LE(s.frame_bytes() - parameter_bytes, 256u);
#else
  GTEST_SKIP() << "g++ 12 makes frames half as large again; clang, optimised, is held to it";
#endif
}

TEST(frame_size, of_a_task_is_a_few_words) {
  scales s;
  task<> const t = do_nothing(s);
  EXPECT_LE(s.frame_bytes(), UNIO_TRACKS_PENDING ? 160u : 128u);
}

} // namespace
