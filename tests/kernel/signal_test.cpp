// Signals: promises P8 and P9; cases 49 and 50.

#include "support/child.hpp"
#include "support/direct_io.hpp"
#include "support/failing_calls.hpp"
#include "support/file_size.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/sigpipe.hpp"

#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/uio.h>

namespace {

using namespace test;

class kernel_signal : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_signal);

// What the kernel says of this thread's signals: pending, blocked, ignored, caught.
std::string signals() {
  std::ifstream status("/proc/thread-self/status");
  std::string all;
  for (std::string line; std::getline(status, line);)
    if ((line.starts_with("Sig") && !line.starts_with("SigQ")) || line.starts_with("Shd")) all += line + "\n";
  return all;
}

// Every way to write to what has no reader.
void write_to_what_nobody_reads(unio::io_multiplexer& m) {
  unio::const_buffer const bytes(std::string_view("abc"));
  for (bool const with_own : {true, false}) {
    SCOPED_TRACE(with_own ? "on its multiplexer" : "blocking");
    unio::io_multiplexer* const own = with_own ? &m : nullptr;
    for (bool const over_tcp : {false, true}) {
      connection c = over_tcp ? tcp_connection(own) : local_connection(own);
      if (over_tcp) {
        c.peer.reset_connection();
        (void)c.socket.write(bytes, 20s);
      }
      c.peer.close();
      EXPECT_EQ(c.socket.write(bytes, 20s).error().value(), EPIPE);
      std::array<unio::const_buffer, 2> const two = {bytes, bytes};
      EXPECT_EQ(c.socket.write(unio::const_buffers(two), 20s).error().value(), EPIPE);
      EXPECT_EQ(c.socket.send_zero_copy(bytes, 20s).error().value(), EPIPE);
    }
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.writer.set_multiplexer(own);
    EXPECT_TRUE(pipe.reader.close().has_value());
    EXPECT_EQ(pipe.writer.write(bytes, 20s).error().value(), EPIPE);
    std::array<unio::const_buffer, 2> const two = {bytes, bytes};
    EXPECT_EQ(pipe.writer.write(unio::const_buffers(two), 20s).error().value(), EPIPE);
    EXPECT_EQ(pipe.writer.try_write(bytes).error().value(), EPIPE);
    auto source = unio::pipe_handle::anonymous().value();
    source.reader.set_multiplexer(own);
    EXPECT_TRUE(source.writer.write(bytes).has_value());
    EXPECT_EQ(unio::splice(source.reader, pipe.writer, {.bytes = 3}, 20s).error().value(), EPIPE);
    connection c = local_connection(own);
    c.peer.close();
    EXPECT_EQ(unio::splice(source.reader, c.socket, {.bytes = 3}, 20s).error().value(), EPIPE);
  }
  // The reader goes while a write waits for room.
  auto pipe = unio::pipe_handle::anonymous().value();
  pipe.writer.set_multiplexer(&m);
  std::string const much = pattern(1 << 20);
  while (pipe.writer.try_write(unio::const_buffer(much)).has_value()) continue;
  started write{unio::async_write(pipe.writer, unio::const_buffer(much))};
  submit_all(m);
  EXPECT_FALSE(write.ended());
  EXPECT_TRUE(pipe.reader.close().has_value());
  ASSERT_TRUE(drive(m, [&] { return write.ended(); }));
  EXPECT_EQ(write.error.value(), EPIPE);
}

// P8, case 49: the process survives with the default disposition, and nothing about signals is changed.
ISOLATED_TEST(kernel_signal, is_not_raised_by_writing_to_what_nobody_reads) {
  ASSERT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_DFL) << "the canary: it would kill";
  std::string const before = signals();
  {
    auto const m = made_multiplexer();
    write_to_what_nobody_reads(*m);
    expect_nothing_in_flight(*m);
  }
  EXPECT_EQ(signals(), before);
}

