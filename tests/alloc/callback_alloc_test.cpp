// No allocation and no lock for an operation with a handler, once warm; a handler finds the block that was
// just freed.

#include "alloc/counting.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// Reads one byte after the other from a pipe that it fills itself when it is empty.
struct reader {
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  unio::stop_token stop;
  bool waits = false;
  int left = 0;
  char room = 0;
  bool fine = true;

  explicit reader(unio::io_multiplexer* m) {
    p.reader.set_multiplexer(m);
    p.writer.set_multiplexer(nullptr);
  }
  void next() {
    if (!waits) give();
    unio::start(
        unio::async_read(p.reader, unio::mutable_buffer(&room, 1)),
        [this](unio::io_result<unio::mutable_buffers> r) {
          fine = fine && r.bytes_transferred() == 1;
          if (--left != 0) next();
        },
        stop);
    if (waits) give();
  }
  void give() { fine = p.writer.write(unio::const_buffer("x", 1)).has_value() && fine; }
};

costs spent_by(unio::io_multiplexer& m, reader& r, int times) {
  r.left = times;
  costs const before = test::costs_so_far();
  r.next();
  while (r.left != 0) (void)m.run();
  return test::costs_so_far() - before;
}

TEST(callback_costs, are_nothing_once_warm) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  for (bool const waits : {false, true}) {
    for (bool const stoppable : {false, true}) {
      unio::stop_source source;
      reader r(m.get());
      r.waits = waits;
      if (stoppable) r.stop = source.get_token();
      (void)spent_by(*m, r, 100);
      EXPECT_EQ(spent_by(*m, r, 1000), costs{})
          << (waits ? "waiting" : "ready") << (stoppable ? ", stop" : "");
      EXPECT_TRUE(r.fine);
    }
  }
}

TEST(callback_costs, are_nothing_on_an_executor_once_warm) {
  auto const m = unio::io_multiplexer::best_available(1).value();
  auto const other = unio::io_multiplexer::best_available(1).value();
  int called = 0;
  auto const one = [&] {
    int const before = called;
    unio::start(other->executor(), unio::async_no_op(m.get()), [&](unio::io_result<void>) { ++called; });
    while (called == before) {
      (void)m->try_run();
      (void)other->try_run();
    }
  };
  for (int i = 0; i != 100; ++i) one();
  costs const before = test::costs_so_far();
  for (int i = 0; i != 1000; ++i) one();
  EXPECT_EQ(test::costs_so_far() - before, costs{});
}

} // namespace
