// append_unio: a pipe, and a tail_handle.

#include "append/source.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

#include <system_error>

namespace append_bench {
namespace {

template <class Result> auto value_or_throw(Result&& r, char const* what) {
  if (!r) throw std::system_error(r.error(), what);
  return std::move(*r);
}

unio::io_handle open_pipe(source& from) {
  auto h = value_or_throw(unio::io_handle::adopt(from.pipe()), "adopt");
  from.release_pipe();
  return h;
}
unio::tail_handle open_file(source& from) {
  return value_or_throw(unio::tail_handle::follow({}, from.file(), unio::tail_from::beginning), "follow");
}

template <auto open> benchmarks::sample blocking(std::uint64_t records, source& from) {
  auto h = open(from);
  std::vector<unsigned char> room(room_bytes);
  return benchmarks::measure(records, [&] {
    from.ask();
    for (bool more = true; more;) {
      auto const got = h.read(unio::mutable_buffer(room.data(), room.size()));
      if (!got) throw std::system_error(got.error(), "read");
      more = from.took(room.data(), got.bytes_transferred());
    }
  });
}

template <class Handle> unio::task<> take_all(Handle& h, source& from, std::vector<unsigned char>& room) {
  from.ask();
  for (bool more = true; more;) {
    auto const got = co_await h.co_read(unio::mutable_buffer(room.data(), room.size()));
    if (!got) throw std::system_error(got.error(), "read");
    more = from.took(room.data(), got.bytes_transferred());
  }
}

template <auto open>
benchmarks::sample awaited(std::string const& driver, std::uint64_t records, source& from) {
  auto const m = benchmarks::multiplexer_on(driver);
  auto h = open(from);
  h.set_multiplexer(m.get());
  std::vector<unsigned char> room(room_bytes);
  return benchmarks::measure(records, [&] { unio::run(*m, take_all(h, from, room)); });
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> all;
  auto const add = [&](std::vector<benchmarks::benchmark_case> const& some) {
    all.insert(all.end(), some.begin(), some.end());
  };
  add(cases_of("unio pipe, blocking", way::pipe, blocking<open_pipe>));
  add(cases_of("unio file, blocking", way::file, blocking<open_file>));
  for (std::string const driver : benchmarks::both_drivers) {
    add(cases_of("unio pipe, awaited, " + driver, way::pipe, [=](std::uint64_t records, source& from) {
      return awaited<open_pipe>(driver, records, from);
    }));
    add(cases_of("unio file, awaited, " + driver, way::file, [=](std::uint64_t records, source& from) {
      return awaited<open_file>(driver, records, from);
    }));
  }
  return all;
}

} // namespace
} // namespace append_bench

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, append_bench::cases()); }