ISOLATED_TEST(kernel_signal, would_kill_without_that_care) {
  EXPECT_EQ(in_child([] {
              int ends[2];
              CHILD_EXPECTS(::pipe(ends) == 0);
              ::close(ends[0]);
              return ::write(ends[1], "x", 1) == 1 ? 2 : 3;
            }),
            -1)
      << "the canary: SIGPIPE kills";
}

// Every way to make a file longer than it may be.
void write_past_the_largest_size(unio::io_multiplexer& m, temporary_directory const& directory,
                                 std::uint64_t limit) {
  using mode = unio::handle::mode;
  using creation = unio::handle::creation;
  unio::const_buffer const bytes(std::string_view("abc"));
  std::array<unio::const_buffer, 2> const two = {bytes, bytes};
  auto const open = [&](char const* name, mode how) {
    return unio::file_handle::file(directory.handle(), name, how, creation::if_needed).value();
  };
  for (bool const with_own : {true, false}) {
    SCOPED_TRACE(with_own ? "on its multiplexer" : "blocking");
    unio::file_handle f = open("a", mode::write);
    f.set_multiplexer(with_own ? &m : nullptr);
    ASSERT_TRUE(f.truncate(0).has_value());
    EXPECT_EQ(f.write({bytes, limit}, 20s).error().value(), EFBIG);
    std::error_code const tried = f.try_write({bytes, limit}).error();
    EXPECT_TRUE(tried.value() == EFBIG || tried == unio::condition::would_block) << tried.message();
    EXPECT_EQ(f.write({unio::const_buffers(two), limit + 1}, 20s).error().value(), EFBIG);
    EXPECT_EQ(f.write({bytes, limit - 1}, 20s).bytes_transferred(), 1u) << "up to it";
    unio::file_handle appended = open("a", mode::append);
    appended.set_multiplexer(with_own ? &m : nullptr);
    EXPECT_EQ(appended.write(bytes, 20s).error().value(), EFBIG);
    EXPECT_EQ(f.truncate(limit + 1).error().value(), EFBIG);
    auto pipe = unio::pipe_handle::anonymous().value();
    EXPECT_TRUE(pipe.writer.write(bytes).has_value());
    pipe.reader.set_multiplexer(with_own ? &m : nullptr);
    EXPECT_EQ(unio::splice(pipe.reader, f, {.bytes = 3, .to_offset = limit}, 20s).error().value(), EFBIG);
    // One byte fits, and moves; the signal of the next is not ours to leave behind.
    EXPECT_EQ(unio::splice(pipe.reader, f, {.bytes = 3, .to_offset = limit - 1}, 20s).value(), 1u);
    f.set_multiplexer(nullptr);
    appended.set_multiplexer(nullptr);
    pipe.reader.set_multiplexer(nullptr);
  }
  // What is not tried at once is left to the driver: here many at once.
  unio::file_handle f = open("a", mode::write);
  f.set_multiplexer(&m);
  std::deque<started<unio::async_write>> writes;
  for (int i = 0; i != 20; ++i) {
    unio::io_request<unio::const_buffers> const past(bytes, limit + static_cast<std::uint64_t>(i));
    writes.emplace_back(unio::async_write(f, past));
  }
  ASSERT_TRUE(drive(m, [&] { return all_ended(writes); }));
  for (tally const& write : writes) EXPECT_EQ(write.error.value(), EFBIG);
  f.set_multiplexer(nullptr);
}

// P8, case 59: the same of RLIMIT_FSIZE.
ISOLATED_TEST(kernel_signal, is_not_raised_by_writing_past_the_largest_size_of_a_file) {
  ASSERT_EQ(std::signal(SIGXFSZ, SIG_DFL), SIG_DFL) << "the canary: it would kill";
  std::thread([] {}).join(); // the C library prepares for threads with the first one
  std::string const before = signals();
  {
    auto const m = made_multiplexer();
    temporary_directory const directory;
    constexpr std::uint64_t most = 1 << 20; // what this test prints goes to a file as well
    ASSERT_TRUE(limit_file_size(most));
    write_past_the_largest_size(*m, directory, most);
    expect_nothing_in_flight(*m);
    EXPECT_EQ(in_child([&] {
                int const fd = ::open((directory / "a").c_str(), O_WRONLY | O_CLOEXEC);
                return ::pwrite(fd, "x", 1, most) == 1 ? 2 : 3;
              }),
              -1)
        << "the canary: SIGXFSZ kills";
  }
  EXPECT_EQ(signals(), before);
}

