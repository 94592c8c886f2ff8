// io_uring that is missing, forbidden or short of something: cases 40 to 43. Known from
// semgrep#11836, moby#46762, tokio#7691, libuv's uv__epoll_ctl_flush that aborts when
// io_uring is denied later.

#include "driver/choose.hpp"
#include "support/child.hpp"
#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/filter.h>
#include <linux/io_uring.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>

namespace {

using namespace test;

class kernel_availability : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_availability);

std::string wrapper() { return std::filesystem::path(own_path()).replace_filename("no_uring").string(); }

// A read that has to wait.
int reads_something(unio::io_multiplexer& m) {
  pending_read read(m);
  submit_all(m);
  read.peer.write("abc");
  CHILD_EXPECTS(drive(m, [&] { return read.ended(); }));
  return CHILD_MEETS(read.bytes == 3);
}

// Answers the calls from number `first` to `last` with an errno, or with 0 by killing the process, from now
// on: those of the calling thread and of the threads it starts, with SECCOMP_FILTER_FLAG_TSYNC of all.
bool deny(unsigned first, unsigned last, int error, unsigned flags = 0) {
  unsigned const answer =
      error != 0 ? SECCOMP_RET_ERRNO | static_cast<unsigned>(error) : SECCOMP_RET_KILL_PROCESS;
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JGE | BPF_K, first, 0, 2),
      BPF_JUMP(BPF_JMP | BPF_JGT | BPF_K, last, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{.len = std::size(code), .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, flags, &program) == 0;
}

// Case 40. A child each, for a process asks once whether it may enter a ring.
ISOLATED_TEST(kernel_availability, falls_back_to_epoll_for_each_errno_that_means_no) {
  for (int const error : {EPERM, EACCES, ENOSYS, EOPNOTSUPP, EINVAL, ENOMEM}) {
    EXPECT_EQ(in_child([&] {
                ::unsetenv("UNIO_DRIVER");
                failing_calls calls;
                calls.fail<&table::io_uring_setup>(error, {.times = which_calls::all});
                auto const made = unio::io_multiplexer::best_available(1);
                CHILD_EXPECTS(made.has_value());
                CHILD_EXPECTS(std::string((*made)->capabilities().driver) == "epoll");
                CHILD_EXPECTS(!(*made)->capabilities().why.empty());
                CHILD_EXPECTS(!unio::driver::has_uring() ||
                              calls.failures<&table::io_uring_setup>() != 0); // the canary
                return reads_something(**made);
              }),
              0)
        << "errno " << error;
  }
}

// Linux 5.12 has a ring, on which the poll of the doorbell fails each time.
ISOLATED_TEST(kernel_availability, falls_back_to_epoll_where_no_poll_reports_again_and_again) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  EXPECT_EQ(in_child([&] {
              ::unsetenv("UNIO_DRIVER");
              failing_calls calls;
              calls.answer<&table::io_uring_setup>(
                  [](unsigned entries, io_uring_params* p) noexcept -> std::int64_t {
                    std::int64_t const r = unio::sys::kernel.io_uring_setup(entries, p);
                    p->features &= ~IORING_FEAT_RSRC_TAGS;
                    return r;
                  });
              auto const made = unio::io_multiplexer::best_available(1);
              CHILD_EXPECTS(made.has_value());
              CHILD_EXPECTS(std::string((*made)->capabilities().driver) == "epoll");
              return reads_something(**made);
            }),
            0);
}

ISOLATED_TEST(kernel_availability, reports_a_shortage_of_descriptors_instead_of_falling_back) {
  if (!unio::driver::has_uring()) GTEST_SKIP() << "built without io_uring";
  for (int const error : {EMFILE, ENFILE}) {
    EXPECT_EQ(in_child([&] {
                ::unsetenv("UNIO_DRIVER");
                failing_calls calls;
                calls.fail<&table::io_uring_setup>(error, {.times = which_calls::all});
                CHILD_EXPECTS(unio::io_multiplexer::best_available(1).error().value() == error);
                calls.fail<&table::io_uring_setup>(0); // it passes, and the next one is made
                return CHILD_MEETS(unio::io_multiplexer::best_available(1).has_value());
              }),
              0)
        << "errno " << error;
  }
}

