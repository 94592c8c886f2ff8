// file_unio: one read after the other; `depth` of them in flight, multiplexed and awaited.

#include "cases.hpp"
#include "support/unio_driver.hpp"

#include <unio/unio.hpp>

#include <deque>

namespace {

using namespace benchmarks;

unio::file_handle open_data(reading const& r) {
  using unio::file_handle;
  auto file =
      file_handle::file({}, r.data.path, file_handle::mode::read, file_handle::creation::open_existing,
                        r.direct ? file_handle::caching::only_metadata : file_handle::caching::all);
  if (!file) throw std::system_error(file.error(), r.direct ? "O_DIRECT is refused" : r.data.path);
  return std::move(*file);
}

// Looks at what was returned, as unio asks for.
void check(unio::io_result<unio::mutable_buffers> const& got, std::uint64_t block) {
  if (got.value().bytes() != BLOCK_BYTES) throw std::runtime_error("a short read");
  check_block(reinterpret_cast<unsigned char const*>(got->front().data()), block);
}

// What all readers of one run share.
struct source {
  unio::file_handle file;
  std::uint64_t blocks;
  std::uint64_t operations;
  std::uint64_t begun = 0;
  std::uint64_t done = 0;
  std::exception_ptr failed = nullptr;
};

sample run_blocking(reading const& r) {
  source s{.file = open_data(r), .blocks = r.data.blocks, .operations = r.operations};
  const aligned_blocks room = make_blocks(1);
  const unio::mutable_buffer buffer(room.get(), BLOCK_BYTES);
  return measure_with_processor(r.operations, [&] {
    while (s.begun < s.operations) {
      const std::uint64_t block = block_of(s.begun++, s.blocks);
      check(s.file.read({buffer, block * BLOCK_BYTES}), block);
    }
  });
}

void run_until_done(unio::io_multiplexer& m, source const& s) {
  while (m.run().value() != 0) {
  }
  if (s.failed) std::rethrow_exception(s.failed);
  if (s.done != s.operations) throw std::runtime_error("not all was read");
}

// One of `depth` state machines: its operation, its memory, the block that it waits for.
class reader {
 public:
  reader(source& s, unsigned char* at)
      : source_(&s),
        room_(at, BLOCK_BYTES),
        read_(unio::connect(unio::async_read(s.file, unio::mutable_buffer(at, BLOCK_BYTES)), goes_on{this})) {
  }

  void begin() {
    if (next()) read_.start();
  }

 private:
  struct goes_on {
    reader* r = nullptr;
    void set_value(unio::io_result<unio::mutable_buffers>&& got) noexcept { r->take(got); }
    void set_done() noexcept { r->begin(); }
  };
  bool next() noexcept {
    source& s = *source_;
    if (s.begun == s.operations || s.failed) return false;
    block_ = block_of(s.begun++, s.blocks);
    read_.reset({room_, block_ * BLOCK_BYTES});
    return true;
  }
  void take(unio::io_result<unio::mutable_buffers> const& got) noexcept {
    try {
      check(got, block_);
      ++source_->done;
    } catch (...) {
      source_->failed = std::current_exception();
    }
  }

  source* source_;
  unio::mutable_buffer room_;
  std::uint64_t block_ = 0;
  unio::io_operation_connection<unio::async_read, goes_on> read_;
};

sample run_multiplexed(std::string const& driver, reading const& r) {
  const auto m = multiplexer_on(driver);
  const aligned_blocks room = make_blocks(r.depth);
  source s{.file = open_data(r), .blocks = r.data.blocks, .operations = r.operations};
  s.file.set_multiplexer(m.get());
  std::deque<reader> all;
  for (std::size_t i = 0; i < r.depth; ++i) all.emplace_back(s, room.get() + i * BLOCK_BYTES);
  return measure_with_processor(r.operations, [&] {
    for (reader& one : all) one.begin();
    run_until_done(*m, s);
  });
}

// Into buffers of a pool that the ring knows: nothing else is different.
sample run_registered(reading const& r) {
  const auto m = multiplexer_on("io_uring");
  unio::buffer_pool pool(r.depth, BLOCK_BYTES, unio::pool_memory::registered);
  source s{.file = open_data(r), .blocks = r.data.blocks, .operations = r.operations};
  s.file.set_multiplexer(m.get());
  std::deque<unio::lent_buffer> room;
  std::deque<reader> all;
  for (std::size_t i = 0; i < r.depth; ++i) {
    room.push_back(pool.try_take());
    all.emplace_back(s, reinterpret_cast<unsigned char*>(room.back().data()));
  }
  const sample measured = measure_with_processor(r.operations, [&] {
    for (reader& one : all) one.begin();
    run_until_done(*m, s);
  });
  // What is cached may be read without the ring.
  if (r.direct && m->counters().registered_uses != r.operations)
    throw std::runtime_error("its memory is not registered");
  return measured;
}

unio::task<> read_all(source& s, unsigned char* at) {
  const unio::mutable_buffer room(at, BLOCK_BYTES);
  while (s.begun < s.operations) {
    const std::uint64_t block = block_of(s.begun++, s.blocks);
    check(co_await s.file.co_read({room, block * BLOCK_BYTES}), block);
    ++s.done;
  }
}

sample run_awaited(std::string const& driver, reading const& r) {
  const auto m = multiplexer_on(driver);
  const aligned_blocks room = make_blocks(r.depth);
  source s{.file = open_data(r), .blocks = r.data.blocks, .operations = r.operations};
  return measure_with_processor(r.operations, [&] {
    for (std::size_t i = 0; i < r.depth; ++i)
      unio::async_run(*m, read_all(s, room.get() + i * BLOCK_BYTES), [&s](unio::task_outcome<void> outcome) {
        if (!outcome) s.failed = outcome.error();
      });
    run_until_done(*m, s);
  });
}

} // namespace

int main(int argc, char** argv) {
  std::vector<benchmark_case> cases;
  add_cases(cases, "unio blocking", {1}, run_blocking);
  for (std::string const driver : both_drivers) {
    add_cases(cases, "unio multiplexed, " + driver, {1, 32},
              [driver](reading const& r) { return run_multiplexed(driver, r); });
    add_cases(cases, "unio awaited, " + driver, {1, 32},
              [driver](reading const& r) { return run_awaited(driver, r); });
  }
  add_cases(cases, "unio multiplexed, io_uring, registered memory", {1, 32}, run_registered);
  return subject_main(argc, argv, cases);
}
