// Forking a process that has multiplexers: promise P12, case 24; liburing#612, #731, its across-fork.c,
// libuv's test-fork.c.

#include "support/child.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

class kernel_fork : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_fork);

// A read that is with the kernel when the process forks.
struct scene {
  scene() : m(made_multiplexer()), c(local_connection(m.get())) {
    read.emplace(unio::async_read(c.socket, unio::mutable_buffer(memory)), tell{&told});
    read->start();
    submit_all(*m);
  }
  void expect_the_parent_goes_on() {
    EXPECT_FALSE(told.ended());
    c.peer.write("abc");
    ASSERT_TRUE(drive(*m, [&] { return told.ended(); }));
    EXPECT_TRUE(told.ended_once());
    EXPECT_EQ(std::string(memory.data(), told.bytes), "abc");
    read.reset();
    EXPECT_TRUE(c.socket.close().has_value());
    expect_nothing_in_flight(*m);
  }
  std::unique_ptr<unio::io_multiplexer> m;
  connection c;
  std::array<char, 16> memory{};
  tally told;
  std::optional<unio::io_operation_connection<unio::async_read, tell>> read;
};

ISOLATED_TEST(kernel_fork, makes_using_the_parents_multiplexer_an_error) {
  scene s;
  EXPECT_EQ(
      in_child([&] {
        CHILD_EXPECTS(s.m->run().error() == unio::error::inherited_by_fork);
        CHILD_EXPECTS(s.m->try_run().error() == unio::error::inherited_by_fork);
        CHILD_EXPECTS(s.m->complete_io().error() == unio::error::inherited_by_fork);
        CHILD_EXPECTS(s.m->timeout_io().error() == unio::error::inherited_by_fork);
        CHILD_EXPECTS(s.m->invoke_posted_items().error() == unio::error::inherited_by_fork);
        // A new operation on it ends with that error as well, and so does a blocking call.
        started op{unio::async_no_op(s.m.get())};
        CHILD_EXPECTS(op.ended_once() && op.error == unio::error::inherited_by_fork);
        connection own = local_connection(s.m.get());
        std::array<char, 4> bytes{};
        CHILD_EXPECTS(own.socket.read(unio::mutable_buffer(bytes)).error() == unio::error::inherited_by_fork);
        return 0;
      }),
      0);
  s.expect_the_parent_goes_on();
}

ISOLATED_TEST(kernel_fork, leaves_the_parent_alone_when_the_child_destroys_everything) {
  scene s;
  expect_in_child([&] {
    s.read.reset();
    CHILD_EXPECTS(s.c.socket.close().has_value());
    s.m.reset();
    return s.told.values; // no receiver is called in the child
  });
  s.expect_the_parent_goes_on();
}

ISOLATED_TEST(kernel_fork, leaves_the_parent_alone_when_the_child_closes_only_the_handle) {
  scene s;
  expect_in_child([&] { return s.c.socket.close().has_value() ? 0 : 1; });
  s.expect_the_parent_goes_on();
}

int use_one_of_the_childs_own() {
  auto const own = made_multiplexer();
  pending_read read(*own);
  submit_all(*own);
  read.peer.write("abc");
  CHILD_EXPECTS(drive(*own, [&] { return read.ended(); }));
  return CHILD_MEETS(read.bytes == 3);
}

ISOLATED_TEST(kernel_fork, lets_the_child_make_its_own) {
  scene s;
  expect_in_child(use_one_of_the_childs_own);
  s.expect_the_parent_goes_on();
}

// The child has no mapping of the parent's ring: where it was, the child's own may be. To give up the
// inherited one must not take that away.
ISOLATED_TEST(kernel_fork, keeps_the_childs_own_alive_when_the_inherited_one_is_destroyed_later) {
  scene s;
  expect_in_child([&] {
    auto const own = made_multiplexer();
    pending_read read(*own);
    submit_all(*own);
    s.read.reset();
    (void)s.c.socket.close();
    s.m.reset();
    read.peer.write("abc");
    CHILD_EXPECTS(drive(*own, [&] { return read.ended(); }));
    CHILD_EXPECTS(read.bytes == 3);
    started again{unio::async_no_op(own.get())};
    return CHILD_MEETS(drive(*own, [&] { return again.ended(); }));
  });
  s.expect_the_parent_goes_on();
}

