// unio/result.hpp: a value, or why there is none.
//
//   result<T>   std::expected<T, std::error_code> whose value() throws std::system_error, and which knows
//               what failed: "connect 127.0.0.1:80: Connection refused"

#pragma once

#include <unio/error.hpp>

#include <concepts>
#include <expected>
#include <system_error>
#include <utility>

namespace unio::inline v0_1 {

/// A value of type `T` (or nothing, if that is void), or the failure that says why there is none.
///
/// Ignored        compilers warn; g++ 12 to 16 for what a call returns, but not for what co_await yields
/// Thread safety  distinct objects: safe; shared: no
/// Moved-from     holds a moved-from value, or the same error
/// Size           as std::expected<T, std::error_code>: where the error comes from lies in its padding
template <class T = void> class [[nodiscard]] result : public std::expected<T, std::error_code> {
  using base = std::expected<T, std::error_code>;

 public:
  using base::base;
  result() = default;
  result(std::error_code why) noexcept : base(std::unexpect, why) {} // NOLINT: for `return why;`
  result(failure why) noexcept : base(std::unexpect, why.code()), origin_(why.origin()) {} // NOLINT
  result(std::unexpected<failure> why) noexcept : result(why.error()) {}                   // NOLINT
  template <class E>
    requires std::is_error_code_enum<E>::value
  result(E why) noexcept : base(std::unexpect, make_error_code(why)) {} // NOLINT

  /// The value, or nothing. Throws std::system_error if there is none: with error() as its code() and the
  /// text of error().message() as its what(). Without exceptions prints that text and ends the program.
  constexpr decltype(auto) value() & { return check(), *static_cast<base&>(*this); }
  constexpr decltype(auto) value() const& { return check(), *static_cast<base const&>(*this); }
  constexpr decltype(auto) value() && { return check(), *static_cast<base&&>(*this); }

  /// The error and where it comes from, or an empty code when there is a value.
  [[nodiscard]] failure error() const noexcept {
    return this->has_value() ? failure() : failure(base::error(), origin_);
  }

 private:
  constexpr void check() const {
    if (!this->has_value()) [[unlikely]]
      detail::no_value(error());
  }

  detail::origin origin_ = {}; // in the padding of the base
};

static_assert(sizeof(result<void>) == sizeof(std::expected<void, std::error_code>));
static_assert(sizeof(result<int>) == sizeof(std::expected<int, std::error_code>));

namespace detail {
template <class T> void as_result(result<T> const&);
template <class R>
concept derived_from_result = requires(R const& r) { as_result(r); };
} // namespace detail

/// Whether a result has that value, or that error (a std::unexpected), or whether two have equal values or
/// the same error, wherever it comes from and however many bytes moved. A condition compares with error().
template <detail::derived_from_result R, class Other>
constexpr bool operator==(R const& r, Other const& other) {
  using value = typename R::value_type;
  constexpr bool is_value = std::is_same_v<Other, value>;
  constexpr bool is_code =
      !is_value && (std::is_error_condition_enum<Other>::value || std::is_error_code_enum<Other>::value ||
                    std::derived_from<Other, std::error_code>);
  static_assert(!is_code,
                "an error compares with this, not a result: write r.error() == condition::timed_out");
  if constexpr (!is_value && requires { other.has_value(), other.error(); }) {
    if (!r.has_value() || !other.has_value())
      return r.has_value() == other.has_value() && r.error() == other.error();
    if constexpr (std::is_void_v<value>) {
      return true;
    } else {
      return *r == *other;
    }
  } else if constexpr (!is_value && requires { other.error(); }) {
    return !r.has_value() && r.error() == other.error();
  } else if constexpr (is_code) {
    return false;
  } else {
    return r.has_value() && *r == other;
  }
}

} // namespace unio
