// unio/pending.hpp: dump_pending and its signal. What it says of coroutines is there where the library tracks
// them.

#include "support/child.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/process_handle.hpp>
#include <unio/watch_handle.hpp>

#include <sstream>

namespace {

using namespace test;

std::string dumped() {
  std::ostringstream out;
  dump_pending(out);
  return out.str();
}

struct ignores {
  static void set_value(auto&&) noexcept {}
  static void set_done() noexcept {}
};

task<> inner_reader(pipe_handle& p) {
  std::byte byte;
  (void)co_await p.co_read(mutable_buffer(&byte, 1), 30s);
}
task<> outer_reader(pipe_handle& p) { co_await inner_reader(p); }

TEST(dump_pending, names_each_pending_operation_with_its_handle_and_deadline) {
  anonymous_pipe p = pipe_handle::anonymous().value();
  std::byte byte;
  auto op = connect(async_read(p.reader, mutable_buffer(&byte, 1), 10s), ignores());
  op.start();
  std::string const text = dumped();
  EXPECT_TRUE(contains(text, "multiplexer, 1 pending")) << text;
  EXPECT_TRUE(contains(text, "read on pipe " + std::to_string(p.reader.native_handle()))) << text;
  EXPECT_TRUE(contains(text, "due in ")) << text;
  EXPECT_EQ(contains(text, ", for "), UNIO_TRACKS_PENDING) << text;
}

TEST(dump_pending, names_what_is_no_file_and_no_socket) {
  watch_handle watch = watch_handle::create().value();
  process_handle self = process_handle::current().value();
  std::byte memory[256];
  auto op = connect(async_read_events(watch, mutable_buffer(memory)), ignores());
  auto end = connect(async_wait_exit(self), ignores());
  op.start();
  end.start();
  std::string const text = dumped();
  EXPECT_TRUE(contains(text, "read_events on watch " + std::to_string(watch.native_handle()))) << text;
  EXPECT_TRUE(contains(text, "wait_exit on process " + std::to_string(self.native_handle()))) << text;
}

TEST(dump_pending, shows_a_name_in_one_line_that_commands_no_terminal) {
  test::temporary_directory const directory;
  pipe_handle reader = pipe_handle::create(directory.handle(), "line\n\x1b[2J").value();
  std::byte byte;
  auto op = connect(async_read(reader, mutable_buffer(&byte, 1)), ignores());
  op.start();
  std::string const text = dumped();
  EXPECT_TRUE(contains(text, directory / R"(line\x0a\x1b[2J)")) << text;
}

TEST(dump_pending, says_of_what_has_ended_nothing) {
  anonymous_pipe p = pipe_handle::anonymous().value();
  std::byte byte{};
  ASSERT_TRUE(p.writer.write(const_buffer(&byte, 1)).has_value());
  auto op = connect(async_read(p.reader, mutable_buffer(&byte, 1)), ignores());
  op.start();
  while (!op.finished()) (void)op.poll();
  EXPECT_FALSE(contains(dumped(), "read on pipe"));
}

// What is dumped while `t` runs, which is stopped then.
std::string dumped_while_it_waits(task<> t) {
  stop_source stop;
  async_run(this_thread::multiplexer(), std::move(t), {.stop = stop.get_token()});
  std::string text;
  run([](std::string& to, stop_source& s) -> task<> {
    (co_await co_no_op()).value();
    to = dumped();
    s.request_stop();
    (co_await co_no_op()).value();
  }(text, stop));
  while (this_thread::multiplexer().try_run().value_or(0) > 0) continue;
  return text;
}

TEST(dump_pending, names_the_chain_of_coroutines_innermost_first) {
  if (!UNIO_TRACKS_PENDING) GTEST_SKIP() << "the library was built without UNIO_TRACK_PENDING";
  anonymous_pipe p = pipe_handle::anonymous().value();
  std::string const text = dumped_while_it_waits(outer_reader(p.reader));
  std::size_t const inner = text.find("inner_reader");
  std::size_t const outer = text.find("outer_reader");
  ASSERT_NE(inner, std::string::npos) << text;
  ASSERT_NE(outer, std::string::npos) << text;
  EXPECT_LT(inner, outer) << text;
  EXPECT_TRUE(contains(text, "pending_test.cpp:")) << text;
  EXPECT_TRUE(contains(text, "in async_run")) << text;
}

task<> limited_reader(pipe_handle& p) { (void)co_await timeout(30s, inner_reader(p)); }
task<> read_both(pipe_handle& a, pipe_handle& b) { co_await when_all(limited_reader(a), outer_reader(b)); }

TEST(dump_pending, follows_the_chain_through_what_waits_for_several) {
  if (!UNIO_TRACKS_PENDING) GTEST_SKIP() << "the library was built without UNIO_TRACK_PENDING";
  anonymous_pipe p = pipe_handle::anonymous().value();
  anonymous_pipe q = pipe_handle::anonymous().value();
  std::string const text = dumped_while_it_waits(read_both(p.reader, q.reader));
  for (char const* const part : {"inner_reader", "in timeout", "limited_reader",
                                 "in when_all, when_any or race", "read_both", "in async_run"})
    EXPECT_TRUE(contains(text, part)) << part << " is not in\n" << text;
}

task<> locks(async_mutex& m) { (void)co_await m.co_lock(); }
task<> locks_through(async_mutex& m) { co_await locks(m); }
task<> receives(channel<int>& c) { (void)co_await c.co_receive(); }
task<> sends(channel<int>& c) { (void)co_await c.co_send(1); }
task<> waits(event& e) { (void)co_await e.co_wait(); }

TEST(dump_pending, names_the_coroutines_that_wait_for_others) {
  if (!UNIO_TRACKS_PENDING) GTEST_SKIP() << "the library was built without UNIO_TRACK_PENDING";
  async_mutex mutex;
  async_mutex::guard held = mutex.try_lock();
  channel<int> empty(1), full(1);
  ASSERT_TRUE(full.try_send(1).has_value());
  event unset;
  stop_source stop;
  io_multiplexer& m = this_thread::multiplexer();
  async_run(m, locks_through(mutex), {.stop = stop.get_token()});
  async_run(m, receives(empty), {.stop = stop.get_token()});
  async_run(m, sends(full), {.stop = stop.get_token()});
  async_run(m, waits(unset), {.stop = stop.get_token()});
  while (m.try_run().value_or(0) > 0) continue;
  std::string const text = dumped();
  for (char const* const part :
       {"waiting for mutex", "locks", "locks_through", "waiting for a value of a channel", "receives",
        "waiting for room in a channel", "sends", "waiting for event", "waits", "in async_run"})
    EXPECT_TRUE(contains(text, part)) << part << " is not in\n" << text;
  EXPECT_LT(text.find("locks"), text.find("locks_through")) << text;
  stop.request_stop();
  while (m.try_run().value_or(0) > 0) continue;
  EXPECT_FALSE(contains(dumped(), "waiting for")) << "what has ended is not listed";
}

TEST(dump_pending, names_a_wait_that_another_thread_ends_only_until_then) {
  if (!UNIO_TRACKS_PENDING) GTEST_SKIP() << "the library was built without UNIO_TRACK_PENDING";
  event set_by_another;
  std::atomic<bool> ended{false};
  std::thread looking([&] {
    while (!ended) (void)dumped();
  });
  for (int i = 0; i != 100; ++i) {
    set_by_another.reset();
    std::thread setting([&] { set_by_another.set(); });
    run(waits(set_by_another));
    setting.join();
  }
  ended = true;
  while (this_thread::multiplexer().try_run().value_or(0) > 0) continue;
  looking.join();
  EXPECT_FALSE(contains(dumped(), "waiting for"));
}

TEST(dump_pending, asks_other_threads_for_theirs) {
  anonymous_pipe p = pipe_handle::anonymous().value();
  std::atomic<io_multiplexer*> other{nullptr};
  std::thread thread([&] {
    std::byte byte;
    auto op = connect(async_read(p.reader, mutable_buffer(&byte, 1)), ignores());
    op.start();
    other = &this_thread::multiplexer();
    while (!op.finished()) (void)this_thread::multiplexer().run();
  });
  while (other == nullptr) std::this_thread::yield();
  std::string const text = dumped();
  EXPECT_TRUE(contains(text, "read on pipe " + std::to_string(p.reader.native_handle()))) << text;
  std::byte byte{};
  EXPECT_TRUE(p.writer.write(const_buffer(&byte, 1)).has_value());
  thread.join();
}

TEST(dump_pending, does_not_wait_for_ever_for_a_thread_that_is_busy) {
  std::atomic<bool> made{false}, leave{false};
  anonymous_pipe p = pipe_handle::anonymous().value();
  std::thread thread([&] {
    std::byte byte;
    auto op = connect(async_read(p.reader, mutable_buffer(&byte, 1)), ignores());
    op.start();
    made = true;
    while (!leave) std::this_thread::sleep_for(1ms);
  });
  while (!made) std::this_thread::yield();
  EXPECT_TRUE(contains(dumped(), "busy"));
  leave = true;
  thread.join();
}

// What is written to a descriptor goes to a file until its end.
class into_file {
 public:
  into_file(int fd, std::string const& path) : fd_(fd), before_(dup(fd)) {
    int const file = open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    dup2(file, fd_);
    close(file);
  }
  ~into_file() {
    dup2(before_, fd_);
    close(before_);
  }
  into_file(into_file const&) = delete;
  into_file& operator=(into_file const&) = delete;

