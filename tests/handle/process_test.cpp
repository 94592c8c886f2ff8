// process_handle.hpp: starting programs, waiting for their end, signals to them.
//
// The programs are those of every system (sh, true, cat, sleep), and this test's own scripts. What spoils a
// process (limits, ignored signals, filters of system calls) happens in a forked one.

#include "support/child.hpp"
#include "support/drivers.hpp"
#include "support/failing_calls.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/sanitizer.hpp"

#include <unio/process_handle.hpp>
#include <unio/terminate.hpp>

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>

#include <filesystem>
#include <string_view>

namespace {

using namespace test;

/// All bytes until the end.
std::string read_all(unio::pipe_handle& from) {
  std::string all;
  char memory[4096];
  for (;;) {
    auto const r = from.read(unio::mutable_buffer(memory), long_time);
    if (!r.has_value()) {
      ADD_FAILURE() << r.error().message();
      return all;
    }
    if (r.bytes_transferred() == 0) return all;
    all.append(memory, r.bytes_transferred());
  }
}

struct outcome {
  std::string output;
  exit_status how;
};

/// What a command of the shell prints, and how it ends.
outcome shell(std::string const& command, launch_options options = {}) {
  options.output = child_stream::pipe();
  launched_process p = process_handle::launch("sh", {"-c", command}, options).value();
  outcome o;
  o.output = read_all(p.output);
  o.how = p.process.wait(long_time).value();
  return o;
}

/// Of the children of this process, those of which `is` what /proc says of them.
int count_children(bool is(std::string_view)) {
  int n = 0;
  for (auto const& thread : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream list(thread.path() / "children");
    for (int id; list >> id;) {
      std::ifstream stat("/proc/" + std::to_string(id) + "/stat");
      std::string const text{std::istreambuf_iterator<char>(stat), {}};
      if (!text.empty() && is(text)) ++n;
    }
  }
  return n;
}
/// Children that have ended and that were not waited for.
int zombies() {
  return count_children([](std::string_view s) { return s.find(") Z ") != s.npos; });
}
/// But for the one by which a sanitizer finds names, which stays (CMakePresets.json).
bool has_children() {
  return count_children([](std::string_view s) { return s.find("(addr2line)") == s.npos; }) != 0;
}
bool eventually(auto condition) {
  auto const give_up = std::chrono::steady_clock::now() + long_time;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > give_up) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

/// Waits at its end until nothing is left of what was launched: children that nobody waited for are removed
/// by a thread, and later tests count descriptors.
class nothing_stays {
 public:
  nothing_stays() = default;
  nothing_stays(nothing_stays const&) = delete;
  nothing_stays& operator=(nothing_stays const&) = delete;
  ~nothing_stays() {
    EXPECT_TRUE(eventually([] { return !has_children(); }));
    EXPECT_TRUE(eventually([this] { return test::count_descriptors() <= before_; }));
  }

 private:
  static std::ptrdiff_t count_before() {
    (void)unio::this_thread::multiplexer().try_run(); // what it opens stays
    return test::count_descriptors();
  }
  std::ptrdiff_t before_ = count_before();
};

class process : public ::testing::Test {
  nothing_stays at_the_end_;
};

std::error_code refused(unio::path_view program, launch_step& step,
                        std::vector<std::string> const& arguments = {}, launch_options const& options = {}) {
  auto const r = process_handle::launch(program, arguments, options, &step);
  return r.has_value() ? std::error_code() : r.error();
}

// ---- how it ended ----------------------------------------------------------------------------------------

TEST(exit_status, tells_a_code_from_a_signal) {
  EXPECT_TRUE(exit_status().is_success());
  EXPECT_EQ(exit_status::exited(3).code(), 3);
  EXPECT_FALSE(exit_status::exited(3).is_success());
  EXPECT_FALSE(exit_status::killed(SIGTERM).is_success());
  EXPECT_TRUE(exit_status::killed(SIGTERM).was_killed());
  EXPECT_EQ(exit_status::killed(SIGTERM).as_shell(), 128 + SIGTERM);
  EXPECT_TRUE(exit_status::killed(SIGSEGV, true).dumped_core());
}

TEST_F(process, ends_with_its_code) {
  for (int const code : {0, 1, 3, 255}) {
    launched_process p = process_handle::launch("/bin/sh", {"-c", "exit " + std::to_string(code)}).value();
    EXPECT_EQ(p.process.kind(), unio::handle_kind::process);
    EXPECT_GT(p.process.id(), 1);
    EXPECT_EQ(p.process.wait(long_time).value(), exit_status::exited(code));
    EXPECT_EQ(p.process.wait(long_time).value(), exit_status::exited(code)) << "once more";
    EXPECT_EQ(p.process.try_wait().value(), exit_status::exited(code));
  }
}

TEST_F(process, ends_by_a_signal) {
  launched_process p = process_handle::launch("sleep", {"100"}).value();
  EXPECT_EQ(p.process.try_wait().error(), unio::condition::would_block);
  EXPECT_EQ(p.process.try_wait_for(5ms).error(), unio::condition::timed_out);
  ASSERT_TRUE(p.process.kill(0));
  ASSERT_TRUE(p.process.kill(SIGKILL));
  EXPECT_EQ(p.process.wait(long_time).value(), exit_status::killed(SIGKILL));
  EXPECT_EQ(p.process.kill(SIGKILL).error(), std::errc::no_such_process);
}

TEST_F(process, that_was_waited_for_is_gone) {
  launched_process p = process_handle::launch("true").value();
  ASSERT_TRUE(p.process.wait(long_time).has_value());
  EXPECT_EQ(::kill(p.process.id(), 0), -1);
  EXPECT_EQ(zombies(), 0);
}

TEST_F(process, is_moved_with_its_handle) {
  launched_process p = process_handle::launch("sleep", {"100"}).value();
  int const id = p.process.id();
  process_handle other = std::move(p.process);
  EXPECT_FALSE(p.process.is_open());
  EXPECT_EQ(p.process.id(), 0);
  EXPECT_EQ(p.process.wait().error(), std::errc::bad_file_descriptor);
  EXPECT_EQ(other.id(), id);
  other = process_handle::launch("false").value().process; // what it held lives on
  EXPECT_EQ(other.wait(long_time).value(), exit_status::exited(1));
  EXPECT_EQ(::kill(id, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return ::kill(id, 0) != 0; })) << "no zombie stays";
}

