// Errors: the two categories, and how a program ends when nothing can be returned.

#include "core/escaped.hpp"
#include "core/immortal.hpp"

#include <unio/error.hpp>
#include <unio/result.hpp>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

namespace unio::inline v0_1 {
namespace {

bool is_errno(std::error_code const& code, int value) noexcept {
  return code.value() == value &&
         (code.category() == std::system_category() || code.category() == std::generic_category());
}

// In the order of the enumerations, which begin at 1. Not tables of pointers: each would be relocated.
constexpr char condition_texts[] = "end of stream\0canceled\0timed out\0would block\0truncated\0owner died";
constexpr char error_texts[] =
    "the stream has ended\0"
    "the data ended in the middle of what was asked for\0"
    "the last owner of the lock died while holding it\0"
    "it belongs to the parent process; a child makes its own\0"
    "the multiplexer ended before the operation did\0"
    "a path or an address contains a NUL byte\0"
    "the text is not an address\0"
    "UNIO_DRIVER names no driver; the choices are uring and epoll\0"
    "the file is no lock file\0"
    "the lock file is of a newer version of unio\0"
    "the lock file is damaged\0"
    "the lock file was made for another algorithm or with other parameters\0"
    "more entities than the algorithm can lock at once\0"
    "more users than the lock file has room for\0"
    "the lock file has more than one name (hard link)\0"
    "the lock file or its directory may be written by others (as with mode 0666 or 0777)\0"
    "there is no handle to wait for\0"
    "more handles than one call can wait for\0"
    "UNIO_RING_ENTRIES is no number from 1 to 32768";
static_assert(std::ranges::count(condition_texts, '\0') == static_cast<int>(condition::owner_died));
static_assert(std::ranges::count(error_texts, '\0') == static_cast<int>(error::bad_ring_entries));

std::string text_of(std::string_view texts, int value, char const* what) {
  for (int i = 1; !texts.empty(); ++i) {
    std::string_view const text = texts.substr(0, texts.find('\0'));
    if (i == value) return std::string(text);
    texts.remove_prefix(std::min(text.size() + 1, texts.size()));
  }
  std::string text("unknown unio ");
  text += what;
  text += value < 0 ? " -" : " ";
  detail::append_number(text, static_cast<std::uint64_t>(std::abs(std::int64_t{value})));
  return text;
}

class condition_category_type final : public std::error_category {
 public:
  char const* name() const noexcept override { return "unio.condition"; }

  std::string message(int value) const override {
    return text_of({condition_texts, sizeof(condition_texts)}, value, "condition");
  }

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

  std::string message(int value) const override {
    return text_of({error_texts, sizeof(error_texts)}, value, "error");
  }

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
      case error::bad_ring_entries:
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
