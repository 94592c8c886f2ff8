// Errors: the two categories, and how a program ends when nothing can be returned.

#include "core/immortal.hpp"

#include <unio/error.hpp>
#include <unio/result.hpp>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <span>
#include <string>

namespace unio::inline v0_1 {
namespace {

bool is_errno(std::error_code const& code, int value) noexcept {
  return code.value() == value &&
         (code.category() == std::system_category() || code.category() == std::generic_category());
}

// In the order of the enumerations, which begin at 1.
constexpr char const* condition_texts[] = {
    "end of stream", "canceled", "timed out", "would block", "truncated", "owner died",
};
constexpr char const* error_texts[] = {
    "the stream has ended",
    "the data ended in the middle of what was asked for",
    "the last owner of the lock died while holding it",
    "it belongs to the parent process; a child makes its own",
    "the multiplexer ended before the operation did",
    "a path or an address contains a NUL byte",
    "the text is not an address",
    "UNIO_DRIVER names no driver; the choices are uring and epoll",
    "the file is no lock file",
    "the lock file is of a newer version of unio",
    "the lock file is damaged",
    "the lock file was made for another algorithm or with other parameters",
    "more entities than the algorithm can lock at once",
    "more users than the lock file has room for",
    "the lock file has more than one name (hard link)",
    "the lock file or its directory may be written by others (as with mode 0666 or 0777)",
    "there is no handle to wait for",
    "more handles than one call can wait for",
};
static_assert(std::size(condition_texts) == static_cast<std::size_t>(condition::owner_died));
static_assert(std::size(error_texts) == static_cast<std::size_t>(error::too_many_handles));

[[gnu::cold]] std::string text_of(std::span<char const* const> texts, int value, char const* what) {
  auto const i = static_cast<std::size_t>(value) - 1;
  if (i < texts.size()) return texts[i];
  return std::string("unknown unio ") + what + " " + std::to_string(value);
}

class condition_category_type final : public std::error_category {
 public:
  char const* name() const noexcept override { return "unio.condition"; }

  std::string message(int value) const override { return text_of(condition_texts, value, "condition"); }

  bool equivalent(std::error_code const& code, int value) const noexcept override {
    switch (static_cast<condition>(value)) {
      case condition::end_of_stream:
        return code == error::end_of_stream;
      case condition::canceled:
        return is_errno(code, ECANCELED);
      case condition::timed_out:
        return is_errno(code, ETIMEDOUT);
      case condition::would_block:
        return is_errno(code, EAGAIN) || is_errno(code, EWOULDBLOCK);
      case condition::truncated:
        return code == error::truncated;
      case condition::owner_died:
        return code == error::owner_died || is_errno(code, EOWNERDEAD);
    }
    return false;
  }
};

class error_category_type final : public std::error_category {
 public:
  char const* name() const noexcept override { return "unio"; }

  std::string message(int value) const override { return text_of(error_texts, value, "error"); }

  std::error_condition default_error_condition(int value) const noexcept override {
    switch (static_cast<error>(value)) {
      case error::end_of_stream:
        return condition::end_of_stream;
      case error::truncated:
        return condition::truncated;
      case error::owner_died:
        return condition::owner_died;
      case error::embedded_nul:
      case error::invalid_address:
      case error::unknown_driver:
      case error::different_lock_file:
      case error::too_many_entities:
      case error::no_handles:
      case error::too_many_handles:
        return std::errc::invalid_argument;
      default:
        return {value, *this};
    }
  }
};

constinit detail::immortal<condition_category_type> the_condition_category;
constinit detail::immortal<error_category_type> the_error_category;

} // namespace

std::error_category const& condition_category() noexcept { return the_condition_category.object; }
std::error_category const& error_category() noexcept { return the_error_category.object; }

#define UNIO_TEXT_OF(x) #x
#define UNIO_TEXT(x) UNIO_TEXT_OF(x)
std::string_view version_string() noexcept {
  return UNIO_TEXT(UNIO_VERSION_MAJOR) "." UNIO_TEXT(UNIO_VERSION_MINOR) "." UNIO_TEXT(UNIO_VERSION_PATCH);
}
#undef UNIO_TEXT
#undef UNIO_TEXT_OF

namespace detail {

void broken_precondition(char const* expression, char const* message, char const* file, int line) noexcept {
  std::fprintf(stderr, "%s:%d: unio: %s (expected: %s)\n", file, line, message, expression);
  std::abort();
}

} // namespace detail
} // namespace unio
