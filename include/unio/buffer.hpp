// unio/buffer.hpp: the memory that an operation reads into or writes from.
//
//   mutable_buffer, const_buffer     one piece of memory, laid out as iovec: arrays of them go to the kernel
//   mutable_buffers, const_buffers   one buffer held by value, or a view of the caller's array of them

#pragma once

#include <unio/config.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>

namespace unio::inline v0_1 {

class mutable_buffer;
class const_buffer;

namespace detail {
/// What a buffer may be made of: plain values, but not buffers, an array of which is a list.
template <class T>
concept plain_content =
    std::is_trivially_copyable_v<T> && !std::same_as<std::remove_cv_t<T>, mutable_buffer> &&
    !std::same_as<std::remove_cv_t<T>, const_buffer>;

/// What a string literal is, and whatever cannot be told from one.
template <class T>
concept literal_array = std::is_bounded_array_v<T> && (std::same_as<std::remove_extent_t<T>, char const> ||
                                                       std::same_as<std::remove_extent_t<T>, char8_t const>);
} // namespace detail

/// Memory that is only read: a pointer and a size in bytes. Laid out as `struct iovec`.
///
/// Thread safety  distinct: safe; shared: any number of readers
class const_buffer {
 public:
  constexpr const_buffer() = default;
  constexpr const_buffer(void const* data, std::size_t size_bytes) noexcept
      : data_(data), size_(size_bytes) {}
  /// From any contiguous range of trivially copyable elements: an array, a std::string_view.
  ///
  /// A string literal is its characters: of an array of `char const` (or `char8_t const`) that ends in NUL,
  /// that NUL is left out, and no other: "a\0b" has three bytes, "" none. C++ cannot tell a literal from an
  /// array of const char that was filled in another way and ends in NUL, so that one loses it too; for all of
  /// its bytes write `{array, sizeof array}`, or make it a std::array. Arrays that are not const stay whole,
  /// whatever is in them, as do arrays of other elements.
  template <class Range>
    requires(!std::derived_from<std::remove_cvref_t<Range>, const_buffer> &&
             requires(std::remove_reference_t<Range> const& r) {
               { std::data(r) } -> std::convertible_to<void const*>;
               { std::size(r) } -> std::convertible_to<std::size_t>;
               requires detail::plain_content<std::remove_pointer_t<decltype(std::data(r))>>;
             })
  constexpr const_buffer(Range&& r) noexcept // NOLINT: implicit, as std::span
      : data_(std::data(std::as_const(r))),
        size_(std::size(std::as_const(r)) * sizeof(*std::data(std::as_const(r)))) {
    if constexpr (detail::literal_array<std::remove_reference_t<Range>>)
      if (r[size_ - 1] == 0) --size_;
  }

  [[nodiscard]] constexpr std::byte const* data() const noexcept {
    return static_cast<std::byte const*>(data_);
  }
  [[nodiscard]] constexpr std::size_t size() const noexcept { return size_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] constexpr std::byte const* begin() const noexcept { return data(); }
  [[nodiscard]] constexpr std::byte const* end() const noexcept { return data() + size_; }

 protected:
  void const* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Memory that may be written to, laid out likewise. It can be read as well: a const_buffer.
///
/// Thread safety  as const_buffer
class mutable_buffer : public const_buffer {
 public:
  constexpr mutable_buffer() = default;
  constexpr mutable_buffer(void* data, std::size_t size_bytes) noexcept : const_buffer(data, size_bytes) {}
  /// From any contiguous range of trivially copyable elements: an array, a std::vector<char>.
  template <class Range>
    requires(!std::derived_from<std::remove_cvref_t<Range>, const_buffer> &&
             requires(Range& r) {
               { std::data(r) } -> std::convertible_to<void*>;
               { std::size(r) } -> std::convertible_to<std::size_t>;
               requires detail::plain_content<std::remove_pointer_t<decltype(std::data(r))>>;
             })
  constexpr mutable_buffer(Range&& r) noexcept // NOLINT: implicit, as std::span
      : const_buffer(static_cast<void*>(std::data(r)), std::size(r) * sizeof(*std::data(r))) {}

