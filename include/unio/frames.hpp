// unio/frames.hpp: where the frames of coroutines come from.
//
//   frame_pool            the default: lists of free blocks per thread and size, over a bounded global pool
//   frame_allocator       a user's allocator; has_frame_allocator: an object that has one
//
// A coroutine whose first or second parameter has get_frame_allocator() takes its frame from there (the
// second, because the first parameter of a member function is its object); any other from the pool, which
// after warm-up does not use the heap.

#pragma once

#include <unio/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace unio::inline v0_1 {

/// Allocates the frames of coroutines.
///
/// Lifetime       memory is the caller's until deallocate()
/// Thread safety  a frame may be freed on another thread than the one that allocated it: it has to allow that
/// Cost           each coroutine calls both functions once
class UNIO_API frame_allocator {
 public:
  frame_allocator() = default;
  frame_allocator(frame_allocator const&) = default;
  frame_allocator& operator=(frame_allocator const&) = default;
  virtual ~frame_allocator();
  /// Memory for `size` bytes, aligned as by operator new. Throws std::bad_alloc.
  virtual void* allocate(std::size_t size) = 0;
  /// Takes back `size` bytes that allocate() has returned.
  virtual void deallocate(void* p, std::size_t size) noexcept = 0;
};

template <class A>
concept is_frame_allocator = requires(A& a, void* p, std::size_t n) {
  { a.allocate(n) } -> std::convertible_to<void*>;
  { a.deallocate(p, n) } -> std::same_as<void>;
};

/// An object with `A& get_frame_allocator()`, or `A* get_frame_allocator()`, where null means the pool. It is
/// not asked for a frame that the compiler makes part of the caller's (Clang 20, for a task that is awaited
/// where it is called).
///
/// Lifetime  the allocator outlives the frames that it allocated
/// Source    *Coroutine-first asynchronous I/O* §9.1
template <class T>
concept has_frame_allocator = requires(T& t) {
  requires is_frame_allocator<std::remove_reference_t<decltype(t.get_frame_allocator())>>;
} || requires(T& t) {
  requires is_frame_allocator<std::remove_reference_t<decltype(*t.get_frame_allocator())>>;
};

/// The pool that frames come from by default, and the other blocks that unio needs per coroutine.
///
/// Sizes          multiples of 32 bytes, less 8, up to 1 KiB; from there up to 128 KiB eight sizes per
///                doubling, so that less than an eighth of a block is unused; larger blocks come straight
///                from the heap
/// Thread safety  all of it from any thread; a block may be freed on another thread than its own
/// Bounds         a thread keeps at most 64 free blocks of each size up to 1 KiB, and of each larger size 32
///                KiB or two blocks, whichever is more: 4.9 MiB at most. The global pool holds at most 64
///                MiB. The rest goes back to the heap
/// Cost           a few instructions; a lock once in 32 blocks up to 1 KiB that another thread frees
class frame_pool {
 public:
  struct statistics {
    std::size_t this_thread_bytes = 0; ///< free, in the calling thread's lists
    std::size_t global_bytes = 0;      ///< free, in the global pool
    std::uint64_t heap_blocks = 0; ///< taken from the heap so far, by all threads, and not given back to it
  };
  /// The memory that is held at the moment.
  [[nodiscard]] UNIO_API static statistics held() noexcept;
  /// Returns the free blocks of the calling thread's lists and of the global pool to the heap.
  UNIO_API static void trim() noexcept;
  /// A block of at least `size` bytes, aligned as by operator new. Throws std::bad_alloc. Lifetime: until
  /// deallocate().
  static void* allocate(std::size_t size);
  /// Frees it. Preconditions: `size` is what was asked for.
  static void deallocate(void* p, std::size_t size) noexcept;
};

} // namespace unio

#include <unio/detail/frames.hpp>
