// Chains of operations, in every order that the simulation knows: each ends once, says what became of every
// byte, and starts no member after one that did not do its part.

#include "support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

using copying = unio::async_link<async_read, async_write, async_read, async_write>;

struct copied {
  std::optional<copying::result_type> result;
  int dones = 0;
};
struct note {
  copied* to;
  void set_value(copying::result_type&& r) {
    EXPECT_FALSE(to->result.has_value()) << "two values";
    to->result.emplace(std::move(r));
  }
  void set_done() { ++to->dones; }
};

// What is still in a pipe whose writer is `writer`, read to the end.
std::vector<std::byte> drain(unio::io_handle& reader, unio::io_handle& writer) {
  (void)writer.close();
  std::vector<std::byte> all;
  for (;;) {
    std::array<std::byte, 64> room{};
    auto const r = reader.read(unio::mutable_buffer(room));
    if (!r.has_value() || r.bytes_transferred() == 0) return all;
    all.insert(all.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(r.bytes_transferred()));
  }
}

void give(unio::io_handle& to, std::uint64_t& position, std::size_t bytes) {
  std::vector<std::byte> data(bytes);
  for (std::byte& b : data) b = byte_at(position++);
  for (std::size_t n = 0; n != bytes;) {
    auto const r = to.write(unio::const_buffer(data.data() + n, bytes - n));
    ASSERT_TRUE(r.has_value());
    n += r.bytes_transferred();
  }
}

// From one pipe to another by two blocks; fed, cancelled, out of time, closed or destroyed at any moment.
SEEDED_TEST(simulated_link, ends_once_and_says_what_became_of_every_byte, 4000) {
  dice d(s.seed());
  auto in = s.pipe(), out = s.pipe();
  std::uint64_t fed = 0;
  std::array<std::byte, 6> room{};
  std::size_t const first = 1 + d.below(3), second = 1 + d.below(3);
  bool const timed = d.below(3) == 0;
  copied seen;
  {
    copying chain(timed ? unio::deadline(std::chrono::nanoseconds(d.below(5000))) : unio::deadline(),
                  async_read(in.reader, unio::mutable_buffer(room.data(), first)),
                  async_write(out.writer, unio::const_buffer(room.data(), first)),
                  async_read(in.reader, unio::mutable_buffer(room.data(), second)),
                  async_write(out.writer, unio::const_buffer(room.data(), second)));
    auto op = std::make_optional(unio::connect(std::move(chain), note{&seen}));
    if (d.below(2) == 0) give(in.writer, fed, first);
    op->start();
    for (std::uint64_t steps = d.below(4); steps != 0; --steps) {
      for (std::uint64_t turns = d.below(4); turns != 0; --turns) (void)s.multiplexer().try_run();
      if (d.below(2) == 0) give(in.writer, fed, 1 + d.below(3));
      if (d.below(8) == 0) s.advance(std::chrono::nanoseconds(d.below(4000)));
      if (d.below(3) == 0) (void)op->poll();
    }
    std::uint64_t const what = d.below(4);
    if (what == 0) {
      op->cancel();
    } else if (what == 1) {
      (void)out.writer.close();
    } else if (what == 2) {
      (void)in.writer.close();
    } else {
      op.reset();
    }
    if (op.has_value()) {
      EXPECT_TRUE(run_until(s, [&] { return op->finished(); }));
      EXPECT_EQ(seen.dones, 1);
      EXPECT_TRUE(seen.result.has_value());
    }
  }
  bool const told = seen.result.has_value();
  std::size_t const left = drain(in.reader, in.writer).size();
  auto const arrived = drain(out.reader, out.writer);
  // In their order, and none twice.
  for (std::size_t i = 0; i != arrived.size(); ++i) EXPECT_EQ(arrived[i], byte_at(i));
  if (!told) return;
  auto const& [r1, w1, r2, w2] = *seen.result;
  EXPECT_EQ(r1.bytes_transferred() + r2.bytes_transferred() + left, fed);
  EXPECT_EQ(w1.bytes_transferred() + w2.bytes_transferred(), arrived.size());
  std::size_t const n = seen.result->completed();
  std::size_t const asked[4] = {first, first, second, second};
  std::size_t const moved[4] = {r1.bytes_transferred(), w1.bytes_transferred(), r2.bytes_transferred(),
                                w2.bytes_transferred()};
  std::error_code const errors[4] = {r1.error(), w1.error(), r2.error(), w2.error()};
  for (std::size_t i = 0; i != 4; ++i) {
    if (i < n) {
      EXPECT_FALSE(errors[i]);
      EXPECT_EQ(moved[i], asked[i]);
    } else if (i == n) {
      EXPECT_TRUE(errors[i] || moved[i] < asked[i]);
      EXPECT_TRUE(seen.result->error());
    } else {
      EXPECT_EQ(errors[i], condition::canceled);
      EXPECT_EQ(moved[i], 0u);
    }
  }
}

SEEDED_TEST(simulated_link, blocking_is_the_same, 500) {
  auto in = s.pipe(), out = s.pipe();
  for (unio::io_handle* h :
       {static_cast<unio::io_handle*>(&in.reader), static_cast<unio::io_handle*>(&out.writer)})
    h->set_multiplexer(nullptr);
  std::uint64_t fed = 0;
  std::array<std::byte, 4> room{};
  s.after(10us, [&] { give(in.writer, fed, 1); });
  s.after(2ms, [&] { give(in.writer, fed, 1); });
  auto const r = unio::link(1ms, async_read(in.reader, unio::mutable_buffer(room.data(), 1)),
                            async_write(out.writer, unio::const_buffer(room.data(), 1)),
                            async_read(in.reader, unio::mutable_buffer(room.data(), 1)),
                            async_write(out.writer, unio::const_buffer(room.data(), 1)));
  EXPECT_EQ(r.completed(), 2u);
  EXPECT_EQ(r.error(), condition::timed_out);
  EXPECT_EQ(r.get<3>().error(), condition::canceled);
  s.advance(5ms);
  (void)s.multiplexer().try_run();
  EXPECT_EQ(drain(out.reader, out.writer).size(), 1u);
}

} // namespace
