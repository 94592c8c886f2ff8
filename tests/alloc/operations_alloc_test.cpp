// No allocation and no lock, from connect to set_done, once warm: every operation that needs no thread that
// may block, in every style, on the driver that UNIO_DRIVER names; and a million of them.
//
// In a program of its own, which replaces operator new and pthread_mutex_lock (counting.cpp).

#include "alloc/rounds.hpp"
#include "coro/waiting.hpp"
#include "support/coroutine.hpp"
#include "support/ends.hpp"
#include "support/posix.hpp"
#include "support/spellings.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

namespace {

using namespace test;

// ---- what is measured ------------------------------------------------------------------------------------

// Each has: set up on a multiplexer; `waits`, whether it is ever not ready; its spellings; ready(), which
// lets it complete; after(), which makes the next one wait again.
struct measured_operation {
  static constexpr bool waits = false;
  static void ready() {}
  static void after() {}
};

constexpr std::string_view text = "hello";

template <class Ends> struct reads : measured_operation {
  static constexpr bool waits = true;
  Ends ends;
  char memory[16];
  explicit reads(io_multiplexer* m) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(memory))
  void ready() { put(ends.sink, text); }
};

struct reads_into_registered_memory : measured_operation {
  static constexpr bool waits = true;
  pipe_ends ends;
  unio::buffer_pool pool{2, 64, unio::pool_memory::registered};
  unio::lent_buffer buffer = pool.try_take();
  explicit reads_into_registered_memory(io_multiplexer* m) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_read, ends.source, read, unio::mutable_buffer(buffer.data(), buffer.capacity()))
  void ready() { put(ends.sink, text); }
};

template <class Ends> struct writes : measured_operation {
  Ends ends;
  explicit writes(io_multiplexer* m) { ends.sink.set_multiplexer(m); }
  UNIO_SPELLINGS(async_write, ends.sink, write, unio::const_buffer(text))
  void after() { take(ends.source, text.size()); }
};

struct sends_zero_copy : measured_operation {
  static constexpr repetitions times{5, 15}; // the pages come back with the peer's delayed acknowledgement
  tcp_ends ends;
  explicit sends_zero_copy(io_multiplexer* m) { ends.sink.set_multiplexer(m); }
  UNIO_SPELLINGS(async_send_zero_copy, ends.sink, send_zero_copy, unio::const_buffer(text))
  void after() { take(ends.source, text.size()); }
};

struct reads_cached_file : measured_operation {
  unio::file_handle file = unio::file_handle::temp_inode().value();
  char memory[16];
  explicit reads_cached_file(io_multiplexer* m) {
    (void)file.write({unio::const_buffer(text), 0}).value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 0}; }
  UNIO_SPELLINGS(async_read, file, read, request())
};

struct reads_mapped_file : measured_operation {
  test::temporary_directory directory;
  unio::mapped_file_handle file;
  char memory[16];
  explicit reads_mapped_file(io_multiplexer* m) {
    directory.write("f", "hello");
    file = unio::mapped_file_handle::mapped_file(directory.handle(), "f").value();
    file.set_multiplexer(m);
  }
  unio::io_request<unio::mutable_buffers> request() { return {unio::mutable_buffer(memory), 0}; }
  UNIO_SPELLINGS(async_read, file, read, request())
};

struct accepts : measured_operation {
  static constexpr bool waits = true;
  unio::listening_socket_handle listener =
      unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  unio::endpoint at = listener.local_endpoint().value();
  unio::socket_handle peer;
  explicit accepts(io_multiplexer* m) { listener.set_multiplexer(m); }
  UNIO_SPELLINGS(async_accept, listener, accept)
  void ready() { peer = unio::socket_handle::connected_to(at).value(); }
  void after() { (void)peer.linger(0), (void)peer.close(); }
};

struct connects : measured_operation {
  unio::listening_socket_handle listener =
      unio::listening_socket_handle::listen(unio::endpoint::ipv4_loopback(0)).value();
  unio::endpoint at = listener.local_endpoint().value();
  unio::socket_handle socket;
  io_multiplexer* multiplexer;
  explicit connects(io_multiplexer* m) : multiplexer(m) {}
  UNIO_SPELLINGS(async_connect, socket, connect, at)
  void ready() {
    socket = unio::socket_handle::create(unio::address_family::ipv4).value();
    socket.set_multiplexer(multiplexer);
  }
  void after() {
    (void)socket.linger(0);
    (void)socket.close();
    (void)listener.accept(5s);
  }
};

struct waits_for_timer : measured_operation {
  unio::timer_handle timer; // its moment comes by itself
  explicit waits_for_timer(io_multiplexer* m) : timer(20us, m) {}
  UNIO_SPELLINGS(async_wait, timer, wait)
};