// ---- streams ---------------------------------------------------------------------------------------------

TEST_F(process, is_written_to_and_read_from) {
  launch_options o{
      .input = child_stream::pipe(), .output = child_stream::pipe(), .error = child_stream::pipe()};
  launched_process p =
      process_handle::launch("sh", {"-c", "read x; echo \"got $x\"; echo wrong >&2; exit 7"}, o).value();
  ASSERT_TRUE(p.input.write(unio::const_buffer(std::string_view("a line\n"))).has_value());
  EXPECT_EQ(read_all(p.output), "got a line\n");
  EXPECT_EQ(read_all(p.error), "wrong\n");
  EXPECT_EQ(p.process.wait(long_time).value(), exit_status::exited(7));
}

TEST_F(process, sees_the_end_of_its_input) {
  launch_options o{.input = child_stream::pipe(), .output = child_stream::pipe()};
  launched_process p = process_handle::launch("cat", {}, o).value();
  ASSERT_TRUE(p.input.write(unio::const_buffer(std::string_view("hello"))).has_value());
  ASSERT_TRUE(p.input.close());
  EXPECT_EQ(read_all(p.output), "hello");
  EXPECT_TRUE(p.process.wait(long_time).value().is_success());
}

TEST_F(process, has_blocking_pipes_and_ours_do_not_block) {
  launch_options o{.input = child_stream::pipe(), .error = child_stream::pipe()};
  launched_process p =
      process_handle::launch("sh", {"-c", "grep flags /proc/self/fdinfo/0 >&2; cat >&2"}, o).value();
  EXPECT_EQ(::fcntl(p.input.native_handle(), F_GETFL) & O_NONBLOCK, O_NONBLOCK);
  EXPECT_EQ(::fcntl(p.input.native_handle(), F_GETFD), FD_CLOEXEC);
  ASSERT_TRUE(p.input.close());
  std::string const flags = read_all(p.error);
  EXPECT_EQ(std::stol(flags.substr(flags.find_first_of("0123456789")), nullptr, 8) & O_NONBLOCK, 0) << flags;
}

TEST_F(process, has_its_error_merged_into_its_output) {
  EXPECT_EQ(shell("echo a; echo b >&2; echo c", {.error = child_stream::merged()}).output, "a\nb\nc\n");
}

TEST_F(process, reads_nothing_and_writes_to_nowhere) {
  launch_options o{.input = child_stream::null(), .error = child_stream::null()};
  outcome const r = shell("cat; echo lost >&2; readlink /proc/self/fd/0 /proc/self/fd/2", o);
  EXPECT_EQ(r.output, "/dev/null\n/dev/null\n");
}

TEST_F(process, writes_where_another_handle_leads) {
  test::temporary_directory d;
  auto file =
      unio::file_handle::file(d.handle(), "log", unio::handle::mode::write, unio::handle::creation::if_needed)
          .value();
  launch_options o{.output = child_stream::to(file), .error = child_stream::to(file)};
  launched_process p = process_handle::launch("sh", {"-c", "echo out; echo error >&2"}, o).value();
  EXPECT_TRUE(p.process.wait(long_time).value().is_success());
  EXPECT_EQ(d.read("log"), "out\nerror\n");
}

TEST_F(process, gets_a_pipe_of_ours_that_blocks) {
  unio::anonymous_pipe between = unio::pipe_handle::anonymous().value();
  launch_options first, second;
  first.output = child_stream::to(between.writer);
  second.input = child_stream::to(between.reader);
  second.output = child_stream::pipe();
  launched_process a = process_handle::launch("sh", {"-c", "sleep 0.05; echo through"}, first).value();
  launched_process b = process_handle::launch("cat", {}, second).value();
  between = {};
  EXPECT_EQ(read_all(b.output), "through\n"); // cat ends with an error at EAGAIN
  EXPECT_TRUE(b.process.wait(long_time).value().is_success());
  EXPECT_TRUE(a.process.wait(long_time).value().is_success());
}

// Where one is to be had in a moment: such a pipe would be that of the whole life of the child.
TEST_F(process, gets_no_pipe_that_does_not_block_for_want_of_a_descriptor) {
  unio::anonymous_pipe const between = unio::pipe_handle::anonymous().value();
  for (int const error : {EMFILE, ENFILE}) {
    failing_calls calls;
    calls.fail<&table::openat>(error);
    launch_step failed{};
    EXPECT_EQ(process_handle::launch("true", {}, {.output = child_stream::to(between.writer)}, &failed)
                  .error()
                  .value(),
              error);
    EXPECT_EQ(failed, launch_step::output);
  }
}

TEST_F(process, writes_to_the_terminal_behind_a_master_and_not_to_a_new_one) {
  unio::io_handle master = unio::io_handle::adopt(::open("/dev/ptmx", O_RDWR | O_NOCTTY)).value();
  int unlocked = 0;
  ASSERT_EQ(::ioctl(master.native_handle(), TIOCSPTLCK, &unlocked), 0);
  unio::io_handle terminal =
      unio::io_handle::adopt(::ioctl(master.native_handle(), TIOCGPTPEER, O_RDWR | O_NOCTTY)).value();
  launched_process p =
      process_handle::launch("sh", {"-c", "echo typed"}, {.output = child_stream::to(master)}).value();
  EXPECT_TRUE(p.process.wait(long_time).value().is_success());
  char memory[16];
  auto const r = terminal.read(unio::mutable_buffer(memory), long_time);
  ASSERT_TRUE(r);
  EXPECT_EQ(std::string_view(memory, r.bytes_transferred()), "typed\n");
}

