// What the kernel is asked, and when it is not: the calls that barriers make; operations that end without the
// kernel's queue (N-04); attempts that have not paid off; what may need one of its threads.

#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/io_uring.h>

namespace {

using namespace test;

class kernel_calls : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_calls);

struct calls_of_barriers {
  int fsync = 0;
  int fdatasync = 0;
  int sync_file_range = 0;
  bool operator==(calls_of_barriers const&) const = default;
};

calls_of_barriers made() {
  return {failing_calls::count<&table::fsync>(), failing_calls::count<&table::fdatasync>(),
          failing_calls::count<&table::sync_file_range>()};
}

struct barrier_case {
  barrier_kind kind;
  calls_of_barriers calls;
  unsigned opcode;
  unsigned fsync_flags;
  unsigned range_flags;
};

constexpr barrier_case all_barriers[] = {
    {barrier_kind::wait_all, {.fsync = 1}, IORING_OP_FSYNC, 0, 0},
    {barrier_kind::wait_data_only, {.fdatasync = 1}, IORING_OP_FSYNC, IORING_FSYNC_DATASYNC, 0},
    {barrier_kind::nowait_all, {.sync_file_range = 1}, IORING_OP_SYNC_FILE_RANGE, 0, SYNC_FILE_RANGE_WRITE},
    {barrier_kind::nowait_data_only,
     {.sync_file_range = 1},
     IORING_OP_SYNC_FILE_RANGE,
     0,
     SYNC_FILE_RANGE_WRITE},
};

// With a ring there is an entry of the ring instead, which may need a thread of the kernel.
ISOLATED_TEST(kernel_calls, that_barriers_make_are_those_of_their_kind) {
  temporary_directory const directory;
  for (barrier_case const& c : all_barriers) {
    SCOPED_TRACE(static_cast<int>(c.kind));
    auto const m = made_multiplexer();
    auto file = unio::file_handle::temp_inode(directory.handle()).value();
    {
      failing_calls const calls;
      EXPECT_TRUE(file.barrier(c.kind).has_value());
      EXPECT_EQ(made(), c.calls) << "blocking";
    }
    file.set_multiplexer(m.get());
    {
      failing_calls const calls;
      started barrier{unio::async_barrier(file, c.kind)};
      EXPECT_TRUE(drive(*m, [&] { return barrier.ended(); }));
      EXPECT_FALSE(barrier.error) << barrier.error.message();
      EXPECT_EQ(made(), is_ring() ? calls_of_barriers{} : c.calls);
    }
    EXPECT_EQ(m->counters().kernel_jobs, is_ring() ? 1u : 0u);
    EXPECT_EQ(m->counters().worker_jobs, is_ring() ? 0u : 1u);
    unio::async_barrier const op(file, c.kind);
    io_uring_sqe entry{};
    ASSERT_TRUE(op.faces().prepare(const_cast<unio::async_barrier&>(op), entry, false));
    EXPECT_EQ(entry.opcode, c.opcode);
    EXPECT_EQ(entry.fd, file.native_handle());
    EXPECT_EQ(c.opcode == IORING_OP_FSYNC ? entry.fsync_flags : entry.sync_range_flags,
              c.fsync_flags | c.range_flags);
    EXPECT_EQ(entry.off, 0u) << "the whole file";
    EXPECT_EQ(entry.len, 0u);
    file.set_multiplexer(nullptr);
  }
}

// Hard case 60: the kernel tells of a page that it could not write once. A second try would say that all is
// well.
ISOLATED_TEST(kernel_calls, of_a_barrier_that_failed_are_not_repeated) {
  temporary_directory const directory;
  auto file = unio::file_handle::temp_inode(directory.handle()).value();
  failing_calls calls;
  calls.fail<&table::fsync>(EIO);
  EXPECT_EQ(file.barrier(barrier_kind::wait_all).error().value(), EIO);
  EXPECT_EQ(made(), calls_of_barriers{.fsync = 1});
  calls.fail<&table::fdatasync>(ENOSPC);
  EXPECT_EQ(file.barrier(barrier_kind::wait_data_only).error().value(), ENOSPC);
  EXPECT_EQ(calls.count<&table::fdatasync>(), 1);
  if (is_ring()) return; // which makes no such calls
  auto const m = made_multiplexer();
  file.set_multiplexer(m.get());
  calls.fail<&table::fsync>(EIO);
  started barrier{unio::async_barrier(file, barrier_kind::wait_all)};
  EXPECT_TRUE(drive(*m, [&] { return barrier.ended(); }));
  EXPECT_EQ(barrier.error.value(), EIO);
  EXPECT_EQ(calls.count<&table::fsync>(), 1);
  file.set_multiplexer(nullptr);
}

// N-04. So many in a row: after 64 others have their turn.
DRIVER_TEST(kernel_calls, are_not_made_for_what_is_ready_but_its_own) {
  connection c = local_connection(&m);
  std::array<char, 64> memory{};
  auto const before = m.counters();
  for (int i = 0; i != 60; ++i) {
    c.peer.write("x");
    started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
    EXPECT_TRUE(read.ended()) << i << ": within start()";
    EXPECT_EQ(read.bytes, 1u);
  }
  auto const after = m.counters();
  EXPECT_EQ(after.inline_hits - before.inline_hits, 60u);
  EXPECT_EQ(after.inline_misses, before.inline_misses);
  EXPECT_EQ(after.submissions, before.submissions);
  EXPECT_EQ(after.completions, before.completions);
  EXPECT_EQ(after.turns, before.turns);
}

//
DRIVER_TEST(kernel_calls, are_not_tried_at_once_where_that_was_in_vain_until_it_pays_again) {
  connection c = local_connection(&m);
  std::array<char, 64> memory{};
  auto const before = m.counters();
  for (int i = 0; i != 320; ++i) { // nothing is there when it starts
    started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
    submit_all(m);
    EXPECT_FALSE(read.ended());
    c.peer.write("x");
    ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
    EXPECT_EQ(read.bytes, 1u);
  }
  auto const vain = m.counters();
  std::uint64_t const misses = vain.inline_misses - before.inline_misses;
  EXPECT_GE(misses, 1u) << "the canary: the first was tried";
  // Epoll tells when there is something, after which it is worth a look each time: no bound there.
  if (is_ring()) {
    EXPECT_LE(misses, 12u) << "one in 32";
  }
  for (int i = 0; i != 320; ++i) { // something is
    c.peer.write("x");
    started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
    ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
    EXPECT_EQ(read.bytes, 1u);
  }
  auto const after = m.counters();
  EXPECT_GE(after.inline_hits - vain.inline_hits, 320u - 32u) << "it was tried again, and remembered";
  EXPECT_EQ(after.kernel_jobs, before.kernel_jobs) << "sockets need none of the kernel's threads";
  EXPECT_EQ(after.worker_jobs, before.worker_jobs);
}

} // namespace
