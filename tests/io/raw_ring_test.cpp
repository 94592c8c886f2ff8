// unio/extend/raw_ring.hpp: operations that only the kernel knows, in every style; what is refused; and that
// without a ring, or when it goes away, they end with an error and nothing else suffers.

#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/operation_table.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"
#include "sys/kernel_abi.hpp"

#include <unio/extend/raw_ring.hpp>

#include <linux/io_uring.h>
#include <sys/epoll.h>

#include <sstream>

namespace {

using namespace test;

// Newer than the headers may be: include/uapi/linux/io_uring.h.
constexpr std::uint8_t futex_wait = 51, futex_wake = 52, epoll_wait = 59;
constexpr std::uint32_t size_of_waiting = 0; // SOCKET_URING_OP_SIOCINQ
constexpr int futex_u32_private = 0x02 | 128;

auto const nothing = [](io_uring_sqe& e) { e.opcode = IORING_OP_NOP; };

struct receives {
  char* to = nullptr;
  void operator()(io_uring_sqe& e) const {
    e.opcode = IORING_OP_RECV;
    e.addr = reinterpret_cast<std::uintptr_t>(to);
    e.len = 16;
  }
};

// One that is no handle's.
struct owned {
  int fd;
  ~owned() { ::close(fd); }
};

// As in tests/op, but for a ring alone.
struct raw_receive : test::fixture {
  static constexpr bool zero_is_enough = false;
  static ending value() { return {"hello"}; }
  static ending at_end() { return {""}; }
  test::unix_ends ends;
  char memory[16] = {};
  using sender = async_raw_ring<receives>;