// A signal or a moment without memory in the first call says nothing about io_uring.
ISOLATED_TEST(kernel_availability, is_not_decided_by_what_passes) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  for (int const error : {EAGAIN, EBUSY, EINTR, ENOMEM}) {
    EXPECT_EQ(in_child([&] {
                ::unsetenv("UNIO_DRIVER");
                failing_calls calls;
                calls.fail<&table::io_uring_enter>(error, {.at = 1, .times = 3});
                auto const made = unio::io_multiplexer::best_available(1);
                CHILD_EXPECTS(calls.failures<&table::io_uring_enter>() == 3); // the canary
                CHILD_EXPECTS(made.has_value());
                CHILD_EXPECTS(std::string((*made)->capabilities().driver) == "io_uring");
                return reads_something(**made);
              }),
              0)
        << "errno " << error;
  }
}

// One that lasts gives epoll, and nothing is remembered of it.
ISOLATED_TEST(kernel_availability, is_asked_again_after_a_shortage) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  for (int const error : {EAGAIN, EBUSY, ENOMEM}) {
    EXPECT_EQ(in_child([&] {
                ::unsetenv("UNIO_DRIVER");
                failing_calls calls;
                calls.fail<&table::io_uring_enter>(error, {.times = which_calls::all});
                auto const made = unio::io_multiplexer::best_available(1);
                CHILD_EXPECTS(made.has_value());
                CHILD_EXPECTS(std::string((*made)->capabilities().driver) == "epoll");
                CHILD_EXPECTS(!(*made)->capabilities().why.empty());
                CHILD_EXPECTS(reads_something(**made) == 0);
                calls.fail<&table::io_uring_enter>(0);
                auto const next = unio::io_multiplexer::best_available(1);
                return CHILD_MEETS(std::string((*next)->capabilities().driver) == "io_uring");
              }),
              0)
        << "errno " << error;
  }
}

// Whether the kernel may choose what it reads into is tried on a ring of its own.
ISOLATED_TEST(kernel_availability, of_choosing_buffers_is_asked_again_after_a_shortage) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  auto const m = made_multiplexer();
  if (!m->capabilities().defer_taskrun) GTEST_SKIP() << "it is not asked to";
  unio::buffer_pool pool(16, 4096);
  auto const receive = [&] {
    auto ends = unio::socket_handle::pair().value();
    ends.first.set_multiplexer(m.get());
    bool has_received = false;
    unio::start(*m, unio::async_receive(ends.first, pool),
                [&](auto&& r) { has_received = r.has_value() && r->size() == 3; });
    submit_all(*m);
    EXPECT_TRUE(ends.second.write(unio::const_buffer("abc", 3)));
    EXPECT_TRUE(drive(*m, [&] { return has_received; }));
  };
  failing_calls calls;
  for (int const error : {EMFILE, ENFILE, ENOMEM}) {
    calls.fail<&table::io_uring_setup>(error, {.times = which_calls::all});
    receive();
    EXPECT_NE(calls.failures<&table::io_uring_setup>(), 0) << "the canary: it was tried, errno " << error;
  }
  calls.fail<&table::io_uring_setup>(0);
  receive();
  EXPECT_NE(calls.count<&table::io_uring_setup>(), 0) << "it is tried again";
  calls.fail<&table::io_uring_setup>(0);
  receive();
  EXPECT_EQ(calls.count<&table::io_uring_setup>(), 0) << "and is known then";
}

ISOLATED_TEST(kernel_availability, says_why_when_the_program_insists_on_io_uring) {
  if (!unio::driver::has_uring()) GTEST_SKIP() << "built without io_uring";
  for (int const error : {EPERM, ENOSYS, ENOMEM}) {
    EXPECT_EQ(in_child([&] {
                ::setenv("UNIO_DRIVER", "uring", 1);
                failing_calls calls;
                calls.fail<&table::io_uring_setup>(error, {.times = which_calls::all});
                failure const why = unio::io_multiplexer::best_available(1).error();
                CHILD_EXPECTS(why.object() == "UNIO_DRIVER=uring");
                return CHILD_MEETS(why.value() == error);
              }),
              0)
        << "errno " << error;
  }
}

