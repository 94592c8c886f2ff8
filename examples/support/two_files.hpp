// The files that an example copies from and to: those of its arguments, or temporary ones.

#pragma once

#include <unio/unio.hpp>

#include <cstdio>
#include <string_view>
#include <utility>

namespace example {

struct two_files {
  unio::file_handle from;
  unio::file_handle to;
};

/// Opens what the arguments [FROM TO] name; without arguments `from` is something(), so that the example can
/// be run anywhere. TO must not be there yet: it could be a device, or what somebody needs. Returns 0, or the
/// process's exit code after an error, which was printed.
template <class Something>
int open_two_files(int argc, char** argv, std::string_view name, two_files& files, Something something) {
  using enum unio::handle::mode;
  using enum unio::handle::creation;
  if (argc != 1 && argc != 3) {
    std::fprintf(stderr, "usage: example_%s [FROM TO]\n", name.data());
    return 2;
  }
  auto const opened = [&](char const* path, unio::file_handle& file, auto... how) {
    auto r = unio::file_handle::file({}, path, how...);
    if (!r) std::fprintf(stderr, "%s: %s\n", name.data(), r.error().message().c_str());
    if (r) file = std::move(*r);
    return r.has_value();
  };
  if (argc == 3)
    return opened(argv[1], files.from) && opened(argv[2], files.to, write, only_if_not_exist) ? 0 : 1;
  files = {something(), unio::file_handle::temp_inode().value()};
  return 0;
}

} // namespace example
