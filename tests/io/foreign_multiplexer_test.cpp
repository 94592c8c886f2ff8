// A multiplexer that a program has written: what the library asks of one, and that operations, chains and
// coroutines run on it.

#include "support/coroutine.hpp"
#include "support/drivers.hpp"
#include "support/ends.hpp"
#include "support/receivers.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// The least that one can write: it tries everything again in each turn.
class trying_multiplexer final : public io_multiplexer {
 public:
  using io_multiplexer::post;
  void post(unio::work& w) noexcept override { w(false); }
  void wake() noexcept override {}
  unio::capabilities capabilities() const override { return {.driver = "trying"}; }
  unio::counters counters() const noexcept override { return {}; }

  void start(unio::io_operation& op) noexcept override {
    if (op.faces().begin != nullptr) op.faces().begin(op);
    if (!attempt(op)) {
      waiting_.push_back(&op);
    } else if (op.is_quiet()) {
      op.mark_finished(); // the caller looks for the result itself
    } else {
      tell(op);
    }
  }
  io_status poll(unio::io_operation& op) noexcept override {
    if (!op.completed() && attempt(op)) {
      std::erase(waiting_, &op);
      tell(op);
    }
    return op.completed() ? io_status::completed : io_status::pending;
  }
  void cancel(unio::io_operation& op) noexcept override {
    if (std::erase(waiting_, &op) == 0) return;
    (void)op.faces().complete(op, -ECANCELED, 0);
    tell(op);
  }
  void forget(int fd) noexcept override {
    for (bool again = true; again;) {
      again = false;
      for (unio::io_operation* op : waiting_) {
        if (op->fd() != fd) continue;
        cancel(*op);
        again = true;
        break;
      }
    }
  }
  void finish(unio::io_operation& op) noexcept override {
    while (!op.finished()) (void)do_run(-1, 0);
  }
  int tried = 0;

 protected:
  unio::result<int> do_complete_io(int, std::int64_t) noexcept override {
    int n = 0;
    for (std::size_t i = 0; i < waiting_.size();) {
      unio::io_operation& op = *waiting_[i];
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
      if (attempt(op)) {
        ++n;
        tell(op);
      } else {
        waiting_.insert(waiting_.begin() + static_cast<std::ptrdiff_t>(i), &op);
        ++i;
      }
    }
    return n != 0 ? n : waiting_.empty() ? 0 : -1;
  }
  unio::result<int> do_timeout_io(int, std::int64_t) noexcept override { return 0; }
  unio::result<int> do_invoke_posted(int, std::int64_t) noexcept override { return 0; }
  unio::result<int> do_run(int max, std::int64_t until) noexcept override {
    return do_complete_io(max, until);
  }

 private:
  // True: the result is known.
  bool attempt(unio::io_operation& op) noexcept {
    ++tried;
    int const r = op.faces().perform(op, unio::driver::attempt::nonblocking);
    if (r != -EAGAIN) return op.faces().complete(op, r, 0) == unio::driver::outcome::finished;
    op.set_outcome(r);
    return op.deadline().is_zero();
  }
  static void tell(unio::io_operation& op) noexcept {
    op.deliver(unio::io_operation::value | unio::io_operation::done);
  }
  std::vector<unio::io_operation*> waiting_;
};

TEST(foreign_multiplexer, runs_operations_and_serves_handles) {
  trying_multiplexer m;
  auto p = test::pipe_on(&m);
  char memory[4];
  started op{unio::async_read(p.reader, unio::mutable_buffer(memory))};
  EXPECT_EQ(op.poll(), io_status::pending);
  EXPECT_LT(m.run().value(), 0);
  EXPECT_EQ(p.writer.write(unio::const_buffer("abc", 3)).value().bytes(), 3U); // a blocking call drives it
  EXPECT_EQ(m.run().value(), 1);
  EXPECT_EQ(op.values, 1);
  EXPECT_EQ(op.ends, 1);
  EXPECT_EQ(op.result().value().bytes(), 3U);

  EXPECT_EQ(p.reader.try_read(unio::mutable_buffer(memory)).error(), condition::would_block);
  op.reset();
  op.start();
  op.cancel();
  EXPECT_EQ(op.result().error(), condition::canceled);
  op.reset();
  op.start();
  ASSERT_TRUE(p.reader.close());
  EXPECT_TRUE(op.finished());
  EXPECT_EQ(op.result().error(), condition::canceled);
  EXPECT_GT(m.tried, 5);
}

// Which it knows nothing of: to it a chain is an operation that is to be tried again.
TEST(foreign_multiplexer, runs_chains) {
  trying_multiplexer m;
  auto p = test::pipe_on(&m);
  char memory[2][3];
  started op{unio::async_link(unio::async_read(p.reader, unio::mutable_buffer(memory[0])),
                              unio::async_read(p.reader, unio::mutable_buffer(memory[1])))};
  test::put(p.writer, "xxx");
  for (int i = 0; i != 3; ++i) EXPECT_TRUE(m.run().has_value());
  EXPECT_EQ(op.completed_members(), 1U);
  EXPECT_EQ(op.values, 0);
  test::put(p.writer, "xxx");
  for (int i = 0; i != 3; ++i) EXPECT_TRUE(m.run().has_value());
  EXPECT_EQ(op.values, 1);
  EXPECT_EQ(op.ends, 1);
  EXPECT_TRUE(op.result().has_value());

  op.reset();
  test::put(p.writer, "xxx");
  op.start();
  op.cancel();
  EXPECT_EQ(op.ends, 2);
  EXPECT_EQ(op.result().completed(), 1U);
  EXPECT_EQ(op.result().error(), condition::canceled);
}

TEST(foreign_multiplexer, resumes_coroutines) {
  trying_multiplexer m;
  auto p = test::pipe_on(&m);
  std::string got;
  auto const body = [](unio::pipe_handle& reader, std::string& text) -> test::coroutine {
    char memory[2];
    while (text.size() < 4)
      text.append(memory, (co_await reader.co_read(unio::mutable_buffer(memory))).value().bytes());
  };
  test::put(p.writer, "xxx");
  test::coroutine const c = body(p.reader, got);
  EXPECT_EQ(got, "xxx");
  EXPECT_LT(m.run().value(), 0);
  test::put(p.writer, "x");
  EXPECT_EQ(m.run().value(), 1);
  EXPECT_TRUE(c.done());
}

TEST(foreign_multiplexer, finishes_what_is_destroyed_in_flight) {
  trying_multiplexer m;
  auto p = test::pipe_on(&m);
  char memory[4];
  test::tally told;
  {
    auto op = unio::connect(unio::async_read(p.reader, unio::mutable_buffer(memory)), test::tell{&told});
    op.start();
  }
  EXPECT_EQ(told.values, 0);
  EXPECT_EQ(m.run().value(), 0);
}

} // namespace