ISOLATED_TEST(kernel_availability, what_cannot_be_made_says_what_it_is) {
  EXPECT_EQ(in_child([] {
              rlimit before{};
              CHILD_EXPECTS(::getrlimit(RLIMIT_NOFILE, &before) == 0);
              rlimit const none{3, before.rlim_max};
              CHILD_EXPECTS(::setrlimit(RLIMIT_NOFILE, &none) == 0);
              failure const why = unio::io_multiplexer::best_available(1).error();
              CHILD_EXPECTS(why.operation() == std::string_view("best_available"));
              std::string what;
              try {
                unio::thread_pool const pool(2);
              } catch (std::system_error const& e) {
                ::setrlimit(RLIMIT_NOFILE, &before); // a sanitizer opens a pipe to look at an object's type
                what = e.what();
              }
              return CHILD_MEETS(what.ends_with(": Too many open files"));
            }),
            0);
}

// Before Linux 5.11 there is no epoll_pwait2, and a filter that is older may forbid it. That it is missing is
// found out once: the second filter kills a process that asks again.
ISOLATED_TEST(kernel_availability, asks_for_epoll_pwait2_once_where_it_is_missing) {
  for (int const error : {ENOSYS, EPERM})
    expect_in_child([error] {
      ::setenv("UNIO_DRIVER", "epoll", 1);
      CHILD_EXPECTS(deny(SYS_epoll_pwait2, SYS_epoll_pwait2, error));
      auto const m = made_multiplexer();
      CHILD_EXPECTS(reads_something(*m) == 0);
      CHILD_EXPECTS(deny(SYS_epoll_pwait2, SYS_epoll_pwait2, 0));
      CHILD_EXPECTS(reads_something(*m) == 0);
      unio::timer_handle soon(unio::deadline(std::chrono::milliseconds(2)), m.get());
      started op{unio::async_wait(soon)};
      return CHILD_MEETS(drive(*m, [&] { return op.ended(); }));
    });
}

// Runs one test of this file in a process that a filter keeps from io_uring.
void expect_success_through(std::vector<std::string> filter, char const* test) {
  std::vector<std::string> command = {wrapper()};
  if (!std::filesystem::exists(command[0])) GTEST_SKIP() << "there is no " << command[0];
  command.insert(command.end(), filter.begin(), filter.end());
  command.push_back(own_path());
  std::string const name = own_name();
  command.push_back("--gtest_filter=" + name.substr(0, name.find('.') + 1) + test +
                    name.substr(name.find('/', 3)));
  program_end const end = run_program(command);
  EXPECT_EQ(end.status, 0) << end.output;
  EXPECT_NE(end.output.find("[  PASSED  ] 1 test"), std::string::npos) << "the canary: it ran\n"
                                                                       << end.output;
}

// What the wrapped runs play: a program that names no driver gets one that works.
ISOLATED_TEST(kernel_availability, gives_every_program_one_that_works) {
  ::unsetenv("UNIO_DRIVER");
  auto const m = made_multiplexer();
  EXPECT_EQ(reads_something(*m), 0);
}

ISOLATED_TEST(kernel_availability, survives_filters_of_every_kind) {
  for (char const* const error : {"EPERM", "ENOSYS", "ENOMEM", "EINVAL", "EACCES", "EOPNOTSUPP"})
    for (char const* const calls : {"setup", "later", "all"})
      expect_success_through({"--errno", error, "--calls", calls}, "gives_every_program_one_that_works");
}

// Cases 42, 41: where a filter kills, a program that asks for epoll asks nothing of io_uring.
ISOLATED_TEST(kernel_availability, of_epoll_makes_no_call_to_io_uring) {
  ::setenv("UNIO_DRIVER", "epoll", 1);
  {
    failing_calls calls;
    auto const m = made_multiplexer();
    EXPECT_EQ(reads_something(*m), 0);
    EXPECT_GT(calls.count<&table::epoll_wait>(), 0);
    EXPECT_EQ(calls.count<&table::io_uring_setup>(), 0);
    EXPECT_EQ(calls.count<&table::io_uring_enter>(), 0);
    EXPECT_EQ(calls.count<&table::io_uring_register>(), 0);
  }
  expect_in_child([] {
    CHILD_EXPECTS(deny(425, 427, 0));
    auto const m = made_multiplexer();
    return reads_something(*m);
  });
}

