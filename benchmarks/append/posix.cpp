// append_posix: bare system calls; of a file that grows with inotify(7).

#include "append/source.hpp"

#include <fcntl.h>
#include <sys/inotify.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace append_bench {
namespace {

[[noreturn]] void fail(char const* what) { throw std::system_error(errno, std::generic_category(), what); }

benchmarks::sample from_pipe(std::uint64_t records, source& from) {
  std::vector<unsigned char> room(room_bytes);
  return benchmarks::measure(records, [&] {
    from.ask();
    for (bool more = true; more;) {
      ssize_t const n = ::read(from.pipe(), room.data(), room.size());
      if (n < 0) fail("read");
      more = from.took(room.data(), static_cast<std::size_t>(n));
    }
  });
}

benchmarks::sample from_file(std::uint64_t records, source& from) {
  int const file = ::open(from.file().c_str(), O_RDONLY | O_CLOEXEC);
  int const watch = ::inotify_init1(IN_CLOEXEC);
  if (file < 0 || watch < 0 || ::inotify_add_watch(watch, from.file().c_str(), IN_MODIFY) < 0)
    fail("inotify");
  std::vector<unsigned char> room(room_bytes);
  alignas(inotify_event) std::array<char, 4096> events;
  benchmarks::sample s = benchmarks::measure(records, [&] {
    from.ask();
    for (bool more = true; more;) {
      ssize_t const n = ::read(file, room.data(), room.size());
      if (n < 0) fail("read");
      if (n != 0)
        more = from.took(room.data(), static_cast<std::size_t>(n));
      else if (::read(watch, events.data(), events.size()) < 0)
        fail("inotify");
    }
  });
  ::close(watch);
  ::close(file);
  return s;
}

} // namespace
} // namespace append_bench

int main(int argc, char** argv) {
  using namespace append_bench;
  auto all = cases_of("pipe, read(2)", way::pipe, from_pipe);
  auto const files = cases_of("file, inotify, C", way::file, from_file);
  all.insert(all.end(), files.begin(), files.end());
  return benchmarks::subject_main(argc, argv, all);
}
