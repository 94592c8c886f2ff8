// Reads past the page cache on epoll: the kernel performs them without one of the threads that may block, and
// what it does not take, or does not finish, such a thread performs (src/driver/epoll/direct_reads.hpp).

#include "support/direct_io.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/aio_abi.h>
#include <unistd.h>

namespace {

using namespace std::chrono_literals;
using caching = unio::handle::caching;
using table = unio::sys::table;

constexpr std::size_t block = 4096, blocks = 16;

struct alignas(block) page {
  std::array<char, block> bytes{};
};

class direct_reads : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::string const why = test::no_direct_io(directory_.path()); !why.empty()) GTEST_SKIP() << why;
    std::string text;
    for (std::size_t i = 0; i != blocks; ++i) text += std::string(block, static_cast<char>('a' + i));
    directory_.write("a", text + "end");
    open();
    ASSERT_EQ(::fsync(file_.native_handle()), 0); // what is not written yet would have to be written first
  }
  void open() {
    m_ = test::make_multiplexer("epoll").value();
    file_ = unio::file_handle::file(directory_.handle(), "a", unio::handle::mode::read,
                                    unio::handle::creation::open_existing, caching::only_metadata)
                .value();
    file_.set_multiplexer(m_.get());
  }
  unio::async_read read(page& into, std::uint64_t at, unio::deadline d = {}) {
    return {file_, {unio::mutable_buffer(into.bytes.data(), block), at}, d};
  }
  template <class Reads> void drive(Reads const& all) {
    auto const give_up = std::chrono::steady_clock::now() + 30s;
    while (!test::all_ended(all)) {
      (void)m_->try_run_for(100ms);
      ASSERT_LT(std::chrono::steady_clock::now(), give_up);
    }
  }
  // Reads the second block twice, one after the other, and says how many workers that took.
  std::uint64_t jobs_of_two_reads() {
    std::uint64_t const before = m_->counters().worker_jobs;
    for (int i = 0; i != 2; ++i) {
      page into;
      std::deque<test::started<unio::async_read>> one;
      one.emplace_back(read(into, block));
      drive(one);
      EXPECT_EQ(one[0].bytes, block) << one[0].error.message();
      EXPECT_EQ(into.bytes[block - 1], 'b');
      test::expect_ended_once(one[0]);
    }
    return m_->counters().worker_jobs - before;
  }
  // The kernel may have to be asked by a call that waits all the same: not on every filesystem can it tell.
  bool is_performed_by_kernel() {
    (void)jobs_of_two_reads(); // where the blocks are is known then
    bool const is = jobs_of_two_reads() == 0;
    open();
    return is;
  }

  test::temporary_directory const directory_;
  std::unique_ptr<unio::io_multiplexer> m_;
  unio::file_handle file_;
};

TEST_F(direct_reads, take_no_thread) {
  if (!is_performed_by_kernel()) GTEST_SKIP() << "not on this filesystem";
  EXPECT_EQ(jobs_of_two_reads(), 0U);
  EXPECT_EQ(m_->counters().submissions, 2U);
}

TEST_F(direct_reads, go_to_the_kernel_together) {
  if (!is_performed_by_kernel()) GTEST_SKIP() << "not on this filesystem";
  test::failing_calls const calls;
  std::array<page, blocks> into;
  std::deque<test::started<unio::async_read>> all;
  for (std::size_t i = 0; i != blocks; ++i) all.emplace_back(read(into[i], i * block));
  drive(all);
  for (std::size_t i = 0; i != blocks; ++i) EXPECT_EQ(into[i].bytes[0], static_cast<char>('a' + i));
  EXPECT_EQ(calls.count<&table::io_submit>(), 1);
}

TEST_F(direct_reads, more_than_the_kernel_takes_all_end) {
  std::deque<page> into(300);
  std::deque<test::started<unio::async_read>> all;
  for (std::size_t i = 0; i != into.size(); ++i) all.emplace_back(read(into[i], i % blocks * block));
  drive(all);
  for (std::size_t i = 0; i != into.size(); ++i) {
    EXPECT_EQ(into[i].bytes[7], static_cast<char>('a' + i % blocks));
    test::expect_ended_once(all[i]);
  }
}

