// Shows     a log that several processes append to. A file opened with mode::append puts each write at its
//           end, as one piece: the kernel holds the file's lock meanwhile. So a record that is written by one
//           call is never torn by another writer's. A full disk cuts one off: its writer is told, and a
//           reader sees it by the length that each record begins with. But records that follow it are not
//           found any more; where that matters, use the queue below. A barrier makes what was written
//           durable, for all that was written before it.
// Run       build/release/examples/example_append_log
// Read next <unio/file_handle.hpp>; for a queue that survives a crash: <unio/locks/atomic_append.hpp>

#include <unio/unio.hpp>

#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace {

using unio::file_handle;
using creation = unio::handle::creation;
using mode = unio::handle::mode;

constexpr int writers = 4;
constexpr std::uint32_t records = 500;

struct head {
  std::uint32_t bytes; ///< of the text that follows
  std::uint32_t writer;
  std::uint32_t number;
};

// One process: 0 if all its records are in the log.
int append_to(char const* name, std::uint32_t writer) {
  file_handle log = file_handle::file({}, name, mode::append).value();
  for (std::uint32_t n = 0; n != records; ++n) {
    std::string const text(1 + (n * 37 + writer) % 3000, static_cast<char>('a' + writer));
    head const h{static_cast<std::uint32_t>(text.size()), writer, n};
    // Head and text go in one call: two would let another process's record come between them.
    std::array<unio::const_buffer, 2> const record{unio::const_buffer(&h, sizeof h),
                                                   unio::const_buffer(text)};
    auto const written = log.write(std::span<unio::const_buffer const>(record));
    if (!written || written.bytes_transferred() != sizeof h + text.size()) return 1;
  }
  return log.barrier() ? 0 : 1;
}

// How many whole records there are, in the order of their writers; or -1 if one is torn.
int check(file_handle& log) {
  std::array<std::uint32_t, writers> next{};
  std::vector<char> text;
  int found = 0;
  for (unio::extent_type at = 0;;) {
    head h{};
    auto const r = log.read({unio::mutable_buffer(&h, sizeof h), at}).value();
    if (r.bytes() == 0) return found;
    if (r.bytes() != sizeof h || h.writer >= writers || h.number != next[h.writer]++) return -1;
    text.resize(h.bytes);
    if (log.read({unio::mutable_buffer(text.data(), text.size()), at + sizeof h}).value().bytes() != h.bytes)
      return -1;
    for (char const c : text)
      if (c != static_cast<char>('a' + h.writer)) return -1;
    at += sizeof h + h.bytes;
    ++found;
  }
}

} // namespace

int main() {
  file_handle log = file_handle::uniquely_named_file(unio::path_handle::path("/tmp").value(), "log-").value();
  std::string const name = log.current_path().value();
  std::array<pid_t, writers> children{};
  for (std::uint32_t w = 0; w != writers; ++w) {
    children[w] = ::fork();
    if (children[w] == 0) ::_exit(append_to(name.c_str(), w));
  }
  bool fine = true;
  for (pid_t const child : children) {
    int status = 0;
    fine = ::waitpid(child, &status, 0) == child && status == 0 && fine;
  }
  int const found = check(log);
  (void)log.unlink();
  std::printf("%d records of %d processes, none torn\n", found, writers);
  return fine && found == writers * static_cast<int>(records) ? 0 : 1;
}