  raw_receive(io_multiplexer* m, script) { ends.source.set_multiplexer(m); }
  template <class S = sender> S describe(deadline d) { return S(ends.source, receives{memory}, d); }
  auto block(deadline d) { return unio::raw_ring(ends.source, receives{memory}, d); }
  auto await(deadline d) { return unio::co_raw_ring(ends.source, receives{memory}, d); }
  ending reduce(sender::result_type const& r) const {
    if (!r.has_value()) return test::failure(r.error());
    return {std::string(memory, static_cast<std::size_t>(r->res))};
  }
  void make_ready() { test::put(ends.sink, "hello"); }
  void end() { ASSERT_TRUE(ends.sink.close()); }
  void close() { ASSERT_TRUE(ends.source.close()); }
};

class raw_ring : public test::on_each_driver {
 protected:
  void SetUp() override {
    on_each_driver::SetUp();
    if (m_ != nullptr) (void)unio::raw_ring(nothing, {}, m_.get()); // the ring opens a pipe for itself
  }
  [[nodiscard]] static bool is_ring() { return GetParam() == "uring"; }
  [[nodiscard]] static bool knows(unsigned operation) {
    return is_ring() && unio::ring_operations()[operation].is_known;
  }
  template <class Fill> auto run(Fill fill, deadline d = {}) { return unio::raw_ring(fill, d, m_.get()); }
};
UNIO_ON_BOTH_DRIVERS(raw_ring);

TEST_P(raw_ring, ends_the_same_in_every_style) {
  test::row const row = test::row_of<raw_receive>("raw_receive");
  test::for_each_script([&](script s) {
    SCOPED_TRACE(test::name_of(s));
    bool const is_tried_only = s == script::zero_deadline;
    auto const expected = is_ring() || is_tried_only ? row.expected(s) : test::failure(ENOSYS);
    if (!row.expected(s).has_value()) return;
    // Without a ring it ends at once, so there is nothing to be done to it.
    if (!is_ring() && s != script::ready && !is_tried_only) return;
    std::vector<test::cell> cells;
    test::for_each_style([&](test::style how) {
      if (how == test::style::blocking || !row.has(s, how)) return; // blocking: below
      // Another thread runs it: this one has begun to run m_.
      auto const fresh =
          how == test::style::elsewhere ? test::make_multiplexer(GetParam().c_str()).value() : nullptr;
      cells.push_back({test::name_of(how), row.play(s, how, fresh != nullptr ? fresh.get() : m_.get())});
    });
    for (std::string const& d : test::differences(*expected, cells)) ADD_FAILURE() << d;
  });
}

TEST_P(raw_ring, blocks_on_the_threads_own_multiplexer) {
  std::string const driver = GetParam();
  std::thread([&] {
    test::environment_variable const chosen("UNIO_DRIVER", driver.c_str());
    test::unix_ends ends;
    test::put(ends.sink, "hello");
    char memory[16];
    for (bool const on_handle : {false, true}) {
      int const fd = ends.source.native_handle();
      auto const r = on_handle ? unio::raw_ring(ends.source, nothing) : unio::raw_ring([&](io_uring_sqe& e) {
        receives{memory}(e);
        e.fd = fd;
      });
      if (driver != "uring") {
        EXPECT_EQ(r.error(), std::errc::function_not_supported);
      } else {
        EXPECT_EQ(r.value().res, on_handle ? 0 : 5);
      }
    }
  }).join();
}

TEST_P(raw_ring, has_no_ring_where_nothing_was_said_of_one) {
  async_raw_ring op(nothing);
  op.run_blocking();
  EXPECT_EQ(op.result().error(), std::errc::function_not_supported);
}

TEST_P(raw_ring, is_counted) {
  unio::counters const before = m_->counters();
  auto const r = run(nothing);
  unio::counters const after = m_->counters();
  EXPECT_EQ(after.started, before.started + 1);
  EXPECT_EQ(after.finished, before.finished + 1);
  EXPECT_GE(after.submissions, before.submissions + (is_ring() ? 1 : 0));
  EXPECT_EQ(r.has_value(), is_ring());
  EXPECT_EQ(r.bytes_transferred(), 0u);
}

TEST_P(raw_ring, calls_a_function) {
  std::optional<bool> fine;
  unio::start(async_raw_ring(nothing, {}, m_.get()),
              [&](unio::io_result<unio::ring_completion> r) { fine = r.has_value(); });
  while (!fine) (void)m_->run();
  EXPECT_EQ(*fine, is_ring());
}

TEST_P(raw_ring, is_among_what_is_pending) {
  if (!is_ring()) GTEST_SKIP() << "it ends at once";
  test::unix_ends ends;
  char memory[16];
  started op(async_raw_ring(ends.source, receives{memory}, 1h), m_.get());
  (void)m_->try_run();
  std::ostringstream out;
  unio::dump_pending(out);
  EXPECT_NE(out.str().find("raw_ring on "), std::string::npos) << out.str();
  EXPECT_NE(out.str().find("in the kernel"), std::string::npos) << out.str();
}

TEST_P(raw_ring, may_point_into_what_fills_it) {
  struct connects_to_itself { // the argument of a call that the kernel looks at while it is performed
    __kernel_timespec span{.tv_sec = 0, .tv_nsec = 1'000'000};
    void operator()(io_uring_sqe& e) {
      e.opcode = IORING_OP_TIMEOUT;
      e.addr = reinterpret_cast<std::uintptr_t>(&span);
      e.len = 1;
    }
  };
  auto const r = run(connects_to_itself());
  EXPECT_EQ(r.error().value(), is_ring() ? ETIME : ENOSYS); // which is how a timeout ends
}

TEST_P(raw_ring, may_be_run_again) {
  test::watched op(async_raw_ring(nothing, {}, m_.get()));
  for (int i = 0; i != 3; ++i) {
    op.ends = 0;
    op.start();
    while (!op.ended()) (void)m_->run();
    EXPECT_EQ(!op.error, is_ring());
    op.reset();
  }
}

// ---- what is refused -------------------------------------------------------------------------------------

TEST_P(raw_ring, refuses_what_would_take_from_the_ring_what_is_unios) {
  using fill = void (*)(io_uring_sqe&);
  std::vector<std::pair<char const*, fill>> const refused = {
      {"link", [](io_uring_sqe& e) { e.flags = IOSQE_IO_LINK; }},
      {"hard link", [](io_uring_sqe& e) { e.flags = IOSQE_IO_HARDLINK; }},
      {"drain", [](io_uring_sqe& e) { e.flags = IOSQE_IO_DRAIN; }},
      {"no completion", [](io_uring_sqe& e) { e.flags = IOSQE_CQE_SKIP_SUCCESS; }},
      {"buffer select", [](io_uring_sqe& e) { e.flags = IOSQE_BUFFER_SELECT; }},
      {"registered file", [](io_uring_sqe& e) { e.flags = IOSQE_FIXED_FILE; }},
      {"cancel", [](io_uring_sqe& e) { e.opcode = IORING_OP_ASYNC_CANCEL; }},
      {"poll remove", [](io_uring_sqe& e) { e.opcode = IORING_OP_POLL_REMOVE; }},
      {"timeout remove", [](io_uring_sqe& e) { e.opcode = IORING_OP_TIMEOUT_REMOVE; }},
      {"link timeout", [](io_uring_sqe& e) { e.opcode = IORING_OP_LINK_TIMEOUT; }},
      {"files update", [](io_uring_sqe& e) { e.opcode = IORING_OP_FILES_UPDATE; }},
      {"provide buffers", [](io_uring_sqe& e) { e.opcode = IORING_OP_PROVIDE_BUFFERS; }},
      {"remove buffers", [](io_uring_sqe& e) { e.opcode = IORING_OP_REMOVE_BUFFERS; }},
      {"read multishot", [](io_uring_sqe& e) { e.opcode = 49; }},
      {"receive zero copy", [](io_uring_sqe& e) { e.opcode = 58; }},
      {"accept many",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_ACCEPT;
         e.ioprio = IORING_ACCEPT_MULTISHOT;
       }},
      {"receive many",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_RECV;
         e.ioprio = IORING_RECV_MULTISHOT;
       }},
      {"poll many",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_POLL_ADD;
         e.len = IORING_POLL_ADD_MULTI;
       }},
      {"timeout many",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_TIMEOUT;
         e.timeout_flags = unio::sys::timeout_multishot;
       }},
      {"socket into the table",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_SOCKET;
         e.file_index = 1;
       }},
      {"close in the table",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_CLOSE;
         e.file_index = 1;
       }},
      {"send a registered file",
       [](io_uring_sqe& e) {
         e.opcode = IORING_OP_MSG_RING;
         e.addr = IORING_MSG_SEND_FD;
       }},
  };
  for (auto const& [what, f] : refused) {
    SCOPED_TRACE(what);
    unio::counters const before = m_->counters();
    EXPECT_EQ(run(f).error().value(), is_ring() ? EINVAL : ENOSYS);
    EXPECT_EQ(m_->counters().late_completions, before.late_completions);
  }
  EXPECT_EQ(run(nothing).has_value(), is_ring());
}

