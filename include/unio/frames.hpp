// unio/frames.hpp: where the frames of coroutines come from.
//
//   frame_pool            the pool of all: a list of free blocks per thread and size, over a bounded global one
//   frame_allocator       an allocator of one's own; has_frame_allocator: an object that has one
//
// A coroutine whose first or second parameter has get_frame_allocator() takes its frame from there (the second, because
// the first parameter of a member function is its object); every other from the pool. After warm-up neither asks the heap.

#pragma once

#include <unio/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace unio {

/// Gives frames of coroutines, and takes them back. A frame may be given back by another thread than took it.
class UNIO_API frame_allocator {
 public:
  frame_allocator() = default;
  frame_allocator(frame_allocator const&) = default;
  frame_allocator& operator=(frame_allocator const&) = default;
  virtual ~frame_allocator();
  /// Memory for `size` bytes, aligned as by operator new. Throws std::bad_alloc.
  virtual void* allocate(std::size_t size) = 0;
  virtual void deallocate(void* p, std::size_t size) noexcept = 0;
};

template <class A>
concept is_frame_allocator = requires(A& a, void* p, std::size_t n) {
  { a.allocate(n) } -> std::convertible_to<void*>;
  { a.deallocate(p, n) } -> std::same_as<void>;
};

/// An object with `A& get_frame_allocator()`, or `A* get_frame_allocator()`, where null means the pool.
///
/// Lifetime  the allocator outlives the frames that it gave
/// Source    *Coroutine-first asynchronous I/O* §9.1
template <class T>
concept has_frame_allocator = requires(T& t) {
  requires is_frame_allocator<std::remove_reference_t<decltype(t.get_frame_allocator())>>;
} || requires(T& t) {
  requires is_frame_allocator<std::remove_reference_t<decltype(*t.get_frame_allocator())>>;
};

/// The pool that frames come from by default, and the other blocks that unio needs per coroutine.
///
/// Sizes          up to 1 KiB multiples of 64 bytes; from there up to 128 KiB eight to a doubling, so that what a block has
///                more than was asked for is less than an eighth of it; what is larger comes from the heap as it is
/// Thread safety  all of it from any thread. A block may be given back by another thread than took it
/// Bounds         a thread keeps at most 64 free blocks of a size up to 1 KiB, and of each larger size 32 KiB, or two blocks
///                where that is more: 4.3 MiB if it keeps all it may of every size. All threads together leave at most
///                64 MiB in the global pool. What is more goes back to the heap
/// Cost           a few instructions; a lock once in 32 blocks where one thread takes and another gives back, up to 1 KiB
class frame_pool {
 public:
  struct statistics {
    std::size_t this_thread_bytes = 0; ///< free, in the calling thread's lists
    std::size_t global_bytes = 0;      ///< free, in the global pool
    std::uint64_t heap_blocks = 0; ///< taken from the heap so far, by all threads, and not given back to it
  };
  /// What is held just now.
  [[nodiscard]] UNIO_API static statistics held() noexcept;
  /// Gives what is free in the calling thread's lists and in the global pool back to the heap.
  UNIO_API static void trim() noexcept;

  /// A block of at least `size` bytes, aligned as by operator new. Throws std::bad_alloc.
  static void* allocate(std::size_t size);
  /// Takes it back. Preconditions: `size` is what was asked for.
  static void deallocate(void* p, std::size_t size) noexcept;
};

} // namespace unio

#include <unio/detail/frames.hpp>
