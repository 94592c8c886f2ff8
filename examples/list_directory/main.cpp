// A directory, listed: kinds, permissions, sizes and times, as `ls -l` has them, by one coroutine that
// neither copies a name nor allocates for one.
//
//   example_list_directory [DIRECTORY]
//
// Next: tests/handle/directory_test.cpp says what a listing promises while others change the directory.

#include <unio/directory_handle.hpp>
#include <unio/symlink_handle.hpp>
#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <ctime>
#include <string>

namespace {

using unio::entry_kind;
using unio::stat_fields;

char letter(entry_kind k) {
  switch (k) {
    case entry_kind::directory:
      return 'd';
    case entry_kind::symlink:
      return 'l';
    case entry_kind::pipe:
      return 'p';
    case entry_kind::socket:
      return 's';
    case entry_kind::block_device:
      return 'b';
    case entry_kind::character_device:
      return 'c';
    default:
      return '-';
  }
}

void print(unio::metadata const& m, std::string_view name, std::string_view target) {
  std::string mode(1, letter(m.kind));
  for (unsigned bit = 0400; bit != 0; bit >>= 1)
    mode.push_back((m.permissions & bit) == 0 ? '-'
                                              : "xwr"[(bit & 0444) != 0   ? 2
                                                      : (bit & 0222) != 0 ? 1
                                                                          : 0]);
  auto const seconds = std::chrono::floor<std::chrono::seconds>(m.modified).time_since_epoch().count();
  std::time_t const when = seconds;
  std::tm local{};
  ::localtime_r(&when, &local);
  std::array<char, 32> time{};
  std::strftime(time.data(), time.size(), "%F %R", &local);
  std::printf("%s %3u %5u %5u %10llu %s %.*s", mode.c_str(), m.link_count, m.owner, m.group,
              static_cast<unsigned long long>(m.size), time.data(), static_cast<int>(name.size()),
              name.data());
  if (!target.empty()) std::printf(" -> %.*s", static_cast<int>(target.size()), target.data());
  std::printf("\n");
}

unio::task<std::error_code> list(unio::path_view name) {
  auto opened = co_await unio::co_open_directory({}, name);
  if (!opened) co_return opened.error();
  unio::directory_handle directory = std::move(*opened);
  alignas(8) static std::array<std::byte, 64 * 1024> buffer; // for each read anew
  static std::array<char, 4096> target;
  for (bool at_end = false; !at_end;) {
    auto const listing = co_await directory.co_read(buffer, {});
    if (!listing) co_return listing.error();
    for (unio::directory_entry const entry : *listing) {
      // Relative to the directory: it may be renamed meanwhile. What is gone by now is left out.
      auto const m =
          co_await unio::co_stat(directory, entry.c_str(), stat_fields::basic, unio::last_link::itself);
      if (!m) continue;
      std::string_view leads_to;
      if (m->kind == entry_kind::symlink)
        if (auto const r = co_await unio::co_read_symlink(directory, entry.c_str(), target); r) leads_to = *r;
      print(*m, entry.name(), leads_to);
    }
    at_end = listing->at_end();
  }
  co_return std::error_code();
}

} // namespace

int main(int argc, char** argv) {
  std::string const name = argc > 1 ? argv[1] : ".";
  std::error_code const why = unio::run(list(name));
  if (why) std::fprintf(stderr, "%s: %s\n", name.c_str(), why.message().c_str());
  return why ? 1 : 0;
}