TEST_P(raw_ring, keeps_the_user_data_for_itself) {
  auto const names_another = [](io_uring_sqe& e) {
    e.opcode = IORING_OP_NOP;
    e.user_data = ~std::uint64_t{0};
  };
  EXPECT_EQ(run(names_another, 30s).has_value(), is_ring());
  // The doorbell, whose name that is, still wakes.
  bool woken = false;
  std::thread other([&] { (void)m_->post([&] { woken = true; }); });
  other.join();
  while (!woken) (void)m_->run();
}

TEST_P(raw_ring, is_not_there_where_the_kernel_does_not_know_it) {
  EXPECT_EQ(run([](io_uring_sqe& e) { e.opcode = 250; }).error(), std::errc::function_not_supported);
}

TEST_P(raw_ring, yields_the_kernels_errors_as_they_are) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  auto const nowhere = [](io_uring_sqe& e) {
    e.opcode = IORING_OP_FSYNC;
    e.fd = -1;
  };
  EXPECT_EQ(run(nowhere).error().value(), EBADF);
  auto const would_wait = [](io_uring_sqe& e) {
    static char byte;
    receives{&byte}(e);
    e.msg_flags = MSG_DONTWAIT;
  };
  test::unix_ends ends;
  EXPECT_EQ(unio::raw_ring(ends.source, would_wait, 30s, m_.get()).error().value(), EAGAIN);
}

// ---- operations that unio has not ------------------------------------------------------------------------