struct waits_for_event : measured_operation {
  static constexpr bool waits = true;
  unio::event_handle event = unio::event_handle::create().value();
  explicit waits_for_event(io_multiplexer* m) { event.set_multiplexer(m); }
  UNIO_SPELLINGS(async_wait_event, event, wait)
  void ready() { (void)event.signal(); }
};

template <unio::futex_scope Scope> struct waits_on_word : measured_operation {
  static constexpr bool waits = true;
  std::atomic<std::uint32_t> word{0};
  unio::futex futex;
  explicit waits_on_word(io_multiplexer* m) : futex(word, Scope, m) {}
  UNIO_SPELLINGS(async_wait_on, futex, wait, 0)
  void ready() {
    word.store(1);
    futex.wake();
  }
  void after() { word.store(0); }
};

struct polls : measured_operation {
  static constexpr bool waits = true;
  pipe_ends ends;
  explicit polls(io_multiplexer* m) { ends.source.set_multiplexer(m); }
  UNIO_SPELLINGS(async_poll, ends.source, poll, unio::readiness::readable)
  void ready() { put(ends.sink, text); }
  void after() { take(ends.source, text.size()); }
};

struct polls_several : measured_operation {
  static constexpr bool waits = true;
  pipe_ends silent, ends;
  std::vector<unio::poll_entry> each;
  explicit polls_several(io_multiplexer* m) {
    for (unio::pipe_handle* h : {&silent.source, &ends.source}) {
      h->set_multiplexer(m);
      each.emplace_back(*h, unio::readiness_set::readable);
    }
  }
  UNIO_FREE_SPELLINGS(async_poll_any, poll_any, each)
  void ready() { put(ends.sink, text); }
  void after() { take(ends.source, text.size()); }
};

struct does_nothing : measured_operation {
  io_multiplexer* multiplexer;
  explicit does_nothing(io_multiplexer* m) : multiplexer(m) {}
  auto describe(deadline d) { return unio::async_no_op(multiplexer, d); }
  auto await(deadline) { return unio::co_no_op(multiplexer); }
  auto block(deadline d) { return unio::detail::blocking(unio::async_no_op(multiplexer, d)); }
};

// Two of its members may wait.
struct links : measured_operation {
  static constexpr bool waits = true;
  pipe_ends from, to;
  char memory[5];
  explicit links(io_multiplexer* m) {
    for (unio::pipe_handle* h : {&from.source, &to.source, &to.sink}) h->set_multiplexer(m);
  }
  unio::async_read first() { return {from.source, unio::mutable_buffer(memory)}; }
  unio::async_write second() { return {to.sink, unio::const_buffer(memory, 5)}; }
  unio::async_read third() { return {to.source, unio::mutable_buffer(memory)}; }
  using sender = unio::async_link<unio::async_read, unio::async_write, unio::async_read>;
  UNIO_CHAIN_SPELLINGS(first(), second(), third())
  void ready() { put(from.sink, text); }
};

struct splices : measured_operation {
  static constexpr bool waits = true;
  pipe_ends from, to;
  explicit splices(io_multiplexer* m) { from.source.set_multiplexer(m); }
  static constexpr unio::splice_request request{.bytes = 64};
  UNIO_FREE_SPELLINGS(async_splice, splice, from.source, to.sink, request)
  void ready() { put(from.sink, text); }
  void after() { take(to.source, text.size()); }
};

// ---- measuring -------------------------------------------------------------------------------------------

template <class F> constexpr repetitions times_of() {
  if constexpr (requires { F::times; }) return F::times;
  return {};
}

template <class F> bool one_connected(F& f, io_multiplexer& m, bool ready_first, bool polled) {
  if (ready_first) f.ready();
  auto op = unio::connect(f.describe(10s), receiver{});
  op.start();
  if (!ready_first) {
    if (polled) {
      (void)op.poll();
    } else {
      (void)m.try_run();
    }
    f.ready();
  }
  if (polled) {
    while (op.poll() == unio::io_status::pending) continue;
  }
  while (!op.finished()) (void)m.run();
  (void)m.try_run();
  f.after();
  return !op.receiver().failed;
}

template <class F> class free_of_cost : public ::testing::Test {};

using all = ::testing::Types<
    reads<pipe_ends>, reads<unix_ends>, reads<tcp_ends>, writes<pipe_ends>, writes<unix_ends>,
    writes<tcp_ends>, sends_zero_copy, reads_cached_file, reads_mapped_file, reads_into_registered_memory,
    accepts, connects, waits_for_timer, waits_for_event, waits_on_word<unio::futex_scope::this_process>,
    waits_on_word<unio::futex_scope::processes>, polls, polls_several, does_nothing, splices, links>;
