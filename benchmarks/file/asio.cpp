// file_asio_uring: random_access_file, which Asio has where it is built for io_uring.

#include "cases.hpp"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/buffer.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/random_access_file.hpp>
#include <deque>
#include <exception>

#if !defined(BOOST_ASIO_HAS_FILE)
#error "Asio without files: BOOST_ASIO_HAS_IO_URING is missing"
#endif

namespace {

using namespace benchmarks;
namespace asio = boost::asio;

using executor = asio::io_context::executor_type; // not any_io_executor: calls through a table cost more
using file_type = asio::basic_random_access_file<executor>;

struct source {
  std::uint64_t blocks;
  std::uint64_t operations;
  std::uint64_t begun = 0;
  std::uint64_t done = 0;
};

void check(boost::system::error_code const& error, std::size_t bytes, unsigned char const* at,
           std::uint64_t block) {
  if (error) throw boost::system::system_error(error);
  if (bytes != BLOCK_BYTES) throw std::runtime_error("a short read");
  check_block(at, block);
}

void read_next(source& s, file_type& file, unsigned char* at) {
  if (s.begun == s.operations) return;
  const std::uint64_t block = block_of(s.begun++, s.blocks);
  file.async_read_some_at(block * BLOCK_BYTES, asio::buffer(at, BLOCK_BYTES),
                          [&s, &file, at, block](boost::system::error_code const& error, std::size_t bytes) {
                            check(error, bytes, at, block);
                            ++s.done;
                            read_next(s, file, at);
                          });
}

asio::awaitable<void, executor> read_all(source& s, file_type& file, unsigned char* at) {
  while (s.begun < s.operations) {
    const std::uint64_t block = block_of(s.begun++, s.blocks);
    const std::size_t bytes =
        co_await file.async_read_some_at(block * BLOCK_BYTES, asio::buffer(at, BLOCK_BYTES), asio::deferred);
    check({}, bytes, at, block);
    ++s.done;
  }
}

template <class F> sample run(reading const& r, F begin) {
  asio::io_context io(1);
  const aligned_blocks room = make_blocks(r.depth);
  // Asio gives the kernel one read of a file object after the other (io_uring_service, a queue for each): one
  // for each reader.
  std::deque<file_type> files;
  for (unsigned i = 0; i < r.depth; ++i) {
    descriptor opened = open_for(r.data, r.direct);
    files.emplace_back(io.get_executor(), opened.get());
    (void)opened.release(); // the object has it now
  }
  source s{.blocks = r.data.blocks, .operations = r.operations};
  const sample result = measure_with_processor(r.operations, [&] {
    for (unsigned i = 0; i < r.depth; ++i) begin(io, s, files[i], room.get() + std::size_t{i} * BLOCK_BYTES);
    io.run();
  });
  if (s.done != r.operations) throw std::runtime_error("not all was read");
  return result;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "asio callbacks, io_uring", {1, 32}, [](reading const& r) {
    return run(
        r, [](asio::io_context&, source& s, file_type& file, unsigned char* at) { read_next(s, file, at); });
  });
  add_cases(cases, "asio coroutines, io_uring", {1, 32}, [](reading const& r) {
    return run(r, [](asio::io_context& io, source& s, file_type& file, unsigned char* at) {
      asio::co_spawn(io, read_all(s, file, at), [](std::exception_ptr e) {
        if (e) std::rethrow_exception(e);
      });
    });
  });
  return subject_main(argc, argv, cases);
}
