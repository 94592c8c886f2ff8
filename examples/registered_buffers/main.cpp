// Shows     a pool whose memory is registered with the ring: reads past the page cache, and what is received
//           from a socket and written to a file, use it by themselves. Where the ring cannot, or there is
//           none, the same program does the same.
// Run       build/release/examples/example_registered_buffers
// Read next include/unio/buffer_pool.hpp: what is registered, when, and what it costs

#include <unio/unio.hpp>

#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace {

using unio::file_handle;

constexpr std::size_t block = 4096;
constexpr std::size_t blocks = 256;

struct progress {
  std::size_t begun = 0;
  std::size_t right = 0;
};

// One of a few that read the file together, each into a buffer of its own.
unio::task<> read_blocks(file_handle& file, unio::buffer_pool& pool, progress& p) {
  unio::lent_buffer buffer = pool.try_take(); // there are as many as readers
  while (p.begun != blocks) {
    std::size_t const n = p.begun++;
    auto const got = co_await file.co_read({unio::mutable_buffer(buffer.data(), block), n * block});
    if (!got.has_value()) std::printf("block %zu: %s\n", n, got.error().message().c_str());
    if (got.bytes_transferred() == block && buffer.data()[7] == static_cast<std::byte>(n)) ++p.right;
  }
}

unio::task<> save(unio::socket_handle& from, unio::buffer_pool& pool, file_handle& to, std::size_t& saved) {
  for (;;) {
    auto const got = co_await from.co_receive(pool);
    if (!got.has_value() || !*got) co_return;
    std::size_t const put = (co_await to.co_write({unio::const_buffer(*got), saved})).bytes_transferred();
    saved += put;
    if (put != got->size()) co_return; // the disk is full
  }
}

// A file of known bytes, reopened so that reading goes to the device, if the filesystem can.
file_handle make_file() {
  std::string const name = "/tmp/unio-registered-buffers-" + std::to_string(::getpid());
  auto file =
      file_handle::file({}, name, file_handle::mode::write, file_handle::creation::always_new).value();
  for (std::size_t n = 0; n != blocks; ++n) {
    std::string const text(block, static_cast<char>(n));
    (void)file.write({unio::const_buffer(text), n * block}).value();
  }
  auto direct = file_handle::file({}, name, file_handle::mode::read, file_handle::creation::open_existing,
                                  file_handle::caching::only_metadata);
  file_handle opened = direct ? std::move(*direct) : file_handle::file({}, name).value();
  (void)std::remove(name.c_str());
  return opened;
}

} // namespace

int main() {
  auto& multiplexer = unio::this_thread::multiplexer();
  constexpr std::size_t readers = 8;
  unio::buffer_pool pool(readers, block, unio::pool_memory::registered);
  auto const run = [&] {
    while (multiplexer.run().value() != 0) {
    }
  };

  file_handle file = make_file();
  progress p;
  for (std::size_t i = 0; i != readers; ++i) unio::async_run(multiplexer, read_blocks(file, pool, p));
  run();
  std::printf("%zu of %zu blocks are right; %llu entries with memory that the ring knows, %zu bytes of it\n",
              p.right, blocks, static_cast<unsigned long long>(multiplexer.counters().registered_uses),
              multiplexer.capabilities().registered_bytes);

  auto sockets = unio::socket_handle::pair().value();
  file_handle saved_in = file_handle::temp_inode().value();
  std::size_t saved = 0;
  unio::async_run(multiplexer, save(sockets.first, pool, saved_in, saved));
  (void)sockets.second.write(unio::const_buffer("from a socket through the pool into a file", 42)).value();
  (void)sockets.second.close();
  run();
  std::printf("%zu bytes saved, %zu buffers lent\n", saved, pool.lent());
  return p.right == blocks && saved == 42 && pool.lent() == 0 ? 0 : 1;
}
