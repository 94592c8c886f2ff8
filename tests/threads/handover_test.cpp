// A thread of a shared multiplexer ends with something in flight, while others close, cancel, destroy, start
// and run: under every seed each receiver is called once, no thread sleeps for ever, and run() says that
// nothing is pending only when nothing is.

#include "support/test.hpp"
#include "threads/support.hpp"
#include "threads/watched.hpp"

#include <latch>

namespace {

using namespace test;
using namespace threads_tests;

class hand_over : public threads_on {};

// ---- closed, cancelled, destroyed meanwhile ----

SEEDED_TEST_P(hand_over, closing_ends_what_a_thread_hands_over_meanwhile) {
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  r.close();
  l.join();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, closing_ends_what_a_thread_hands_over_to_one_that_runs) {
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  std::thread runner([&] { run_to_the_end(*m); });
  r.close();
  l.join();
  runner.join();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, closing_ends_what_a_thread_hands_over_to_the_closing_one) {
  (void)m->try_run(); // this thread runs it as well
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  r.close();
  l.join();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, a_request_to_end_finds_what_is_handed_over) {
  shareable r(*m);
  leaver l(*m, [&] { r.op.start(); });
  r.op.cancel();
  l.join();
  run_to_the_end(*m);
  r.op.expect_ended_with(condition::canceled);
}

SEEDED_TEST_P(hand_over, a_request_to_end_finds_what_is_handed_over_to_one_that_runs) {
  shareable r(*m);
  leaver l(*m, [&] { r.op.start(); });
  std::thread runner([&] {
    run_to_the_end(*m);
    r.op.expect_ended_with(condition::canceled);
  });
  r.op.cancel();
  l.join();
  runner.join();
}

SEEDED_TEST_P(hand_over, an_operation_is_destroyed_while_it_is_handed_over) {
  connection c(*m);
  std::byte room[1];
  tally told;
  {
    auto op = std::make_optional(
        unio::connect(unio::atomic_async_read(c.ends.first, unio::mutable_buffer(room)), tell{&told}));
    leaver l(*m, [&] { op->start(); });
    op.reset();
    l.join();
  }
  told.expect_nothing();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, an_operation_is_destroyed_while_it_is_handed_over_to_one_that_runs) {
  connection c(*m);
  std::byte room[1];
  tally told;
  auto op = std::make_optional(
      unio::connect(unio::atomic_async_read(c.ends.first, unio::mutable_buffer(room)), tell{&told}));
  leaver l(*m, [&] { op->start(); });
  std::thread runner([&] { run_to_the_end(*m); });
  op.reset();
  l.join();
  runner.join();
  told.expect_nothing();
}

SEEDED_TEST_P(hand_over, polling_takes_what_is_handed_over) {
  shareable r(*m);
  leaver l(*m, [&] { r.op.start(); });
  r.write();
  while (r.op.poll() == unio::io_status::pending) std::this_thread::yield();
  l.join();
  run_to_the_end(*m);
  r.op.expect_success();
}

SEEDED_TEST_P(hand_over, the_multiplexer_is_destroyed_while_a_thread_hands_over) {
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  m.reset();
  r.op.expect_ended_with(condition::canceled);
  l.join();
  r.op.expect_ended_once();
  r.ends.first.set_multiplexer(nullptr);
}

SEEDED_TEST_P(hand_over, the_multiplexer_is_destroyed_when_a_thread_has_handed_over) {
  plain r(*m);
  leaver(*m, [&] { r.op.start(); }).join();
  m.reset();
  r.op.expect_ended_with(condition::canceled);
  r.ends.first.set_multiplexer(nullptr);
}

// ---- run() ----

SEEDED_TEST_P(hand_over, run_returns_0_only_when_what_is_handed_over_has_ended) {
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  std::thread runner([&] {
    run_to_the_end(*m);
    r.op.expect_success();
  });
  r.write();
  l.join();
  runner.join();
}

SEEDED_TEST_P(hand_over, run_returns_0_only_when_both_that_are_handed_over_have_ended) {
  plain r(*m);
  unio::timer_handle t(1us, m.get());
  watched tick{unio::async_wait(t)};
  leaver l(*m, [&] {
    r.op.start();
    tick.start();
  });
  std::thread runner([&] {
    run_to_the_end(*m);
    r.op.expect_success();
    tick.expect_success();
  });
  r.write();
  l.join();
  runner.join();
}

SEEDED_TEST_P(hand_over, what_is_handed_over_is_pending) {
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  for (int i = 0; i != 3; ++i) require(m->try_run().value() != 0, "it is pending");
  l.join();
  require(m->try_run().value() != 0, "it is pending");
  r.write();
  run_to_the_end(*m);
  r.op.expect_success();
}

SEEDED_TEST_P(hand_over, what_ends_while_its_thread_ends_is_delivered_once) {
  plain r(*m);
  unio::timer_handle t(1us, m.get());
  watched tick{unio::async_wait(t)};
  leaver l(*m, [&] {
    r.op.start();
    tick.start();
  });
  r.write();
  l.join();
  run_to_the_end(*m);
  r.op.expect_success();
  tick.expect_success();
}

SEEDED_TEST_P(hand_over, a_deadline_passes_while_its_operation_is_handed_over) {
  connection c(*m);
  std::byte room[1];
  watched op{unio::async_read(c.ends.first, unio::mutable_buffer(room), 5us)};
  leaver l(*m, [&] { op.start(); });
  std::thread runner([&] {
    run_to_the_end(*m);
    op.expect_ended_with(condition::timed_out);
  });
  l.join();
  runner.join();
}

// ---- others start, leave, come ----

SEEDED_TEST_P(hand_over, an_operation_is_started_from_outside_while_a_thread_ends) {
  plain r(*m);
  shareable other(*m);
  leaver l(*m, [&] { r.op.start(); });
  other.op.start();
  std::thread runner([&] {
    run_to_the_end(*m);
    r.op.expect_success();
    other.op.expect_success();
  });
  r.write();
  other.write();
  l.join();
  runner.join();
}

SEEDED_TEST_P(hand_over, an_operation_is_started_from_outside_while_the_only_thread_ends) {
  shareable other(*m);
  leaver l(*m, [] {});
  other.op.start();
  other.write();
  l.join();
  run_to_the_end(*m);
  other.op.expect_success();
}

SEEDED_TEST_P(hand_over, work_is_posted_while_the_only_thread_ends) {
  std::atomic<int> ran{0};
  leaver l(*m, [] {});
  require(m->post([&] { ++ran; }).has_value(), "it is posted");
  l.join();
  run_to_the_end(*m);
  require(ran == 1, "what was posted has run");
}

SEEDED_TEST_P(hand_over, a_thread_posts_and_ends_while_another_runs) {
  std::atomic<bool> stop{false};
  std::latch runs(1);
  std::thread runner([&] {
    (void)m->try_run(); // it runs it, and keeps what it starts
    unio::timer_handle t(for_ever, m.get());
    watched forever{unio::async_wait(t)};
    forever.start();
    runs.count_down();
    while (!stop) (void)m->run();
  });
  runs.wait();
  std::thread([&] {
    (void)m->try_run();
    require(m->post([&] { stop = true; }).has_value(), "it is posted");
  }).join();
  runner.join();
}

// It is on its way from its thread to all.
SEEDED_TEST_P(hand_over, run_says_0_only_when_what_a_thread_has_posted_and_forked_that_ends_has_run) {
  struct item : unio::work {
    item() : work([](work& self, bool run) noexcept { static_cast<item&>(self).ran += run ? 1 : 100; }) {}
    std::atomic<int> ran{0};
  } posted, forked;
  std::latch both(1);
  std::thread ends([&] {
    (void)m->try_run();
    schedule_seed() % 3 != 0 ? m->fork(forked) : void(forked.ran = 1);
    schedule_seed() % 3 != 1 ? m->post(posted) : void(posted.ran = 1);
    both.count_down();
  });
  both.wait();
  run_to_the_end(*m);
  require(posted.ran == 1 && forked.ran == 1, "both have run");
  ends.join();
}

SEEDED_TEST_P(hand_over, both_threads_end_and_a_third_runs_what_they_leave) {
  plain r(*m), q(*m);
  leaver l(*m, [&] { r.op.start(); });
  leaver k(*m, [&] { q.op.start(); });
  r.write();
  q.write();
  l.join();
  k.join();
  run_to_the_end(*m);
  r.op.expect_success();
  q.op.expect_success();
}

struct notes_thread {
  std::thread::id* where;
  template <class Result> void set_value(Result&&) noexcept { *where = std::this_thread::get_id(); }
  void set_done() noexcept {}
};

SEEDED_TEST_P(hand_over, what_a_thread_leaves_goes_on_with_one_other) {
  connection r(*m), q(*m);
  std::byte rooms[2];
  std::thread::id where[2];
  auto first = unio::connect(unio::async_read(r.ends.first, unio::mutable_buffer(&rooms[0], 1)),
                             notes_thread{&where[0]});
  auto second = unio::connect(unio::async_read(q.ends.first, unio::mutable_buffer(&rooms[1], 1)),
                              notes_thread{&where[1]});
  leaver l(*m, [&] {
    first.start();
    second.start();
  });
  std::thread one(run_to_the_end, std::ref(*m)), other(run_to_the_end, std::ref(*m));
  l.join();
  r.write();
  q.write();
  one.join();
  other.join();
  require(where[0] == where[1], "all goes to one thread");
}

SEEDED_TEST_P(hand_over, a_thread_that_has_taken_over_hands_over) {
  shareable r(*m);
  leaver l(*m, [&] { r.op.start(); });
  std::thread second([&] { (void)m->try_run(); });
  std::thread third([&] { (void)m->try_run(); });
  r.op.cancel();
  l.join();
  second.join();
  third.join();
  run_to_the_end(*m);
  r.op.expect_ended_with(condition::canceled);
}

SEEDED_TEST_P(hand_over, what_threads_hand_on_is_closed) {
  plain r(*m);
  leaver l(*m, [&] { r.op.start(); });
  std::thread second([&] { (void)m->try_run(); });
  std::thread third([&] { (void)m->try_run(); });
  r.close();
  l.join();
  second.join();
  third.join();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, one_of_two_that_a_thread_leaves_is_closed) {
  plain r(*m), q(*m);
  leaver l(*m, [&] {
    r.op.start();
    q.op.start();
  });
  std::thread runner([&] {
    run_to_the_end(*m);
    q.op.expect_success();
  });
  q.write();
  r.close();
  l.join();
  runner.join();
}

// ---- what goes on: many values, one read after another, chains ----

/// Reads so many bytes, one after the other; each receiver starts the next read.
struct stream : connection {
  stream(io_multiplexer& m, int bytes) : connection(m), wanted(bytes) {}
  struct next {
    stream* s;
    void set_value(unio::io_result<unio::mutable_buffers> r) noexcept {
      require(r.has_value(), "it is read");
      require(s->room[0] == static_cast<std::byte>(s->received.load()), "the bytes come in their order");
      ++s->received;
    }
    void set_done() noexcept {
      if (s->received != s->wanted) s->start();
    }
  };
  void start() {
    op.emplace(unio::connect(unio::async_read(ends.first, unio::mutable_buffer(room)), next{this}));
    op->start();
  }
  void write() {
    std::byte const byte = static_cast<std::byte>(sent++);
    while (!ends.second.write(unio::const_buffer(&byte, 1)).has_value()) continue;
  }
  int wanted;
  std::atomic<int> received{0};
  int sent = 0;
  std::byte room[1];
  std::optional<unio::io_operation_connection<unio::async_read, next>> op;
};

SEEDED_TEST_P(hand_over, bytes_are_read_in_their_order_by_threads_that_come_and_go) {
  stream s(*m, 3);
  leaver l(*m, [&] { s.start(); });
  s.write();
  std::thread second([&] {
    (void)m->try_run();
    (void)m->try_run();
  });
  s.write();
  l.join();
  s.write();
  second.join();
  run_to_the_end(*m);
  require(s.received == 3, "all are read");
}

SEEDED_TEST_P(hand_over, many_values_of_one_operation_go_on_elsewhere) {
  connection c(*m);
  unio::buffer_pool pool(4, 1);
  std::atomic<int> bytes{0}, ends{0};
  struct count {
    std::atomic<int>*bytes, *ends;
    void set_value(unio::io_result<unio::lent_buffer> r) noexcept {
      if (r.has_value()) *bytes += static_cast<int>(r->size());
    }
    void set_done() noexcept { ++*ends; }
  };
  auto op = unio::connect(unio::atomic_async_receive_many(c.ends.first, pool), count{&bytes, &ends});
  leaver l(*m, [&] { op.start(); });
  c.write();
  c.write();
  l.join();
  std::thread runner([&] { run_to_the_end(*m); });
  while (bytes != 2) std::this_thread::yield();
  op.cancel();
  runner.join();
  require(ends == 1, "the end was notified once");
}

SEEDED_TEST_P(hand_over, a_chain_ends_with_its_thread_or_has_ended) {
  connection c(*m);
  std::byte room[2];
  watched op{unio::async_link(unio::async_read(c.ends.first, unio::mutable_buffer(&room[0], 1)),
                              unio::async_read(c.ends.first, unio::mutable_buffer(&room[1], 1)))};
  leaver l(*m, [&] { op.start(); });
  c.write();
  l.join();
  run_to_the_end(*m);
  op.expect_ended_with(condition::canceled);
}

SEEDED_TEST_P(hand_over, a_wait_for_several_handles_ends_with_its_thread_or_has_ended) {
  connection a(*m), b(*m);
  unio::poll_entry each[] = {{a.ends.first, unio::readiness_set::readable},
                             {b.ends.first, unio::readiness_set::readable}};
  watched op{unio::async_poll_any(each)};
  leaver l(*m, [&] { op.start(); });
  b.write();
  l.join();
  run_to_the_end(*m);
  op.expect_ended_once();
  require(op.error ? op.error == condition::canceled : each[1].is_ready(), "it says what it has found");
}

SEEDED_TEST_P(hand_over, what_found_its_byte_gone_goes_on_elsewhere) {
  plain r(*m);
  std::byte byte[1];
  leaver l(*m, [&] { r.op.start(); });
  r.write();
  bool const was_first = r.ends.first.read(unio::mutable_buffer(byte), 0ns).has_value();
  l.join();
  if (was_first) r.write();
  run_to_the_end(*m);
  r.op.expect_success();
}

SEEDED_TEST_P(hand_over, closing_ends_what_another_thread_polls) {
  plain r(*m);
  r.op.start();
  std::thread other([&] {
    (void)r.op.poll();
    run_to_the_end(*m);
  });
  r.close();
  other.join();
}

SEEDED_TEST_P(hand_over, closing_ends_what_another_thread_begins_to_run) {
  plain r(*m);
  r.op.start();
  std::thread other([&] { (void)m->try_run(); });
  r.close();
  other.join();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, two_threads_close_what_a_third_hands_over) {
  plain r(*m), q(*m);
  leaver l(*m, [&] {
    r.op.start();
    q.op.start();
  });
  std::thread other([&] { q.close(); });
  r.close();
  other.join();
  l.join();
  require(m->run().value() == 0, "nothing is pending");
}

SEEDED_TEST_P(hand_over, an_operation_started_from_outside_is_cancelled_while_the_only_thread_ends) {
  shareable other(*m);
  leaver l(*m, [] {});
  other.op.start();
  other.op.cancel();
  l.join();
  run_to_the_end(*m);
  other.op.expect_ended_with(condition::canceled);
}

// ---- what waits for a buffer; what is started at the end ----

/// Reads into buffers of a pool.
struct lending : connection {
  lending(io_multiplexer& m, unio::buffer_pool& pool)
      : connection(m), op(unio::async_receive(ends.first, pool)) {}
  watched<unio::async_receive> op;
};

SEEDED_TEST_P(hand_over, a_buffer_comes_back_while_what_waits_for_it_is_handed_over) {
  unio::buffer_pool pool(1, 16);
  connection first(*m);
  first.write();
  std::optional<unio::lent_buffer> lent = first.ends.first.receive(pool).value();
  lending r(*m, pool);
  r.write();
  leaver l(*m, [&] { r.op.start(); });
  std::thread runner([&] { run_to_the_end(*m); });
  lent.reset();
  l.join();
  runner.join();
  r.op.expect_success();
}

SEEDED_TEST_P(hand_over, a_blocking_call_waits_beside_what_is_handed_over) {
  plain r(*m);
  connection own(*m);
  std::byte byte[1];
  leaver l(*m, [&] { r.op.start(); });
  std::thread writer([&] {
    r.write();
    own.write();
  });
  require(own.ends.first.read(unio::mutable_buffer(byte)).has_value(), "it is read");
  writer.join();
  l.join();
  run_to_the_end(*m);
  r.op.expect_success();
}

struct begin {
  unio::io_operation* op;
  template <class Result> void set_value(Result&&) noexcept {}
  void set_done() noexcept { op->start(); }
};

SEEDED_TEST_P(hand_over, what_is_started_when_a_chain_ends_with_its_thread_is_handed_over) {
  plain r(*m);
  connection c(*m);
  std::byte room[2];
  auto chain =
      unio::connect(unio::async_link(unio::async_read(c.ends.first, unio::mutable_buffer(&room[0], 1)),
                                     unio::async_read(c.ends.first, unio::mutable_buffer(&room[1], 1))),
                    begin{&r.op});
  leaver l(*m, [&] { chain.start(); });
  r.write();
  l.join();
  run_to_the_end(*m);
  r.op.expect_success();
}

// Destroyed after its thread has handed over what it had.
struct late_start {
  io_multiplexer* m = nullptr;
  shareable* r = nullptr;
  ~late_start() {
    if (m == nullptr) return;
    (void)m->try_run();
    r->op.start();
    (void)m->try_run();
  }
};

SEEDED_TEST_P(hand_over, a_thread_hands_over_twice) {
  shareable r(*m), q(*m);
  std::latch started(1);
  std::thread leaves([&] {
    static thread_local late_start late; // made before the thread runs it, and so destroyed after that ends
    late.m = m.get();
    late.r = &q;
    (void)m->try_run();
    r.op.start();
    (void)m->try_run();
    started.count_down();
  });
  started.wait();
  std::thread runner([&] { run_to_the_end(*m); });
  r.op.cancel();
  leaves.join();
  q.op.cancel();
  runner.join();
  run_to_the_end(*m);
  r.op.expect_ended_once();
  q.op.expect_ended_with(condition::canceled);
}

// ---- wake() ----

SEEDED_TEST_P(hand_over, a_wake_is_not_lost_while_a_thread_ends) {
  std::atomic<bool> stop{false};
  std::latch runs(1);
  plain r(*m);
  std::thread runner([&] {
    (void)m->try_run(); // it runs it, and keeps what it starts
    unio::timer_handle t(for_ever, m.get());
    watched forever{unio::async_wait(t)};
    forever.start();
    runs.count_down();
    while (!stop) (void)m->run();
  });
  runs.wait();
  leaver l(*m, [&] { r.op.start(); });
  stop = true;
  m->wake();
  l.join();
  runner.join();
  r.close();
}

SEEDED_TEST_P(hand_over, a_thread_that_sleeps_takes_what_another_leaves) {
  plain r(*m);
  std::latch runs(1);
  unio::timer_handle t(for_ever, m.get());
  watched<unio::atomic_async_wait> forever{unio::atomic_async_wait(t)};
  std::thread runner([&] {
    (void)m->try_run();
    forever.start();
    runs.count_down();
    run_to_the_end(*m);
    r.op.expect_success();
    forever.expect_ended_with(condition::canceled);
  });
  runs.wait();
  leaver l(*m, [&] { r.op.start(); });
  r.write();
  l.join();
  while (r.op.ends == 0) std::this_thread::yield();
  forever.cancel();
  runner.join();
}

ON_BOTH_SYSTEMS(hand_over);

} // namespace
