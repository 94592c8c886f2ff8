// unio/detail/buffer.hpp: walking through a list of buffers, and cutting it.

#pragma once

#include <unio/buffer.hpp>

namespace unio::inline v0_1 {

template <class Buffer>
constexpr buffer_list<Buffer>::buffer_list(std::span<Buffer const> many) noexcept
    : one_(many.size() == 1 ? many.front() : Buffer()), count_(many.size()) {
  if (count_ > 1) many_ = {many.data(), many.back().size()};
}

// The array is walked as one of the base class, which has the same size.
template <class Buffer>
template <class Other>
  requires(std::derived_from<Other, Buffer> && !std::same_as<Other, Buffer>)
constexpr buffer_list<Buffer>::buffer_list(buffer_list<Other> const& other) noexcept
    : one_(), count_(other.count_) {
  static_assert(sizeof(Other) == sizeof(Buffer));
  if (count_ > 1) {
    many_ = {other.many_.first, other.many_.last_size};
  } else {
    one_ = other.one_;
  }
}

template <class Buffer> constexpr Buffer buffer_list<Buffer>::operator[](std::size_t i) const noexcept {
  if (count_ <= 1) return one_;
  return i + 1 == count_ ? Buffer(many_.first[i].data(), many_.last_size) : many_.first[i];
}

template <class Buffer> constexpr std::size_t buffer_list<Buffer>::bytes() const noexcept {
  if (count_ <= 1) return one_.size();
  std::size_t n = many_.last_size;
  for (std::size_t i = 0; i + 1 < count_; ++i) n += many_.first[i].size();
  return n;
}

template <class Buffer>
constexpr buffer_list<Buffer> buffer_list<Buffer>::first(std::size_t n) const noexcept {
  if (n == 0) return {};
  if (count_ <= 1) return n < one_.size() ? buffer_list(Buffer(one_.data(), n)) : *this;
  std::size_t left = n;
  for (std::size_t i = 0; i < count_; ++i) {
    Buffer const here = (*this)[i];
    if (left <= here.size()) {
      if (i == 0) return buffer_list(Buffer(here.data(), left));
      buffer_list cut = *this;
      cut.count_ = i + 1;
      cut.many_.last_size = left;
      return cut;
    }
    left -= here.size();
  }
  return *this;
}

template <class Buffer> class buffer_list<Buffer>::iterator {
 public:
  using value_type = Buffer;
  using difference_type = std::ptrdiff_t;
  constexpr iterator() = default;
  constexpr iterator(buffer_list const* list, std::size_t i) noexcept : list_(list), i_(i) {}
  constexpr Buffer operator*() const noexcept { return (*list_)[i_]; }
  constexpr iterator& operator++() noexcept { return ++i_, *this; }
  constexpr iterator operator++(int) noexcept { return {list_, i_++}; }
  constexpr bool operator==(iterator const&) const = default;

 private:
  buffer_list const* list_ = nullptr;
  std::size_t i_ = 0;
};

template <class Buffer>
constexpr typename buffer_list<Buffer>::iterator buffer_list<Buffer>::begin() const noexcept {
  return {this, 0};
}
template <class Buffer>
constexpr typename buffer_list<Buffer>::iterator buffer_list<Buffer>::end() const noexcept {
  return {this, count_};
}

} // namespace unio