TEST_F(process, that_closes_its_output_lives_on) {
  launch_options o{.input = child_stream::pipe(), .output = child_stream::pipe()};
  launched_process p = process_handle::launch("sh", {"-c", "exec >&-; read x; exit 5"}, o).value();
  EXPECT_EQ(read_all(p.output), "");
  EXPECT_EQ(p.process.try_wait().error(), unio::condition::would_block);
  ASSERT_TRUE(p.input.close());
  EXPECT_EQ(p.process.wait(long_time).value(), exit_status::exited(5));
}

TEST_F(process, begins_with_all_three_streams_where_this_one_has_none) {
  test::temporary_directory d;
  test::expect_in_child([&] {
    ::close(0);
    ::close(1);
    ::close(2);
    launch_options o{.working_directory = d.path()};
    auto p = process_handle::launch("sh",
                                    {"-c",
                                     "readlink /proc/self/fd/0 /proc/self/fd/1 > seen; test -e "
                                     "/proc/self/fd/2"},
                                    o);
    CHILD_EXPECTS(p.has_value());
    CHILD_EXPECTS(p->process.native_handle() > 2);
    o.output = child_stream::pipe();
    auto q = process_handle::launch("echo", {"hello"}, o);
    CHILD_EXPECTS(q.has_value() && q->output.native_handle() > 2);
    char memory[8];
    auto const n = q->output.read(unio::mutable_buffer(memory), long_time);
    CHILD_EXPECTS(n.has_value() && std::string_view(memory, n.bytes_transferred()) == "hello\n");
    return CHILD_MEETS(p->process.wait(long_time).value().is_success());
  });
  EXPECT_EQ(d.read("seen"), "/dev/null\n" + d.path() + "/seen\n");
}

// ---- descriptors -----------------------------------------------------------------------------------------

TEST_F(process, has_no_descriptor_that_it_was_not_given) {
  int const leaked = ::open("/dev/null", O_RDONLY); // without O_CLOEXEC, as foreign code does
  int const far = ::fcntl(leaked, F_DUPFD, 700);
  unio::anonymous_pipe const p = unio::pipe_handle::anonymous().value();
  launch_options o{.input = child_stream::null(), .error = child_stream::null()};
  // ls has its own, for the directory.
  EXPECT_EQ(shell("exec ls /proc/self/fd", o).output, "0\n1\n2\n3\n");
  EXPECT_EQ(::fcntl(leaked, F_GETFD), 0) << "this process's stay as they are";
  ::close(leaked);
  ::close(far);
}

TEST_F(process, gets_the_handles_that_are_passed_in_their_order) {
  test::temporary_directory d;
  d.write("a", "from a\n");
  d.write("b", "from b\n");
  auto const open = [&](char const* name) { return unio::file_handle::file(d.handle(), name).value(); };
  unio::file_handle const a = open("a"), b = open("b");
  unio::handle const* const both[] = {&b, &a}; // whose numbers may be each other's places
  EXPECT_EQ(shell("cat <&3; cat <&4; test -e /proc/self/fd/5 || echo no more", {.passed = both}).output,
            "from b\nfrom a\nno more\n");
}

TEST_F(process, gets_handles_whatever_their_numbers_are) {
  test::expect_in_child([] {
    for (int fd = 3; fd < 64; ++fd) ::close(fd);
    test::temporary_directory d; // 3
    d.write("a", "a");
    d.write("b", "b");
    unio::file_handle a = unio::file_handle::file(d.handle(), "a").value(); // 4
    unio::file_handle b = unio::file_handle::file(d.handle(), "b").value(); // 5
    unio::handle const* const all[] = {&b, &a, &d.handle()};
    launch_options o{.passed = all};
    o.working_base = &d.handle();
    o.output = child_stream::pipe();
    auto p = process_handle::launch(
        "sh",
        {"-c", "cat <&3; cat <&4; readlink /proc/self/fd/5 | grep -c unio-test; pwd | grep -c unio-test"}, o);
    CHILD_EXPECTS(p.has_value());
    return CHILD_MEETS(read_all(p->output) == "ba1\n1\n");
  });
}

TEST_F(process, needs_handles_that_are_open_and_not_too_many) {
  launch_step step{};
  unio::handle const closed;
  launch_options o{.input = child_stream::to(closed)};
  EXPECT_EQ(refused("true", step, {}, o).value(), EBADF);
  EXPECT_EQ(step, launch_step::input);
  o = {};
  unio::handle const* const one[] = {&closed};
  o.passed = one;
  EXPECT_EQ(refused("true", step, {}, o).value(), EBADF);
  EXPECT_EQ(step, launch_step::passed);
  std::vector<unio::handle const*> const many(65, &closed);
  o.passed = many;
  EXPECT_EQ(refused("true", step, {}, o).value(), EINVAL);
  o = {};
  o.output = child_stream::merged();
  EXPECT_EQ(refused("true", step, {}, o).value(), EINVAL);
  EXPECT_EQ(step, launch_step::output);
}

// ---- environment, directory, group, signals --------------------------------------------------------------

TEST_F(process, inherits_the_environment_with_changes) {
  ::setenv("UNIO_CHILD_KEPT", "kept", 1);
  ::setenv("UNIO_CHILD_CHANGED", "before", 1);
  ::setenv("UNIO_CHILD_REMOVED", "there", 1);
  launch_options o;
  EXPECT_EQ(shell("echo $UNIO_CHILD_KEPT $UNIO_CHILD_CHANGED").output, "kept before\n");
  o.environment = {"UNIO_CHILD_CHANGED=1", "UNIO_CHILD_REMOVED", "UNIO_CHILD_NEW=a=b",
                   "UNIO_CHILD_CHANGED=after"};
  EXPECT_EQ(shell("env | grep UNIO_CHILD_ | sort", o).output,
            "UNIO_CHILD_CHANGED=after\nUNIO_CHILD_KEPT=kept\nUNIO_CHILD_NEW=a=b\n");
  for (char const* const name : {"UNIO_CHILD_KEPT", "UNIO_CHILD_CHANGED", "UNIO_CHILD_REMOVED"})
    ::unsetenv(name);
}

