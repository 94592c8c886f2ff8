// The file that is read, and the memory it is read into.
//
//   data_file        made on first use, beside the programs; 256 MiB, or as UNIO_BENCH_FILE_MIB says
//   open_for         a descriptor of it, for cached or direct reads
//   aligned_blocks   memory as O_DIRECT wants it
#pragma once

#include "sequence.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

namespace benchmarks {

inline constexpr char const* data_size_variable = "UNIO_BENCH_FILE_MIB";

struct data_file {
  std::string path;
  std::uint64_t blocks;
};

class descriptor {
 public:
  explicit descriptor(int fd = -1) noexcept : fd_(fd) {}
  descriptor(descriptor&& other) noexcept : fd_(other.release()) {}
  descriptor& operator=(descriptor&&) = delete;
  ~descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] int get() const noexcept { return fd_; }
  int release() noexcept {
    const int fd = fd_;
    fd_ = -1;
    return fd;
  }

 private:
  int fd_;
};

[[noreturn]] inline void fail(std::string const& what) {
  throw std::system_error(errno, std::generic_category(), what);
}

struct aligned_delete {
  void operator()(unsigned char* p) const noexcept { ::operator delete(p, std::align_val_t(BLOCK_BYTES)); }
};
using aligned_blocks = std::unique_ptr<unsigned char, aligned_delete>;

inline aligned_blocks make_blocks(std::size_t count) {
  return aligned_blocks(
      static_cast<unsigned char*>(::operator new(count * BLOCK_BYTES, std::align_val_t(BLOCK_BYTES))));
}

namespace detail {

constexpr std::size_t blocks_at_once = 256;

inline void write_data(std::string const& path, std::uint64_t blocks) {
  // Under another name until it is whole.
  const std::string unfinished = path + ".part";
  const descriptor file(::open(unfinished.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (file.get() < 0) fail(unfinished);
  const aligned_blocks some = make_blocks(blocks_at_once);
  for (std::uint64_t first = 0; first < blocks; first += blocks_at_once) {
    for (std::size_t i = 0; i < blocks_at_once; ++i) fill_block(some.get() + i * BLOCK_BYTES, first + i);
    constexpr std::size_t bytes = blocks_at_once * BLOCK_BYTES;
    if (::write(file.get(), some.get(), bytes) != static_cast<ssize_t>(bytes)) fail(unfinished);
  }
  // A direct read would write dirty pages out first.
  if (::fsync(file.get()) != 0) fail(unfinished);
  std::filesystem::rename(unfinished, path);
}

} // namespace detail

inline data_file the_data() {
  char const* const wanted = std::getenv(data_size_variable);
  const std::string mib = wanted != nullptr ? wanted : "256";
  data_file d{
      .path = std::filesystem::read_symlink("/proc/self/exe").parent_path() / ("file_" + mib + "_mib.data"),
      .blocks = std::stoull(mib) * 256};
  struct stat s{};
  if (::stat(d.path.c_str(), &s) != 0 || static_cast<std::uint64_t>(s.st_size) != d.blocks * BLOCK_BYTES)
    detail::write_data(d.path, d.blocks);
  return d;
}

inline descriptor open_for(data_file const& d, bool direct) {
  descriptor file(::open(d.path.c_str(), O_RDONLY | O_CLOEXEC | (direct ? O_DIRECT : 0)));
  if (file.get() < 0) fail(direct ? "O_DIRECT is refused" : d.path);
  return file;
}

/// Has all of it in memory. What was once read stays there, as far as memory goes.
inline void cache(data_file const& d) {
  static bool is_cached = false;
  if (is_cached) return;
  const descriptor file = open_for(d, false);
  const aligned_blocks some = make_blocks(detail::blocks_at_once);
  for (ssize_t n = 1; n > 0;)
    if ((n = ::read(file.get(), some.get(), detail::blocks_at_once * BLOCK_BYTES)) < 0) fail(d.path);
  is_cached = true;
}

inline void check_block(unsigned char const* at, std::uint64_t block) {
  if (!is_block(at, block)) throw std::runtime_error("a read brought something else");
}

} // namespace benchmarks
