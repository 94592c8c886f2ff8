// Streams on the simulation: transfers of any size, delays, stops and deadlines at any moment. Every byte
// arrives once, in order, and what did not arrive is where it was.

#include "support.hpp"
#include "support/test.hpp"

namespace {

using namespace test;

std::string bytes_of(std::size_t n) {
  std::string s(n, '\0');
  for (std::size_t i = 0; i != n; ++i) s[i] = static_cast<char>(byte_at(i));
  return s;
}

// Pipes and connections hold less than there is to move, so that both sides wait.
simulation_options tight(std::uint64_t seed) noexcept {
  simulation_options o = simulation_options::from_seed(seed);
  o.pipe_capacity = o.stream_capacity = 1 + seed % 150;
  return o;
}

// A task that runs by itself, with what it came to.
template <class T> class started_task {
 public:
  started_task(simulation& s, task<T> t, unio::stop_token stop = {}) : simulation_(s) {
    unio::async_run(s.multiplexer(), std::move(t),
                    [this](unio::task_outcome<T> o) { outcome_.emplace(std::move(o)); }, {.stop = stop});
  }
  started_task(started_task const&) = delete;
  started_task& operator=(started_task const&) = delete;
  ~started_task() { EXPECT_TRUE(done()) << "a task is left behind"; }
  [[nodiscard]] bool done() const { return outcome_.has_value(); }
  T get() {
    EXPECT_TRUE(run_until(simulation_, [&] { return done(); })) << "nothing goes on";
    if (!done()) std::abort();
    return outcome_->value();
  }

 private:
  simulation& simulation_;
  std::optional<unio::task_outcome<T>> outcome_;
};

// Checks that every part of it runs on the simulation's executor.
task<> expect_here(simulation& s) {
  auto const executor = co_await unio::this_coro::executor;
  auto const expected = s.multiplexer().executor();
  EXPECT_EQ(executor, unio::executor_ref(expected));
}

template <class Buffer, class Char>
std::vector<Buffer> pieces_of(Char* data, std::size_t n, dice& d, std::size_t most) {
  std::vector<Buffer> pieces;
  for (std::size_t at = 0; at != n;) {
    std::size_t const size = std::min<std::size_t>(d.below(most), n - at); // empty ones included
    pieces.emplace_back(data + at, size);
    at += size;
  }
  return pieces;
}

SEEDED_TEST(simulated_streams, read_and_write_move_every_byte_in_order, 1000, tight) {
  dice d(s.seed());
  std::string const text = bytes_of(1 + d.below(3000));
  std::string room(text.size(), '\0');
  auto const out = pieces_of<const_buffer>(text.data(), text.size(), d, 700);
  auto const in = pieces_of<mutable_buffer>(room.data(), room.size(), d, 700);
  auto pipe = s.pipe();
  auto pair = s.stream_pair();
  bool const piped = d.below(2) == 0;
  unio::any_write_stream const to = piped ? unio::any_write_stream(pipe.writer) : pair.first;
  unio::any_read_stream const from = piped ? unio::any_read_stream(pipe.reader) : pair.second;
  started_task here(s, expect_here(s));
  started_task writing(s, unio::co_write(to, const_buffers(out)));
  started_task reading(s, unio::co_read(from, mutable_buffers(in)));
  EXPECT_EQ(writing.get().bytes_transferred(), text.size());
  EXPECT_EQ(reading.get().bytes_transferred(), text.size());
  EXPECT_EQ(room, text);
  // And the end in the middle of a read.
  std::string_view const tail = "tail";
  std::array<char, 10> more{};
  started_task beyond(s, unio::co_read(from, more));
  started_task last(s, unio::co_write(to, tail));
  EXPECT_TRUE(last.get().has_value());
  (void)pipe.writer.close();
  (void)pair.first.close();
  io_result<mutable_buffers> const r = beyond.get();
  EXPECT_EQ(r.error(), condition::truncated);
  EXPECT_EQ(std::string_view(more.data(), r.bytes_transferred()), tail);
  started_task end(s, unio::co_read(from, more));
  EXPECT_EQ(end.get().error(), condition::end_of_stream);
}

SEEDED_TEST(simulated_streams, read_that_is_stopped_says_exactly_how_much_it_took, 1500) {
  dice d(s.seed());
  std::string const text = bytes_of(1 + d.below(500));
  auto [a, b] = s.stream_pair();
  std::string room(text.size() + d.below(2), '\0');
  unio::stop_source stop;
  std::size_t taken = 0;
  {
    started_task reading(
        s,
        unio::co_read(b, room,
                      d.below(4) == 0 ? deadline(std::chrono::microseconds(1 + d.below(50))) : deadline()),
        stop.get_token());
    started_task writing(s, unio::co_write(a, text));
    for (std::uint64_t turns = d.below(12); turns != 0; --turns) (void)s.multiplexer().try_run();
    if (d.below(2) == 0) s.advance(20us);
    stop.request_stop();
    io_result<mutable_buffers> const r = reading.get();
    taken = r.bytes_transferred();
    EXPECT_TRUE(r.has_value() || r.error() == condition::canceled || r.error() == condition::timed_out);
    EXPECT_EQ(r.has_value(), taken == room.size());
    EXPECT_TRUE(writing.get().has_value());
  }
  EXPECT_EQ(room.substr(0, taken), text.substr(0, taken));
  (void)a.close();
  std::string rest(text.size() + 1, '\0');
  started_task reading(s, unio::co_read(b, rest));
  EXPECT_EQ(taken + reading.get().bytes_transferred(), text.size()) << "none lost, none twice";
  EXPECT_EQ(rest.substr(0, text.size() - taken), text.substr(taken));
}

SEEDED_TEST(simulated_streams, copy_moves_every_byte_in_order, 1000, tight) {
  dice d(s.seed());
  std::string const text = bytes_of(1 + d.below(3000));
  auto first = s.stream_pair();
  auto second = s.stream_pair();
  std::string room(text.size(), '\0');
  std::size_t const limit = d.below(text.size() + 10);
  std::size_t const expected = std::min(limit, text.size());
  started_task writing(s, unio::co_write(first.first, text));
  started_task reading(s, unio::co_read(second.second, mutable_buffer(room.data(), expected)));
  if (limit <= text.size()) {
    started_task copying(s, unio::co_copy(first.second, second.first, limit));
    EXPECT_EQ(copying.get().value(), expected);
    std::string rest(text.size() - limit, '\0');
    started_task reading_on(s, unio::co_read(first.second, rest));
    EXPECT_EQ(reading_on.get().bytes_transferred(), rest.size());
    EXPECT_EQ(rest, text.substr(limit)) << "copied beyond the limit";
    EXPECT_TRUE(writing.get().has_value());
  } else {
    started_task copying(s, unio::co_copy(first.second, second.first, limit));
    EXPECT_TRUE(writing.get().has_value());
    (void)first.first.close();
    EXPECT_EQ(copying.get().value(), expected);
  }
  EXPECT_TRUE(reading.get().has_value());
  EXPECT_EQ(room.substr(0, limit), text.substr(0, limit));
}

// Either side may be what it waits for when it is stopped: the connection behind it holds less than there is.
SEEDED_TEST(simulated_streams, copy_from_a_reader_that_is_stopped_loses_nothing, 1500, tight) {
  dice d(s.seed());
  std::string const text = bytes_of(200 + d.below(2000));
  auto first = s.stream_pair();
  auto second = s.stream_pair();
  unio::buffered_reader reader(first.second, 1 + d.below(300));
  std::string arrived;
  started_task writing(s, unio::co_write(first.first, text));
  std::size_t told = 0;
  for (int attempt = 0; attempt != 4; ++attempt) {
    unio::stop_source stop;
    started_task copying(
        s,
        unio::co_copy(reader, second.first,
                      d.below(3) == 0 ? deadline(std::chrono::microseconds(1 + d.below(40))) : deadline()),
        stop.get_token());
    for (std::uint64_t turns = d.below(10); turns != 0; --turns) (void)s.multiplexer().try_run();
    stop.request_stop();
    io_result<std::size_t> const r = copying.get();
    EXPECT_FALSE(r.has_value()) << "it has no end";
    told += r.bytes_transferred();
  }
  started_task copying(s, unio::co_copy(reader, second.first));
  std::string room(text.size(), '\0');
  started_task reading(s, unio::co_read(second.second, room));
  EXPECT_TRUE(writing.get().has_value());
  (void)first.first.close();
  told += copying.get().value();
  EXPECT_TRUE(reading.get().has_value());
  EXPECT_EQ(room, text);
  EXPECT_EQ(told, text.size());
}

task<bool> write_lines(unio::buffered_writer& to, std::vector<std::string> const& lines) {
  for (std::string const& line : lines) {
    auto const text = co_await unio::co_write(to, line);
    std::string_view const end = "\n";
    auto const ended = co_await unio::co_write(to, end);
    if (!text.has_value() || !ended.has_value()) co_return false;
  }
  auto const flushed = co_await to.co_flush();
  co_return flushed.has_value();
}

// Reads them; when it is stopped or out of time, begins again.
task<std::error_code> read_lines(unio::line_reader& from, std::vector<std::string>& lines, deadline each) {
  for (;;) {
    auto const line = co_await from.co_next(each);
    if (line.has_value()) {
      lines.emplace_back(*line);
    } else if (line.error() != condition::timed_out) {
      co_return line.error();
    }
  }
}

SEEDED_TEST(simulated_streams, lines_arrive_as_they_were_written_whatever_stops_the_reader, 1500) {
  dice d(s.seed());
  std::vector<std::string> lines(d.below(40));
  for (std::string& line : lines) line.assign(d.below(60), static_cast<char>('a' + d.below(26)));
  auto [a, b] = s.stream_pair();
  unio::buffered_writer writer(a, d.below(100));
  auto reader = unio::lines(b, 61 + d.below(40));
  std::vector<std::string> arrived;
  {
    started_task writing(s, write_lines(writer, lines));
    for (int attempt = 0; attempt != 3; ++attempt) {
      unio::stop_source stop;
      started_task reading(s, read_lines(reader, arrived, std::chrono::microseconds(1 + d.below(30))),
                           stop.get_token());
      for (std::uint64_t turns = d.below(10); turns != 0; --turns) (void)s.multiplexer().try_run();
      stop.request_stop();
      EXPECT_EQ(reading.get(), condition::canceled);
    }
    EXPECT_TRUE(writing.get());
  }
  (void)a.close();
  started_task reading(s, read_lines(reader, arrived, {}));
  EXPECT_EQ(reading.get(), condition::end_of_stream);
  EXPECT_EQ(arrived, lines);
}

// A writer that is stopped while it flushes continues where it was.
SEEDED_TEST(simulated_streams, flushing_writes_every_byte_once_whatever_stops_it, 1000, tight) {
  dice d(s.seed());
  std::string const text = bytes_of(1 + d.below(2000));
  auto [reader, writer] = s.pipe();
  unio::buffered_writer buffered(writer, text.size() + 1);
  started_task filling(s, unio::co_write(buffered, text));
  EXPECT_TRUE(filling.get().has_value());
  std::size_t told = 0;
  for (int attempt = 0; attempt != 3; ++attempt) {
    unio::stop_source stop;
    started_task flushing(s, buffered.co_flush(), stop.get_token());
    for (std::uint64_t turns = d.below(5); turns != 0; --turns) (void)s.multiplexer().try_run();
    stop.request_stop();
    told += flushing.get().bytes_transferred();
  }
  EXPECT_EQ(told + buffered.unwritten().size(), text.size());
  started_task flushing(s, buffered.co_flush());
  std::string room(text.size(), '\0');
  started_task reading(s, unio::co_read(reader, room));
  EXPECT_TRUE(flushing.get().has_value());
  EXPECT_TRUE(reading.get().has_value());
  EXPECT_EQ(room, text);
}

// Destroyed in the middle: the operation is ended, and nothing is left behind (for_seeds looks).
SEEDED_TEST(simulated_streams, transfers_that_are_destroyed_leave_nothing_behind, 1000) {
  dice d(s.seed());
  auto first = s.stream_pair();
  auto second = s.stream_pair();
  std::string const text = bytes_of(d.below(600));
  started_task writing(s, unio::co_write(first.first, text));
  auto const executor = s.multiplexer().executor();
  unio::environment const e{.executor = executor, .multiplexer = &s.multiplexer()};
  std::string room(700, '\0');
  auto reader = unio::lines(first.second);
  std::string into;
  auto const line = [](unio::line_reader& from) -> task<io_result<std::string_view>> {
    co_return co_await from.co_next();
  };
  auto const start = [&](auto t) {
    t.child().promise().set_environment(e);
    t.child().promise().set_continuation(std::noop_coroutine());
    t.child().resume();
    for (std::uint64_t turns = d.below(8); turns != 0; --turns) (void)s.multiplexer().try_run();
    if (!t.child().done()) t = {};
  };
  switch (d.below(4)) {
    case 0:
      start(unio::co_read(first.second, room));
      break;
    case 1:
      start(unio::co_copy(first.second, second.first));
      break;
    case 2:
      start(line(reader));
      break;
    default:
      start(unio::co_read_until(first.second, into, "\n\n"));
      EXPECT_EQ(into, text.substr(0, into.size())) << "no room that was not filled is left";
  }
  EXPECT_TRUE(writing.get().has_value());
}

} // namespace