TEST_F(direct_reads, into_several_pieces_of_memory_fill_them_in_order) {
  std::array<page, 2> into;
  unio::mutable_buffer const pieces[] = {{into[0].bytes.data(), block}, {into[1].bytes.data(), block}};
  std::deque<test::started<unio::async_read>> one;
  one.emplace_back(unio::async_read(file_, {unio::mutable_buffers(pieces), 2 * block}));
  drive(one);
  EXPECT_EQ(one[0].bytes, 2 * block);
  EXPECT_EQ(into[0].bytes[0], 'c');
  EXPECT_EQ(into[1].bytes[block - 1], 'd');
}

TEST_F(direct_reads, end_where_the_file_does) {
  page last, behind;
  std::deque<test::started<unio::async_read>> all;
  all.emplace_back(read(last, blocks * block));
  all.emplace_back(read(behind, (blocks + 1) * block));
  drive(all);
  EXPECT_EQ(all[0].bytes, 3U) << all[0].error.message();
  EXPECT_EQ(std::string(last.bytes.data(), 3), "end");
  EXPECT_FALSE(all[1].error) << all[1].error.message();
  EXPECT_EQ(all[1].bytes, 0U);
}

TEST_F(direct_reads, at_the_files_position_follow_each_other) {
  page first, second;
  std::deque<test::started<unio::async_read>> one, other;
  one.emplace_back(read(first, unio::no_offset));
  drive(one);
  other.emplace_back(read(second, unio::no_offset));
  drive(other);
  EXPECT_EQ(first.bytes[0], 'a');
  EXPECT_EQ(second.bytes[0], 'b');
}

TEST_F(direct_reads, are_made_by_threads_where_the_kernel_has_no_such_reads) {
  test::failing_calls calls;
  calls.fail<&table::io_setup>(ENOSYS, {.times = test::which_calls::all});
  std::vector<std::pair<std::unique_ptr<unio::io_multiplexer>, unio::file_handle>> others;
  for (int i = 0; i != 20; ++i) { // the first use what other tests have left
    std::uint64_t const jobs = jobs_of_two_reads();
    if (calls.failures<&table::io_setup>() != 0) {
      EXPECT_EQ(jobs, 2U);
      break;
    }
    others.emplace_back(std::move(m_), std::move(file_));
    open();
  }
  EXPECT_EQ(calls.failures<&table::io_setup>(), 1) << "it is asked once";
}

TEST_F(direct_reads, are_the_kernels_again_after_a_moment_without_room_there) {
  if (!is_performed_by_kernel()) GTEST_SKIP() << "not on this filesystem";
  test::failing_calls calls;
  calls.fail<&table::io_setup>(EAGAIN);
  std::vector<std::pair<std::unique_ptr<unio::io_multiplexer>, unio::file_handle>> others;
  for (int i = 0; i != 20 && calls.failures<&table::io_setup>() == 0; ++i) { // as above
    (void)jobs_of_two_reads();
    if (calls.failures<&table::io_setup>() == 0) {
      others.emplace_back(std::move(m_), std::move(file_));
      open();
    }
  }
  EXPECT_EQ(calls.failures<&table::io_setup>(), 1) << "the canary";
  EXPECT_EQ(jobs_of_two_reads(), 0U);
}

TEST_F(direct_reads, of_threads_that_come_and_go_use_what_was_there) {
  if (!is_performed_by_kernel()) GTEST_SKIP() << "not on this filesystem";
  test::failing_calls const calls;
  for (int i = 0; i != 5; ++i) {
    EXPECT_EQ(jobs_of_two_reads(), 0U);
    ASSERT_TRUE(file_.close());
    open();
  }
  EXPECT_EQ(calls.count<&table::io_destroy>(), 0);
}

TEST_F(direct_reads, are_made_by_threads_where_they_are_forbidden_later) {
  test::failing_calls calls;
  calls.fail<&table::io_submit>(EPERM, {.times = test::which_calls::all});
  EXPECT_EQ(jobs_of_two_reads(), 2U);
  EXPECT_EQ(calls.count<&table::io_submit>(), 1);
}