TEST_F(process, gets_an_environment_of_its_own) {
  launch_options o{.inherits_environment = false, .environment = {"ONLY=this"}};
  o.output = child_stream::pipe();
  launched_process p = process_handle::launch("env", {}, o).value();
  EXPECT_EQ(read_all(p.output), "ONLY=this\n");
  o.environment = {};
  launched_process q = process_handle::launch("env", {}, o).value();
  EXPECT_EQ(read_all(q.output), "");
}

TEST_F(process, starts_where_it_should) {
  test::temporary_directory d;
  ASSERT_EQ(::mkdir((d / "below").c_str(), 0700), 0);
  launch_options o{.working_directory = d.path()};
  EXPECT_EQ(shell("pwd -P", o).output, d.path() + "\n");
  o.working_base = &d.handle();
  o.working_directory = {};
  EXPECT_EQ(shell("pwd -P", o).output, d.path() + "\n");
  o.working_directory = "below";
  EXPECT_EQ(shell("pwd -P", o).output, d.path() + "/below\n");

  launch_step step{};
  o.working_directory = "missing";
  EXPECT_EQ(refused("true", step, {}, o).value(), ENOENT);
  EXPECT_EQ(step, launch_step::working_directory);
  d.write("file", "");
  o.working_directory = "file";
  EXPECT_EQ(refused("true", step, {}, o).value(), ENOTDIR);
  EXPECT_EQ(step, launch_step::working_directory);
}

TEST_F(process, is_found_relative_to_a_directory) {
  test::temporary_directory d;
  d.write("script", "#!/bin/sh\necho \"$1 from $(pwd -P)\"\n");
  ASSERT_EQ(::chmod((d / "script").c_str(), 0700), 0);
  ASSERT_EQ(::symlink("/bin/echo", (d / "program").c_str()), 0);
  launch_options o{.output = child_stream::pipe(), .working_directory = "/"};
  launched_process p = process_handle::launch(d.handle(), "program", {"hello"}, o).value();
  EXPECT_EQ(read_all(p.output), "hello\n");
  launched_process q = process_handle::launch(d.handle(), "script", {"hello"}, o).value();
  EXPECT_EQ(read_all(q.output), "hello from /\n");
  launch_step step{};
  EXPECT_EQ(process_handle::launch(d.handle(), "missing", {}, o, &step).error().value(), ENOENT);
  EXPECT_EQ(step, launch_step::program);
}

TEST_F(process, is_found_where_this_process_is_wherever_it_starts) {
  test::temporary_directory d;
  ASSERT_EQ(::symlink("/bin/echo", (d / "program").c_str()), 0);
  test::expect_in_child([&] {
    CHILD_EXPECTS(::chdir(d.path().c_str()) == 0);
    auto p = process_handle::launch("./program", {}, {.working_directory = "/"});
    CHILD_EXPECTS(p.has_value());
    return CHILD_MEETS(p->process.wait(long_time).value().is_success());
  });
}

// What the child's directory has by that name is another program.
TEST_F(process, is_looked_for_in_relative_parts_of_the_path_where_this_process_is) {
  test::temporary_directory here, there;
  std::filesystem::create_directory(here / "tools");
  for (char const* const name : {"here-tool", "tools/tool"}) {
    here.write(name, "#!/bin/sh\nexit 7\n");
    ASSERT_EQ(::chmod((here / name).c_str(), 0700), 0);
  }
  std::filesystem::create_directory(there / "tools");
  for (char const* const name : {"here-tool", "tools/tool"}) {
    there.write(name, "#!/bin/sh\nexit 8\n");
    ASSERT_EQ(::chmod((there / name).c_str(), 0700), 0);
  }
  test::expect_in_child([&] {
    CHILD_EXPECTS(::chdir(here.path().c_str()) == 0);
    std::string const elsewhere = there.path();
    for (char const* const path : {"tools:/missing::/bin", ".:tools", "/missing:tools:"}) {
      ::setenv("PATH", path, 1);
      for (char const* const name : {"here-tool", "tool"}) {
        auto p = process_handle::launch(name, {}, {.working_directory = elsewhere});
        CHILD_EXPECTS(p.has_value());
        CHILD_EXPECTS(p->process.wait(long_time).value() == exit_status::exited(7));
      }
      launch_step step{};
      CHILD_EXPECTS(
          process_handle::launch("no-tool", {}, {.working_directory = elsewhere}, &step).error().value() ==
          ENOENT);
    }
    return 0;
  });
}

TEST_F(process, gets_the_name_that_it_should_see) {
  launch_options o{.name = "another"};
  o.output = child_stream::pipe();
  launched_process p = process_handle::launch("sh", {"-c", "echo $0"}, o).value();
  EXPECT_EQ(read_all(p.output), "another\n");
}

TEST_F(process, has_a_group_or_a_session_of_its_own) {
  launched_process p = process_handle::launch("sleep", {"100"}).value();
  EXPECT_EQ(::getpgid(p.process.id()), ::getpgid(0));
  launch_options o{.group = unio::process_group::own};
  launched_process q = process_handle::launch("sleep", {"100"}, o).value();
  EXPECT_EQ(::getpgid(q.process.id()), q.process.id());
  EXPECT_EQ(::getsid(q.process.id()), ::getsid(0));
  o.group = unio::process_group::own_session;
  launched_process r = process_handle::launch("sleep", {"100"}, o).value();
  EXPECT_EQ(::getsid(r.process.id()), r.process.id());
  for (launched_process* const each : {&p, &q, &r})
    EXPECT_EQ(each->process.terminate(long_time).value(), exit_status::killed(SIGTERM));
}

std::string signals_of_child(char const* which, bool inherits) {
  launch_options o{.inherits_signals = inherits};
  // cat has no handlers of its own.
  return shell(std::string("cat /proc/self/status | grep ") + which + " | cut -f2", o).output;
}