// A thread that ends hands over what it runs; not what is the parent's, whose locks may be taken.
ISOLATED_TEST(kernel_fork, lets_a_thread_of_the_child_end_that_ran_the_parents_multiplexer) {
  if (under_thread_sanitizer)
    GTEST_SKIP() << "the sanitizer does not know the thread that a child is left with";
  auto const m = unio::io_multiplexer::best_available(2).value();
  std::atomic<bool> over = false;
  std::thread wakes([&] { // each of which looks at the threads that run it
    while (!over) m->wake();
  });
  std::thread forking([&] {
    for (int i = 0; i != 100; ++i) {
      (void)m->try_run();
      expect_in_child([] {
        std::thread([ending = ::pthread_self()] { ::_exit(::pthread_join(ending, nullptr)); }).detach();
        ::pthread_exit(nullptr);
        return 1;
      });
    }
  });
  forking.join();
  over = true;
  wakes.join();
}

// Its threads are the parent's.
ISOLATED_TEST(kernel_fork, lets_the_child_end_the_copy_of_a_pool) {
  std::optional<unio::thread_pool> pool(std::in_place, 2);
  expect_in_child([&] {
    pool->stop();
    pool->join();
    pool.reset();
    unio::thread_pool own(2);
    std::atomic<bool> ran = false;
    own.post([&] { ran = true; });
    own.join();
    return CHILD_MEETS(ran);
  });
}

// The same with the thread's own, which is replaced behind the program's back.
ISOLATED_TEST(kernel_fork, gives_the_childs_thread_a_multiplexer_of_its_own) {
  int const status = in_child([] { // so that what the thread keeps is not left open here
    auto uses_own = [] {
      connection c = local_connection(nullptr);
      std::array<char, 16> memory{};
      started read{unio::async_read(c.socket, unio::mutable_buffer(memory))};
      submit_all(unio::this_thread::multiplexer());
      c.peer.write("abc");
      CHILD_EXPECTS(drive(unio::this_thread::multiplexer(), [&] { return read.ended(); }));
      return CHILD_MEETS(read.bytes == 3);
    };
    CHILD_EXPECTS(uses_own() == 0);
    CHILD_EXPECTS(in_child([&] { return uses_own(); }) == 0);
    return uses_own();
  });
  EXPECT_EQ(status, 0);
}

ISOLATED_TEST(kernel_fork, of_a_fork_is_noticed_too) {
  scene s;
  expect_in_child(
      [&] { return in_child([&] { return s.m->run().error() == unio::error::inherited_by_fork ? 0 : 1; }); });
  s.expect_the_parent_goes_on();
}

// Files are worked on by threads, which a child does not have.
ISOLATED_TEST(kernel_fork, lets_the_child_do_what_needs_threads) {
  if (under_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
  temporary_directory const directory;
  directory.write("file", "text");
  auto opens = [&] {
    auto const m = made_multiplexer();
    unio::path_handle anchor = unio::path_handle::path(directory.path()).value();
    anchor.set_multiplexer(m.get());
    started open{unio::async_open(anchor, "file")};
    return CHILD_MEETS(drive(*m, [&] { return open.ended(); }) && !open.error);
  };
  EXPECT_EQ(opens(), 0);
  expect_in_child(opens);
  EXPECT_EQ(opens(), 0);
}

// The parent's operation is not the child's: closing its descriptor waits for no other thread's multiplexer.
ISOLATED_TEST(kernel_fork, lets_the_child_close_what_the_parent_has_in_flight_while_its_threads_are_busy) {
  if (under_thread_sanitizer) GTEST_SKIP() << "ThreadSanitizer lets no child of several threads start one";
  scene s;
  expect_in_child([&] {
    std::atomic<bool> is_used = false;
    std::thread busy([&] { // it has used a multiplexer, and does not run it
      auto const own = made_multiplexer();
      (void)own->try_run();
      is_used = true;
      for (;;) std::this_thread::sleep_for(1h);
    });
    busy.detach();
    while (!is_used) std::this_thread::yield();
    int const number = s.c.socket.native_handle();
    CHILD_EXPECTS(s.c.socket.close().has_value());
    // Nor does closing the next owner of the number.
    connection next = local_connection(nullptr);
    CHILD_EXPECTS(next.socket.native_handle() == number);
    return CHILD_MEETS(next.socket.close().has_value());
  });
  s.expect_the_parent_goes_on();
}

// Nor is what was posted: it would be dropped twice.
ISOLATED_TEST(kernel_fork, leaves_what_was_posted_to_the_parent) {
  struct counting : unio::work {
    counting()
        : work([](unio::work& w, bool run) noexcept {
            auto& self = static_cast<counting&>(w);
            ++(run ? self.ran : self.dropped);
          }) {}
    int ran = 0;
    int dropped = 0;
  };
  auto m = made_multiplexer();
  (void)m->try_run();
  counting posted;
  m->post(posted);
  expect_in_child([&] {
    m.reset();
    return posted.ran + posted.dropped;
  });
  (void)m->try_run();
  EXPECT_EQ(posted.ran, 1);
  EXPECT_EQ(posted.dropped, 0);
}

} // namespace