 private:
  int fd_;
  int before_;
};

TEST(dump_pending_on_signal, writes_to_standard_error_and_refuses_signals_that_cannot_be_caught) {
  result<void> const refused = dump_pending_on_signal(SIGKILL);
  EXPECT_EQ(refused.error(), std::errc::invalid_argument);
  struct sigaction before;
  ASSERT_EQ(sigaction(SIGUSR2, nullptr, &before), 0);
  ASSERT_TRUE(dump_pending_on_signal(SIGUSR2).has_value());
  (void)this_thread::multiplexer().try_run();
  temporary_directory directory;
  std::string text;
  {
    into_file const standard_error(STDERR_FILENO, directory / "text");
    raise(SIGUSR2);
    for (int i = 0; i != 10'000 && !contains(text, "multiplexer, ");
         ++i) { // the thread that writes asks this one
      std::this_thread::sleep_for(1ms);
      (void)this_thread::multiplexer().try_run();
      text = directory.read("text");
    }
  }
  EXPECT_TRUE(contains(text, "multiplexer, ")) << text;
  sigaction(SIGUSR2, &before, nullptr);
}

TEST(dump_pending_on_signal, leaves_a_standard_stream_that_is_closed_closed) {
  expect_in_child([] {
    close(STDIN_FILENO);
    if (!dump_pending_on_signal(SIGUSR2).has_value()) return 1;
    return fcntl(STDIN_FILENO, F_GETFD) < 0 ? 0 : 2;
  });
}

} // namespace
