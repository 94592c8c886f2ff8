// Pools whose memory is registered with the rings that use it: that operations use it by themselves, that
// what a ring has registered never outlives the memory, and that nothing else changes where a ring cannot.
// The same tests run on epoll, which registers nothing.

#include "driver/registered_memory.hpp"

#include "support/child.hpp"
#include "support/direct_io.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/failing_calls.hpp"
#include "support/isolated.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <linux/io_uring.h>

namespace {

using namespace test;

constexpr std::size_t block = 4096;

unio::mutable_buffer all_of(lent_buffer const& b) { return {b.data(), b.capacity()}; }
std::string_view text_of(lent_buffer const& b, std::size_t n) {
  return {reinterpret_cast<char const*>(b.data()), n};
}
void fill(lent_buffer& b, std::string_view text) {
  b.resize(text.size());
  std::memcpy(b.data(), text.data(), text.size());
}

// ---- which memory is found --------------------------------------------------------------------------------

// A kernel that notes what it is told.
struct noted {
  std::vector<unio::driver::offered_memory::piece> table;
  int refusals = 0;
  int refusals_of_table = 0;
  unio::driver::memory_table as_table() {
    return {.kernel = this,
            .make = [](void* self) noexcept -> int {
              auto& n = *static_cast<noted*>(self);
              if (n.refusals_of_table != 0) return --n.refusals_of_table, -ENOMEM;
              n.table.resize(unio::driver::offered_memory::most);
              return 0;
            },
            .set = [](void* self, unsigned number, std::uintptr_t at, std::size_t bytes) noexcept -> int {
              auto& n = *static_cast<noted*>(self);
              if (bytes != 0 && n.refusals != 0) return --n.refusals, -ENOMEM;
              n.table[number] = {at, bytes, 0};
              return 0;
            }};
  }
};

TEST(offered_memory, is_found_where_all_of_it_lies_in_one_piece) {
  using unio::driver::offered_memory;
  alignas(16) static std::byte bytes[300];
  auto const at = [](std::size_t n) { return reinterpret_cast<std::uintptr_t>(bytes) + n; };
  noted kernel;
  unio::driver::registered_memory ring(kernel.as_table());
  constexpr int none = unio::driver::registered_memory::none;
  EXPECT_EQ(ring.find(at(0), 1), none);
  EXPECT_TRUE(kernel.table.empty());
  ASSERT_TRUE(offered_memory::offer(bytes + 100, 50));
  ASSERT_TRUE(offered_memory::offer(bytes + 150, 50)); // right behind it: another piece all the same
  int const first = ring.find(at(100), 50);
  int const second = ring.find(at(150), 1);
  EXPECT_NE(first, none);
  EXPECT_NE(second, none);
  EXPECT_NE(first, second);
  EXPECT_EQ(ring.find(at(149), 1), first);
  EXPECT_EQ(ring.find(at(199), 1), second);
  for (auto const& [from, n] : {std::pair(99, 1), {99, 2}, {149, 2}, {100, 51}, {199, 2}, {200, 1}, {0, 300}})
    EXPECT_EQ(ring.find(at(static_cast<std::size_t>(from)), static_cast<std::size_t>(n)), none)
        << from << " " << n;
  EXPECT_EQ(ring.bytes(), 100u);
  EXPECT_EQ(kernel.table[static_cast<unsigned>(first)].at, at(100));
  // It goes, and another comes to the same place.
  offered_memory::withdraw(bytes + 100, 50);
  EXPECT_EQ(ring.find(at(100), 1), none);
  EXPECT_EQ(kernel.table[static_cast<unsigned>(first)].bytes, 0u);
  EXPECT_EQ(ring.bytes(), 50u);
  ASSERT_TRUE(offered_memory::offer(bytes + 100, 20));
  kernel.refusals = 1;
  EXPECT_EQ(ring.find(at(100), 1), none);
  EXPECT_EQ(kernel.refusals, 0);
  EXPECT_EQ(ring.find(at(100), 1), none) << "it is not tried again";
  EXPECT_NE(ring.find(at(150), 1), none);
  offered_memory::withdraw(bytes, sizeof bytes);
  EXPECT_EQ(ring.find(at(150), 1), none);
  EXPECT_EQ(ring.bytes(), 0u);
}

TEST(offered_memory, is_registered_once_the_list_changes_where_there_was_no_memory_for_the_table) {
  using unio::driver::offered_memory;
  alignas(16) static std::byte bytes[100];
  auto const at = reinterpret_cast<std::uintptr_t>(bytes);
  noted kernel;
  kernel.refusals_of_table = 1;
  unio::driver::registered_memory ring(kernel.as_table());
  constexpr int none = unio::driver::registered_memory::none;
  ASSERT_TRUE(offered_memory::offer(bytes, 50));
  for (int i = 0; i != 2; ++i) EXPECT_EQ(ring.find(at, 1), none);
  ASSERT_TRUE(offered_memory::offer(bytes + 50, 50));
  EXPECT_NE(ring.find(at, 1), none);
  offered_memory::withdraw(bytes, sizeof bytes);
}

// ---- operations -------------------------------------------------------------------------------------------

class registered_memory : public test::on_each_driver {
 protected:
  void SetUp() override {
    on_each_driver::SetUp();
    if (m_ == nullptr) return;
    // Whether this kernel and this process's limits allow it at all is found by trying.
    buffer_pool pool(1, 16, pool_memory::registered);
    works_ = reads_through(pool.try_take()) && registered() != 0;
    uses_ = 0;
    (void)new_uses();
    (void)new_refusals();
  }
  template <class Ended> void run_until(Ended ended) {
    for (int i = 0; i != 2000 && !ended(); ++i) ASSERT_TRUE(m_->try_run_for(10ms).has_value());
    ASSERT_TRUE(ended());
  }
  /// A read that waits, and so goes to the ring.
  bool reads_through(lent_buffer into) {
    unio::anonymous_pipe p = make_pipe();
    started read{async_read(p.reader, all_of(into))};
    (void)m_->try_run();
    EXPECT_FALSE(read.ended());
    put(p.writer, "some text");
    run_until([&] { return read.ended(); });
    EXPECT_FALSE(read.error) << read.error.message();
    return text_of(into, read.bytes) == std::string_view("some text").substr(0, into.capacity());
  }
  [[nodiscard]] std::size_t registered() const { return m_->capabilities().registered_bytes; }
  /// Since the last time.
  std::uint64_t new_uses() {
    std::uint64_t const now = m_->counters().registered_uses;
    return now - std::exchange(uses_, now);
  }
  std::uint64_t new_refusals() {
    std::uint64_t const now = m_->counters().registrations_refused;
    return now - std::exchange(refusals_, now);
  }
  bool works_ = false; // the ring registers memory
  std::uint64_t uses_ = 0;
  std::uint64_t refusals_ = 0;
};
UNIO_ON_BOTH_DRIVERS(registered_memory);

TEST_P(registered_memory, is_found_by_what_this_test_is_for) {
  if (GetParam() == "epoll") {
    EXPECT_FALSE(works_);
  }
  std::string const kernel = m_->capabilities().driver;
  if (kernel == "io_uring" && !works_)
    GTEST_SKIP() << "this ring registers nothing: an old kernel, a filter or RLIMIT_MEMLOCK";
}

TEST_P(registered_memory, is_used_by_reads_and_writes_of_pipes_by_themselves) {
  buffer_pool pool(4, 64, pool_memory::registered);
  EXPECT_TRUE(pool.is_registered());
  EXPECT_TRUE(reads_through(pool.try_take()));
  EXPECT_EQ(new_uses(), works_ ? 1u : 0u);
  EXPECT_EQ(registered(), works_ ? 4 * 64u : 0u);
  // A write that waits, of a part of a buffer.
  unio::anonymous_pipe p = make_pipe();
  std::string const much(1 << 16, 'x');
  ASSERT_EQ(p.writer.write(unio::const_buffer(much)).bytes_transferred(), much.size());
  lent_buffer b = pool.try_take();
  fill(b, "a part of this");
  started write{async_write(p.writer, unio::const_buffer(b.data() + 2, 4))};
  (void)m_->try_run();
  EXPECT_FALSE(write.ended());
  EXPECT_EQ(take(p.reader, much.size()), much);
  run_until([&] { return write.ended(); });
  EXPECT_EQ(write.bytes, 4u);
  EXPECT_EQ(take(p.reader, 4), "part");
  EXPECT_EQ(new_uses(), works_ && m_->capabilities().pipe_write_without_signal ? 1u : 0u);
}

TEST_P(registered_memory, is_not_used_for_lists_and_for_other_memory) {
  buffer_pool pool(2, 64, pool_memory::registered);
  ASSERT_TRUE(reads_through(pool.try_take()));
  (void)new_uses();
  lent_buffer const one = pool.try_take(), two = pool.try_take();
  unio::mutable_buffer const parts[2] = {{one.data(), 4}, {two.data(), 16}};
  unio::anonymous_pipe p = make_pipe();
  char own[16];
  {
    started read{async_read(p.reader, std::span<unio::mutable_buffer const>(parts))};
    (void)m_->try_run();
    put(p.writer, "some text");
    run_until([&] { return read.ended(); });
    EXPECT_EQ(read.bytes, 9u);
    EXPECT_EQ(text_of(one, 4), "some");
    EXPECT_EQ(text_of(two, 5), " text");
  }
  {
    started read{async_read(p.reader, unio::mutable_buffer(own))};
    (void)m_->try_run();
    put(p.writer, "more");
    run_until([&] { return read.ended(); });
    EXPECT_EQ(std::string_view(own, read.bytes), "more");
  }
  EXPECT_EQ(new_uses(), 0u);
}

TEST_P(registered_memory, is_used_for_direct_files) {
  test::temporary_directory const directory;
  if (std::string const why = test::no_direct_io(directory.path()); !why.empty()) GTEST_SKIP() << why;
  directory.write("file", std::string(block, 'a') + std::string(block, 'b'));
  auto opened =
      unio::file_handle::file(directory.handle(), "file", unio::handle::mode::write,
                              unio::handle::creation::open_existing, unio::handle::caching::only_metadata);
  ASSERT_TRUE(opened.has_value()) << opened.error().message();
  unio::file_handle file = std::move(*opened);
  file.set_multiplexer(m_.get());
  buffer_pool pool(2, block, pool_memory::registered);
  lent_buffer const b = pool.try_take();
  ASSERT_EQ(reinterpret_cast<std::uintptr_t>(b.data()) % block, 0u);
  started read{async_read(file, {all_of(b), block})};
  run_until([&] { return read.ended(); });
  EXPECT_EQ(text_of(b, read.bytes), std::string(block, 'b'));
  started write{async_write(file, {unio::const_buffer(b.data(), block), 0})};
  run_until([&] { return write.ended(); });
  EXPECT_EQ(write.bytes, block);
  EXPECT_EQ(new_uses(), works_ ? 2u : 0u);
  EXPECT_EQ(directory.read("file"), std::string(2 * block, 'b'));
}

// Into a pool and out of it: nobody says that the memory is registered.
TEST_P(registered_memory, is_used_for_what_was_received_into_it) {
  test::temporary_directory const directory;
  auto opened = unio::file_handle::file(directory.handle(), "file", unio::handle::mode::append,
                                        unio::handle::creation::if_needed);
  unio::file_handle file = std::move(opened.value());
  file.set_multiplexer(m_.get());
  buffer_pool pool(4, 16, pool_memory::registered);
  auto pair = unio::socket_handle::pair().value();
  pair.first.set_multiplexer(m_.get());
  std::string sent;
  auto copies = [](unio::socket_handle& from, buffer_pool& through, unio::file_handle& to) -> unio::task<> {
    for (;;) {
      auto got = co_await from.co_receive(through);
      if (!got.has_value() || !*got) co_return;
      auto const written = co_await to.co_write(unio::const_buffer(*got));
      EXPECT_EQ(written.bytes_transferred(), got->size());
    }
  };
  unio::async_run(*m_, copies(pair.first, pool, file));
  for (int i = 0; i != 50; ++i) {
    std::string const more = "number " + std::to_string(i) + "; ";
    put(pair.second, more);
    sent += more;
    (void)m_->try_run_for(1ms);
  }
  ASSERT_TRUE(pair.second.shutdown(unio::socket_handle::side::send).has_value());
  while (m_->run().value() != 0) continue;
  EXPECT_EQ(directory.read("file"), sent);
  EXPECT_EQ(pool.lent(), 0u);
  // What the kernel chose of lies in other memory than what is taken: both are registered.
  bool const chooses = m_->capabilities().defer_taskrun;
  if (works_ && chooses && new_uses() != 0) {
    EXPECT_GE(registered(), 4 * 16u);
  }
}

TEST_P(registered_memory, is_sent_without_copying_and_without_looking_its_pages_up) {
  buffer_pool pool(2, 1 << 16, pool_memory::registered);
  test::tcp_ends ends;
  ends.sink.set_multiplexer(m_.get());
  for (int i = 0; i != 3; ++i) {
    lent_buffer b = pool.try_take();
    std::string const text(2000, static_cast<char>('a' + i));
    fill(b, text);
    started send{unio::async_send_zero_copy(ends.sink, unio::const_buffer(b))};
    run_until([&] { return send.values == 1; });
    EXPECT_FALSE(send.error) << send.error.message();
    EXPECT_EQ(take(ends.source, send.bytes), text.substr(0, send.bytes));
    run_until([&] { return send.ended(); });
  }
  EXPECT_EQ(new_uses(), works_ && m_->capabilities().zero_copy_send ? 3u : 0u);
}

// ---- memory that comes and goes ---------------------------------------------------------------------------

// A new pool's memory often lies where that of one that has ended lay: the ring must not read into the old
// pages, which the kernel still has.
TEST_P(registered_memory, of_a_pool_that_has_ended_is_never_used_for_the_next) {
  std::uintptr_t last = 0;
  int again = 0;
  for (int i = 0; i != 50; ++i) {
    buffer_pool pool(1, block, i % 3 == 2 ? pool_memory::ordinary : pool_memory::registered);
    lent_buffer b = pool.try_take();
    auto const at = reinterpret_cast<std::uintptr_t>(b.data());
    again += at == std::exchange(last, at) ? 1 : 0;
    ASSERT_TRUE(reads_through(std::move(b))) << i;
    EXPECT_EQ(new_uses(), works_ && i % 3 != 2 ? 1u : 0u);
    EXPECT_EQ(registered(), works_ && i % 3 != 2 ? block : 0u) << "what has gone is given up";
  }
  EXPECT_GT(again, 0) << "the canary: none lay where another had";
}

TEST_P(registered_memory, outlives_its_pool_while_a_buffer_is_lent) {
  std::optional<buffer_pool> pool(std::in_place, 2, 64, pool_memory::registered);
  lent_buffer b = pool->try_take();
  unio::anonymous_pipe p = make_pipe();
  started read{async_read(p.reader, all_of(b))};
  (void)m_->try_run();
  pool.reset();
  put(p.writer, "text");
  run_until([&] { return read.ended(); });
  EXPECT_EQ(text_of(b, read.bytes), "text");
  EXPECT_EQ(new_uses(), works_ ? 1u : 0u);
  b.reset();
  char own[4];
  started other{async_read(p.reader, unio::mutable_buffer(own))};
  (void)m_->try_run();
  EXPECT_EQ(registered(), 0u);
  other.cancel();
  run_until([&] { return other.ended(); });
}

TEST_P(registered_memory, outlives_rings) {
  buffer_pool pool(2, 64, pool_memory::registered);
  for (int i = 0; i != 10; ++i) {
    EXPECT_TRUE(reads_through(pool.try_take()));
    EXPECT_EQ(registered(), works_ ? 2 * 64u : 0u);
    m_ = test::make_multiplexer(GetParam().c_str()).value();
  }
}

TEST_P(registered_memory, of_more_pools_than_there_is_room_for) {
  std::deque<buffer_pool> pools;
  for (int i = 0; i != 140; ++i) pools.emplace_back(1, 16, pool_memory::registered);
  EXPECT_TRUE(pools.front().is_registered());
  EXPECT_FALSE(pools.back().is_registered());
  for (buffer_pool& p : pools) ASSERT_TRUE(reads_through(p.try_take()));
  std::uint64_t const uses = new_uses();
  EXPECT_LT(uses, 140u);
  EXPECT_EQ(uses, works_ ? static_cast<std::uint64_t>(std::ranges::count_if(
                               pools, [](buffer_pool const& p) { return p.is_registered(); }))
                         : 0u);
  pools.clear();
  buffer_pool const next(1, 16, pool_memory::registered);
  EXPECT_TRUE(next.is_registered());
}

// Each ring has a table of its own; buffers wander.
TEST_P(registered_memory, is_used_by_several_threads) {
  buffer_pool pool(6, 32, pool_memory::registered);
  std::vector<std::unique_ptr<unio::io_multiplexer>> multiplexers; // made here: that sets a variable
  for (int i = 0; i != 3; ++i) multiplexers.push_back(test::make_multiplexer(GetParam().c_str()).value());
  std::vector<std::thread> threads;
  for (std::size_t me = 0; me != 3; ++me)
    threads.emplace_back([&, me] {
      unio::io_multiplexer* const mine = multiplexers[me].get();
      auto pair = unio::socket_handle::pair().value();
      unio::anonymous_pipe p = test::pipe_on(mine);
      pair.first.set_multiplexer(mine);
      auto body = [](unio::socket_handle& from, unio::socket_handle& to, unio::anonymous_pipe& through,
                     buffer_pool& buffers) -> unio::task<> {
        for (int i = 0; i != 300; ++i) {
          std::string const text = "message " + std::to_string(i);
          put(to, text);
          auto got = co_await from.co_receive(buffers);
          if (!got.has_value() || !*got) co_return ADD_FAILURE();
          EXPECT_EQ(text_of(*got, got->size()), text);
          (void)co_await through.writer.co_write(unio::const_buffer(*got));
          std::memset(got->data(), 0, got->size());
          auto const r = co_await through.reader.co_read(all_of(*got));
          EXPECT_EQ(text_of(*got, r.bytes_transferred()), text);
          if (i % 50 == 0) { // another's comes and goes
            buffer_pool const other(1, 64, pool_memory::registered);
          }
        }
      };
      unio::run(*mine, body(pair.first, pair.second, p, pool));
    });
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(pool.lent(), 0u);
}

// ---- rings that cannot ------------------------------------------------------------------------------------

class registered_memory_alone : public registered_memory {};
INSTANTIATE_TEST_SUITE_P(driver, registered_memory_alone, ::testing::Values("uring"),
                         [](auto const& of) { return of.param; });

// No table, no piece: an old kernel, a filter, memory that may not be locked.
TEST_P(registered_memory_alone, is_any_memory_where_the_kernel_refuses_to_register_it) {
  static int refused, error;
  static unsigned which;
  for (unsigned const opcode : {IORING_REGISTER_BUFFERS2, IORING_REGISTER_BUFFERS_UPDATE})
    for (int const e : {EINVAL, ENOMEM, EPERM, EOPNOTSUPP, ENOSYS, EFAULT}) {
      refused = 0;
      error = e;
      which = opcode;
      m_ = test::make_multiplexer("uring").value();
      (void)new_uses();
      (void)new_refusals();
      test::failing_calls calls;
      calls.answer<&table::io_uring_register>(
          [](int fd, unsigned o, void* argument, unsigned n) noexcept -> std::int64_t {
            if (o != which) return unio::sys::kernel.io_uring_register(fd, o, argument, n);
            ++refused;
            return -error;
          });
      buffer_pool pool(4, 64, pool_memory::registered);
      for (int i = 0; i != 5; ++i) EXPECT_TRUE(reads_through(pool.try_take()));
      EXPECT_EQ(refused, 1) << "it is not tried again and again";
      EXPECT_EQ(new_refusals(), 1u);
      EXPECT_EQ(new_uses(), 0u);
      EXPECT_EQ(registered(), 0u);
      EXPECT_TRUE(pool.is_registered()) << "for other rings";
    }
}

TEST_P(registered_memory_alone, is_tried_again_when_another_pool_has_gone) {
  if (!works_) GTEST_SKIP() << "this ring registers nothing";
  auto large = std::make_unique<buffer_pool>(4, 64, pool_memory::registered);
  buffer_pool pool(4, 64, pool_memory::registered);
  {
    test::failing_calls calls;
    calls.fail<&table::io_uring_register>(ENOMEM, {.times = test::which_calls::all});
    EXPECT_TRUE(reads_through(pool.try_take()));
    EXPECT_EQ(new_refusals(), 1u);
  }
  EXPECT_TRUE(reads_through(pool.try_take()));
  EXPECT_EQ(new_uses(), 0u);
  large.reset();
  EXPECT_TRUE(reads_through(pool.try_take()));
  EXPECT_EQ(new_uses(), 1u);
}

// What the ring refuses to give up it keeps, and never uses.
TEST_P(registered_memory_alone, that_cannot_be_given_up_is_not_used) {
  for (int i = 0; i != 5; ++i) {
    auto pool = std::make_unique<buffer_pool>(1, block, pool_memory::registered);
    ASSERT_TRUE(reads_through(pool->try_take()));
    test::failing_calls calls;
    calls.fail<&table::io_uring_register>(EPERM, {.times = test::which_calls::all});
    pool.reset();
    buffer_pool next(1, block, pool_memory::registered);
    ASSERT_TRUE(reads_through(next.try_take()));
    buffer_pool ordinary(1, block);
    ASSERT_TRUE(reads_through(ordinary.try_take()));
  }
}

// The ring goes with what it had registered, while the kernel has operations on it.
TEST_P(registered_memory_alone, is_any_memory_once_io_uring_is_forbidden) {
  for (int after = 1; after != 6; ++after) {
    m_ = test::make_multiplexer("uring").value();
    buffer_pool pool(4, 64, pool_memory::registered);
    unio::anonymous_pipe p = make_pipe(), other = make_pipe();
    lent_buffer b = pool.try_take(), c = pool.try_take();
    started read{async_read(p.reader, all_of(b))};
    started second{async_read(other.reader, all_of(c))};
    (void)m_->try_run();
    test::failing_calls calls;
    calls.fail<&table::io_uring_enter>(EPERM, {.at = after, .times = test::which_calls::all});
    (void)m_->try_run();
    put(p.writer, "one");
    (void)m_->try_run();
    put(other.writer, "two");
    for (int i = 0; i != 5; ++i) {
      unio::anonymous_pipe q = make_pipe();
      lent_buffer d = pool.try_take();
      started third{async_read(q.reader, all_of(d))};
      (void)m_->try_run();
      put(q.writer, "three");
      run_until([&] { return third.ended(); });
      EXPECT_EQ(text_of(d, third.bytes), "three");
    }
    run_until([&] { return read.ended() && second.ended(); });
    EXPECT_EQ(text_of(b, read.bytes), "one");
    EXPECT_EQ(text_of(c, second.bytes), "two");
    EXPECT_STREQ(m_->capabilities().driver, "epoll");
    EXPECT_EQ(registered(), 0u);
  }
}

// ---- processes of their own -------------------------------------------------------------------------------

class kernel_registered_memory : public test::isolated {};
UNIO_ON_EACH_DRIVER(kernel_registered_memory);

// 0, or what it failed at. `uses`, if given: how many operations used registered memory.
int reads_into(buffer_pool& pool, unio::io_multiplexer& m, std::uint64_t* uses = nullptr) {
  unio::anonymous_pipe p = test::pipe_on(&m);
  lent_buffer b = pool.try_take();
  CHILD_EXPECTS(b);
  std::uint64_t const before = m.counters().registered_uses;
  started read{async_read(p.reader, all_of(b))};
  for (int i = 0; i != 4; ++i) (void)m.try_run();
  put(p.writer, "abc");
  for (int i = 0; i != 1000 && !read.ended(); ++i) (void)m.try_run_for(20ms);
  CHILD_EXPECTS(read.ended());
  if (uses != nullptr) *uses = m.counters().registered_uses - before;
  return CHILD_MEETS(!read.error && text_of(b, read.bytes) == "abc");
}

// Case 43; Photon#325, glommio#606, liburing#93.
ISOLATED_TEST(kernel_registered_memory, is_any_memory_where_none_may_be_locked) {
  test::expect_in_child([] {
    CHILD_EXPECTS(::geteuid() != 0 || ::setuid(65534) == 0); // root may always
    auto const m = test::made_multiplexer();
    for (int i = 0; i != 4; ++i) (void)m->try_run(); // the ring's own memory is counted too
    rlimit const none{.rlim_cur = 0, .rlim_max = 0};
    CHILD_EXPECTS(::setrlimit(RLIMIT_MEMLOCK, &none) == 0);
    buffer_pool pool(16, block, pool_memory::registered);
    std::uint64_t uses = 1;
    for (int i = 0; i != 3; ++i) CHILD_EXPECTS(reads_into(pool, *m, &uses) == 0);
    CHILD_EXPECTS(uses == 0 && m->capabilities().registered_bytes == 0);
    std::uint64_t const refused = m->counters().registrations_refused;
    return CHILD_MEETS(refused == (m->capabilities().ring_entries != 0 ? 1u : 0u));
  });
}

// The kernel keeps the parent's pages for the parent's ring; the child has copies, and registers them anew.
ISOLATED_TEST(kernel_registered_memory, is_the_parents_and_the_childs_after_a_fork) {
  buffer_pool pool(4, block, pool_memory::registered);
  auto const m = test::made_multiplexer();
  unio::anonymous_pipe p = test::pipe_on(m.get());
  lent_buffer b = pool.try_take();
  {
    started read{async_read(p.reader, all_of(b))};
    for (int i = 0; i != 4; ++i) (void)m->try_run();
    test::expect_in_child([&] {
      auto const own = test::made_multiplexer();
      for (int i = 0; i != 3; ++i) CHILD_EXPECTS(reads_into(pool, *own) == 0);
      return 0;
    });
    std::memset(b.data(), '-', b.capacity()); // were the page still shared, this would part it from the ring
    put(p.writer, "abc");
    for (int i = 0; i != 1000 && !read.ended(); ++i) (void)m->try_run_for(20ms);
    ASSERT_TRUE(read.ended());
    EXPECT_EQ(text_of(b, 4), "abc-");
  }
  b.reset();
  EXPECT_EQ(reads_into(pool, *m), 0);
}

} // namespace