TEST_F(direct_reads, of_a_filesystem_that_waits_are_made_by_threads) {
  test::failing_calls calls;
  calls.fail<&table::io_submit>(EOPNOTSUPP, {.times = test::which_calls::all});
  EXPECT_EQ(jobs_of_two_reads(), 2U);
  EXPECT_EQ(calls.count<&table::io_submit>(), 1) << "what it says of a file is kept";
}

TEST_F(direct_reads, that_find_the_kernel_short_are_tried_there_again) {
  if (!is_performed_by_kernel()) GTEST_SKIP() << "not on this filesystem";
  test::failing_calls calls;
  calls.fail<&table::io_submit>(EAGAIN);
  EXPECT_EQ(jobs_of_two_reads(), 1U);
}

TEST_F(direct_reads, that_the_kernel_ends_half_way_are_made_anew_by_threads) {
  if (!is_performed_by_kernel()) GTEST_SKIP() << "not on this filesystem";
  test::failing_calls calls;
  calls.answer<&table::io_submit>([](unsigned long context, long n, iocb** entries) noexcept -> std::int64_t {
    for (long i = 0; i != n; ++i) entries[i]->aio_nbytes = block / 2;
    return unio::sys::kernel.io_submit(context, n, entries);
  });
  EXPECT_EQ(jobs_of_two_reads(), 2U);
}

TEST_F(direct_reads, that_are_only_tried_ask_for_no_device) {
  test::failing_calls const calls;
  page into;
  std::deque<test::started<unio::async_read>> one;
  one.emplace_back(read(into, block, unio::deadline::zero()));
  drive(one);
  EXPECT_EQ(one[0].error, unio::condition::would_block);
  EXPECT_EQ(calls.count<&table::io_submit>() + calls.count<&table::preadv2>(), 0);
}

TEST_F(direct_reads, that_are_canceled_have_bytes_or_none_and_end_once) {
  page into;
  for (int i = 0; i != 200; ++i) {
    std::deque<test::started<unio::async_read>> one;
    one.emplace_back(read(into, block));
    if (i % 2 != 0) (void)m_->try_run(); // then the kernel has it
    one[0].cancel();
    drive(one);
    test::expect_ended_once(one[0]);
    if (one[0].error) {
      EXPECT_EQ(one[0].error, unio::condition::canceled);
    } else {
      EXPECT_EQ(one[0].bytes, block);
    }
  }
}

TEST_F(direct_reads, end_when_their_file_is_closed) {
  page into;
  for (int i = 0; i != 50; ++i) {
    std::deque<test::started<unio::async_read>> one;
    one.emplace_back(read(into, block));
    if (i % 2 != 0) (void)m_->try_run();
    EXPECT_TRUE(file_.close());
    (void)m_->try_run();
    EXPECT_TRUE(one[0].ended());
    open();
  }
}

TEST_F(direct_reads, end_with_their_multiplexer) {
  page into;
  for (bool const is_with_kernel : {false, true}) {
    test::started<unio::async_read> one(read(into, block));
    if (is_with_kernel) (void)m_->try_run();
    m_.reset();
    test::expect_ended_once(one);
    open();
  }
}

TEST_F(direct_reads, wake_a_thread_that_sleeps_in_run) {
  page into;
  test::started<unio::async_read> one(read(into, 3 * block));
  while (!one.ended()) ASSERT_TRUE(m_->run().has_value()); // without an end it would sleep for ever
  EXPECT_EQ(into.bytes[0], 'd');
}

TEST_F(direct_reads, of_an_adopted_descriptor_that_may_not_be_read_fail_as_read_does) {
  auto written = unio::file_handle::file(directory_.handle(), "a", unio::handle::mode::append,
                                         unio::handle::creation::open_existing, caching::only_metadata);
  ASSERT_TRUE(written.has_value()) << written.error().message();
  written->set_multiplexer(m_.get());
  page into;
  std::deque<test::started<unio::async_read>> one;
  one.emplace_back(unio::async_read(*written, {unio::mutable_buffer(into.bytes.data(), block), 0}));
  drive(one);
  EXPECT_EQ(one[0].error, std::errc::bad_file_descriptor) << one[0].error.message();
}

} // namespace