// Case 41: setting a ring up is allowed, using it is not.
ISOLATED_TEST(kernel_availability, is_epoll_when_a_ring_may_be_made_but_not_used) {
  for (int const error : {EPERM, ENOSYS, EACCES}) {
    EXPECT_EQ(in_child([&] {
                ::unsetenv("UNIO_DRIVER");
                CHILD_EXPECTS(deny(426, 427, error));
                auto const made = unio::io_multiplexer::best_available(1);
                CHILD_EXPECTS(made.has_value());
                CHILD_EXPECTS(std::string((*made)->capabilities().driver) == "epoll");
                return reads_something(**made);
              }),
              0)
        << "errno " << error;
  }
}

// Case 41: io_uring is forbidden while operations are with the kernel. Their receivers do not notice.
struct afloat {
  explicit afloat(unio::io_multiplexer& on) : m(on) {
    for (int i = 0; i != 3; ++i) reads.emplace_back(tcp_connection(&m));
    auto [l, p] = listener(&m);
    accepting = std::move(l);
    port = p;
    accept.emplace(unio::async_accept_many(accepting));
    full = local_connection(&m);
    filled = fill(full.socket);
    more = pattern(1000, filled);
    write.emplace(unio::async_write(full.socket, unio::const_buffer(more)));
    timed.emplace(m, 50ms);
    submit_all(m);
  }
  void expect_all_end() {
    reads[0].peer.write("abc");
    reads[1].cancel();
    raw const client = raw_connection(port);
    EXPECT_EQ(full.peer.read_some().size(), filled);
    ASSERT_TRUE(drive(m, [&] {
      return reads[0].ended() && reads[1].ended() && accept->accepted.size() == 1 && write->ended() &&
             timed->ended();
    }));
    EXPECT_EQ(std::string(reads[0].memory.data(), reads[0].bytes), "abc");
    EXPECT_EQ(reads[1].error, unio::condition::canceled);
    EXPECT_EQ(full.peer.read_some(), more);
    EXPECT_EQ(timed->error, unio::condition::timed_out);
    EXPECT_TRUE(reads[2].socket.close().has_value());
    EXPECT_TRUE(reads[2].ended_once());
    accept->cancel();
    ASSERT_TRUE(drive(m, [&] { return accept->ended(); }));
    EXPECT_EQ(accept->error, unio::condition::canceled);
    for (pending_read const& r : reads) EXPECT_TRUE(r.ended_once());
  }
  unio::io_multiplexer& m;
  std::deque<pending_read> reads;
  unio::listening_socket_handle accepting;
  std::uint16_t port = 0;
  connection full;
  std::size_t filled = 0;
  std::string more;
  std::optional<started<unio::async_accept_many>> accept;
  std::optional<started<unio::async_write>> write;
  std::optional<pending_read> timed;
};

ISOLATED_TEST(kernel_availability, may_end_while_operations_are_in_flight) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  for (int const error : {EPERM, ENOSYS, EACCES}) {
    SCOPED_TRACE(error);
    auto const m = made_multiplexer();
    {
      afloat a(*m);
      EXPECT_STREQ(m->capabilities().driver, "io_uring");
      failing_calls calls;
      calls.fail<&table::io_uring_enter>(error, {.times = which_calls::all});
      a.expect_all_end();
      EXPECT_TRUE(a.reads[2].peer.sees_end()) << "something of the ring keeps the socket";
      EXPECT_EQ(calls.failures<&table::io_uring_enter>(), 1);
      EXPECT_STREQ(m->capabilities().driver, "epoll");
      EXPECT_FALSE(m->capabilities().why.empty());
    }
    expect_nothing_in_flight(*m);
  }
}

// The same with a filter of the kernel's, which forbids to give the ring's registration back as well: what
// the ring holds is released when the thread ends.
ISOLATED_TEST(kernel_availability, may_be_taken_by_a_filter_while_operations_are_in_flight) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  raw peer;
  std::thread([&] {
    auto const m = made_multiplexer();
    {
      afloat a(*m);
      ASSERT_TRUE(deny(425, 427, EPERM));
      a.expect_all_end();
      EXPECT_STREQ(m->capabilities().driver, "epoll");
      peer = std::move(a.reads[2].peer);
    }
    expect_nothing_in_flight(*m);
  }).join();
  EXPECT_TRUE(peer.sees_end());
}