// What goes past the cache is not tried at once either.
ISOLATED_TEST(kernel_signal, is_not_raised_by_writing_past_the_largest_size_without_the_cache) {
  temporary_directory const directory;
  if (std::string const why = no_direct_io(directory.path()); !why.empty()) GTEST_SKIP() << why;
  ASSERT_EQ(std::signal(SIGXFSZ, SIG_DFL), SIG_DFL) << "it would kill";
  std::thread([] {}).join(); // the C library prepares for threads with the first one
  std::string const before = signals();
  {
    auto const m = made_multiplexer();
    auto f = unio::file_handle::file(directory.handle(), "a", unio::handle::mode::write,
                                     unio::handle::creation::if_needed, unio::handle::caching::only_metadata)
                 .value();
    constexpr std::uint64_t most = 1 << 20;
    ASSERT_TRUE(limit_file_size(most));
    alignas(4096) static std::byte const page[4096] = {};
    f.set_multiplexer(m.get());
    EXPECT_EQ(f.write({unio::const_buffer(page), most}, 20s).error().value(), EFBIG);
    f.set_multiplexer(nullptr);
    expect_nothing_in_flight(*m);
  }
  EXPECT_EQ(signals(), before);
}

// One that was pending, and blocked, before is not taken away.
ISOLATED_TEST(kernel_signal, of_the_largest_size_that_was_pending_before_still_is) {
  temporary_directory const directory;
  ASSERT_TRUE(limit_file_size(1 << 20));
  sigset_t s;
  sigemptyset(&s);
  sigaddset(&s, SIGXFSZ);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &s, nullptr), 0);
  ASSERT_EQ(::raise(SIGXFSZ), 0);
  std::string const before = signals();
  auto f = unio::file_handle::file(directory.handle(), "a", unio::handle::mode::write,
                                   unio::handle::creation::if_needed)
               .value();
  EXPECT_EQ(f.write({unio::const_buffer("x", 1), 1 << 20}).error().value(), EFBIG);
  EXPECT_EQ(signals(), before);
}

// Denies pwritev2(2) with RWF_NOSIGNAL, as kernels before 6.18 do.
bool deny_rwf_nosignal() {
  constexpr unsigned flags_low = offsetof(seccomp_data, args[5]);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pwritev2, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, flags_low),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 0x100, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EOPNOTSUPP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog const program{.len = std::size(code), .filter = code};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
}

ISOLATED_TEST(kernel_signal, is_not_raised_on_kernels_that_cannot_suppress_it_for_a_pipe) {
  ASSERT_TRUE(deny_rwf_nosignal());
  std::string const before = signals();
  {
    auto const m = made_multiplexer();
    EXPECT_FALSE(m->capabilities().pipe_write_without_signal) << "the canary: it is denied";
    write_to_what_nobody_reads(*m);
    expect_nothing_in_flight(*m);
  }
  EXPECT_EQ(signals(), before);
}

// What it could not find out for want of descriptors it finds out later.
ISOLATED_TEST(kernel_signal, suppressing_it_for_a_pipe_is_tried_again_after_a_moment_without_descriptors) {
  int const next = ::dup(0);
  ASSERT_GE(next, 0);
  ::close(next);
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit const none{.rlim_cur = static_cast<rlim_t>(next), .rlim_max = before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  EXPECT_FALSE(unio::sys::has_rwf_nosignal()) << "the canary: there is no descriptor to try with";
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &before), 0);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  iovec byte{const_cast<char*>("x"), 1};
  bool const has = ::syscall(SYS_pwritev2, ends[1], &byte, 1, -1L, -1L, 0x100) == 1;
  ::close(ends[0]);
  ::close(ends[1]);
  EXPECT_EQ(unio::sys::has_rwf_nosignal(), has);
}

