// frames_unio: frames from the heap, from the thread's pool, from the object that has the socket.

#include "support/helper_process.hpp"
#include "support/measure.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

#include <sys/socket.h>

#include <array>
#include <new>
#include <optional>
#include <system_error>

namespace frames_bench {
namespace {

// A socket whose peer, another process, writes 0, 1 … 255, 0 … as long as there is room.
class full_socket {
 public:
  full_socket() {
    std::array<int, 2> ends;
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends.data()) != 0)
      throw std::system_error(errno, std::generic_category(), "socketpair");
    writer_.emplace([from = ends[0], to = ends[1]] {
      ::close(from); // so that writing ends when the subject has closed its end
      write_for_ever(to);
    });
    ::close(ends[1]);
    auto adopted = unio::io_handle::adopt(ends[0]);
    if (!adopted) throw std::system_error(adopted.error(), "adopt");
    reader_ = std::move(*adopted);
  }
  [[nodiscard]] unio::io_handle& reader() noexcept { return reader_; }

 private:
  static void write_for_ever(int to) {
    std::array<unsigned char, 16 * 256> block;
    for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<unsigned char>(i);
    std::size_t at = 0;
    for (;;) {
      ssize_t const n = ::send(to, block.data() + at, block.size() - at, MSG_NOSIGNAL);
      if (n < 0 && errno != EINTR) return;
      if (n > 0) at = (at + static_cast<std::size_t>(n)) % block.size();
    }
  }

  std::optional<benchmarks::helper_process> writer_;
  unio::io_handle reader_;
};

// ---- where frames come from -------------------------------------------------------------------------------

struct heap {
  static void* allocate(std::size_t n) { return ::operator new(n); }
  static void deallocate(void* p, std::size_t) noexcept { ::operator delete(p); }
};

class one_block {
 public:
  void* allocate(std::size_t n) {
    if (taken_ || n > block_.size()) return ::operator new(n);
    taken_ = true;
    return block_.data();
  }
  void deallocate(void* p, std::size_t) noexcept {
    if (p != block_.data()) return ::operator delete(p);
    taken_ = false;
  }

 private:
  alignas(std::max_align_t) std::array<std::byte, 1024> block_;
  bool taken_ = false;
};

struct from_pool {
  unio::io_handle* socket;
};
template <class Frames> struct from_object {
  unio::io_handle* socket;
  Frames frames = {};
  Frames& get_frame_allocator() noexcept { return frames; }
};

template <class Connection> unio::task<int> read_byte(Connection& from) {
  unsigned char byte = 0;
  auto const got = co_await from.socket->co_read(unio::mutable_buffer(&byte, 1));
  co_return got.bytes_transferred() == 1 ? byte : -1;
}

// ---- the subjects -----------------------------------------------------------------------------------------

unio::task<std::uint64_t> read_directly(unio::io_handle& from, std::uint64_t bytes) {
  unsigned char expected = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    unsigned char byte = 0;
    auto const got = co_await from.co_read(unio::mutable_buffer(&byte, 1));
    if (got.bytes_transferred() != 1 || byte != expected++) co_return i;
  }
  co_return bytes;
}

template <class Connection>
unio::task<std::uint64_t> read_by_coroutines(unio::io_handle& socket, std::uint64_t bytes) {
  Connection from{&socket};
  unsigned char expected = 0;
  for (std::uint64_t i = 0; i < bytes; ++i) {
    int const byte = co_await read_byte(from);
    if (byte != expected++) co_return i;
  }
  co_return bytes;
}

using reading = unio::task<std::uint64_t> (*)(unio::io_handle&, std::uint64_t);

benchmarks::benchmark_case on_driver(std::string const& name, std::string const& driver, reading read) {
  return {.subject = name, .parameters = {{"driver", driver}}, .run = [=](std::uint64_t bytes) {
            auto const m = benchmarks::multiplexer_on(driver);
            full_socket from;
            from.reader().set_multiplexer(m.get());
            std::uint64_t got = 0;
            benchmarks::sample s =
                benchmarks::measure(bytes, [&] { got = unio::run(*m, read(from.reader(), bytes)); });
            if (got != bytes)
              throw std::runtime_error("byte " + std::to_string(got) + " is missing, or another one");
            return s;
          }};
}

std::vector<benchmarks::benchmark_case> cases() {
  std::vector<benchmarks::benchmark_case> all;
  for (char const* const driver : benchmarks::both_drivers) {
    all.push_back(on_driver("unio, no coroutine for a read", driver, read_directly));
    all.push_back(on_driver("unio, frame from the heap", driver, read_by_coroutines<from_object<heap>>));
    all.push_back(on_driver("unio, frame from the thread's pool", driver, read_by_coroutines<from_pool>));
    all.push_back(
        on_driver("unio, frame from the socket's", driver, read_by_coroutines<from_object<one_block>>));
  }
  return all;
}

} // namespace
} // namespace frames_bench

int main(int argc, char** argv) { return benchmarks::subject_main(argc, argv, frames_bench::cases()); }