// What a thread of the kernel may be performing while io_uring is forbidden: an append, and a read into
// memory that must stay the kernel's until it holds nothing any more.
struct at_work {
  explicit at_work(unio::io_multiplexer& on)
      : m(on),
        name(folder.path() + "/appended"),
        file(unio::file_handle::file({}, name, unio::handle::mode::append, unio::handle::creation::if_needed)
                 .value()) {
    file.set_multiplexer(&m);
    do { // again if this thread was kept waiting until the result was there
      std::filesystem::resize_file(name, 0);
      append.emplace(unio::async_write(file, unio::const_buffer("hello\n", 6)));
      auto const before = m.counters().submissions;
      for (int i = 0; i < 10 && m.counters().submissions == before; ++i) (void)m.try_run();
    } while (append->ended());
    // The kernel has done it, and the driver has not looked.
    for (int i = 0; i != 10'000 && size() == 0; ++i) std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(1ms); // from the file to the end of the operation
  }
  [[nodiscard]] std::uintmax_t size() const { return std::filesystem::file_size(name); }

  unio::io_multiplexer& m;
  temporary_directory folder;
  std::string name;
  unio::file_handle file;
  std::optional<started<unio::async_write>> append;
};

ISOLATED_TEST(kernel_availability, that_ends_has_nothing_performed_twice) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  for (bool const keeps_results : {true, false}) {
    auto const m = made_multiplexer();
    {
      at_work a(*m);
      failing_calls calls;
      if (!keeps_results) calls.fail<&table::vmsplice>(EFAULT); // a kernel before 6.10
      calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
      ASSERT_TRUE(drive(*m, [&] { return a.append->ended(); }));
      EXPECT_TRUE(a.append->ended_once());
      EXPECT_EQ(a.append->values, 1);
      EXPECT_EQ(a.size(), 6u) << "written twice";
      if (a.append->error) {
        EXPECT_EQ(a.append->error, std::errc::state_not_recoverable);
      } else {
        EXPECT_EQ(a.append->bytes, 6u);
      }
      if (!keeps_results) {
        EXPECT_EQ(a.append->error, std::errc::state_not_recoverable);
        EXPECT_EQ(calls.failures<&table::vmsplice>(), 1) << "the canary";
      }
      EXPECT_STREQ(m->capabilities().driver, "epoll");
    }
    expect_nothing_in_flight(*m);
  }
}

ISOLATED_TEST(kernel_availability, that_a_filter_ends_has_nothing_performed_twice) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  auto const m = made_multiplexer();
  {
    at_work a(*m);
    ASSERT_TRUE(
        deny(426, 426, EPERM)); // a ring that may not be registered with either ends with its descriptor
    ASSERT_TRUE(deny(427, 427, EPERM));
    ASSERT_TRUE(drive(*m, [&] { return a.append->ended(); }));
    EXPECT_TRUE(a.append->ended_once());
    EXPECT_EQ(a.size(), 6u) << "written twice";
  }
  expect_nothing_in_flight(*m);
}

// Neither a cancellation, nor a deadline, nor closing the handle gives the memory back before.
ISOLATED_TEST(kernel_availability, that_ends_leaves_memory_to_the_kernel_until_it_holds_none) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  static std::atomic<bool> holds;
  holds = true;
  auto const m = made_multiplexer();
  {
    at_work a(*m);
    failing_calls calls;
    calls.answer<&table::poll>([](pollfd* fds, unsigned n, timespec const* timeout) noexcept {
      return holds ? std::int64_t{0} : unio::sys::kernel.poll(fds, n, timeout);
    });
    calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
    for (int i = 0; i < 10; ++i) (void)m->try_run_for(5ms);
    EXPECT_STREQ(m->capabilities().driver, "epoll");
    EXPECT_EQ(a.append->values + a.append->ends, 0);
    a.append->cancel();
    for (int i = 0; i < 10; ++i) (void)m->try_run_for(5ms);
    EXPECT_EQ(a.append->poll(), unio::io_status::pending);
    EXPECT_EQ(a.append->values + a.append->ends, 0);
    // Meanwhile others continue.
    EXPECT_EQ(reads_something(*m), 0);
    std::thread releases([] {
      std::this_thread::sleep_for(50ms);
      holds = false;
    });
    EXPECT_TRUE(a.file.close().has_value());
    EXPECT_FALSE(holds) << "it was closed while the kernel held memory";
    EXPECT_TRUE(a.append->ended_once());
    EXPECT_EQ(a.size(), 6u) << "written twice";
    releases.join();
  }
  expect_nothing_in_flight(*m);
}

