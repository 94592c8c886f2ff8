// unio/io_request.hpp: the request and the result of an operation that moves bytes.
//
//   io_request<Buffers>   buffers and an offset, the same for every kind of handle
//   io_result<T>          result<T> that also says how many bytes moved

#pragma once

#include <unio/buffer.hpp>
#include <unio/result.hpp>

namespace unio::inline v0_1 {

/// A position in, or a length of, something that can seek, in bytes.
using extent_type = std::uint64_t;

/// The offset that means "where the handle is": the current position of a file; a pipe ignores it.
inline constexpr extent_type no_offset = static_cast<extent_type>(-1);

/// Buffers, and the offset to move them at. A handle that cannot seek ignores the offset.
///
/// Source  D2052R0 §4.1
template <class Buffers> struct io_request {
  Buffers buffers{};
  extent_type offset = no_offset;

  constexpr io_request() = default;
  constexpr io_request(Buffers b, extent_type at = no_offset) noexcept : buffers(b), offset(at) {} // NOLINT
  template <class T>
    requires(std::convertible_to<T, Buffers> && !std::same_as<std::remove_cvref_t<T>, Buffers> &&
             !std::derived_from<std::remove_cvref_t<T>, io_request>)
  constexpr io_request(T&& b, extent_type at = no_offset) noexcept // NOLINT: implicit
      : buffers(static_cast<T&&>(b)), offset(at) {}
};

/// The outcome of an operation: a value (for a transfer the buffers filled or drained, which may lie
/// elsewhere than those passed in) or an error; and the number of bytes that moved, which has a meaning
/// with an error too. A single operation that moved bytes is a success, whatever stop or deadline raced it.
///
/// Source  D2052R0 §4.1
template <class T> class [[nodiscard]] io_result : public result<T> {
 public:
  using result<T>::result;
  io_result() = default; // GCC 12 finds those of the bases ambiguous

  io_result(result<T> r, std::size_t bytes = 0) noexcept // NOLINT: implicit
      : result<T>(static_cast<result<T>&&>(r)), bytes_transferred_(bytes) {}
  io_result(std::error_code why, std::size_t bytes) noexcept : io_result(failure(why), bytes) {}
  io_result(failure why, std::size_t bytes) noexcept : result<T>(why), bytes_transferred_(bytes) {}

  /// The bytes moved, also when there is an error.
  [[nodiscard]] std::size_t bytes_transferred() const noexcept { return bytes_transferred_; }

 private:
  std::size_t bytes_transferred_ = 0;
};
static_assert(sizeof(io_result<void>) == sizeof(std::expected<void, std::error_code>) + sizeof(std::size_t));

} // namespace unio
