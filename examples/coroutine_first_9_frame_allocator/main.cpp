// Shows     *Coroutine-first asynchronous I/O* §9: an I/O object that provides its coroutines' frames. All
//           others come from a pool, which reuses its blocks.
// Run       build/release/examples/example_coroutine_first_9_frame_allocator
// Read next <unio/frames.hpp>

#include <unio/unio.hpp>

#include <array>
#include <cstddef>
#include <cstdio>
#include <new>

namespace {

// One block, which is enough for one operation at a time; larger or further frames come from the heap.
class one_block {
 public:
  void* allocate(std::size_t n) {
    if (taken_ || n > block_.size()) return ::operator new(n);
    taken_ = true;
    ++times_;
    return block_.data();
  }
  void deallocate(void* p, std::size_t) noexcept {
    if (p != block_.data()) return ::operator delete(p);
    taken_ = false;
  }
  [[nodiscard]] int times() const noexcept { return times_; }

 private:
  alignas(std::max_align_t) std::array<std::byte, 1024> block_;
  bool taken_ = false;
  int times_ = 0;
};

class device {
 public:
  one_block& get_frame_allocator() noexcept { return frames_; }

  // A member function: the device is its first parameter, and provides the frame.
  unio::task<int> ask() {
    (co_await unio::co_no_op()).value();
    co_return ++answers_;
  }

 private:
  one_block frames_;
  int answers_ = 0;
};

unio::task<int> ask_often(device* d) { // with a reference the device would provide this frame too
  int last = 0;
  for (int i = 0; i != 3; ++i) last = co_await d->ask();
  co_return last;
}

unio::task<int> from_the_pool() { co_return 1; }

} // namespace

int main() {
  device d;
  int const answers = unio::run(ask_often(&d));
  std::printf("%d answers; the device gave a frame %d times\n", answers, d.get_frame_allocator().times());

  (void)unio::run(from_the_pool());
  std::uint64_t const before = unio::frame_pool::held().heap_blocks;
  for (int i = 0; i != 1000; ++i) (void)unio::run(from_the_pool());
  std::printf("a thousand tasks later the pool has taken %llu blocks more from the heap\n",
              static_cast<unsigned long long>(unio::frame_pool::held().heap_blocks - before));
}