TEST_F(process, has_no_signal_blocked_or_ignored_unless_it_inherits_that) {
  test::expect_in_child([] {
    std::signal(SIGPIPE, SIG_IGN);
    std::signal(SIGUSR1, [](int) {});
    sigset_t usr2;
    sigemptyset(&usr2);
    sigaddset(&usr2, SIGUSR2);
    ::pthread_sigmask(SIG_BLOCK, &usr2, nullptr);
    std::string const none = "0000000000000000\n";
    CHILD_EXPECTS(signals_of_child("SigIgn", false) == none);
    CHILD_EXPECTS(signals_of_child("SigBlk", false) == none);
    CHILD_EXPECTS(signals_of_child("SigIgn", true) == "0000000000001000\n");
    CHILD_EXPECTS(signals_of_child("SigBlk", true) == "0000000000000800\n");
    CHILD_EXPECTS(signals_of_child("SigCgt", true) == none);
    sigset_t now; // and this thread's are as they were
    ::pthread_sigmask(SIG_BLOCK, nullptr, &now);
    CHILD_EXPECTS(sigismember(&now, SIGUSR2) == 1 && sigismember(&now, SIGUSR1) == 0);
    return CHILD_MEETS(std::signal(SIGPIPE, SIG_DFL) == SIG_IGN);
  });
}

TEST_F(process, dies_with_the_thread_that_launched_it_if_it_should) {
  launch_options o{.signal_at_parents_death = SIGKILL};
  process_handle child;
  std::thread([&] { child = std::move(process_handle::launch("sleep", {"100"}, o).value().process); }).join();
  EXPECT_EQ(child.wait(long_time).value(), exit_status::killed(SIGKILL));
}

// Its parent has no number in its namespace of processes, so that it cannot look whether that lives.
TEST_F(process, lives_with_the_thread_that_launched_it_from_another_namespace) {
  test::expect_in_child([] {
    if (::unshare(CLONE_NEWPID) != 0) return 0; // not permitted
    auto const first = process_handle::launch("cat", {}, {.input = child_stream::pipe()});
    CHILD_EXPECTS(first.has_value()); // with its end the namespace would end
    launch_options o{.signal_at_parents_death = SIGKILL};
    auto second = process_handle::launch("sh", {"-c", "exit 7"}, o);
    CHILD_EXPECTS(second.has_value());
    return CHILD_MEETS(second->process.wait(long_time).value() == exit_status::exited(7));
  });
}

// ---- what cannot be launched -----------------------------------------------------------------------------

TEST_F(process, says_why_a_program_cannot_be_executed) {
  test::temporary_directory d;
  launch_step step{};
  EXPECT_EQ(refused("/no/such/program", step).value(), ENOENT);
  EXPECT_EQ(step, launch_step::program);
  EXPECT_EQ(refused("no-such-program-in-the-path", step).value(), ENOENT);
  EXPECT_EQ(refused("", step).value(), ENOENT);
  EXPECT_EQ(refused(d.path(), step).value(), EACCES);
  d.write("no-header", "echo not for a shell\n");
  EXPECT_EQ(refused(d / "no-header", step).value(), EACCES) << "it is not executable";
  ASSERT_EQ(::chmod((d / "no-header").c_str(), 0700), 0);
  EXPECT_EQ(refused(d / "no-header", step).value(), ENOEXEC);
  EXPECT_EQ(step, launch_step::program);
  d.write("no-interpreter", "#!/no/such/interpreter\n");
  ASSERT_EQ(::chmod((d / "no-interpreter").c_str(), 0700), 0);
  EXPECT_EQ(refused(d / "no-interpreter", step).value(), ENOENT);
  EXPECT_EQ(refused("/dev/null/below", step).value(), ENOTDIR);
  EXPECT_STREQ(to_string(step), "program");
  EXPECT_TRUE(process_handle::launch("true", {}, {}, &step).has_value());
  EXPECT_EQ(step, launch_step::none);
}

TEST_F(process, is_looked_for_in_the_path_past_what_may_not_be_executed) {
  test::temporary_directory d;
  ASSERT_EQ(::mkdir((d / "a").c_str(), 0700), 0);
  ASSERT_EQ(::mkdir((d / "b").c_str(), 0700), 0);
  d.write("a/tool", "not executable");
  ASSERT_EQ(::symlink("/bin/true", (d / "b/tool").c_str()), 0);
  test::expect_in_child([&] {
    ::setenv("PATH", ("/missing:" + d / "a" + ":" + d / "b").c_str(), 1);
    CHILD_EXPECTS(process_handle::launch("tool").has_value());
    ::setenv("PATH", ("/missing:" + d / "a").c_str(), 1);
    launch_step step{};
    CHILD_EXPECTS(refused("tool", step).value() == EACCES);
    ::unsetenv("PATH");
    return CHILD_MEETS(process_handle::launch("true").has_value());
  });
}

