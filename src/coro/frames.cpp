// The slow path of the frame pool: between the threads' lists and the heap is a global pool of full batches,
// so that a thread that only allocates and one that only frees meet once in a batch.

#include "sys/fork.hpp"

#include <unio/frames.hpp>

#include <algorithm>
#include <atomic>
#include <mutex>

namespace unio::inline v0_1 {

frame_allocator::~frame_allocator() = default;

namespace detail {

constinit thread_local frame_lists this_threads_frames{};

namespace {

constexpr std::size_t global_bytes_limit = 64 << 20;

// Every size has a list whose index leads back to it; none is more than an eighth larger than the request.
consteval bool sizes_are_right() {
  for (std::size_t index = 0, before = 0; index != frame_sizes; ++index) {
    std::size_t const size = frame_size_of(index);
    if (frame_size_index(before + 1) != index || frame_size_index(size) != index) return false;
    if (size > frame_small && (size - before - 1) * 8 >= size) return false;
    before = size;
  }
  return frame_size_of(frame_sizes - 1) == frame_large && frame_size_of(frame_small_sizes - 1) == frame_small;
}
static_assert(sizes_are_right());

constexpr std::uint32_t kept(std::size_t index) noexcept {
  if (index < frame_small_sizes) return 64;
  return static_cast<std::uint32_t>(std::max<std::size_t>(2, (32 << 10) / frame_size_of(index)));
}
static_assert([] {
  std::size_t bytes = 0;
  for (std::size_t index = 0; index != frame_sizes; ++index) bytes += kept(index) * frame_size_of(index);
  return bytes;
}() <= (49 << 20) / 10); // as frames.hpp says
// How many blocks move between a thread and the global pool at once.
constexpr std::uint32_t batch(std::size_t index) noexcept { return kept(index) / 2; }

void set_room(std::size_t index, std::uint32_t n) noexcept {
  this_threads_frames.room[index] = static_cast<std::uint8_t>(n);
}

// A batch in the global pool: its first block links to the rest of the batch, and by its second word to the
// next batch.
struct batch_head : free_frame {
  batch_head* next_batch;
};
static_assert(sizeof(batch_head) <= frame_size_of(0));

struct global_pool {
  sys::process_lock mutex{sys::guarded::frames};
  batch_head* batches[frame_sizes] = {};
  std::size_t bytes = 0;
};

// Threads end after static objects are destroyed.
static_assert(std::is_trivially_destructible_v<global_pool>);
constinit global_pool everybodys;

std::atomic<std::uint64_t> heap_blocks{0};

void* from_heap(std::size_t size) {
  void* const p = ::operator new(size);
  heap_blocks.fetch_add(1, std::memory_order_relaxed);
  return p;
}

void to_heap(void* p) noexcept {
  ::operator delete(p);
  heap_blocks.fetch_sub(1, std::memory_order_relaxed);
}

void to_heap(free_frame* f) noexcept {
  while (f != nullptr) {
    free_frame* const next = f->next;
    to_heap(static_cast<void*>(f));
    f = next;
  }
}

// Puts a list of `n` blocks into the global pool, or frees them if that is full.
void give_batch(free_frame* first, std::size_t index, std::uint32_t n) noexcept {
  std::size_t const bytes = n * frame_size_of(index);
  {
    global_pool& g = everybodys;
    std::lock_guard const lock(g.mutex);
    if (n == batch(index) && g.bytes + bytes <= global_bytes_limit) {
      auto* const head = static_cast<batch_head*>(first);
      head->next_batch = g.batches[index];
      g.batches[index] = head;
      g.bytes += bytes;
      return;
    }
  }
  to_heap(first);
}

free_frame* take_batch(std::size_t index) noexcept {
  global_pool& g = everybodys;
  std::lock_guard const lock(g.mutex);
  batch_head* const head = g.batches[index];
  if (head == nullptr) return nullptr;
  g.batches[index] = head->next_batch;
  g.bytes -= batch(index) * frame_size_of(index);
  return head;
}

// Takes `n` blocks off the thread's list.
free_frame* take_from_list(std::size_t index, std::uint32_t n) noexcept {
  frame_lists& mine = this_threads_frames;
  free_frame* const first = mine.first[index];
  free_frame* last = first;
  for (std::uint32_t i = 1; i < n; ++i) last = last->next;
  mine.first[index] = last->next;
  last->next = nullptr;
  set_room(index, mine.room[index] + n);
  return first;
}

enum class lists : char { unused, open, ended };
constinit thread_local lists this_threads_lists = lists::unused;

// At the end of a thread: whole batches go to the global pool, the rest to the heap.
struct closing {
  ~closing() {
    this_threads_lists = lists::ended; // later destructors of this thread free to the heap
    for (std::size_t index = 0; index != frame_sizes; ++index) {
      for (std::uint32_t held = kept(index) - this_threads_frames.room[index]; held >= batch(index);
           held -= batch(index))
        give_batch(take_from_list(index, batch(index)), index, batch(index));
      to_heap(this_threads_frames.first[index]);
    }
    this_threads_frames = {};
  }
};

// From the first use by a thread on its lists may hold blocks, until it ends.
bool lists_are_open() noexcept {
  if (this_threads_lists != lists::unused) return this_threads_lists == lists::open;
  static thread_local closing at_the_end;
  this_threads_lists = lists::open;
  for (std::size_t index = 0; index != frame_sizes; ++index) set_room(index, kept(index));
  return true;
}

} // namespace

// The thread's list is empty.
void* refill_frames(std::size_t size) {
  if (size > frame_large || !UNIO_POOLS_FRAMES) return from_heap(size);
  std::size_t const index = frame_size_index(size);
  if (lists_are_open()) {
    frame_lists& mine = this_threads_frames;
    // Code compiled with a sanitizer does not use the lists, but the library, compiled without, still keeps
    // some.
    if (mine.first[index] != nullptr) return take_from_list(index, 1);
    if (free_frame* const taken = take_batch(index); taken != nullptr) {
      mine.first[index] = taken->next;
      set_room(index, mine.room[index] - (batch(index) - 1));
      return taken;
    }
  }
  return from_heap(frame_size_of(index));
}

// The thread's list is full, or does not exist.
void spill_frames(void* p, std::size_t size) noexcept {
  if (size > frame_large || !UNIO_POOLS_FRAMES) return to_heap(p);
  std::size_t const index = frame_size_index(size);
  if (!lists_are_open()) return to_heap(p);
  frame_lists& mine = this_threads_frames;
  if (mine.room[index] == 0) give_batch(take_from_list(index, batch(index)), index, batch(index));
  auto* const f = static_cast<free_frame*>(p);
  f->next = mine.first[index];
  mine.first[index] = f;
  --mine.room[index];
}

} // namespace detail

frame_pool::statistics frame_pool::held() noexcept {
  statistics s;
  for (std::size_t index = 0; index != detail::frame_sizes; ++index)
    for (detail::free_frame const* f = detail::this_threads_frames.first[index]; f != nullptr; f = f->next)
      s.this_thread_bytes += detail::frame_size_of(index);
  detail::global_pool& g = detail::everybodys;
  std::lock_guard const lock(g.mutex);
  s.global_bytes = g.bytes;
  s.heap_blocks = detail::heap_blocks.load(std::memory_order_relaxed);
  return s;
}

void frame_pool::trim() noexcept {
  for (std::size_t index = 0; index != detail::frame_sizes; ++index) {
    while (detail::this_threads_frames.first[index] != nullptr)
      detail::to_heap(detail::take_from_list(index, 1));
    while (detail::free_frame* const batch = detail::take_batch(index)) detail::to_heap(batch);
  }
}

} // namespace unio
