// What the real drivers do is among what the simulation does: the same small scripts on io_uring, on epoll,
// and on the simulation over many seeds.

#include "support.hpp"
#include "support/drivers.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

// Where a script gets its handles from, and what it saw.
struct stage {
  unio::io_multiplexer& m;
  simulation* s; // or null: the real thing
  std::string seen;

  unio::anonymous_pipe pipe() {
    auto p = s != nullptr ? s->pipe() : unio::pipe_handle::anonymous().value();
    p.reader.set_multiplexer(&m);
    p.writer.set_multiplexer(&m);
    return p;
  }
  unio::socket_pair pair() {
    auto p = s != nullptr ? s->stream_pair() : unio::socket_handle::pair().value();
    p.first.set_multiplexer(&m);
    p.second.set_multiplexer(&m);
    return p;
  }
  void say(char const* what, std::error_code e, std::size_t bytes) {
    seen += std::string(what) + ":" + (e ? e.message() : std::to_string(bytes)) + " ";
  }
  template <class Handle> void read(Handle& h, std::size_t n, unio::deadline d = {}) {
    std::vector<char> buffer(n);
    auto const r = h.read(unio::mutable_buffer(buffer), d);
    say("read", r.error(), r.bytes_transferred());
  }
  template <class Handle> void write(Handle& h, std::size_t n, unio::deadline d = {}) {
    std::vector<char> const buffer(n);
    auto const r = h.write(unio::const_buffer(buffer), d);
    say("write", r.error(), r.bytes_transferred());
  }
  // Runs until the operations behind `t` have ended, or for so many turns.
  void run(tally& t) {
    for (int i = 0; i != 10'000 && !t.ended(); ++i)
      if (!m.try_run_for(1ms).has_value()) break;
    say("told", t.error, t.bytes);
  }
};

void cancel_races_the_bytes(stage& g) {
  auto p = g.pipe();
  std::array<char, 8> buffer{};
  started op{async_read(p.reader, unio::mutable_buffer(buffer))};
  (void)g.m.try_run();
  g.write(p.writer, 3);
  op.cancel();
  g.run(op);
}

void cancel_without_bytes(stage& g) {
  auto p = g.pipe();
  std::array<char, 8> buffer{};
  started op{async_read(p.reader, unio::mutable_buffer(buffer))};
  (void)g.m.try_run();
  op.cancel();
  g.run(op);
}

void peer_closes_with_bytes_unread(stage& g) {
  auto [a, b] = g.pair();
  g.write(a, 5);
  g.write(b, 4);
  (void)b.close();
  g.write(a, 5);
  g.read(a, 100);
  g.read(a, 100);
  g.read(a, 100);
}

void half_close(stage& g) {
  auto [a, b] = g.pair();
  g.write(a, 5);
  (void)a.shutdown(unio::socket_handle::side::send);
  g.read(b, 100);
  g.read(b, 100);
  g.write(b, 7);
  g.read(a, 100);
  g.write(a, 1);
}

void receiving_half_is_shut(stage& g) {
  auto [a, b] = g.pair();
  g.write(b, 3);
  (void)a.shutdown(unio::socket_handle::side::receive);
  g.write(b, 3);
  g.read(a, 100);
  g.read(a, 100);
}

void pipe_ends(stage& g) {
  auto p = g.pipe();
  g.write(p.writer, 100);
  (void)p.writer.close();
  g.read(p.reader, 64);
  g.read(p.reader, 64);
  g.read(p.reader, 64);
}

void nobody_reads(stage& g) {
  auto p = g.pipe();
  (void)p.reader.close();
  g.write(p.writer, 5);
}

void deadline_passes(stage& g) {
  auto p = g.pipe();
  g.read(p.reader, 5, 1ms);
  g.read(p.reader, 5, unio::deadline::zero());
  g.write(p.writer, 2);
  g.read(p.reader, 5, unio::deadline::zero());
}

void closes_under_an_operation(stage& g) {
  auto p = g.pipe();
  std::array<char, 8> buffer{};
  started op{async_read(p.reader, unio::mutable_buffer(buffer))};
  (void)g.m.try_run();
  (void)p.reader.close();
  g.run(op);
}

void writer_closes_under_a_read(stage& g) {
  auto p = g.pipe();
  std::array<char, 8> buffer{};
  started op{async_read(p.reader, unio::mutable_buffer(buffer))};
  (void)g.m.try_run();
  (void)p.writer.close();
  g.run(op);
}

void full_pipe(stage& g) {
  auto p = g.pipe();
  g.write(p.writer, 100'000);
  g.write(p.writer, 1, unio::deadline::zero());
  std::vector<char> const data(10);
  started op{async_write(p.writer, unio::const_buffer(data))};
  (void)g.m.try_run();
  (void)p.reader.close();
  g.run(op);
}

struct script {
  char const* name;
  void (*play)(stage&);
};

constexpr script scripts[] = {{"cancel_races_the_bytes", cancel_races_the_bytes},
                              {"cancel_without_bytes", cancel_without_bytes},
                              {"peer_closes_with_bytes_unread", peer_closes_with_bytes_unread},
                              {"half_close", half_close},
                              {"receiving_half_is_shut", receiving_half_is_shut},
                              {"pipe_ends", pipe_ends},
                              {"nobody_reads", nobody_reads},
                              {"deadline_passes", deadline_passes},
                              {"closes_under_an_operation", closes_under_an_operation},
                              {"writer_closes_under_a_read", writer_closes_under_a_read},
                              {"full_pipe", full_pipe}};

class conformance : public ::testing::TestWithParam<script> {};

TEST_P(conformance, of_the_real_drivers_with_the_simulation) {
  std::set<std::string> allowed;
  for (std::uint64_t seed = 0; seed != 1000; ++seed) {
    simulation s(simulation_options::from_seed(seed));
    stage g{s.multiplexer(), &s, {}};
    GetParam().play(g);
    allowed.insert(g.seen);
  }
  int drivers = 0;
  for (char const* const name : {"uring", "epoll"}) {
    auto const m = make_multiplexer(name);
    if (!m.has_value()) continue; // io_uring is not built, or forbidden here
    ++drivers;
    for (int i = 0; i != 3; ++i) {
      stage g{**m, nullptr, {}};
      GetParam().play(g);
      EXPECT_TRUE(allowed.contains(g.seen))
          << name << " did what the simulation never does: " << g.seen
          << "\nthe simulation: " << *allowed.begin() << " and " << allowed.size() - 1 << " others";
    }
  }
  EXPECT_GE(drivers, 1);
}

INSTANTIATE_TEST_SUITE_P(scripts, conformance, ::testing::ValuesIn(scripts),
                         [](auto const& one) { return std::string(one.param.name); });

} // namespace
