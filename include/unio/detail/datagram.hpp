// unio/detail/datagram.hpp: the range of joined datagrams.

#pragma once

#include <unio/datagram.hpp>

#include <iterator>

namespace unio::inline v0_1 {

class datagram_segments::iterator {
 public:
  using value_type = const_buffer;
  using difference_type = std::ptrdiff_t;
  using iterator_category = std::input_iterator_tag;
  using reference = const_buffer;
  using pointer = void;

  constexpr iterator() = default;
  constexpr iterator(const_buffer joined, std::uint32_t segment, std::size_t i) noexcept
      : joined_(joined), segment_(segment), i_(i) {}
  constexpr const_buffer operator*() const noexcept { return datagram_segments(joined_, segment_)[i_]; }
  constexpr iterator& operator++() noexcept { return ++i_, *this; }
  constexpr iterator operator++(int) noexcept { return {joined_, segment_, i_++}; }
  constexpr bool operator==(iterator const& other) const noexcept { return i_ == other.i_; }

 private:
  const_buffer joined_;
  std::uint32_t segment_ = 0;
  std::size_t i_ = 0;
};

constexpr std::size_t datagram_segments::size() const noexcept {
  if (segment_ == 0 || joined_.size() <= segment_) return 1;
  return (joined_.size() - 1) / segment_ + 1;
}
constexpr const_buffer datagram_segments::operator[](std::size_t i) const noexcept {
  if (segment_ == 0) return joined_;
  std::size_t const at = i * segment_;
  std::size_t const left = joined_.size() - at;
  return {static_cast<void const*>(joined_.data() + at), left < segment_ ? left : segment_};
}
constexpr datagram_segments::iterator datagram_segments::begin() const noexcept {
  return {joined_, segment_, 0};
}
constexpr datagram_segments::iterator datagram_segments::end() const noexcept {
  return {joined_, segment_, size()};
}
constexpr datagram_segments segments(const_buffer got, datagram_info const& info) noexcept {
  return {got, info.segment};
}

} // namespace unio