// The process has no descriptor left when epoll is to take over.
ISOLATED_TEST(kernel_availability, that_ends_needs_no_new_descriptor) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  auto const m = made_multiplexer();
  {
    pending_read read(*m);
    submit_all(*m);
    failing_calls calls;
    calls.fail<&table::epoll_create>(EMFILE, {.times = which_calls::all});
    calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
    read.peer.write("abc");
    ASSERT_TRUE(drive(*m, [&] { return read.ended(); }));
    EXPECT_EQ(read.bytes, 3u);
    EXPECT_STREQ(m->capabilities().driver, "epoll");
  }
  expect_nothing_in_flight(*m);
}

// The same without the one that was made in advance: what has to end waits until there is one.
ISOLATED_TEST(kernel_availability, that_ends_without_a_descriptor_closes_nothing_that_is_in_flight) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  failing_calls calls;
  calls.fail<&table::epoll_create>(EMFILE, {.times = 3});
  auto const m = made_multiplexer();
  {
    pending_read read(*m);
    submit_all(*m);
    calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
    unio::result<int> run = 0;
    for (int i = 0; i != 100 && run.has_value(); ++i) run = m->try_run_for(1ms);
    EXPECT_FALSE(run.has_value());
    EXPECT_TRUE(read.socket.close().has_value());
    EXPECT_TRUE(read.ended_once());
    EXPECT_EQ(calls.failures<&table::epoll_create>(), 3);
  }
  expect_nothing_in_flight(*m);
}

// The next driver hears what is posted while it takes over.
ISOLATED_TEST(kernel_availability, that_ends_leaves_nobody_asleep_who_was_called) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  for (int round = 0; round < 20; ++round) {
    std::atomic<unio::io_multiplexer*> m = nullptr;
    std::atomic<int> ran = 0;
    failing_calls calls;
    std::thread runner([&] {
      auto const made = made_multiplexer();
      {
        connection c = local_connection(made.get()); // something that waits
        std::array<char, 8> memory{};
        started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
        submit_all(*made);
        calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
        m = made.get();
        while (ran < 100) (void)made->try_run_for(20s);
        EXPECT_STREQ(made->capabilities().driver, "epoll");
      }
    });
    while (m == nullptr) std::this_thread::yield();
    for (int i = 0; i < 100; ++i) {
      if (i % 10 == 9) std::this_thread::sleep_for(1ms); // it goes to sleep now and then
      EXPECT_TRUE(m.load()->post([&] { ++ran; }).has_value());
    }
    auto const before = std::chrono::steady_clock::now();
    runner.join();
    EXPECT_LT(std::chrono::steady_clock::now() - before, 15s);
  }
}

// What was sent is not sent again by the next driver, although its pages were still with the kernel.
ISOLATED_TEST(kernel_availability, ends_without_sending_twice) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  auto const m = made_multiplexer();
  if (!m->capabilities().zero_copy_send) GTEST_SKIP() << "this kernel sends nothing without copying";
  {
    connection c = tcp_connection(m.get());
    std::string const bytes = pattern(100'000);
    started send{unio::async_send_zero_copy(c.socket, unio::const_buffer(bytes))};
    ASSERT_TRUE(drive(*m, [&] { return send.values == 1; }));
    bool const held = !send.ended();
    failing_calls calls;
    calls.fail<&table::io_uring_enter>(EPERM, {.times = which_calls::all});
    for (int i = 0; i < 10; ++i) (void)m->try_run_for(5ms);
    std::string received;
    while (received.size() < send.bytes && c.peer.wait()) received += c.peer.read_some();
    ASSERT_TRUE(drive(*m, [&] { return send.ended(); }));
    EXPECT_EQ(send.values, 1);
    EXPECT_EQ(c.peer.read_some(), "") << (held ? "sent twice" : "");
    EXPECT_TRUE(received == bytes.substr(0, send.bytes));
  }
  expect_nothing_in_flight(*m);
}

