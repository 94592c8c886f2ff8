// Descriptors that were passed when this process was executed: what the environment says of them, strictly.

#include "sys/descriptors.hpp"

#include <unio/inherited_handles.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>
#include <utility>
#include <vector>

namespace unio::inline v0_1 {
namespace {

constexpr int first_passed = 3; // SD_LISTEN_FDS_START
constexpr char const* count_variable = "LISTEN_FDS";
constexpr char const* process_variable = "LISTEN_PID";
constexpr char const* names_variable = "LISTEN_FDNAMES";
// More than a process may have by default; a number that is larger was not written by a service manager.
constexpr long most_passed = 1 << 20;

// A decimal number without sign, space or leading zeros.
bool parse_number(std::string_view text, long most, long& out) noexcept {
  if (text.empty() || text[0] == '-' || (text.size() > 1 && text[0] == '0')) return false;
  auto const [end, failed] = std::from_chars(text.data(), text.data() + text.size(), out);
  return failed == std::errc() && end == text.data() + text.size() && out <= most;
}

struct trouble {
  int code; // of errno; 0: there is none
  std::string what;
};

// What the environment says: how many descriptors this process was passed, and their names.
trouble read_environment(long& count, std::vector<std::string>& names) {
  count = 0;
  char const* const pid_text = std::getenv(process_variable);
  char const* const count_text = std::getenv(count_variable);
  if (pid_text == nullptr || count_text == nullptr) return {0, {}};
  long pid = 0;
  if (!parse_number(pid_text, 0x7fffffff, pid) || pid == 0)
    return {EINVAL, std::string(process_variable) + " is not the number of a process"};
  if (pid != ::getpid()) return {0, {}}; // inherited by a child that it was not meant for
  if (!parse_number(count_text, most_passed, count))
    return {EINVAL, std::string(count_variable) + " is not a number of descriptors"};

  char const* const names_text = std::getenv(names_variable);
  if (names_text == nullptr) {
    names.assign(static_cast<std::size_t>(count), "unknown");
    return {0, {}};
  }
  std::string_view rest = names_text;
  for (std::size_t colon = 0; colon != rest.npos && !(count == 0 && rest.empty());) {
    colon = rest.find(':');
    names.emplace_back(rest.substr(0, colon));
    rest.remove_prefix(colon == rest.npos ? rest.size() : colon + 1);
  }
  if (names.size() != static_cast<std::size_t>(count))
    return {EINVAL, std::string(names_variable) + " has " + std::to_string(names.size()) + " names, but " +
                        count_variable + " says " + std::to_string(count)};
  return {0, {}};
}

trouble check_open(long count) {
  for (int fd = first_passed; fd < first_passed + count; ++fd)
    if (std::int64_t const r = sys::fcntl(fd, F_GETFD, 0); r < 0)
      return {static_cast<int>(-r), std::string(count_variable) + " says " + std::to_string(count) +
                                        ", but descriptor " + std::to_string(fd) + " is not open"};
  return {0, {}};
}

} // namespace

result<inherited_handles> inherited_handles::take_over(environment after, std::string* why) {
  long count = 0;
  std::vector<std::string> names;
  trouble t = read_environment(count, names);
  if (t.code == 0) t = check_open(count);
  if (after == environment::remove)
    for (char const* const variable : {count_variable, process_variable, names_variable})
      ::unsetenv(variable);
  if (t.code != 0) {
    if (why != nullptr) *why = std::move(t.what);
    return detail::to_error_code(-t.code);
  }
  inherited_handles all;
  all.count_ = names.size();
  all.all_ = std::make_unique<one[]>(all.count_);
  for (std::size_t i = 0; i < all.count_; ++i) {
    int const fd = first_passed + static_cast<int>(i);
    all.all_[i] = {std::move(names[i]), fd};
    (void)sys::fcntl(fd, F_SETFD, FD_CLOEXEC); // it is open, so this cannot fail
  }
  return all;
}

inherited_handles& inherited_handles::operator=(inherited_handles&& other) noexcept {
  if (this == &other) return *this;
  close_all();
  all_ = std::move(other.all_);
  count_ = std::exchange(other.count_, 0);
  return *this;
}

void inherited_handles::close_all() noexcept {
  for (std::size_t i = 0; i < count_; ++i)
    if (all_[i].fd >= 0) sys::close(all_[i].fd);
  count_ = 0;
}

std::size_t inherited_handles::find(std::string_view name) const noexcept {
  for (std::size_t i = 0; i < size(); ++i)
    if (all_[i].fd >= 0 && all_[i].name == name) return i;
  return none;
}

template <class Handle> result<Handle> inherited_handles::take_as(std::size_t i) noexcept {
  if (i >= size() || all_[i].fd < 0) return detail::to_error_code(-EBADF);
  result<Handle> taken = Handle::adopt(all_[i].fd);
  if (taken) all_[i].fd = -1;
  return taken;
}

result<listening_socket_handle> inherited_handles::take_listener(std::size_t i) noexcept {
  return take_as<listening_socket_handle>(i);
}
result<socket_handle> inherited_handles::take_stream(std::size_t i) noexcept {
  return take_as<socket_handle>(i);
}
result<datagram_handle> inherited_handles::take_datagrams(std::size_t i) noexcept {
  return take_as<datagram_handle>(i);
}
result<io_handle> inherited_handles::take(std::size_t i) noexcept { return take_as<io_handle>(i); }

int inherited_handles::release(std::size_t i) noexcept {
  return i < size() ? std::exchange(all_[i].fd, -1) : -1;
}

} // namespace unio