TEST_F(process, refuses_what_is_too_much_for_the_system) {
  launch_step step{};
  std::vector<std::string> const huge(3000, std::string(100'000, 'x'));
  EXPECT_EQ(refused("true", step, huge).value(), E2BIG);
  EXPECT_EQ(step, launch_step::program);
  std::vector<std::string> const long_one(1, std::string(200'000, 'x')); // MAX_ARG_STRLEN is 128 KiB
  EXPECT_EQ(refused("true", step, long_one).value(), E2BIG);
  launch_options o{.output = child_stream::pipe()};
  launched_process p = process_handle::launch("sh", std::vector<std::string>(10'000, "word"), o).value();
  (void)p.process.terminate(long_time);
}

TEST_F(process, refuses_text_with_a_nul_in_it) {
  launch_step step{};
  std::string const bad("a\0b", 3);
  EXPECT_EQ(refused(bad, step), unio::error::embedded_nul);
  EXPECT_EQ(refused("true", step, {bad}), unio::error::embedded_nul);
  EXPECT_EQ(step, launch_step::arguments);
  launch_options o{.environment = {bad + "=1"}};
  EXPECT_EQ(refused("true", step, {}, o), unio::error::embedded_nul);
  o.environment = {"=nothing"};
  EXPECT_EQ(refused("true", step, {}, o).value(), EINVAL);
  o = {};
  o.name = bad;
  EXPECT_EQ(refused("true", step, {}, o), unio::error::embedded_nul);
}

launch_options with_everything() {
  launch_options o{
      .input = child_stream::pipe(), .output = child_stream::pipe(), .error = child_stream::pipe()};
  return o;
}

// Each of its system calls in turn fails: nothing stays open, and no process.
template <auto Member> void fail_each(int error) {
  for (int n = 1;; ++n) {
    auto const before = test::count_descriptors();
    test::failing_calls calls;
    calls.template fail<Member>(error, {.at = n});
    launch_step step{};
    auto r = process_handle::launch("true", {}, with_everything(), &step);
    bool const did_fail = calls.template failures<Member>() != 0;
    if (r.has_value()) {
      EXPECT_EQ(step, launch_step::none);
      EXPECT_TRUE(r->process.wait(long_time).value().is_success());
      r = unio::detail::to_error_code(-ECANCELED);
    } else {
      EXPECT_TRUE(did_fail);
      EXPECT_NE(step, launch_step::none);
    }
    EXPECT_EQ(test::count_descriptors(), before) << "call " << n;
    EXPECT_FALSE(has_children()) << "call " << n;
    if (!did_fail) return;
  }
}

TEST_F(process, leaves_nothing_behind_where_a_call_fails) {
  using table = unio::sys::table;
  for (int const error : {EMFILE, ENFILE, ENOMEM, EPERM}) {
    fail_each<&table::pipe>(error);
    fail_each<&table::fcntl>(error);
    fail_each<&table::socketpair>(error);
    fail_each<&table::pidfd_open>(error);
  }
}

// At whatever descriptor the limit is reached.
TEST_F(process, leaves_nothing_behind_where_no_descriptor_is_left) {
  test::expect_in_child([] {
    auto const before = test::count_descriptors();
    int const free = ::dup(2);
    ::close(free);
    constexpr int most = 24; // the process may have some open beyond the first that is free
    for (int room = 0; room <= most; ++room) {
      rlimit const limit{static_cast<rlim_t>(free + room), 4096};
      CHILD_EXPECTS(::setrlimit(RLIMIT_NOFILE, &limit) == 0);
      launch_step step{};
      auto r = process_handle::launch("/bin/true", {}, with_everything(), &step);
      bool const launched = r.has_value();
      CHILD_EXPECTS(!launched || r->process.wait(long_time).has_value());
      CHILD_EXPECTS(launched || r.error().value() == EMFILE);
      r = unio::detail::to_error_code(-ECANCELED);
      rlimit const enough{4096, 4096};
      ::setrlimit(RLIMIT_NOFILE, &enough);
      CHILD_EXPECTS(test::count_descriptors() == before);
      CHILD_EXPECTS(!has_children());
      CHILD_EXPECTS(room != most || launched);
    }
    return 0;
  });
}

// ---- a filter of system calls ----------------------------------------------------------------------------

// Lets this process make no child that shares its memory, as a container's seccomp filter might.
bool forbid_sharing(int error, bool close_range_too) {
  sock_filter const code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_close_range, 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               close_range_too ? SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error) : SECCOMP_RET_ALLOW),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args)),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, CLONE_VFORK, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{.len = std::size(code), .filter = const_cast<sock_filter*>(code)};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

// Another thread's fork has what a launch has open at that moment.
int waits_for_no_other_child() {
  static pid_t other;
  test::failing_calls calls;
  calls.answer<&unio::sys::table::socketpair>([](int domain, int type, int protocol, int* ends) noexcept {
    auto const r = unio::sys::kernel.socketpair(domain, type, protocol, ends);
    other = ::fork();
    if (other == 0) ::prctl(PR_SET_PDEATHSIG, SIGKILL), ::pause(), ::_exit(0);
    return r;
  });
  ::alarm(60); // ends this child
  launch_step step{};
  CHILD_EXPECTS(refused("/no/such/program", step).value() == ENOENT && step == launch_step::program);
  ::kill(other, SIGKILL);
  auto p = process_handle::launch("sh", {"-c", "exit 4"});
  CHILD_EXPECTS(p.has_value() && p->process.wait(long_time).value() == exit_status::exited(4));
  ::kill(other, SIGKILL);
  return CHILD_MEETS(::waitpid(-1, nullptr, 0) > 0 && ::waitpid(-1, nullptr, 0) > 0);
}

int launch_under_filter(int error, bool close_range_too) {
  if (!forbid_sharing(error, close_range_too)) return 77;
  auto const before = test::count_descriptors();
  (void)::open("/dev/null", O_RDONLY); // leaked
  launch_options o{.input = child_stream::null(), .error = child_stream::null()};
  CHILD_EXPECTS(shell("exec ls /proc/self/fd", o).output == "0\n1\n2\n3\n");
  launch_step step{};
  CHILD_EXPECTS(refused("/no/such/program", step).value() == ENOENT && step == launch_step::program);
  o = {};
  o.working_directory = "/no/such/directory";
  CHILD_EXPECTS(refused("true", step, {}, o).value() == ENOENT && step == launch_step::working_directory);
  auto p = process_handle::launch("sh", {"-c", "exit 4"});
  CHILD_EXPECTS(p.has_value() && p->process.wait(long_time).value() == exit_status::exited(4));
  p = unio::detail::to_error_code(-ECANCELED);
  CHILD_EXPECTS(test::count_descriptors() == before + 1 && !has_children());
  return waits_for_no_other_child();
}

TEST_F(process, is_forked_where_it_may_not_share_memory) {
  for (int const error : {EPERM, ENOSYS})
    for (bool const close_range_too : {false, true}) {
      int const r = test::in_child([&] { return launch_under_filter(error, close_range_too); });
      if (r == 77) GTEST_SKIP() << "no seccomp filter can be installed";
      EXPECT_EQ(r, 0) << "errno " << error;
    }
}

// ---- no zombie, no hang ----------------------------------------------------------------------------------

TEST_F(process, that_nobody_waits_for_is_removed_when_it_ends) {
  std::vector<int> ids;
  std::vector<unio::pipe_handle> inputs;
  for (int i = 0; i < 20; ++i) {
    launched_process p = process_handle::launch("cat", {}, {.input = child_stream::pipe()}).value();
    ids.push_back(p.process.id());
    inputs.push_back(std::move(p.input));
  }
  for (int const id : ids) EXPECT_EQ(::kill(id, 0), 0) << "it lives on";
  inputs.clear();
  for (int const id : ids) EXPECT_TRUE(eventually([&] { return ::kill(id, 0) != 0; }));
  EXPECT_TRUE(eventually([] { return !has_children(); }));
}

TEST_F(process, that_has_ended_is_removed_by_its_handle) {
  int id;
  {
    launched_process p = process_handle::launch("true").value();
    id = p.process.id();
    EXPECT_TRUE(eventually([] { return zombies() != 0; }));
  }
  EXPECT_NE(::kill(id, 0), 0);
}

TEST_F(process, can_be_launched_many_times) {
  auto const before = test::count_descriptors();
  int const many = unio::sys::is_sanitized ? 100 : 2'000;
  for (int i = 0; i < many; ++i) {
    auto p = process_handle::launch("/bin/true");
    ASSERT_TRUE(p.has_value()) << p.error().message();
    if (i % 3 == 0) continue; // nobody waits
    ASSERT_TRUE(p->process.wait(long_time).value().is_success());
  }
  EXPECT_TRUE(eventually([] { return !has_children(); }));
  EXPECT_TRUE(eventually([&] { return test::count_descriptors() == before; }));
}

TEST_F(process, is_launched_by_several_threads_at_once) {
  std::vector<std::thread> threads;
  std::atomic<int> good = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (int i = 0; i < 25; ++i) {
        launch_options o{.input = child_stream::null(), .error = child_stream::null()};
        // Another thread's pipes are not this child's.
        if (shell("exec ls /proc/self/fd", o).output == "0\n1\n2\n3\n") ++good;
      }
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 100);
}

TEST_F(process, ends_where_sigchld_is_ignored) {
  for (bool const by_flag : {false, true}) {
    test::expect_in_child([&] {
      struct sigaction a = {};
      a.sa_handler = by_flag ? SIG_DFL : SIG_IGN;
      a.sa_flags = by_flag ? SA_NOCLDWAIT : 0;
      ::sigaction(SIGCHLD, &a, nullptr);
      launch_step step{};
      CHILD_EXPECTS(refused("/no/such/program", step).value() == ENOENT);
      auto p = process_handle::launch("sh", {"-c", "exit 3"});
      CHILD_EXPECTS(p.has_value());
      auto const r = p->process.wait(long_time);
      if (r.has_value()) return CHILD_MEETS(*r == exit_status::exited(3)); // Linux 6.15
      return CHILD_MEETS(r.error() == std::errc::no_child_process);
    });
  }
}

TEST_F(process, that_somebody_else_waited_for_has_ended_all_the_same) {
  test::expect_in_child([] {
    auto p = process_handle::launch("sh", {"-c", "exit 3"});
    int status = 0;
    CHILD_EXPECTS(p.has_value() && ::wait(&status) == p->process.id());
    auto const r = p->process.wait(long_time);
    if (r.has_value()) return CHILD_MEETS(*r == exit_status::exited(3));
    return CHILD_MEETS(r.error() == std::errc::no_child_process);
  });
}

TEST_F(process, is_waited_for_by_several_threads) {
  launch_options o{.input = child_stream::pipe()};
  launched_process p = process_handle::launch("sh", {"-c", "read x; exit 9"}, o).value();
  std::atomic<int> good = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i)
    threads.emplace_back([&] {
      if (p.process.wait(long_time).value() == exit_status::exited(9)) ++good;
    });
  ASSERT_TRUE(p.input.close());
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(good, 4);
}

launched_process one_that_ignores_sigterm() {
  launch_options o{.output = child_stream::pipe()};
  launched_process p =
      process_handle::launch("sh", {"-c", "trap '' TERM; echo ready; while :; do sleep 1; done"}, o).value();
  char memory[8];
  EXPECT_TRUE(p.output.read(unio::mutable_buffer(memory), long_time).has_value());
  return p;
}

TEST_F(process, that_ignores_sigterm_is_killed_after_a_grace) {
  launched_process p = one_that_ignores_sigterm();
  EXPECT_EQ(p.process.terminate(20ms).value(), exit_status::killed(SIGKILL));
  EXPECT_EQ(p.process.terminate(20ms).value(), exit_status::killed(SIGKILL)) << "once more";
}

TEST_F(process, that_ignores_sigterm_is_killed_by_a_task) {
  launched_process p = one_that_ignores_sigterm();
  EXPECT_EQ(unio::run(unio::co_terminate(p.process, 20ms)).value(), exit_status::killed(SIGKILL));
  launched_process q = process_handle::launch("sleep", {"100"}).value();
  EXPECT_EQ(unio::run(unio::co_terminate(q.process, long_time)).value(), exit_status::killed(SIGTERM));
}

TEST_F(process, tells_what_it_used) {
  launched_process p =
      process_handle::launch("sh", {"-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"},
                             {.input = child_stream::pipe()})
          .value();
  EXPECT_TRUE(p.process.wait(long_time).value().is_success());
  unio::process_resources const used = p.process.resources().value();
  EXPECT_GT(used.user + used.system, 0us);
  EXPECT_GT(used.peak_memory, 100'000U);
  EXPECT_LT(used.peak_memory, std::uint64_t{1} << 40);

  launched_process q = process_handle::launch("cat", {}, {.input = child_stream::pipe()}).value();
  EXPECT_EQ(q.process.resources().error(), unio::condition::would_block);
  ASSERT_TRUE(q.input.close());
  ASSERT_TRUE(eventually([&] { return q.process.resources().has_value(); })) << "without a wait";
  EXPECT_TRUE(q.process.wait(long_time).value().is_success());
  ASSERT_TRUE(q.process.close());
  EXPECT_EQ(q.process.resources().error().value(), EBADF);
  EXPECT_EQ(process_handle::current().value().resources().error(), unio::condition::would_block);
}

// ---- other processes than those launched here ------------------------------------------------------------

TEST_F(process, is_adopted_by_its_number) {
  pid_t const id = ::fork();
  if (id == 0) ::_exit(6);
  ASSERT_GT(id, 0);
  process_handle p = process_handle::adopt(id).value();
  EXPECT_EQ(p.id(), id);
  EXPECT_EQ(p.wait(long_time).value(), exit_status::exited(6));
  EXPECT_EQ(process_handle::adopt(id).error(), std::errc::no_such_process);
  EXPECT_EQ(process_handle::adopt(-1).error().value(), EINVAL);
}

TEST_F(process, that_is_no_child_is_waited_for) {
  // The shell's child, which the shell waits for.
  launch_options o{.input = child_stream::pipe(), .output = child_stream::pipe()};
  launched_process shell = process_handle::launch("sh", {"-c", "cat <&0 & echo $!; wait; read x"}, o).value();
  launched_process other = process_handle::launch("sh", {"-c", "sleep 100 & echo $!; wait"}, o).value();
  char memory[16] = {};
  auto const n = other.output.read(unio::mutable_buffer(memory, 15), long_time);
  ASSERT_TRUE(n.has_value());
  process_handle grandchild = process_handle::adopt(std::atoi(memory)).value();
  EXPECT_EQ(grandchild.try_wait_for(5ms).error(), unio::condition::timed_out);
  ASSERT_TRUE(grandchild.kill(SIGKILL));
  auto const r = grandchild.wait(long_time);
  if (r.has_value()) {
    EXPECT_EQ(*r, exit_status::killed(SIGKILL));
  } else {
    EXPECT_EQ(r.error(), std::errc::no_child_process);
  }
  (void)shell.process.terminate(long_time);
}

TEST_F(process, knows_itself) {
  process_handle self = process_handle::current().value();
  EXPECT_EQ(self.id(), ::getpid());
  EXPECT_EQ(self.try_wait_for(2ms).error(), unio::condition::timed_out);
  EXPECT_TRUE(self.kill(0));
}

TEST_F(process, stays_the_parents_where_that_forks) {
  launched_process p = process_handle::launch("sleep", {"100"}).value();
  test::expect_in_child([&] { return p.process.close().has_value() ? 0 : 1; });
  EXPECT_EQ(p.process.try_wait().error(), unio::condition::would_block) << "it lives on";
  EXPECT_EQ(p.process.terminate(long_time).value(), exit_status::killed(SIGTERM));
}

TEST_F(process, is_given_away_with_its_descriptor) {
  launched_process p = process_handle::launch("true").value();
  int const id = p.process.id();
  int const fd = p.process.release();
  EXPECT_FALSE(p.process.is_open());
  EXPECT_EQ(p.process.id(), 0);
  int status = 0;
  EXPECT_EQ(::waitpid(id, &status, 0), id);
  ::close(fd);
}

TEST_F(process, that_an_operation_has_closed_is_closed) {
  launched_process p = process_handle::launch("true").value();
  int const id = p.process.id();
  ASSERT_TRUE(unio::run([](process_handle& h) -> unio::task<unio::io_result<void>> {
                co_return co_await std::move(h).co_close();
              }(p.process))
                  .has_value());
  EXPECT_EQ(p.process.id(), 0);
  EXPECT_EQ(p.process.wait(long_time).error().value(), EBADF);
  EXPECT_EQ(p.process.resources().error().value(), EBADF);
  int status = 0;
  EXPECT_EQ(::waitpid(id, &status, 0), id) << "it is the caller's to wait for";
}

class process_on : public test::on_each_driver {};
UNIO_ON_BOTH_DRIVERS(process_on);

TEST_P(process_on, is_waited_for_twice_on_one_multiplexer) {
  nothing_stays const at_the_end;
  launch_options o{.input = child_stream::pipe()};
  launched_process p = process_handle::launch("sh", {"-c", "read x; exit 9"}, o).value();
  p.process.set_multiplexer(m_.get());
  int told = 0;
  struct tell {
    int* told;
    void set_value(unio::io_result<exit_status>&& r) {
      if (r.has_value() && *r == exit_status::exited(9)) ++*told;
    }
    void set_done() { *told += 10; }
  };
  auto first = unio::connect(unio::async_wait_exit(p.process), tell{&told});
  auto second = unio::connect(unio::async_wait_exit(p.process), tell{&told});
  first.start();
  second.start();
  (void)m_->try_run();
  EXPECT_EQ(told, 0);
  ASSERT_TRUE(p.input.close());
  EXPECT_TRUE(eventually([&] {
    (void)m_->try_run();
    return told == 22;
  }));
}

TEST_P(process_on, is_closed_while_it_is_waited_for) {
  nothing_stays const at_the_end;
  launched_process p = process_handle::launch("sleep", {"100"}).value();
  int const id = p.process.id();
  p.process.set_multiplexer(m_.get());
  std::error_code why;
  struct tell {
    std::error_code* why;
    void set_value(unio::io_result<exit_status>&& r) { *why = r.error(); }
    void set_done() {}
  };
  auto wait = unio::connect(unio::async_wait_exit(p.process), tell{&why});
  wait.start();
  (void)m_->try_run();
  EXPECT_TRUE(p.process.close());
  EXPECT_EQ(why, unio::condition::canceled);
  EXPECT_EQ(::kill(id, SIGKILL), 0);
  EXPECT_TRUE(eventually([&] { return ::kill(id, 0) != 0; }));
}

} // namespace