struct names {
  template <class F> static std::string GetName(int i) {
    static constexpr char const* all_names[] = {"read_pipe",
                                                "read_unix_socket",
                                                "read_tcp_socket",
                                                "write_pipe",
                                                "write_unix_socket",
                                                "write_tcp_socket",
                                                "send_zero_copy",
                                                "read_cached_file",
                                                "read_mapped_file",
                                                "read_into_registered_memory",
                                                "accept",
                                                "connect",
                                                "wait",
                                                "wait_event",
                                                "wait_on",
                                                "wait_on_shared",
                                                "poll",
                                                "poll_any",
                                                "no_op",
                                                "splice",
                                                "link"};
    return all_names[i];
  }
};
TYPED_TEST_SUITE(free_of_cost, all, names);

TYPED_TEST(free_of_cost, called) {
  {
    TypeParam f(nullptr);
    expect_free("without a multiplexer", times_of<TypeParam>(), [&] {
      f.ready();
      bool const fine = f.block(10s).has_value();
      f.after();
      return fine;
    });
    if (TypeParam::waits)
      expect_free("in vain", times_of<TypeParam>(),
                  [&] { return f.block(10us).error() == unio::condition::timed_out; });
  }
  auto const m = make_multiplexer();
  TypeParam f(m.get());
  expect_free("on a multiplexer", times_of<TypeParam>(), [&] {
    f.ready();
    bool const fine = f.block(10s).has_value();
    f.after();
    return fine;
  });
}

TYPED_TEST(free_of_cost, polled) {
  auto const m = make_multiplexer();
  TypeParam f(m.get());
  expect_free("ready", times_of<TypeParam>(), [&] { return one_connected(f, *m, true, true); });
  if (TypeParam::waits)
    expect_free("waiting", times_of<TypeParam>(), [&] { return one_connected(f, *m, false, true); });
}

TYPED_TEST(free_of_cost, multiplexed) {
  auto const m = make_multiplexer();
  TypeParam f(m.get());
  expect_free("ready", times_of<TypeParam>(), [&] { return one_connected(f, *m, true, false); });
  if (TypeParam::waits)
    expect_free("waiting", times_of<TypeParam>(), [&] { return one_connected(f, *m, false, false); });
}

TYPED_TEST(free_of_cost, atomic) {
  auto const m = make_multiplexer();
  TypeParam f(m.get());
  using sender = unio::detail::atomic_form<decltype(f.describe(10s))>;
  if constexpr (requires { sender(f.describe(10s)); }) {
    expect_free("ready", times_of<TypeParam>(), [&] {
      f.ready();
      auto op = unio::connect(sender(f.describe(10s)), receiver{});
      op.start();
      while (!op.finished()) (void)m->run();
      (void)m->try_run();
      f.after();
      return !op.receiver().failed;
    });
  }
}

TYPED_TEST(free_of_cost, awaited) {
  auto const m = make_multiplexer();
  for (bool const first_ready : {true, false}) {
    if (!first_ready && !TypeParam::waits) continue;
    TypeParam f(m.get());
    bool fine = true;
    auto const body = [](TypeParam& of, bool& ok, bool ready_first, int& done,
                         int const& wanted) -> test::coroutine {
      while (done < wanted) {
        if (ready_first) of.ready();
        {
          auto const r = co_await of.await(10s);
          ok = ok && r.has_value();
        }
        of.after();
        ++done;
      }
    };
    int done = 0;
    auto const until = [&](int wanted) {
      while (done < wanted) {
        int const before = done;
        if (!first_ready) f.ready();
        while (done == before) (void)m->run();
      }
    };
    constexpr repetitions times = times_of<TypeParam>();
    constexpr int all_rounds = times.warm_up + times.measured;
    test::coroutine const c = body(f, fine, first_ready, done, all_rounds);
    if (first_ready && done >= times.warm_up) {
      // It never suspended: measure a second one, whose frame is the one allocation.
      done = 0;
      costs const before = test::costs_so_far();
      test::coroutine const again = body(f, fine, first_ready, done, all_rounds);
      until(all_rounds);
      EXPECT_EQ(test::costs_so_far() - before, (costs{1, 0})) << "ready";
    } else {
      until(times.warm_up);
      costs const before = test::costs_so_far();
      until(all_rounds);
      EXPECT_EQ(test::costs_so_far() - before, costs{}) << (first_ready ? "ready" : "waiting");
    }
    EXPECT_TRUE(fine);
  }
}