// Case 43; liburing#93, glommio#606.
ISOLATED_TEST(kernel_availability, needs_no_memory_that_may_be_locked) {
  expect_in_child([] {
    rlimit const none{.rlim_cur = 0, .rlim_max = 0};
    CHILD_EXPECTS(::setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    CHILD_EXPECTS(::geteuid() != 0 || ::setuid(65534) == 0); // root may always
    ::unsetenv("UNIO_DRIVER");
    auto const made = unio::io_multiplexer::best_available(1);
    return made.has_value() ? reads_something(**made) : 12;
  });
}

// A ring counts the pages that it sends from against what may be locked; then they are copied.
ISOLATED_TEST(kernel_availability, sends_without_copying_although_no_memory_may_be_locked) {
  expect_in_child([] {
    CHILD_EXPECTS(::geteuid() != 0 || ::setuid(65534) == 0); // root may always
    auto const m = made_multiplexer();
    submit_all(*m); // the ring's own memory is counted too
    rlimit const none{.rlim_cur = 0, .rlim_max = 0};
    CHILD_EXPECTS(::setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    connection c = tcp_connection(m.get());
    std::string const bytes = pattern(20'000);
    std::array<unio::const_buffer, 2> const parts = {unio::const_buffer(bytes.data(), 9'000),
                                                     unio::const_buffer(bytes.data() + 9'000, 11'000)};
    for (unio::const_buffers const& what :
         {unio::const_buffers(unio::const_buffer(bytes)), unio::const_buffers(parts)}) {
      started send{unio::async_send_zero_copy(c.socket, what)};
      CHILD_EXPECTS(drive(*m, [&] { return send.ended(); }));
      CHILD_EXPECTS(!send.error && send.bytes != 0);
      std::string received;
      while (received.size() < send.bytes && c.peer.wait()) received += c.peer.read_some();
      CHILD_EXPECTS(received == bytes.substr(0, send.bytes));
    }
    return 0;
  });
}

// ---- words of memory --------------------------------------------------------------------------------------

constexpr unsigned number_of_futex_waitv = 449;

// A wait for a word that another thread changes.
struct word_wait {
  std::atomic<std::uint32_t> word{0};
  int ended = 0;
  std::uint32_t seen = 0;
  struct told {
    word_wait* of;
    void set_value(unio::async_wait_on::result_type&& r) { of->seen = r.value_or(99); }
    void set_done() { ++of->ended; }
  };
  unio::io_operation_connection<unio::async_wait_on, told> op{unio::async_wait_on(unio::futex(word), 0),
                                                              told{this}};

  explicit word_wait(unio::io_multiplexer& m) {
    op.start(&m);
    (void)m.try_run();
  }
  void change() {
    word.store(5);
    unio::futex(word).wake();
  }
  bool ends(unio::io_multiplexer& m) {
    return drive(m, [&] { return ended != 0; }) && ended == 1 && seen == 5;
  }
};

ISOLATED_TEST(kernel_availability, waits_for_words_where_no_thread_can) {
  ASSERT_TRUE(deny(number_of_futex_waitv, number_of_futex_waitv, ENOSYS));
  auto const m = made_multiplexer();
  word_wait one(*m), two(*m);
  EXPECT_EQ(one.ended, 0);
  one.change();
  EXPECT_TRUE(one.ends(*m));
  EXPECT_EQ(two.ended, 0);
  two.op.cancel();
  EXPECT_TRUE(drive(*m, [&] { return two.ended != 0; }));
  EXPECT_EQ(two.seen, 99U);
}

ISOLATED_TEST(kernel_availability, waits_for_words_where_a_thread_cannot_any_more) {
  auto const m = made_multiplexer();
  word_wait one(*m);
  ASSERT_TRUE(deny(number_of_futex_waitv, number_of_futex_waitv, EPERM, SECCOMP_FILTER_FLAG_TSYNC));
  word_wait two(*m); // for which the thread looks at its words again
  one.change();
  two.change();
  EXPECT_TRUE(one.ends(*m));
  EXPECT_TRUE(two.ends(*m));
  word_wait three(*m);
  three.change();
  EXPECT_TRUE(three.ends(*m));
}

ISOLATED_TEST(kernel_availability, waits_for_words_where_the_ring_is_forbidden_meanwhile) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  auto const m = made_multiplexer();
  word_wait one(*m);
  ASSERT_TRUE(deny(426, 427, EPERM));
  word_wait two(*m);
  EXPECT_STREQ(m->capabilities().driver, "epoll");
  one.change();
  two.change();
  EXPECT_TRUE(one.ends(*m));
  EXPECT_TRUE(two.ends(*m));
}

} // namespace