  [[nodiscard]] constexpr std::byte* data() const noexcept {
    return static_cast<std::byte*>(const_cast<void*>(data_)); // it was made from memory that is not const
  }
  [[nodiscard]] constexpr std::byte* begin() const noexcept { return data(); }
  [[nodiscard]] constexpr std::byte* end() const noexcept { return data() + size_; }
};

/// A scatter or gather list: one buffer held by value, or a view of the caller's array of buffers, which goes
/// to the kernel as it is. A result is the same list cut to the bytes that moved; the array is never changed.
/// What was read can be written: mutable_buffers convert to const_buffers of the same memory and array.
///
/// Buffers        the array that a view refers to must live until the operation has finished
/// Thread safety  distinct objects: safe; shared: reading is safe
/// Cost           nothing is allocated or copied; bytes() and first() look at each buffer
/// Size           24 bytes
template <class Buffer> class buffer_list {
 public:
  using value_type = Buffer;

  constexpr buffer_list() noexcept : one_() {}
  /// One buffer, or anything that converts to one.
  template <class T>
    requires(std::convertible_to<T, Buffer> && !std::derived_from<std::remove_cvref_t<T>, buffer_list>)
  constexpr buffer_list(T&& one) noexcept : one_(static_cast<T&&>(one)), count_(1) {} // NOLINT: implicit
  constexpr buffer_list(std::span<Buffer const> many) noexcept;                       // NOLINT: implicit
  template <std::size_t N>
  constexpr buffer_list(Buffer const (&many)[N]) noexcept // NOLINT: implicit
      : buffer_list(std::span<Buffer const>(many, N)) {}
  template <class Range>
    requires(std::convertible_to<Range const&, std::span<Buffer const>> &&
             !std::convertible_to<Range, Buffer> &&
             !std::derived_from<std::remove_cvref_t<Range>, buffer_list>)
  constexpr buffer_list(Range const& many) noexcept // NOLINT: implicit
      : buffer_list(std::span<Buffer const>(many)) {}
  /// A list to read from, of one to write to. Refers to the same array, if there is one.
  template <class Other>
    requires(std::derived_from<Other, Buffer> && !std::same_as<Other, Buffer>)
  constexpr buffer_list(buffer_list<Other> const& other) noexcept; // NOLINT: implicit
  /// The number of buffers.
  [[nodiscard]] constexpr std::size_t size() const noexcept { return count_; }
  [[nodiscard]] constexpr bool empty() const noexcept { return count_ == 0; }
  [[nodiscard]] constexpr Buffer operator[](std::size_t i) const noexcept;
  [[nodiscard]] constexpr Buffer front() const noexcept { return (*this)[0]; }
  /// The number of bytes in all buffers together.
  [[nodiscard]] constexpr std::size_t bytes() const noexcept;
  /// The same list, cut to its first `n` bytes.
  [[nodiscard]] constexpr buffer_list first(std::size_t n) const noexcept;
  /// The buffers as one array, for the kernel. Valid as long as this object and the caller's array are.
  [[nodiscard]] constexpr Buffer const* array() const noexcept { return count_ <= 1 ? &one_ : many_.first; }
  class iterator;
  /// The first buffer.
  [[nodiscard]] constexpr iterator begin() const noexcept;
  /// Behind the last buffer.
  [[nodiscard]] constexpr iterator end() const noexcept;

 private:
  template <class> friend class buffer_list;
  struct view {
    Buffer const* first;
    std::size_t last_size; // the last buffer may be cut short
  };
  union {
    Buffer one_;
    view many_;
  };
  std::size_t count_ = 0;
};

using mutable_buffers = buffer_list<mutable_buffer>;
using const_buffers = buffer_list<const_buffer>;

} // namespace unio

#include <unio/detail/buffer.hpp>