// One that is pending already, because the program blocks it, stays pending.
ISOLATED_TEST(kernel_signal, that_the_program_has_blocked_stays_as_it_is) {
  ASSERT_TRUE(deny_rwf_nosignal());
  sigset_t blocked;
  sigemptyset(&blocked);
  sigaddset(&blocked, SIGPIPE);
  ASSERT_EQ(::pthread_sigmask(SIG_BLOCK, &blocked, nullptr), 0);
  for (bool const pending : {false, true}) {
    ASSERT_EQ(pending ? ::raise(SIGPIPE) : 0, 0);
    std::string const before = signals();
    {
      auto const m = made_multiplexer();
      write_to_what_nobody_reads(*m);
    }
    EXPECT_EQ(signals(), before);
  }
}

// How many system calls that saves is counted by scripts/check-syscalls.
ISOLATED_TEST(kernel_signal, that_the_program_ignores_for_good_is_not_kept_away_and_does_not_come) {
  ASSERT_TRUE(deny_rwf_nosignal());
  ASSERT_EQ(std::signal(SIGPIPE, SIG_DFL), SIG_DFL);
  ASSERT_TRUE(unio::ignore_sigpipe().has_value());
  std::string const before = signals();
  {
    auto const m = made_multiplexer();
    write_to_what_nobody_reads(*m);
    expect_nothing_in_flight(*m);
  }
  EXPECT_EQ(signals(), before);
}

// RLIMIT_FSIZE: the kernel's SIGXFSZ is the program's business, the short write and EFBIG are ours (case 59).
ISOLATED_TEST(kernel_signal, of_a_file_that_may_not_grow_is_an_error_for_who_ignores_it) {
  temporary_directory const directory;
  ASSERT_NE(std::signal(SIGXFSZ, SIG_IGN), SIG_ERR);
  rlimit const small{.rlim_cur = 1000, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  auto const m = made_multiplexer();
  for (bool const with_own : {true, false}) {
    auto f = unio::file_handle::file(directory.handle(), "file", unio::handle::mode::write,
                                     unio::handle::creation::always_new)
                 .value();
    if (with_own) f.set_multiplexer(m.get());
    std::string const bytes = pattern(1500);
    auto const first = f.write({unio::const_buffer(bytes), 0});
    ASSERT_TRUE(first.has_value()) << first.error().message();
    EXPECT_EQ(first.bytes_transferred(), 1000u);
    EXPECT_EQ(f.write({unio::const_buffer(bytes), 1000}).error().value(), EFBIG);
  }
  rlimit const all{.rlim_cur = RLIM_INFINITY, .rlim_max = RLIM_INFINITY};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &all), 0);
}