// ---- a million -------------------------------------------------------------------------------------------

constexpr int million = 1'000'000;
constexpr int warm_up_rounds = repetitions().warm_up;

class one_byte_at_a_time {
 public:
  explicit one_byte_at_a_time(io_multiplexer* m) {
    ends.source.set_multiplexer(m);
    (void)ends.sink.capacity(1 << 20);
  }
  // The peer: fills the pipe when it is empty.
  void refill() {
    static char const block[65536] = {};
    if (left > 0) return;
    for (ssize_t n; (n = ::write(ends.sink.native_handle(), block, sizeof block)) > 0;)
      left += static_cast<int>(n);
  }
  pipe_ends ends;
  char memory[1];
  int left = 0;
};

TEST(a_million_operations, cost_nothing_when_connected) {
  auto const m = make_multiplexer();
  one_byte_at_a_time p(m.get());
  bool fine = true;
  auto const one = [&] {
    p.refill();
    auto op = unio::connect(unio::async_read(p.ends.source, unio::mutable_buffer(p.memory)), receiver{});
    op.start();
    while (!op.finished()) (void)m->run();
    --p.left;
    fine = fine && !op.receiver().failed;
  };
  for (int i = 0; i < warm_up_rounds; ++i) one();
  costs const before = test::costs_so_far();
  for (int i = 0; i < million; ++i) one();
  EXPECT_EQ(test::costs_so_far() - before, costs{});
  EXPECT_TRUE(fine);
}

TEST(a_million_operations, cost_nothing_when_awaited) {
  auto const m = make_multiplexer();
  one_byte_at_a_time p(m.get());
  costs spent;
  bool fine = true, ended = false;
  auto const body = [&]() -> test::coroutine {
    costs before;
    for (int i = -warm_up_rounds; i < million; ++i) {
      if (i == 0) before = test::costs_so_far();
      p.refill();
      fine = (co_await p.ends.source.co_read(unio::mutable_buffer(p.memory))).has_value() && fine;
      --p.left;
    }
    spent = test::costs_so_far() - before;
    ended = true;
  };
  test::coroutine const c = body();
  while (!ended) (void)m->run();
  EXPECT_EQ(spent, costs{});
  EXPECT_TRUE(fine);
}

TEST(a_million_operations, cost_nothing_when_called) {
  one_byte_at_a_time p(nullptr);
  bool fine = true;
  for (int i = -warm_up_rounds; i < 0; ++i)
    p.refill(), fine = p.ends.source.read(p.memory).has_value() && fine, --p.left;
  costs const before = test::costs_so_far();
  for (int i = 0; i < million; ++i) {
    p.refill();
    fine = p.ends.source.read(unio::mutable_buffer(p.memory)).has_value() && fine;
    --p.left;
  }
  EXPECT_EQ(test::costs_so_far() - before, costs{});
  EXPECT_TRUE(fine);
}

// ---- posting ---------------------------------------------------------------------------------------------

TEST(post, of_a_work_item_costs_nothing) {
  auto const m = make_multiplexer();
  int ran = 0;
  auto w = test::call([&] { ++ran; });
  int n = 0;
  expect_free("post", {}, [&] {
    m->post(w);
    n += m->run().value_or(0);
    return true;
  });
  EXPECT_EQ(ran, n);
  EXPECT_EQ(n, 300);
}

// ---- canaries: each counter notices ----------------------------------------------------------------------

TEST(counting, notices_an_allocation) {
  costs const before = test::costs_so_far();
  auto const p = std::make_unique<int>(1);
  asm volatile("" : : "r"(p.get()) : "memory"); // not to be optimised away
  EXPECT_EQ((test::costs_so_far() - before).allocations, 1U);
}

TEST(counting, notices_a_lock) {
  std::mutex mutex;
  costs const before = test::costs_so_far();
  {
    std::lock_guard const lock(mutex);
  }
  EXPECT_EQ((test::costs_so_far() - before).locks, 1U);
}

TEST(counting, notices_what_a_post_of_a_function_allocates) {
  auto const m = make_multiplexer();
  (void)m->try_run();
  costs const before = test::costs_so_far();
  (void)m->post([] {});
  (void)m->run();
  EXPECT_EQ((test::costs_so_far() - before).allocations, 1U);
}

TEST(counting, notices_that_locking_a_file_takes_a_mutex) {
  unio::file_handle file = unio::file_handle::temp_inode().value();
  (void)file.lock_file(unio::lock_kind::exclusive);
  costs const before = test::costs_so_far();
  (void)file.lock_file(unio::lock_kind::exclusive);
  EXPECT_GE((test::costs_so_far() - before).locks, 1U);
}

} // namespace
