// LISTEN_FDS, LISTEN_FDNAMES and LISTEN_PID under libFuzzer: what they name is taken over, or refused with a
// reason. With CANARY there is room for four names, which must be found.

#include "sys/calls.hpp"

#include <unio/inherited_handles.hpp>

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

namespace {

void expect(bool holds) {
  if (!holds) std::abort();
}

constexpr int open_ones = 40;

// The descriptors below that are open, and closing one does nothing: this process's own stay as they are.
unio::sys::table of_none() {
  unio::sys::table t = unio::sys::kernel;
  t.fcntl = [](int fd, int, long) noexcept -> std::int64_t { return fd < open_ones ? 0 : -EBADF; };
  t.close = [](int) noexcept -> std::int64_t { return 0; };
  return t;
}

// The next line, without what no variable can hold.
std::string line(std::string_view& rest) {
  std::string text(rest.substr(0, rest.find('\n')));
  rest.remove_prefix(std::min(rest.size(), text.size() + 1));
  std::erase(text, '\0');
  return text;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size);
extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  static unio::sys::table const calls = of_none();
  unio::sys::answer_with(&calls);
  std::string_view rest(reinterpret_cast<char const*>(data), size);
  std::string const count = line(rest), names = line(rest), pid = line(rest);
  ::setenv("LISTEN_FDS", count.c_str(), 1);
  ::setenv("LISTEN_PID", pid.empty() ? std::to_string(::getpid()).c_str() : pid.c_str(), 1);
  if (names == "-")
    ::unsetenv("LISTEN_FDNAMES");
  else
    ::setenv("LISTEN_FDNAMES", names.c_str(), 1);
#ifdef CANARY
  unsigned volatile starts[4] = {};
  unsigned n = 0;
  for (std::size_t i = 0; i != names.size(); ++i)
    if (names[i] == ':') starts[n++] = static_cast<unsigned>(i);
#endif
  std::string why;
  {
    auto all = unio::inherited_handles::take_over(unio::inherited_handles::environment::keep, &why);
    expect(all.has_value() == why.empty());
    if (all) {
      expect(all->size() <= open_ones - 3);
      for (std::size_t i = 0; i != all->size(); ++i) {
        expect(all->find(all->name(i)) <= i);
        expect(all->name(i).find(':') == std::string_view::npos);
      }
    }
  }
  unio::sys::answer_with(&unio::sys::kernel);
  return 0;
}