// P9, case 50: no result of this ever shows that there was a signal.
void mixed_workload(unio::io_multiplexer& m, temporary_directory const& directory, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    SCOPED_TRACE(round);
    bool const with_own = round % 2 == 0;
    unio::io_multiplexer* const own = with_own ? &m : nullptr;
    // A server and its client, over TCP, in two threads.
    auto [accepting, port] = listener(own);
    std::thread client([p = port] {
      auto s = unio::socket_handle::connected_to(unio::endpoint::ipv4_loopback(p));
      ASSERT_TRUE(s.has_value()) << s.error().message();
      std::string const bytes = pattern(50'000);
      for (std::size_t at = 0; at < bytes.size();) {
        auto const r = s->write(unio::const_buffer(std::string_view(bytes).substr(at)), 30s);
        ASSERT_TRUE(r.has_value()) << r.error().message();
        at += r.bytes_transferred();
      }
      ASSERT_TRUE(s->shutdown(unio::socket_handle::side::send).has_value());
      std::array<char, 4> memory{};
      auto const end = s->read(unio::mutable_buffer(memory), 30s);
      EXPECT_TRUE(end.has_value()) << end.error().message();
    });
    std::string received;
    {
      auto accepted = accepting.accept(30s);
      EXPECT_TRUE(accepted.has_value()) << accepted.error().message();
      if (accepted.has_value()) {
        accepted->set_multiplexer(own);
        std::array<char, 3000> memory{};
        for (;;) {
          auto const r = accepted->read(unio::mutable_buffer(memory), 30s);
          EXPECT_TRUE(r.has_value()) << r.error().message();
          if (!r.has_value() || r.bytes_transferred() == 0) break;
          received.append(memory.data(), r.bytes_transferred());
        }
      }
    }
    client.join();
    EXPECT_TRUE(received == pattern(50'000));

    unio::timer_handle timer(3ms, own);
    EXPECT_TRUE(timer.wait().has_value());
    auto file = unio::file_handle::file(directory.handle(), "file", unio::handle::mode::write,
                                        unio::handle::creation::if_needed)
                    .value();
    file.set_multiplexer(own);
    std::string const text = pattern(10'000);
    auto const written = file.write({unio::const_buffer(text), 0});
    EXPECT_TRUE(written.has_value()) << written.error().message();
    EXPECT_TRUE(file.barrier(unio::barrier_kind::wait_all).has_value());
    std::string back(10'000, '\0');
    auto const read = file.read({unio::mutable_buffer(back), 0});
    EXPECT_TRUE(read.has_value()) << read.error().message();
    auto pipe = unio::pipe_handle::anonymous().value();
    pipe.reader.set_multiplexer(own);
    std::thread writer([&] {
      std::this_thread::sleep_for(1ms);
      EXPECT_TRUE(pipe.writer.write(unio::const_buffer(text)).has_value());
    });
    auto const piped = pipe.reader.read(unio::mutable_buffer(back), 30s);
    EXPECT_TRUE(piped.has_value()) << piped.error().message();
    writer.join();
    auto event = unio::event_handle::create().value();
    event.set_multiplexer(own);
    EXPECT_EQ(event.wait(2ms).error(), unio::condition::timed_out);
    EXPECT_TRUE(event.signal().has_value());
    EXPECT_TRUE(event.wait(20s).has_value());
  }
}

volatile sig_atomic_t handled_by;

// A program that blocks a signal for a while expects that nothing of it is handled meanwhile. With every
// thread that the library makes: of a pool, for a file where there is no ring, for dumps.
ISOLATED_TEST(kernel_signal, is_handled_by_no_thread_of_the_library) {
  EXPECT_EQ(in_child([] { // dumping stays on for as long as the process lives
              auto const m = made_multiplexer();
              unio::thread_pool const pool(2);
              temporary_directory const directory;
              auto file = unio::file_handle::temp_inode(directory.handle()).value();
              started barrier{unio::async_barrier(file, unio::barrier_kind::wait_all), m.get()};
              CHILD_EXPECTS(drive(*m, [&] { return barrier.ended(); }));
              CHILD_EXPECTS(unio::dump_pending_on_signal(SIGUSR2).has_value());

              struct sigaction action = {};
              action.sa_handler = [](int) { handled_by = static_cast<sig_atomic_t>(::syscall(SYS_gettid)); };
              ::sigaction(SIGUSR1, &action, nullptr);
              sigset_t blocked;
              sigemptyset(&blocked);
              sigaddset(&blocked, SIGUSR1);
              ::pthread_sigmask(SIG_BLOCK, &blocked, nullptr);
              ::kill(::getpid(), SIGUSR1);
              std::this_thread::sleep_for(50ms);
              CHILD_EXPECTS(handled_by == 0);
              ::pthread_sigmask(SIG_UNBLOCK, &blocked, nullptr);
              return CHILD_MEETS(handled_by == ::getpid());
            }),
            0)
      << "(3: by a thread of the library)";
}

// One that is blocked when its thread causes it kills the process, whatever handler there is.
ISOLATED_TEST(kernel_signal, of_a_fault_reaches_its_handler_on_a_thread_of_the_library) {
  if (under_sanitizer) GTEST_SKIP() << "the sanitizer's own handlers are in the way";
  EXPECT_EQ(in_child([] {
              unio::thread_pool pool(1);
              struct sigaction action = {};
              action.sa_handler = [](int) { ::_exit(7); };
              ::sigaction(SIGSEGV, &action, nullptr);
              pool.post([] {
                void* const nothing = ::mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                *static_cast<char volatile*>(nothing) = 1;
              });
              pool.join();
              return 1;
            }),
            7);
}

ISOLATED_TEST(kernel_signal, that_comes_all_the_time_is_never_seen) {
  temporary_directory const directory;
  auto const m = made_multiplexer();
  signal_storm::count = 0;
  {
    signal_storm const storm;
    mixed_workload(*m, directory, 10);
  }
  EXPECT_GT(signal_storm::count, 10) << "the canary: there was a storm";
  expect_nothing_in_flight(*m);
}

// How often the workload makes a call, and how often it is interrupted: `times`, however often that is tried.
template <auto Member>
void with_one_interrupted(unio::io_multiplexer& m, temporary_directory const& directory, char const* name,
                          bool is_made) {
  for (int const times : {1, 2}) {
    SCOPED_TRACE(std::string(name) + ", " + std::to_string(times) + " in a row");
    failing_calls calls;
    calls.fail<Member>(EINTR, {.times = times});
    // What waits on a thread does not always have to.
    for (int tries = 0; tries != (is_made ? 20 : 1) && calls.template failures<Member>() < times; ++tries)
      mixed_workload(m, directory, 2);
    if (is_made) {
      EXPECT_EQ(calls.template failures<Member>(), times) << "the canary: it was interrupted";
      EXPECT_GT(calls.template count<Member>(), times) << "and made again";
    }
  }
}

// The same call by call: each that the workload makes, and that a signal can interrupt, is interrupted once,
// and twice in a row.
ISOLATED_TEST(kernel_signal, that_interrupts_any_system_call_is_never_seen) {
  temporary_directory const directory;
  auto const m = made_multiplexer();
  struct call {
    char const* name;
    int (*count)();
    void (*interrupt)(unio::io_multiplexer&, temporary_directory const&, char const*, bool);
    int made = 0;
  };
#define UNIO_TEST_CALL(name) {#name, &failing_calls::count<&table::name>, &with_one_interrupted<&table::name>}
  call all[] = {
      UNIO_TEST_CALL(recv),       UNIO_TEST_CALL(send),           UNIO_TEST_CALL(recvmsg),
      UNIO_TEST_CALL(sendmsg),    UNIO_TEST_CALL(read),           UNIO_TEST_CALL(write),
      UNIO_TEST_CALL(readv),      UNIO_TEST_CALL(writev),         UNIO_TEST_CALL(preadv2),
      UNIO_TEST_CALL(pwritev2),   UNIO_TEST_CALL(accept4),        UNIO_TEST_CALL(poll),
      UNIO_TEST_CALL(epoll_wait), UNIO_TEST_CALL(io_uring_enter), UNIO_TEST_CALL(fsync),
      UNIO_TEST_CALL(openat),
  };
#undef UNIO_TEST_CALL
  {
    failing_calls const counted;
    mixed_workload(*m, directory, 4);
    for (call& c : all) c.made = c.count();
  }
  int made = 0;
  for (call const& c : all) {
    made += c.made > 0;
    c.interrupt(*m, directory, c.name, c.made > 0);
  }
  EXPECT_GE(made, 9) << "the canary: this is what the workload needs";
  expect_nothing_in_flight(*m);
}

} // namespace
