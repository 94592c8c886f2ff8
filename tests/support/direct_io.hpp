// Direct I/O (O_DIRECT) as the kernel sees it, without unio: where there is any, and whether it was used.

#pragma once

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

namespace test {

/// Why files of a directory cannot be opened for direct I/O; empty if they can.
inline std::string no_direct_io(std::string const& directory) {
  std::string name = directory + "/unio-test-XXXXXX";
  int const fd = ::mkostemp(name.data(), O_DIRECT | O_CLOEXEC);
  int const error = fd < 0 ? errno : 0; // it may exist all the same
  ::unlink(name.c_str());
  if (fd < 0) return std::string("no direct I/O on this filesystem: ") + std::strerror(error);
  struct statx s{};
  bool const is_told =
      ::statx(fd, "", AT_EMPTY_PATH, STATX_DIOALIGN, &s) == 0 && (s.stx_mask & STATX_DIOALIGN) != 0;
  ::close(fd);
  return is_told && s.stx_dio_offset_align == 0 ? "no direct I/O on this filesystem: it would be buffered"
                                                : "";
}

/// Whether the kernel refuses to read a file, opened for direct I/O, into memory and from an offset that are
/// aligned to nothing. Not where the file is in memory only, or where it reads through the cache then.
inline bool refuses_unaligned(int fd) {
  alignas(4096) std::array<char, 4096> page;
  return ::pread(fd, page.data() + 1, 511, 1) < 0 && errno == EINVAL;
}

/// How many pages of a file that may be written to are in the page cache; -1 if it cannot be told.
inline std::ptrdiff_t cached_pages(std::string const& path) {
  int const fd = ::open(path.c_str(), O_RDWR | O_CLOEXEC);
  struct stat s{};
  if (fd < 0 || ::fstat(fd, &s) != 0) return -1;
  auto const bytes = static_cast<std::size_t>(s.st_size);
  auto const page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* const map = ::mmap(nullptr, bytes, PROT_READ, MAP_SHARED, fd, 0);
  ::close(fd);
  if (map == MAP_FAILED) return -1;
  std::vector<unsigned char> resident((bytes + page - 1) / page);
  int const failed = ::mincore(map, bytes, resident.data());
  ::munmap(map, bytes);
  if (failed != 0) return -1;
  return std::count_if(resident.begin(), resident.end(), [](unsigned char c) { return (c & 1) != 0; });
}

} // namespace test