TEST_P(raw_ring, asks_a_socket_how_much_waits) {
  if (!knows(IORING_OP_URING_CMD)) GTEST_SKIP() << "the kernel has no URING_CMD";
  test::tcp_ends ends;
  test::put(ends.sink, "hello");
  ASSERT_TRUE(test::is_ready(ends.source, POLLIN, 10'000));
  auto const asks = [](io_uring_sqe& e) {
    e.opcode = IORING_OP_URING_CMD;
    e.cmd_op = size_of_waiting;
  };
  auto const r = unio::raw_ring(ends.source, asks, {}, m_.get());
  if (r.error() == std::errc::operation_not_supported) GTEST_SKIP() << "sockets have it since Linux 6.7";
  EXPECT_EQ(r.value().res, 5);
}

TEST_P(raw_ring, waits_for_an_epoll) {
  if (!knows(epoll_wait)) GTEST_SKIP() << "the kernel has no EPOLL_WAIT (Linux 6.15)";
  owned const set{::epoll_create1(EPOLL_CLOEXEC)};
  test::pipe_ends ends;
  epoll_event wanted{.events = EPOLLIN, .data = {.u64 = 42}};
  ASSERT_EQ(::epoll_ctl(set.fd, EPOLL_CTL_ADD, ends.source.native_handle(), &wanted), 0);
  epoll_event came[4] = {};
  started op(async_raw_ring([&](io_uring_sqe& e) {
               e.opcode = epoll_wait;
               e.fd = set.fd;
               e.addr = reinterpret_cast<std::uintptr_t>(came);
               e.len = 4;
             }),
             m_.get());
  for (int i = 0; i != 3; ++i) (void)m_->try_run();
  EXPECT_FALSE(op.ended());
  test::put(ends.sink, "x");
  while (!op.ended()) (void)m_->run();
  EXPECT_EQ(op.result().value().res, 1);
  std::uint64_t const which = came[0].data.u64; // epoll_event is packed
  EXPECT_EQ(which, 42u);
}

TEST_P(raw_ring, waits_for_a_futex_and_wakes_it) {
  if (!knows(futex_wait)) GTEST_SKIP() << "the kernel has no FUTEX_WAIT (Linux 6.7)";
  alignas(4) std::uint32_t word = 7;
  auto const of = [&word](std::uint8_t operation, std::uint64_t value) {
    return [&word, operation, value](io_uring_sqe& e) {
      e.opcode = operation;
      e.fd = futex_u32_private;
      e.addr = reinterpret_cast<std::uintptr_t>(&word);
      e.addr2 = value;
      e.addr3 = 0xffffffff;
    };
  };
  started op(async_raw_ring(of(futex_wait, 7)), m_.get());
  started late(async_raw_ring(of(futex_wait, 7), 5ms), m_.get());
  while (!late.ended()) (void)m_->run();
  EXPECT_EQ(late.error, unio::condition::timed_out);
  EXPECT_FALSE(op.ended());
  EXPECT_EQ(run(of(futex_wake, 1)).value().res, 1);
  while (!op.ended()) (void)m_->run();
  EXPECT_EQ(op.result().value().res, 0);
  EXPECT_EQ(run(of(futex_wait, 8)).error().value(), EAGAIN); // another value is there
}

TEST_P(raw_ring, sends_a_message_to_a_ring_of_others) {
  if (!knows(IORING_OP_MSG_RING)) GTEST_SKIP() << "the kernel has no MSG_RING";
  io_uring_params p{};
  owned const other{static_cast<int>(::syscall(SYS_io_uring_setup, 2, &p))};
  ASSERT_GE(other.fd, 0);
  pollfd has_something{.fd = other.fd, .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&has_something, 1, 0), 0);
  auto const tells = [&](io_uring_sqe& e) {
    e.opcode = IORING_OP_MSG_RING;
    e.fd = other.fd;
    e.len = 1;
    e.off = 2; // the user_data there
  };
  EXPECT_EQ(run(tells).value().res, 0);
  EXPECT_EQ(::poll(&has_something, 1, 10'000), 1);
}

// Its completion comes first, and a notification when the kernel has released the pages.
TEST_P(raw_ring, ends_after_the_last_completion) {
  if (!knows(IORING_OP_SEND_ZC)) GTEST_SKIP() << "the kernel has no SEND_ZC";
  test::tcp_ends ends;
  std::string const bytes(4096, 'z');
  started op(async_raw_ring(ends.sink,
                            [&](io_uring_sqe& e) {
                              e.opcode = IORING_OP_SEND_ZC;
                              e.addr = reinterpret_cast<std::uintptr_t>(bytes.data());
                              e.len = static_cast<std::uint32_t>(bytes.size());
                              e.msg_flags = MSG_NOSIGNAL;
                            }),
             m_.get());
  auto const end = std::chrono::steady_clock::now() + 30s;
  while (op.values == 0 && std::chrono::steady_clock::now() < end) (void)m_->try_run_for(10ms);
  ASSERT_EQ(op.values, 1);
  if (op.error.value() == ENOMEM) GTEST_SKIP() << "RLIMIT_MEMLOCK is too small";
  EXPECT_EQ(op.result().value().res, 4096);
  EXPECT_NE(op.result().value().flags & IORING_CQE_F_MORE, 0u);
  EXPECT_EQ(test::take(ends.source, bytes.size()), bytes);
  while (!op.ended()) (void)m_->run();
  test::expect_ended_once(op);
}

// ---- a ring that goes away -------------------------------------------------------------------------------

TEST_P(raw_ring, ends_with_an_error_when_io_uring_is_forbidden) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring to forbid";
  test::unix_ends ends, others;
  others.source.set_multiplexer(m_.get());
  char memory[16] = "untouched";
  char room[4];
  {
    started op(async_raw_ring(ends.source, receives{memory}), m_.get());
    for (int i = 0; i != 3; ++i) (void)m_->try_run();
    started later(async_raw_ring{nothing}, m_.get()); // the ring is not told of it
    started read(unio::async_read(others.source, unio::mutable_buffer(room)), m_.get());
    test::failing_calls calls;
    calls.fail<&table::io_uring_enter>(EPERM, {.times = test::which_calls::all});
    auto const end = std::chrono::steady_clock::now() + 30s;
    auto const goes_on = [&] { return std::chrono::steady_clock::now() < end; };
    while (!(op.ended() && later.ended()) && goes_on()) (void)m_->try_run_for(10ms);
    test::expect_ended_once(op);
    test::expect_ended_once(later);
    for (std::error_code const& e : {op.error, later.error})
      EXPECT_TRUE(e == std::errc::function_not_supported || e == std::errc::state_not_recoverable)
          << e.message();
    EXPECT_STREQ(m_->capabilities().driver, "epoll");
    EXPECT_EQ(run(nothing).error(), std::errc::function_not_supported);
    // Nothing else suffers, and nothing of the ring takes the bytes any more.
    test::put(others.sink, "abc");
    while (!read.ended() && goes_on()) (void)m_->try_run_for(10ms);
    EXPECT_EQ(read.bytes, 3u);
    test::put(ends.sink, "hello");
    EXPECT_EQ(test::take(ends.source, 5), "hello");
  }
  EXPECT_STREQ(memory, "untouched");
  EXPECT_EQ(m_->counters().started, m_->counters().finished);
}

// ---- the table of operations -----------------------------------------------------------------------------

TEST(ring_operations, have_each_a_name_and_a_use) {
  std::vector<unio::ring_operation> const all = unio::ring_operations();
  std::set<std::string> names;
  for (unsigned i = 0; i != all.size(); ++i) {
    unio::ring_operation const& o = all[i];
    if (i < 65) {
      EXPECT_EQ(o.number, i);
    }
    EXPECT_FALSE(o.use.empty());
    EXPECT_FALSE(o.is_used && (o.use.starts_with("no:") || o.use.starts_with("raw"))) << o.name;
    EXPECT_TRUE(o.is_used || o.use.starts_with("no:") || o.use.starts_with("raw")) << o.name;
    if (!o.name.empty()) {
      EXPECT_TRUE(names.insert(o.name).second) << o.name;
    }
  }
  EXPECT_GE(all.size(), 65u);
  EXPECT_EQ(all[IORING_OP_URING_CMD].name, "URING_CMD");
  EXPECT_EQ(all[IORING_OP_SENDMSG_ZC].name, "SENDMSG_ZC");
  bool const has_ring = test::make_multiplexer("uring").has_value();
  EXPECT_EQ(all[IORING_OP_NOP].is_known, has_ring);
  EXPECT_EQ(all[IORING_OP_READ].is_known, has_ring);
}

} // namespace
