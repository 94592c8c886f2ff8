// driver/queues.hpp and driver/uring/slots.hpp: the parts of a driver that need no kernel. Cases 13 and 7.

#include "driver/queues.hpp"

#include "driver/uring/slots.hpp"
#include "support/test.hpp"
#include "support/work.hpp"

#include <random>

namespace {

using unio::driver::deadline_queue;
using unio::driver::inbox;
using unio::driver::operation_queue;
using unio::driver::queue_name;
using unio::driver::slot_table;
using unio::driver::work_link;

TEST(operation_queue, keeps_the_order_and_gives_up_its_middle) {
  std::deque<unio::async_no_op> ops(5);
  operation_queue q(queue_name::ready);
  for (auto& op : ops) q.push(op);
  q.remove(ops[2]);
  q.remove(ops[0]);
  q.remove(ops[4]);
  EXPECT_FALSE(q.contains(ops[2]));
  EXPECT_TRUE(q.contains(ops[3]));
  EXPECT_EQ(q.last(), &ops[3]);
  q.push(ops[0]);
  EXPECT_EQ(q.pop(), &ops[1]);
  EXPECT_EQ(q.pop(), &ops[3]);
  EXPECT_EQ(q.pop(), &ops[0]);
  EXPECT_EQ(q.pop(), nullptr);
  EXPECT_TRUE(q.empty());
}

TEST(deadline_queue, is_always_ordered_whatever_is_inserted_and_removed) {
  std::mt19937 random(20240607);
  std::deque<unio::async_no_op> ops(300);
  for (int round = 0; round < 20; ++round) {
    deadline_queue q;
    std::vector<unio::io_operation*> in;
    auto earliest = [&] {
      return (*std::min_element(in.begin(), in.end(),
                                [](auto* a, auto* b) { return a->links.due < b->links.due; }))
          ->links.due;
    };
    for (auto& op : ops) {
      op.links.due = static_cast<std::int64_t>(random() % 100); // many are equal
      q.insert(op);
      in.push_back(&op);
      EXPECT_TRUE(op.links.is.in_heap);
      if (random() % 3 == 0) { // any, not only the first
        std::size_t const i = random() % in.size();
        q.remove(*in[i]);
        EXPECT_FALSE(in[i]->links.is.in_heap);
        in.erase(in.begin() + static_cast<std::ptrdiff_t>(i));
      }
      if (!in.empty()) {
        ASSERT_EQ(q.earliest()->links.due, earliest());
      }
    }
    std::int64_t last = -1;
    while (unio::io_operation* const op = q.earliest()) {
      EXPECT_GE(op->links.due, last);
      last = op->links.due;
      q.remove(*op);
      in.erase(std::find(in.begin(), in.end(), op));
    }
    EXPECT_TRUE(in.empty());
  }
}

// A heap that is a list must not be taken apart by recursion.
TEST(deadline_queue, takes_a_hundred_thousand_in_order_without_a_deep_stack) {
  std::deque<unio::async_no_op> ops(100'000);
  deadline_queue q;
  std::int64_t due = 0;
  for (auto& op : ops) {
    op.links.due = ++due;
    q.insert(op);
  }
  due = 0;
  while (unio::io_operation* const op = q.earliest()) {
    ASSERT_EQ(op->links.due, ++due);
    q.remove(*op);
  }
  EXPECT_EQ(due, 100'000);
}

struct numbered : unio::work {
  numbered() : work([](work&, bool) noexcept {}) {}
  std::size_t by = 0;
  int number = 0;
};

TEST(inbox, gives_its_only_item_and_none_of_several) {
  inbox<unio::work, work_link> box;
  EXPECT_EQ(box.take_only(), nullptr);
  numbered a, b;
  box.push(a);
  EXPECT_FALSE(box.empty());
  EXPECT_EQ(box.take_only(), &a);
  EXPECT_TRUE(box.empty());
  box.push(a);
  box.push(b);
  EXPECT_EQ(box.take_only(), nullptr);
  unio::work* const all = box.take();
  ASSERT_EQ(all, &a);
  EXPECT_EQ(all->next, &b);
  EXPECT_EQ(b.next, nullptr);
  box.push(b);
  EXPECT_EQ(box.take(), &b);
  EXPECT_EQ(box.take_only(), nullptr);
}

TEST(inbox, keeps_each_threads_order_and_loses_nothing) {
  constexpr int each = 50'000;
  inbox<unio::work, work_link> box;
  std::vector<numbered> items(3 * each);
  test::threads threads(3, [&](std::size_t who) {
    for (int i = 0; i < each; ++i) {
      numbered& n = items[who * each + static_cast<std::size_t>(i)];
      n.by = who;
      n.number = i;
      box.push(n);
    }
  });
  int next[3] = {};
  for (int seen = 0; seen < 3 * each;) {
    for (unio::work* w = box.take(); w != nullptr; w = w->next) {
      auto& n = static_cast<numbered&>(*w);
      ASSERT_EQ(n.number, next[n.by]++);
      ++seen;
    }
  }
  threads.join();
  EXPECT_TRUE(box.empty());
}

// Case 13; tokio#8112, mio CVE-2024-27308: a late completion is delivered to no receiver.
TEST(slot_table, knows_a_completion_of_an_operation_that_has_gone) {
  std::deque<unio::async_no_op> ops(3000);
  slot_table slots;
  std::vector<std::uint32_t> taken;
  std::vector<std::uint64_t> names;
  for (auto& op : ops) {
    names.push_back(slots.take(op));
    ASSERT_NE(names.back(), slot_table::none);
    taken.push_back(static_cast<std::uint32_t>(names.back()));
  }
  for (std::size_t i = 0; i < ops.size(); ++i) EXPECT_EQ(slots.find(names[i]), &ops[i]);
  for (std::size_t i = 0; i < ops.size(); i += 2) slots.give_back(taken[i]);
  for (std::size_t i = 0; i < ops.size(); ++i)
    EXPECT_EQ(slots.find(names[i]), i % 2 == 0 ? nullptr : &ops[i]);
  // The slots' next owners have names of their own.
  for (std::size_t i = 0; i < ops.size(); i += 2) {
    std::uint64_t const name = slots.take(ops[i]);
    EXPECT_NE(name, names[static_cast<std::uint32_t>(name) - 1]); // the slot's last one: slot 1 was the first
    EXPECT_EQ(slots.find(name), &ops[i]);
  }
  for (std::size_t i = 0; i < ops.size(); i += 2) EXPECT_EQ(slots.find(names[i]), nullptr);
  EXPECT_EQ(slots.find(~std::uint64_t{0}), nullptr);
  EXPECT_EQ(slots.find(~std::uint64_t{0} - 1), nullptr);
}

} // namespace
