// Failures: which operation met an error, and on what.
//
// Names of operations are numbered when they first fail. Objects that have a text are kept in a table of the
// last 256, which is written and read without a lock: an object is in the slot `number % 256` until a later
// one overwrites it. A reader compares the number before and after.

#include "core/escaped.hpp"
#include "core/failed_with.hpp"

#include <unio/error.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace unio::inline v0_1 {
namespace detail {
namespace {

// ── names of operations ──────────────────────────────────────────────────────────────────────────

// All zero, so that no program carries it: the first stands for none, the second for "read".
constexpr std::uint32_t max_names = 256;
static_assert(read_number == 1);
constinit std::array<std::atomic<char const*>, max_names> names{};

// A table with open addressing, of the names' addresses. Relaxed: what they lead to is constant.
std::uint32_t number_of(char const* name) noexcept {
  auto const address = reinterpret_cast<std::uintptr_t>(name);
  auto at = static_cast<std::uint32_t>((address >> 3) ^ (address >> 11)) % max_names;
  for (std::uint32_t tried = 0; tried != max_names; ++tried, at = (at + 1) % max_names) {
    if (at <= read_number) continue;
    char const* there = names[at].load(std::memory_order_relaxed);
    if (there == name) return at;
    if (there != nullptr) continue;
    if (names[at].compare_exchange_strong(there, name, std::memory_order_relaxed) || there == name) return at;
  }
  return 0;
}

// ── objects ──────────────────────────────────────────────────────────────────────────────────────

constexpr std::uint32_t slot_count = 256;
constexpr std::size_t word_count = failed_object::capacity / sizeof(std::uint64_t);

// `state` is twice the number of the object that is in it, and one more while it is being written.
struct slot {
  std::atomic<std::uint32_t> state;
  std::atomic<std::uint32_t> size;
  std::atomic<failed_object::to_text*> text;
  std::array<std::atomic<std::uint64_t>, word_count> words;
};
constinit std::array<slot, slot_count> slots{};
constinit std::atomic<std::uint32_t> last_number{0};

// The number of its slot, or 0 if another thread is writing that.
std::uint32_t keep(failed_object const& o) noexcept {
  std::uint32_t number = (last_number.fetch_add(1, std::memory_order_relaxed) + 1) & number_mask;
  if (number == 0) number = slot_count; // as any: 0 stands for none
  slot& s = slots[number % slot_count];
  std::uint32_t before = s.state.load(std::memory_order_relaxed);
  if ((before & 1) != 0 || !s.state.compare_exchange_strong(before, number * 2 + 1, std::memory_order_acquire,
                                                            std::memory_order_relaxed))
    return 0;
  // Each release pairs with the acquire of the same word in look_up(): who sees one of these sees that the
  // slot has changed hands.
  s.size.store(o.size, std::memory_order_release);
  s.text.store(o.text, std::memory_order_release);
  for (std::size_t i = 0; i * sizeof(std::uint64_t) < o.size; ++i) {
    std::uint64_t word;
    std::memcpy(&word, o.bytes + i * sizeof(word), sizeof(word));
    s.words[i].store(word, std::memory_order_release);
  }
  s.state.store(number * 2, std::memory_order_release); // pairs with the first load of look_up()
  return number;
}

// False: it was overwritten.
bool look_up(std::uint32_t number, failed_object& o) noexcept {
  slot& s = slots[number % slot_count];
  if (s.state.load(std::memory_order_acquire) != number * 2) return false;
  o.size = s.size.load(std::memory_order_acquire);
  o.text = s.text.load(std::memory_order_acquire);
  for (std::size_t i = 0; i != word_count; ++i) {
    std::uint64_t const word = s.words[i].load(std::memory_order_acquire);
    std::memcpy(o.bytes + i * sizeof(word), &word, sizeof(word));
  }
  return s.state.load(std::memory_order_relaxed) == number * 2;
}

failure make(std::int64_t native_code, char const* operation, std::uint32_t object) noexcept {
  return {to_error_code(static_cast<int>(native_code)),
          static_cast<origin>(number_of(operation) << name_shift | object)};
}

[[gnu::cold]] std::string where(failure const& f) {
  std::string text = f.operation();
  std::string const object = f.object();
  if (!text.empty() && !object.empty()) text += ' ';
  return text += object;
}

} // namespace

void failed_object::append(char const* t, std::size_t n, std::size_t most) noexcept {
  if (n == 0) return; // perhaps without an address
  static constexpr char dots[] = {'.', '.', '.'};
  most = std::min<std::size_t>(most, capacity - size);
  auto const put = [this](char const* from, std::size_t bytes_count) noexcept {
    std::memcpy(bytes + size, from, bytes_count);
    size += static_cast<std::uint32_t>(bytes_count);
  };
  if (n <= most) return put(t, n);
  if (most < sizeof(dots)) return;
  put(dots, sizeof(dots));
  std::size_t const rest = most - sizeof(dots);
  put(t + (n - rest), rest);
}

void failed_object::append(char const* t) noexcept { append(t, std::strlen(t)); }

failure failed(std::int64_t native_code, char const* operation, int fd) noexcept {
  return make(native_code, operation, of_descriptor(fd));
}

failure failed(std::int64_t native_code, char const* operation, failed_object const& object) noexcept {
  std::uint32_t const number = keep(object);
  return make(native_code, operation, number != 0 ? is_object | number : 0);
}

failure failed_on(std::int64_t native_code, char const* operation, char const* text,
                  std::size_t size) noexcept {
  failed_object o;
  append_name(o, {text, size});
  return failed(native_code, operation, o);
}

[[gnu::cold]] void no_value(failure const& why) {
#if UNIO_HAS_EXCEPTIONS
  std::string const at = where(why);
  if (at.empty()) throw std::system_error(why.code());
  throw std::system_error(why.code(), at);
#else
  std::fprintf(stderr, "unio: value() of a result that has none: %s (%s %d)\n", why.message().c_str(),
               why.category().name(), why.value());
  std::abort();
#endif
}

} // namespace detail

char const* failure::operation() const noexcept {
  auto const number = static_cast<std::uint32_t>(origin_) >> detail::name_shift;
  if (number == detail::read_number) return "read";
  char const* const name = detail::names[number].load(std::memory_order_relaxed);
  return name != nullptr ? name : "";
}

[[gnu::cold]] std::string failure::object() const {
  std::uint32_t const number = static_cast<std::uint32_t>(origin_) & detail::number_mask;
  if (number == 0) return {};
  if ((static_cast<std::uint32_t>(origin_) & detail::is_object) == 0) {
    std::string text("descriptor ");
    detail::append_number(text, number - 1);
    return text;
  }
  detail::failed_object o;
  if (!detail::look_up(number, o)) return {};
  if (o.text != nullptr) return o.text(o.bytes);
  return detail::escaped({reinterpret_cast<char const*>(o.bytes), o.size});
}

[[gnu::cold]] std::string failure::message() const {
  std::string text = detail::where(*this);
  if (!text.empty()) text += ": ";
  return text += code().message();
}

} // namespace unio
