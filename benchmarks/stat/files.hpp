// The files that are asked for: 64 empty ones in a directory of their own, which goes with the object.
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <string>
#include <system_error>
#include <vector>

namespace benchmarks {

struct files {
  files() {
    if (::mkdtemp(path.data()) == nullptr) throw std::system_error(errno, std::generic_category(), "mkdtemp");
    directory = ::open(path.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
    for (int i = 0; i < 64; ++i) {
      names.push_back("name-" + std::to_string(i));
      const int fd = ::openat(directory, names.back().c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
      if (fd < 0) throw std::system_error(errno, std::generic_category(), path);
      ::close(fd);
    }
  }
  files(files const&) = delete;
  files& operator=(files const&) = delete;
  ~files() {
    for (std::string const& name : names) ::unlinkat(directory, name.c_str(), 0);
    ::close(directory);
    ::rmdir(path.c_str());
  }

  std::string path = "/tmp/unio-bench-XXXXXX";
  int directory = -1;
  std::vector<std::string> names;
};

} // namespace benchmarks
