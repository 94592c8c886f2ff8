// unio/detail/frames.hpp: the fast path of the frame pool, and operator new of promises.
//
//   frame_lists      the calling thread's free blocks
//   pooled_frames    a promise whose frames come from the pool
//   frame_memory     a promise whose frames may come from the allocator of a parameter
//
// Here because these few instructions are worth inlining: a chain of a hundred tasks does nothing else.

#pragma once

#include <unio/frames.hpp>

#include <bit>
#include <new>

namespace unio::inline v0_1 {
namespace detail {

// Sizes up to frame_small are multiples of the step, less the word that malloc keeps with each block: so none
// of its pieces, which are multiples of 16, has a part that is never used.
inline constexpr std::size_t frame_step = 32;
inline constexpr std::size_t frame_word = sizeof(std::size_t);
inline constexpr std::size_t frame_small_sizes = 33;
inline constexpr std::size_t frame_small = frame_small_sizes * frame_step - frame_word;
inline constexpr std::size_t frame_large = 128 * 1024; // sizes up to this: eight to a doubling
inline constexpr std::size_t frame_sizes = frame_small_sizes + 8 * 7;

// The four highest bits of size - 1 are 1xxx: xxx selects one of the eight sizes, the number of bits below
// them the doubling; frame_first_below in the first one.
inline constexpr std::size_t frame_first_below = 7;

constexpr std::size_t frame_size_index(std::size_t size) noexcept {
  if (size <= frame_small) [[likely]]
    return (size + frame_word + frame_step - 1) / frame_step - 1;
  std::size_t const below = static_cast<std::size_t>(std::bit_width(size - 1)) - 4;
  return frame_small_sizes + 8 * (below - frame_first_below) + ((size - 1) >> below) - 8;
}
constexpr std::size_t frame_size_of(std::size_t index) noexcept {
  if (index < frame_small_sizes) return (index + 1) * frame_step - frame_word;
  std::size_t const beyond = index - frame_small_sizes;
  return (9 + beyond % 8) << (frame_first_below + beyond / 8);
}

struct free_frame {
  free_frame* next;
};
// The lists and their rooms are separate arrays: with padding they would take twice as much of the little
// static TLS that a program reserves for libraries it loads later (below).
struct frame_lists {
  free_frame* first[frame_sizes];
  // How many more may be kept; 0 also before the first use and while the thread exits.
  std::uint8_t room[frame_sizes];
};

// Accessed without a function call, also from a shared library: the lists are small, and exist from the
// thread's start.
[[gnu::tls_model("initial-exec")]] extern UNIO_API constinit thread_local frame_lists this_threads_frames;

[[nodiscard]] UNIO_API UNIO_LAYOUT void* refill_frames(std::size_t size);
UNIO_API UNIO_LAYOUT void spill_frames(void* p, std::size_t size) noexcept;

} // namespace detail

inline void* frame_pool::allocate(std::size_t size) {
  if (size <= detail::frame_large && UNIO_POOLS_FRAMES) [[likely]] {
    std::size_t const index = detail::frame_size_index(size);
    detail::frame_lists& lists = detail::this_threads_frames;
    if (detail::free_frame* const f = lists.first[index]; f != nullptr) [[likely]] {
      lists.first[index] = f->next;
      ++lists.room[index];
      return f;
    }
  }
  return detail::refill_frames(size);
}

inline void frame_pool::deallocate(void* p, std::size_t size) noexcept {
  if (size <= detail::frame_large && UNIO_POOLS_FRAMES) [[likely]] {
    std::size_t const index = detail::frame_size_index(size);
    detail::frame_lists& lists = detail::this_threads_frames;
    if (lists.room[index] != 0) [[likely]] {
      --lists.room[index];
      auto* const f = static_cast<detail::free_frame*>(p);
      f->next = lists.first[index];
      lists.first[index] = f;
      return;
    }
  }
  detail::spill_frames(p, size);
}

namespace detail {

/// Base of what is made by `new` in a block of the pool: promises, whose frames these are, and others.
struct pooled_frames {
  static void* operator new(std::size_t size) { return frame_pool::allocate(size); }
  static void operator delete(void* p, std::size_t size) noexcept { frame_pool::deallocate(p, size); }
};

/// Whether T is the class of a lambda, by the name that GCC gives it: "… T = f()::<lambda(int)>]". That class
/// is not complete while a coroutine in the lambda's body is compiled, and GCC 16 warns in the program if it
/// is asked for a member then. Always false with other compilers, which do not mind.
template <class T> consteval bool is_lambda() noexcept {
  char const* const begin = __PRETTY_FUNCTION__;
  char const* end = begin;
  while (*end != '\0') ++end;
  if (end - begin < 9 || end[-1] != ']' || end[-2] != '>') return false;
  int open = 0;
  for (char const* at = end - 2; at != begin; --at) {
    if (*at == '>') ++open;
    if (*at == '<' && --open == 0) {
      for (char const* name = "<lambda"; *name != '\0'; ++name, ++at)
        if (*at != *name) return false;
      return true;
    }
  }
  return false;
}
/// A parameter that may give the frame. A lambda has no member.
template <class T>
concept gives_frame = !is_lambda<std::remove_cvref_t<T>>() && has_frame_allocator<std::remove_reference_t<T>>;

/// Base of a promise: its frames come from the pool, or from the allocator of one of the first two
/// parameters. A word behind each frame says where to return it.
class frame_memory {
  using give_back = void (*)(void* frame, std::size_t size) noexcept;

