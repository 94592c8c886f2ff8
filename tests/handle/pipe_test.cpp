// pipe_handle.hpp: anonymous and named pipes.

#include "support/calls.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

TEST(pipe, has_two_nonblocking_ends) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  EXPECT_EQ(pipe.reader.kind(), unio::handle_kind::pipe);
  char c = 0;
  EXPECT_EQ(::read(pipe.reader.native_handle(), &c, 1), -1);
  EXPECT_EQ(errno, EAGAIN);
  EXPECT_EQ(::write(pipe.writer.native_handle(), "x", 1), 1);
  EXPECT_EQ(::read(pipe.reader.native_handle(), &c, 1), 1);
}

TEST(pipe, says_and_changes_how_much_it_holds) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  EXPECT_GT(pipe.reader.capacity().value(), 0U);
  EXPECT_EQ(pipe.writer.capacity(8192).value(), 8192U);
  EXPECT_EQ(pipe.reader.capacity().value(), 8192U);
  EXPECT_EQ(pipe.reader.capacity(std::size_t{1} << 40).error().value(), EINVAL);
}

DIRECTORY_TEST(named_pipe, is_created_and_opened_for_reading) {
  pipe_handle const reader = pipe_handle::create(directory.handle(), "fifo", mode::read, 0640).value();
  EXPECT_EQ(reader.kind(), unio::handle_kind::named_pipe);
  struct stat s{};
  ASSERT_EQ(::stat((directory / "fifo").c_str(), &s), 0);
  EXPECT_TRUE(S_ISFIFO(s.st_mode));
  EXPECT_EQ(pipe_handle::create(directory.handle(), "fifo").error().value(), EEXIST);
}

DIRECTORY_TEST(named_pipe, carries_bytes_from_its_writer_to_its_reader) {
  pipe_handle const reader = pipe_handle::create(directory.handle(), "fifo").value();
  pipe_handle const writer = pipe_handle::open(directory.handle(), "fifo", mode::write).value();
  EXPECT_EQ(writer.kind(), unio::handle_kind::pipe);
  EXPECT_EQ(::write(writer.native_handle(), "x", 1), 1);
  char c = 0;
  EXPECT_EQ(::read(reader.native_handle(), &c, 1), 1);
}

DIRECTORY_TEST(named_pipe, cannot_be_opened_for_writing_while_nobody_reads) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(pipe_handle::open(directory.handle(), "fifo", mode::write).error().value(), ENXIO);
  auto const before = std::chrono::steady_clock::now();
  EXPECT_EQ(pipe_handle::open(directory.handle(), "fifo", mode::write, 20ms).error(),
            unio::condition::timed_out);
  EXPECT_GE(std::chrono::steady_clock::now() - before, 20ms);
}

DIRECTORY_TEST(named_pipe, waits_for_a_reader_until_the_deadline) {
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  std::thread late([&] {
    std::this_thread::sleep_for(30ms);
    int const fd = ::open((directory / "fifo").c_str(), O_RDONLY); // waits for the writer
    ::close(fd);
  });
  EXPECT_TRUE(pipe_handle::open(directory.handle(), "fifo", mode::write, 20s));
  late.join();
}

DIRECTORY_TEST(named_pipe, is_removed_if_it_could_not_be_opened) {
  EXPECT_EQ(pipe_handle::create(directory.handle(), "fifo", mode::write).error().value(), ENXIO);
  EXPECT_EQ(pipe_handle::create(directory.handle(), "fifo", mode::write, 0600, 1ms).error(),
            unio::condition::timed_out);
  EXPECT_EQ(directory.count(), 0);
}

DIRECTORY_TEST(named_pipe, removes_nothing_that_another_process_has_put_there_while_it_waited) {
  static test::temporary_directory const* there;
  there = &directory;
  test::replaced_calls calls;
  calls->poll = [](pollfd*, unsigned, timespec const*) noexcept -> std::int64_t { // waits for a reader
    ::unlink((*there / "fifo").c_str());
    there->write("fifo", "theirs");
    return 0;
  };
  EXPECT_EQ(pipe_handle::create(directory.handle(), "fifo", mode::write, 0600, 20s).error().value(), EINVAL);
  EXPECT_EQ(directory.read("fifo"), "theirs");
}

DIRECTORY_TEST(named_pipe, is_refused_if_it_is_not_one) {
  directory.write("file", "text");
  EXPECT_EQ(pipe_handle::open(directory.handle(), "file").error().value(), EINVAL);
  EXPECT_EQ(pipe_handle::open(directory.handle(), "nothing").error().value(), ENOENT);
  EXPECT_EQ(pipe_handle::open(directory.handle(), "file", mode::append).error().value(), EINVAL);
  EXPECT_EQ(pipe_handle::open(directory.handle(), std::string("a\0b", 3)).error(), unio::error::embedded_nul);
}

DIRECTORY_TEST(named_pipe, gets_a_random_name) {
  pipe_handle const a = pipe_handle::random(directory.handle(), "p-").value();
  pipe_handle const b = pipe_handle::random(directory.handle(), "p-").value();
  EXPECT_EQ(directory.count(), 2);
  EXPECT_TRUE(a.current_path().value().starts_with(directory / "p-"));
  EXPECT_NE(a.current_path().value(), b.current_path().value());
}

DIRECTORY_TEST(named_pipe, read_waits_for_the_first_writer_and_ends_with_the_last) {
  pipe_handle reader = pipe_handle::create(directory.handle(), "fifo").value();
  char memory[8];
  EXPECT_EQ(reader.try_read(memory).error(), unio::condition::would_block);
  EXPECT_EQ(reader.try_read_for(memory, 10ms).error(), unio::condition::timed_out);
  pipe_handle writer = pipe_handle::open(directory.handle(), "fifo", mode::write).value();
  ASSERT_TRUE(writer.write(unio::const_buffer("x", 1)));
  EXPECT_EQ(reader.read(memory).value().bytes(), 1U);
  ASSERT_TRUE(writer.close());
  EXPECT_EQ(reader.read(memory).value().bytes(), 0U);
}

TEST(pipe, without_a_reader_is_an_error_and_not_a_signal) {
  unio::anonymous_pipe pipe = pipe_handle::anonymous().value();
  ASSERT_TRUE(pipe.reader.close());
  EXPECT_EQ(pipe.writer.write(unio::const_buffer("x", 1)).error(), std::errc::broken_pipe);
}

} // namespace
