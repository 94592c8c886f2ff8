// link.hpp: operations that run one after the other. What ends a chain and what becomes of the rest, on each
// driver; closing, cancelling, destroying and forking in the middle; chains within chains.
//
// That every style gives the same result is in op/operations_test.cpp (link_…), chance in
// simulation/link_sim_test.cpp.

#include "support/child.hpp"
#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "sys/descriptors.hpp"

#include <concepts>

namespace {

using namespace test;
using test::put;

class link : public test::nothing_pending_on_each_driver {
 protected:
  unio::file_handle make_file(std::string_view text = {}) {
    auto f = unio::file_handle::temp_inode().value();
    EXPECT_EQ(::pwrite(f.native_handle(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    f.set_multiplexer(m_.get());
    return f;
  }
  void turns(int n = 4) {
    for (int i = 0; i != n; ++i) (void)m_->try_run();
  }
};

UNIO_ON_BOTH_DRIVERS(link);

std::string get(unio::handle const& h, std::size_t most = 64) {
  std::string s(most, '\0');
  ssize_t const n = ::read(h.native_handle(), s.data(), s.size());
  s.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return s;
}

// ---- what it does -----------------------------------------------------------------------------------------

TEST_P(link, runs_its_members_in_their_order) {
  auto from = make_file("hello world");
  auto to = make_file();
  char room[5];
  started op{unio::async_link(async_read(from, {mutable_buffer(room), 6}),
                              async_write(to, {const_buffer(room, 5), 2}), unio::async_barrier(to))};
  drive([&] { return op.finished(); });
  ASSERT_EQ(op.values, 1);
  EXPECT_EQ(op.ends, 1);
  EXPECT_TRUE(op.result().has_value());
  EXPECT_EQ(op.result().completed(), 3u);
  EXPECT_FALSE(op.result().error());
  auto const& [got, put, durable] = op.result();
  EXPECT_EQ(got.bytes_transferred(), 5u);
  EXPECT_EQ(put.bytes_transferred(), 5u);
  EXPECT_TRUE(durable.has_value());
  char copy[8] = {};
  EXPECT_EQ(::pread(to.native_handle(), copy, 8, 0), 7);
  EXPECT_EQ(std::string_view(copy + 2), "world");
}

TEST_P(link, tells_nobody_before_the_last_has_ended) {
  auto a = make_pipe(), b = make_pipe();
  char room[2][3];
  started op{unio::async_link(async_read(a.reader, mutable_buffer(room[0])),
                              async_read(b.reader, mutable_buffer(room[1])))};
  turns();
  put(b.writer, "two");
  turns();
  EXPECT_FALSE(op.completed());
  put(a.writer, "one");
  unio::result<int> r = 0;
  while (!op.finished()) r = m_->run();
  EXPECT_EQ(r.value(), 1) << "a value for the chain, and none for its members";
  EXPECT_TRUE(op.result().has_value());
  EXPECT_EQ(std::string_view(room[0], 3), "one");
  EXPECT_EQ(std::string_view(room[1], 3), "two");
}

TEST_P(link, ends_with_a_transfer_that_is_short) {
  auto from = make_file("abc");
  auto to = make_file();
  char room[8];
  auto r = unio::link(async_read(from, {mutable_buffer(room), 0}),
                      async_write(to, {const_buffer(room, 8), 0}), unio::async_barrier(to));
  EXPECT_FALSE(r);
  EXPECT_EQ(r.completed(), 0u);
  EXPECT_EQ(r.error(), condition::truncated);
  EXPECT_EQ(r.get<0>().bytes_transferred(), 3u);
  EXPECT_TRUE(r.get<0>().has_value());
  EXPECT_EQ(r.get<1>().error(), condition::canceled);
  EXPECT_EQ(r.get<2>().error(), condition::canceled);
  EXPECT_EQ(r.bytes_transferred(), 3u);
  EXPECT_EQ(to.maximum_extent().value(), 0u);
}

TEST_P(link, ends_with_a_message_that_is_sent_in_part) {
  auto [from, to] = unio::socket_handle::pair().value();
  std::vector<char> const more_than_fits(8 << 20);
  auto const send = [&] {
    return unio::async_send_handles(from, const_buffer(more_than_fits),
                                    std::span<unio::handle const* const>());
  };
  auto r = unio::try_link(send(), async_write(from, {const_buffer("next", 4)}));
  EXPECT_EQ(r.completed(), 0u);
  EXPECT_EQ(r.error(), condition::truncated);
  EXPECT_GT(r.get<0>().value().bytes(), 0u);
  EXPECT_EQ(r.get<1>().error(), condition::canceled);

  auto datagrams = unio::datagram_handle::pair().value();
  unio::datagram_to_send batch[1024];
  for (unio::datagram_to_send& d : batch) d.bytes = const_buffer(more_than_fits.data(), 4096);
  auto b = unio::try_link(unio::async_send_batch(datagrams.first, batch), unio::async_no_op());
  EXPECT_EQ(b.completed(), 0u);
  EXPECT_EQ(b.error(), condition::truncated);
  EXPECT_GT(b.get<0>().value(), 0u);
  EXPECT_LT(b.get<0>().value(), std::size(batch));
}

TEST_P(link, ends_with_a_failure_in_the_middle) {
  auto p = make_pipe();
  auto broken = make_pipe();
  ASSERT_TRUE(broken.reader.close());
  auto r = unio::link(async_write(p.writer, const_buffer("abc", 3)),
                      async_write(broken.writer, const_buffer("d", 1)),
                      async_write(p.writer, const_buffer("ef", 2)));
  EXPECT_EQ(r.completed(), 1u);
  EXPECT_EQ(r.error(), std::errc::broken_pipe);
  EXPECT_EQ(r.get<0>().bytes_transferred(), 3u);
  EXPECT_EQ(r.get<1>().error(), std::errc::broken_pipe);
  EXPECT_EQ(r.get<2>().error(), condition::canceled);
  EXPECT_EQ(get(p.reader), "abc");
}

TEST_P(link, carries_bytes_through_a_buffer_that_its_members_share) {
  auto a = make_pipe(), b = make_pipe();
  char room[4];
  started op{unio::async_link(
      async_read(a.reader, mutable_buffer(room)), async_write(b.writer, const_buffer(room, 4)),
      async_read(a.reader, mutable_buffer(room)), async_write(b.writer, const_buffer(room, 4)))};
  turns();
  put(a.writer, "abcd");
  turns();
  put(a.writer, "efgh");
  drive([&] { return op.finished(); });
  EXPECT_TRUE(op.result().has_value());
  EXPECT_EQ(get(b.reader), "abcdefgh");
}

TEST_P(link, is_started_again_with_other_requests) {
  auto from = make_file("one two six");
  auto to = make_file();
  char room[3];
  watched op{unio::async_link(async_read(from, {mutable_buffer(room), 0}),
                              async_write(to, {const_buffer(room, 3), 0}))};
  for (unsigned i = 0; i != 3; ++i) {
    if (i != 0) {
      op.reset();
      op.member<0>().reset({mutable_buffer(room), i * 4});
      op.member<1>().reset({const_buffer(room, 3), i * 3});
    }
    op.start();
    drive([&] { return op.finished(); });
    ASSERT_TRUE(op.result().has_value());
  }
  op.reset();
  op.start(); // the last again
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.ends, 4);
  char copy[10] = {};
  EXPECT_EQ(::pread(to.native_handle(), copy, 9, 0), 9);
  EXPECT_EQ(std::string_view(copy), "onetwosix");
}

TEST_P(link, may_be_a_member_of_another) {
  auto a = make_pipe(), b = make_pipe();
  char room[3], more[3];
  started op{unio::async_link(unio::async_link(async_write(b.writer, const_buffer("1", 1)),
                                               async_read(a.reader, mutable_buffer(room))),
                              async_write(b.writer, const_buffer("2", 1)),
                              unio::async_link(async_read(a.reader, mutable_buffer(more)),
                                               async_write(b.writer, const_buffer("3", 1))))};
  turns();
  EXPECT_EQ(get(b.reader), "1");
  put(a.writer, "abc");
  turns();
  EXPECT_EQ(get(b.reader), "2");
  op.cancel();
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().completed(), 2u);
  EXPECT_EQ(op.result().error(), condition::canceled);
  EXPECT_EQ(op.result().get<0>().get<1>().bytes_transferred(), 3u);
  EXPECT_EQ(op.result().get<2>().completed(), 0u);
  EXPECT_EQ(op.result().get<2>().get<0>().error(), condition::canceled);
  EXPECT_EQ(get(b.reader), "");
}

TEST_P(link, closes_as_its_last_member) {
  auto a = make_pipe();
  int const fd = a.writer.native_handle();
  async_write last_words(a.writer, const_buffer("bye", 3));
  started op{unio::async_link(std::move(last_words), unio::async_close(std::move(a.writer)))};
  drive([&] { return op.finished(); });
  EXPECT_TRUE(op.result().has_value());
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
  EXPECT_EQ(get(a.reader), "bye");
}

TEST_P(link, waits_until_the_kernel_has_let_go_of_a_buffer) {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  auto socket = unio::socket_handle::connected_to(listening.local_endpoint().value()).value();
  auto peer = listening.accept().value();
  socket.set_multiplexer(m_.get());
  std::vector<std::byte> const bytes(20'000);
  started op{unio::async_link(unio::async_send_zero_copy(socket, const_buffer(bytes.data(), bytes.size())),
                              async_no_op(m_.get()))};
  std::thread reader([&] {
    std::vector<std::byte> room(20'000);
    for (std::size_t n = 0; n != 20'000;) n += peer.read(room).value().bytes();
  });
  if (GetParam() == "uring") { // by polling alone
    auto const give_up = std::chrono::steady_clock::now() + 20s;
    while (op.poll() != unio::io_status::completed) ASSERT_LT(std::chrono::steady_clock::now(), give_up);
  }
  drive([&] { return op.finished(); });
  reader.join();
  EXPECT_TRUE(op.result().has_value());
}

TEST_P(link, of_operations_that_need_not_wait_uses_constant_stack) {
  auto a = make_pipe();
  char room[1];
  int left = 100'000;
  struct again {
    std::function<void()>* next;
    void set_value(
        unio::link_result<unio::io_result<unio::const_buffers>, unio::io_result<unio::mutable_buffers>>&& r) {
      ASSERT_TRUE(r.has_value());
    }
    void set_done() { (*next)(); }
  };
  std::function<void()> next;
  auto op = unio::connect(unio::async_link(async_write(a.writer, const_buffer("x", 1)),
                                           async_read(a.reader, mutable_buffer(room))),
                          again{&next});
  next = [&] {
    if (--left == 0) return;
    op.reset();
    op.start();
  };
  op.start();
  drive([&] { return left == 0; });
}

TEST_P(link, of_many_goes_on_beside_others) {
  std::vector<unio::anonymous_pipe> pipes;
  struct lane {
    char room[2][4];
    std::string out;
  };
  constexpr int n = 40;
  std::vector<lane> lanes(n);
  for (int i = 0; i != 2 * n; ++i) pipes.push_back(make_pipe());
  int ended = 0;
  for (std::size_t i = 0; i != n; ++i) {
    auto& l = lanes[i];
    unio::start(unio::async_link(async_read(pipes[2 * i].reader, mutable_buffer(l.room[0])),
                                 async_write(pipes[2 * i + 1].writer, const_buffer(l.room[0], 4)),
                                 async_no_op(m_.get()),
                                 async_read(pipes[2 * i + 1].reader, mutable_buffer(l.room[1]))),
                [&](auto r) {
                  EXPECT_TRUE(r.has_value()) << r.error().message();
                  ++ended;
                });
  }
  turns();
  for (std::size_t i = 0; i != n; ++i) put(pipes[2 * i].writer, "lane");
  drive([&] { return ended == n; });
  for (lane const& l : lanes) EXPECT_EQ(std::string_view(l.room[1], 4), "lane");
}

// ---- what ends it -----------------------------------------------------------------------------------------

TEST_P(link, that_is_canceled_keeps_the_bytes_that_moved) {
  auto a = make_pipe(), b = make_pipe();
  char room[2][3];
  started op{unio::async_link(async_read(a.reader, mutable_buffer(room[0])),
                              async_read(b.reader, mutable_buffer(room[1])),
                              async_write(b.writer, const_buffer("x", 1)))};
  turns();
  put(a.writer, "one");
  turns();
  op.cancel();
  op.cancel();
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.ends, 1);
  EXPECT_EQ(op.result().completed(), 1u);
  EXPECT_EQ(op.result().get<0>().bytes_transferred(), 3u);
  EXPECT_EQ(op.result().get<1>().error(), condition::canceled);
  EXPECT_EQ(op.result().get<2>().error(), condition::canceled);
}

TEST_P(link, that_is_canceled_starts_nobody_after_one_that_may_have_begun) {
  auto file = make_file("abc");
  auto a = make_pipe();
  started op{unio::async_link(unio::async_barrier(file), async_write(a.writer, const_buffer("x", 1)))};
  ASSERT_FALSE(op.finished()) << "a barrier on a file is never done at once";
  op.cancel();
  drive([&] { return op.finished(); });
  auto const result = op.result();
  std::error_code const first = result.get<0>().error(); // none if a thread had begun it, which ends it
  EXPECT_TRUE(!first || first == condition::canceled) << first;
  EXPECT_EQ(result.get<1>().error(), condition::canceled);
  EXPECT_EQ(get(a.reader), "");
}

TEST_P(link, has_a_deadline_for_the_whole) {
  auto a = make_pipe();
  char room[2][3];
  put(a.writer, "one");
  auto const began = std::chrono::steady_clock::now();
  auto r = unio::link(30ms, async_read(a.reader, mutable_buffer(room[0])),
                      async_read(a.reader, mutable_buffer(room[1]), 10s), async_no_op(m_.get()));
  EXPECT_GE(std::chrono::steady_clock::now() - began, 30ms);
  EXPECT_LT(std::chrono::steady_clock::now() - began, 9s);
  EXPECT_EQ(r.completed(), 1u);
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.get<0>().bytes_transferred(), 3u);
  EXPECT_EQ(r.get<1>().error(), condition::timed_out);
  EXPECT_EQ(r.get<2>().error(), condition::canceled);
}

TEST_P(link, leaves_its_members_their_own_deadlines) {
  auto a = make_pipe();
  char room[3];
  watched op{unio::async_link(20s, async_no_op(m_.get()), async_read(a.reader, mutable_buffer(room), 10ms))};
  for (int i = 0; i != 2; ++i) { // and keeps them
    op.reset();
    op.start();
    drive([&] { return op.finished(); });
    EXPECT_EQ(op.result().completed(), 1u);
    EXPECT_EQ(op.result().get<1>().error(), condition::timed_out);
  }
}

TEST_P(link, starts_nobody_after_its_deadline) {
  auto a = make_pipe();
  unio::timer_handle timer(20ms, m_.get());
  auto const now = std::chrono::steady_clock::now();
  watched op{unio::async_link(now + 1ms, async_no_op(m_.get()), async_write(a.writer, const_buffer("x", 1)))};
  std::this_thread::sleep_until(now + 2ms);
  op.start();
  drive([&] { return op.finished(); });
  EXPECT_TRUE(op.result().get<0>().has_value()) << "the first is always started";
  EXPECT_EQ(op.result().get<1>().error(), condition::timed_out);
  EXPECT_EQ(get(a.reader), "");
}

TEST_P(link, that_may_not_wait_does_what_it_can) {
  auto a = make_pipe();
  char room[2][3];
  put(a.writer, "one");
  auto r = unio::try_link(async_read(a.reader, mutable_buffer(room[0])),
                          async_read(a.reader, mutable_buffer(room[1]), 10s),
                          async_write(a.writer, const_buffer("x", 1)));
  EXPECT_EQ(r.completed(), 1u);
  EXPECT_EQ(r.error(), condition::would_block);
  EXPECT_EQ(r.get<0>().bytes_transferred(), 3u);
  EXPECT_EQ(r.get<2>().error(), condition::canceled);
}

TEST_P(link, described_by_try_async_link_does_not_wait_either) {
  auto a = make_pipe();
  char room[3];
  started op{unio::try_async_link(async_no_op(m_.get()), async_read(a.reader, mutable_buffer(room)))};
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().completed(), 1u);
  EXPECT_EQ(op.result().error(), condition::would_block);
}

TEST_P(link, awaited_by_try_co_link_does_not_wait_either) {
  auto a = make_pipe();
  char room[3];
  bool ended = false;
  auto body = [&]() -> test::coroutine {
    auto const r =
        co_await unio::try_co_link(async_no_op(m_.get()), async_read(a.reader, mutable_buffer(room), 10s));
    EXPECT_EQ(r.completed(), 1u);
    EXPECT_EQ(r.error(), condition::would_block);
    ended = true;
  };
  test::coroutine const c = body();
  drive([&] { return ended; });
}

// The four spellings: only the first runs anything by itself. A time that is no operation is the chain's.
template <class F, class... A> using made_by = std::invoke_result_t<F, A...>;
constexpr auto by_link = [](auto... a) { return unio::link(std::move(a)...); };
constexpr auto by_co_link = [](auto... a) { return unio::co_link(std::move(a)...); };
constexpr auto by_async_link = [](auto... a) { return unio::async_link(std::move(a)...); };
using described = unio::async_link<async_read, async_write>;
static_assert(std::same_as<made_by<decltype(by_link), async_read, async_write>, described::result_type>);
static_assert(
    std::same_as<made_by<decltype(by_co_link), async_read, async_write>, unio::io_awaitable<described>>);
static_assert(std::same_as<made_by<decltype(by_async_link), async_read, async_write>, described>);
static_assert(
    std::same_as<made_by<decltype(by_async_link), std::chrono::seconds, async_read, async_write>, described>);
static_assert(std::same_as<made_by<decltype(by_async_link), described>, described>,
              "one chain alone is that chain");
static_assert(std::same_as<made_by<decltype(by_link), described>, unio::link_result<described::result_type>>);

// ---- closing, destroying, forking -------------------------------------------------------------------------

TEST_P(link, is_canceled_by_closing_a_handle_that_it_has_not_come_to) {
  auto a = make_pipe(), b = make_pipe();
  char room[3];
  started op{unio::async_link(async_read(a.reader, mutable_buffer(room)),
                              async_write(b.writer, const_buffer("x", 1)))};
  turns();
  ASSERT_TRUE(b.writer.close());
  ASSERT_TRUE(op.finished()) << "told before the number can be another's";
  EXPECT_EQ(op.result().get<0>().error(), condition::canceled);
  EXPECT_EQ(op.result().get<1>().error(), condition::canceled);
}

TEST_P(link, goes_on_when_a_handle_that_it_needs_no_more_is_closed) {
  auto a = make_pipe(), b = make_pipe();
  char room[3];
  started op{unio::async_link(async_write(a.writer, const_buffer("x", 1)),
                              async_read(b.reader, mutable_buffer(room)))};
  turns();
  ASSERT_TRUE(a.writer.close());
  EXPECT_FALSE(op.finished());
  put(b.writer, "abc");
  drive([&] { return op.finished(); });
  EXPECT_TRUE(op.result().has_value());
}

// A chain in a chain: each of its descriptors leaves flight as often as it entered it, wherever the inner one
// was meanwhile.
TEST_P(link, goes_on_when_a_handle_that_a_chain_in_it_needs_no_more_is_closed) {
  auto a = make_pipe(), b = make_pipe(), c = make_pipe();
  int const first = b.reader.native_handle(), second = c.reader.native_handle();
  char room[2][3];
  started op{unio::async_link(unio::async_link(async_write(a.writer, const_buffer("x", 1)),
                                               async_read(b.reader, mutable_buffer(room[0])),
                                               async_read(c.reader, mutable_buffer(room[1]))),
                              async_write(a.writer, const_buffer("y", 1)))};
  turns();
  EXPECT_GT(unio::sys::in_flight(first), 0);
  put(b.writer, "abc");
  turns();
  EXPECT_EQ(unio::sys::in_flight(first), 0);
  EXPECT_GT(unio::sys::in_flight(second), 0);
  ASSERT_TRUE(b.reader.close());
  turns();
  EXPECT_FALSE(op.finished());
  put(c.writer, "abc");
  drive([&] { return op.finished(); });
  EXPECT_TRUE(op.result().has_value());
  EXPECT_EQ(unio::sys::in_flight(second), 0);
  EXPECT_EQ(unio::sys::in_flight(a.writer.native_handle()), 0);
}

TEST_P(link, may_be_destroyed_in_flight) {
  auto a = make_pipe(), b = make_pipe();
  for (int stage = 0; stage != 4; ++stage) {
    char room[2][3];
    test::tally told;
    {
      auto op = unio::connect(unio::async_link(async_read(a.reader, mutable_buffer(room[0])),
                                               async_read(a.reader, mutable_buffer(room[1])),
                                               async_write(b.writer, const_buffer("x", 1))),
                              test::tell{&told});
      op.start();
      if (stage != 0) turns();
      if (stage == 2) put(a.writer, "abc");
      if (stage == 2) turns();
      if (stage == 3) op.cancel();
    }
    EXPECT_EQ(told.values, 0);
    EXPECT_EQ(get(b.reader), "");
  }
  put(a.writer, "still");
  EXPECT_EQ(get(a.reader), "still");
}

TEST_P(link, that_is_destroyed_gives_back_what_its_members_have_obtained) {
  auto listening = unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  listening.set_multiplexer(m_.get());
  auto a = make_pipe();
  (void)m_->try_run();
  auto const before = test::open_descriptors();
  {
    auto client = unio::socket_handle::connected_to(listening.local_endpoint().value()).value();
    char room[3];
    started op{unio::async_link(unio::async_accept(listening), async_read(a.reader, mutable_buffer(room)))};
    drive([&] { return op.completed_members() == 1; });
  }
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_P(link, that_runs_again_gives_back_what_was_obtained_and_not_taken) {
  auto const before = test::open_descriptors();
  {
    unio::async_link op{unio::async_socket(unio::address_family::ipv4), unio::async_no_op()};
    for (int i = 0; i != 2; ++i) {
      if (op.started()) op.reset();
      op.run_blocking();
      EXPECT_TRUE(op.is_complete());
      EXPECT_EQ(test::open_descriptors().size(), before.size() + 1);
    }
  }
  EXPECT_EQ(test::open_descriptors(), before);
}

TEST_P(link, closes_what_it_was_to_close_when_it_is_destroyed) {
  auto a = make_pipe(), b = make_pipe();
  int const fd = b.writer.native_handle();
  char room[3];
  {
    started op{
        unio::async_link(async_read(a.reader, mutable_buffer(room)), unio::async_close(std::move(b.writer)))};
    turns();
  }
  EXPECT_EQ(::fcntl(fd, F_GETFD), -1);
}

TEST_P(link, ends_with_its_multiplexer) {
  auto a = make_pipe();
  char room[3];
  started op{unio::async_link(async_no_op(m_.get()), async_read(a.reader, mutable_buffer(room)),
                              async_no_op(m_.get()))};
  turns();
  a.reader.set_multiplexer(nullptr);
  a.writer.set_multiplexer(nullptr);
  m_.reset();
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(op.result().completed(), 1u);
  EXPECT_EQ(op.result().error(), condition::canceled);
  m_ = test::make_multiplexer(GetParam().c_str()).value();
}

TEST_P(link, in_a_child_made_by_fork_is_only_memory) {
  auto a = make_pipe();
  char room[3];
  using chain = unio::async_link<async_no_op, async_read, async_no_op>;
  std::optional<started<chain>> op;
  op.emplace(unio::async_link(async_no_op(m_.get()), async_read(a.reader, mutable_buffer(room)),
                              async_no_op(m_.get())));
  turns();
  test::expect_in_child([&] {
    bool const fine = op->poll() == unio::io_status::completed && op->values == 1 &&
                      op->result().completed() == 1 && op->result().error() == unio::error::inherited_by_fork;
    op.reset();
    return CHILD_MEETS(fine);
  });
  put(a.writer, "abc");
  drive([&] { return op->finished(); });
  EXPECT_TRUE(op->result().has_value());
}

TEST_P(link, goes_on_when_io_uring_is_forbidden_under_way) {
  if (GetParam() != "uring") GTEST_SKIP() << "there is no ring to forbid";
  auto a = make_pipe();
  char room[3], more[3];
  started op{unio::async_link(async_read(a.reader, mutable_buffer(room)), async_no_op(m_.get()),
                              async_read(a.reader, mutable_buffer(more)))};
  turns();
  test::failing_calls calls;
  calls.fail<&unio::sys::table::io_uring_enter>(EPERM, {.times = test::which_calls::all});
  put(a.writer, "abc");
  drive([&] { return op.completed_members() == 2; });
  EXPECT_STREQ(m_->capabilities().driver, "epoll");
  op.cancel();
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().completed(), 2u);
  EXPECT_EQ(op.result().get<2>().error(), condition::canceled);
}

TEST_P(link, may_be_started_and_canceled_by_other_threads) {
  auto a = make_pipe();
  (void)m_->try_run();
  char room[3];
  watched op{unio::atomic_async_link<async_no_op, async_read>(unio::deadline(), async_no_op(m_.get()),
                                                              async_read(a.reader, mutable_buffer(room)))};
  std::thread([&] { op.start(); }).join();
  drive([&] { return op.completed_members() == 1; });
  std::thread([&] { op.cancel(); }).join();
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().error(), condition::canceled);
  EXPECT_EQ(op.ends, 1);
}

TEST_P(link, is_run_by_the_thread_of_many_that_started_it) {
  auto const shared = test::make_multiplexer(GetParam().c_str(), 2).value();
  auto p = unio::pipe_handle::anonymous().value();
  p.reader.set_multiplexer(shared.get());
  p.writer.set_multiplexer(shared.get());
  char room[3];
  int ended = 0;
  auto const body = [&] {
    unio::start(unio::async_link(async_no_op(shared.get()), async_read(p.reader, mutable_buffer(room)),
                                 async_write(p.writer, const_buffer(room, 3))),
                [&](auto r) {
                  EXPECT_TRUE(r.has_value());
                  ++ended;
                });
    put(p.writer, "abc");
    while (ended == 0) (void)shared->try_run_for(20ms);
  };
  std::thread(body).join();
  EXPECT_EQ(get(p.reader), "abc");
}

// ---- awaited ----------------------------------------------------------------------------------------------

TEST_P(link, is_stopped_with_the_task_that_awaits_it) {
  auto a = make_pipe();
  char room[3];
  std::size_t done = 99;
  auto body = [&]() -> unio::task<void> {
    auto r = co_await unio::co_link(async_no_op(m_.get()), async_read(a.reader, mutable_buffer(room)));
    done = r.completed();
    EXPECT_EQ(r.error(), condition::canceled);
  };
  unio::stop_source source;
  unio::async_run(*m_, body(), {.stop = source.get_token()});
  turns();
  EXPECT_EQ(done, 99u);
  std::thread([&] { source.request_stop(); }).join();
  drive([&] { return done != 99; });
  EXPECT_EQ(done, 1u);
}

template <std::size_t... I> auto reads_of_a_byte(unio::io_handle& h, char& room, std::index_sequence<I...>) {
  return unio::async_link((static_cast<void>(I), async_read(h, mutable_buffer(&room, 1)))...);
}

// Requests of other threads are queued through a link that must be found however large the operation is.
TEST_P(link, of_many_members_is_stopped_by_other_threads_in_every_form) {
  auto a = make_pipe();
  char room = 0;
  auto const chain = [&] { return reads_of_a_byte(a.reader, room, std::make_index_sequence<20>()); };
  using chain_type = decltype(chain());
  static_assert(sizeof(chain_type) > 255 * sizeof(void*));

  started op{unio::detail::atomic_form<chain_type>(chain())};
  turns();
  std::thread([&] { op.cancel(); }).join();
  drive([&] { return op.finished(); });
  EXPECT_EQ(op.result().error(), condition::canceled);

  std::error_code awaited;
  unio::stop_source of_task;
  auto body = [&]() -> unio::task<void> { awaited = (co_await unio::io_awaitable(chain())).error(); };
  unio::async_run(*m_, body(), {.stop = of_task.get_token()});
  turns();
  std::thread([&] { of_task.request_stop(); }).join();
  drive([&] { return static_cast<bool>(awaited); });
  EXPECT_EQ(awaited, condition::canceled);

  std::error_code handled;
  unio::stop_source of_handler;
  unio::start(chain(), [&](auto r) { handled = r.error(); }, of_handler.get_token());
  turns();
  std::thread([&] { of_handler.request_stop(); }).join();
  drive([&] { return static_cast<bool>(handled); });
  EXPECT_EQ(handled, condition::canceled);
}

TEST_P(link, does_not_suspend_the_coroutine_if_nobody_has_to_wait) {
  auto a = make_pipe();
  char room[3];
  auto body = [&]() -> test::coroutine {
    auto [put, got] = co_await unio::co_link(async_write(a.writer, const_buffer("abc", 3)),
                                             async_read(a.reader, mutable_buffer(room)));
    EXPECT_EQ(put.bytes_transferred(), 3u);
    EXPECT_EQ(got.bytes_transferred(), 3u);
  };
  test::coroutine const c = body();
  EXPECT_TRUE(c.done());
}

} // namespace