  // Behind a frame: null for the pool; otherwise the function that finds its allocator behind that.
  static constexpr std::size_t rounded(std::size_t size) noexcept {
    return (size + sizeof(give_back) - 1) & ~(sizeof(give_back) - 1);
  }
  static give_back& tag(void* frame, std::size_t size) noexcept {
    return *reinterpret_cast<give_back*>(static_cast<std::byte*>(frame) + rounded(size));
  }
  template <class A> static A*& owner(void* frame, std::size_t size) noexcept {
    return *reinterpret_cast<A**>(static_cast<std::byte*>(frame) + rounded(size) + sizeof(give_back));
  }

  // Hides the origin of the memory from GCC, which would warn about a mismatched operator delete.
  static void* unnamed(void* p) noexcept {
    __asm__("" : "+r"(p));
    return p;
  }

  template <class A> static void* from(A& a, std::size_t size) {
    void* const p = a.allocate(rounded(size) + sizeof(give_back) + sizeof(A*));
    tag(p, size) = [](void* frame, std::size_t n) noexcept {
      owner<A>(frame, n)->deallocate(frame, rounded(n) + sizeof(give_back) + sizeof(A*));
    };
    owner<A>(p, size) = &a;
    return p;
  }
  template <class Object> static void* from_object(Object& object, std::size_t size) {
    if constexpr (std::is_pointer_v<std::remove_reference_t<decltype(object.get_frame_allocator())>>) {
      auto* const a = object.get_frame_allocator();
      return a != nullptr ? from(*a, size) : frame_memory::operator new(size);
    } else {
      return from(object.get_frame_allocator(), size);
    }
  }

 public:
  static void* operator new(std::size_t size) {
    void* const p = frame_pool::allocate(rounded(size) + sizeof(give_back));
    tag(p, size) = nullptr;
    return p;
  }
  template <gives_frame First, class... Rest>
  [[gnu::always_inline]] static void* operator new(std::size_t size, First& first, Rest&...) {
    return unnamed(from_object(first, size));
  }
  template <class First, gives_frame Second, class... Rest>
    requires(!gives_frame<First>)
  [[gnu::always_inline]] static void* operator new(std::size_t size, First&, Second& second, Rest&...) {
    return unnamed(from_object(second, size));
  }
  static void operator delete(void* p, std::size_t size) noexcept {
    if (give_back const f = tag(p, size); f != nullptr) [[unlikely]]
      return f(p, size);
    frame_pool::deallocate(p, rounded(size) + sizeof(give_back));
  }
};

/// True for the parameters of a coroutine whose frame comes from one of them.
template <class... Parameters> inline constexpr bool gives_frames = false;
template <class First, class... Rest> inline constexpr bool gives_frames<First, Rest...> = gives_frame<First>;
template <class First, class Second, class... Rest>
inline constexpr bool gives_frames<First, Second, Rest...> = gives_frame<First> || gives_frame<Second>;

/// The promise of such a coroutine. Others have no word behind each frame.
template <class Promise> class with_given_frames : public Promise, public frame_memory {
 public:
  // Both bases have these. Functions that forward, because Clang 21 and 22 crash on a coroutine whose promise
  // selects them by using-declarations.
  template <class... Parameters>
    requires requires(std::size_t n, Parameters&... p) { frame_memory::operator new(n, p...); }
  [[gnu::always_inline]] static void* operator new(std::size_t size, Parameters&... parameters) {
    return frame_memory::operator new(size, parameters...);
  }
  static void operator delete(void* p, std::size_t size) noexcept { frame_memory::operator delete(p, size); }
};

} // namespace detail
} // namespace unio
