// unio::asio: stream_file and random_access_file, on the driver under test: offsets and the end of a file,
// order, cancelling and closing with something under way, threads that come and go, what is no file, fork.

#include "asio/asio.hpp"

#include <gtest/gtest.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#if defined(LIB_URING_H)
#error "a program of Asio sees liburing.h"
#endif

namespace {

using namespace test;
using asio::random_access_file;
using asio::stream_file;

auto const both_ways = stream_file::read_write | stream_file::create;

class asio_files : public ::testing::Test {
 protected:
  asio_files() {
    char name[] = "/tmp/unio-asio-file-XXXXXX";
    int const fd = ::mkostemp(name, O_CLOEXEC);
    EXPECT_GE(fd, 0);
    ::close(fd);
    path = name;
  }
  ~asio_files() override { ::unlink(path.c_str()); }
  void fill(std::string const& with) const {
    asio::io_context c;
    stream_file f(c, path, stream_file::write_only | stream_file::truncate);
    EXPECT_EQ(asio::write(f, asio::buffer(with)), with.size());
  }
  [[nodiscard]] std::string content() const {
    asio::io_context c;
    stream_file f(c, path, stream_file::read_only);
    std::string all(f.size(), '\0');
    failure e;
    all.resize(asio::read(f, asio::buffer(all), e));
    return all;
  }
  static std::string pattern(std::size_t n) {
    std::string s(n, '\0');
    for (std::size_t i = 0; i < n; ++i) s[i] = static_cast<char>('a' + i * i % 23);
    return s;
  }
  std::string path;
};

TEST_F(asio_files, a_stream_is_written_read_and_ends) {
  std::string const text = pattern(300'000);
  asio::io_context c;
  stream_file f(c, path, both_ways);
  bool written = false;
  asio::async_write(f, asio::buffer(text), [&](failure e, std::size_t n) {
    EXPECT_FALSE(e);
    EXPECT_EQ(n, text.size());
    written = true;
  });
  c.run();
  ASSERT_TRUE(written);
  EXPECT_EQ(f.size(), text.size());
  EXPECT_EQ(f.seek(0, stream_file::seek_set), 0u);
  std::string back(text.size() + 10, '\0');
  bool read = false;
  asio::async_read(f, asio::buffer(back), [&](failure e, std::size_t n) {
    EXPECT_EQ(e, asio::error::eof);
    EXPECT_EQ(n, text.size());
    read = true;
  });
  c.restart();
  c.run();
  ASSERT_TRUE(read);
  back.resize(text.size());
  EXPECT_EQ(back, text);
}

TEST_F(asio_files, what_is_started_one_after_the_other_on_a_stream_comes_in_that_order) {
  asio::io_context c;
  stream_file f(c, path, both_ways);
  std::string order;
  std::vector<std::string> parts;
  for (char l = 'a'; l <= 'z'; ++l) parts.emplace_back(1000, l);
  for (std::string const& part : parts)
    f.async_write_some(asio::buffer(part), [&](failure e, std::size_t n) {
      EXPECT_FALSE(e);
      EXPECT_EQ(n, part.size());
      order += part[0];
    });
  c.run();
  EXPECT_EQ(order, "abcdefghijklmnopqrstuvwxyz");
  EXPECT_EQ(content(), std::accumulate(parts.begin(), parts.end(), std::string()));
  f.seek(0, stream_file::seek_set);
  std::array<std::array<char, 1000>, 27> into{};
  int ended = 0;
  for (std::size_t i = 0; i < into.size(); ++i)
    f.async_read_some(asio::buffer(into[i]), [&, i](failure e, std::size_t n) {
      if (e == asio::error::eof) {
        EXPECT_EQ(i, 26u);
        EXPECT_EQ(n, 0u);
        ++ended;
      } else {
        EXPECT_EQ(std::string(into[i].data(), n), parts[i]);
      }
    });
  c.restart();
  c.run();
  EXPECT_EQ(ended, 1);
}

TEST_F(asio_files, a_random_access_file_reads_and_writes_where_it_is_told) {
  asio::io_context c;
  random_access_file f(c, path, both_ways);
  std::string const text = pattern(64 * 512);
  int done = 0;
  for (std::size_t i = 64; i-- > 0;)
    asio::async_write_at(f, i * 512, asio::buffer(&text[i * 512], 512), [&](failure e, std::size_t n) {
      EXPECT_FALSE(e);
      done += n == 512;
    });
  c.run();
  EXPECT_EQ(done, 64);
  EXPECT_EQ(content(), text);
  std::string back(text.size(), '\0');
  for (std::size_t i = 0; i < 64; ++i)
    asio::async_read_at(f, i * 512, asio::buffer(&back[i * 512], 512), [&](failure e, std::size_t n) {
      EXPECT_FALSE(e);
      done += n == 512;
    });
  char beyond;
  f.async_read_some_at(text.size(), asio::buffer(&beyond, 1), [&](failure e, std::size_t n) {
    EXPECT_EQ(e, asio::error::eof);
    EXPECT_EQ(n, 0u);
    ++done;
  });
  c.restart();
  c.run();
  EXPECT_EQ(done, 129);
  EXPECT_EQ(back, text);
}

TEST_F(asio_files, writes_of_a_file_are_made_in_their_order) {
  asio::io_context c;
  random_access_file f(c, path, both_ways);
  std::vector<std::string> versions;
  for (int i = 0; i < 200; ++i) versions.push_back(std::to_string(1000 + i));
  for (std::string const& v : versions)
    f.async_write_some_at(0, asio::buffer(v), [](failure, std::size_t) {});
  c.run();
  EXPECT_EQ(content(), "1199");
}

TEST_F(asio_files, several_buffers_are_one_operation) {
  asio::io_context c;
  random_access_file f(c, path, both_ways);
  std::string a = "one ", b, d = "two";
  std::array<asio::const_buffer, 3> const out{asio::buffer(a), asio::buffer(b), asio::buffer(d)};
  f.async_write_some_at(3, out, [](failure e, std::size_t n) {
    EXPECT_FALSE(e);
    EXPECT_EQ(n, 7u);
  });
  c.run();
  EXPECT_EQ(content(), std::string(3, '\0') + "one two");
  std::array<char, 2> x{};
  std::array<char, 50> y{};
  std::array<asio::mutable_buffer, 2> const in{asio::buffer(x), asio::buffer(y)};
  f.async_read_some_at(3, in, [](failure e, std::size_t n) {
    EXPECT_FALSE(e);
    EXPECT_EQ(n, 7u);
  });
  c.restart();
  c.run();
  EXPECT_EQ(std::string(x.data(), 2) + std::string(y.data(), 5), "one two");
}

TEST_F(asio_files, nothing_to_move_is_no_end_and_what_is_refused_says_so) {
  asio::io_context c;
  stream_file f(c, path, stream_file::write_only);
  char byte = 0;
  int done = 0;
  f.async_read_some(asio::mutable_buffer(&byte, 0), [&](failure e, std::size_t n) {
    EXPECT_FALSE(e);
    EXPECT_EQ(n, 0u);
    ++done;
  });
  f.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) {
    EXPECT_EQ(e, asio::error::bad_descriptor);
    ++done;
  });
  stream_file closed(c);
  closed.async_read_some(asio::buffer(&byte, 1), [&](failure e, std::size_t) {
    EXPECT_EQ(e, asio::error::bad_descriptor);
    ++done;
  });
  EXPECT_EQ(done, 0); // never inside the function that starts it
  c.run();
  EXPECT_EQ(done, 3);
  failure e;
  stream_file none(c);
  EXPECT_TRUE(none.open(path + ".none", stream_file::read_only, e));
  EXPECT_EQ(e.value(), ENOENT);
  EXPECT_FALSE(none.is_open());
  EXPECT_TRUE(f.open(path, stream_file::read_only, e));
  EXPECT_EQ(e, asio::error::already_open);
}

TEST_F(asio_files, no_offset_is_the_position_of_the_file) {
  fill("abc");
  asio::io_context c;
  random_access_file f(c, path, random_access_file::read_write);
  char byte = 'x';
  failure read;
  failure written;
  f.async_read_some_at(~0ULL, asio::buffer(&byte, 1), [&](failure e, std::size_t) { read = e; });
  f.async_write_some_at(~0ULL, asio::buffer("y", 1), [&](failure e, std::size_t) { written = e; });
  c.run();
  EXPECT_EQ(read, asio::error::invalid_argument);
  EXPECT_EQ(written, asio::error::invalid_argument);
  EXPECT_EQ(byte, 'x');
  EXPECT_EQ(content(), "abc");
}

TEST_F(asio_files, sizes_positions_and_blocking_calls_are_those_of_the_file) {
  asio::io_context c;
  stream_file f(c, path, both_ways);
  EXPECT_EQ(f.write_some(asio::buffer("12345", 5)), 5u);
  f.sync_data();
  f.sync_all();
  f.resize(8);
  EXPECT_EQ(f.size(), 8u);
  EXPECT_EQ(f.seek(-6, stream_file::seek_end), 2u);
  EXPECT_EQ(f.seek(1, stream_file::seek_cur), 3u);
  std::array<char, 16> into{};
  EXPECT_EQ(f.read_some(asio::buffer(into)), 5u);
  EXPECT_EQ(into[1], '5');
  failure e;
  EXPECT_EQ(f.read_some(asio::buffer(into), e), 0u);
  EXPECT_EQ(e, asio::error::eof);
  f.close();
  EXPECT_EQ(f.seek(0, stream_file::seek_set, e), 0u);
  EXPECT_EQ(e, asio::error::bad_descriptor);
  stream_file more(c, path, stream_file::write_only | stream_file::append);
  more.async_write_some(asio::buffer("x", 1), [](failure, std::size_t) {});
  c.run();
  EXPECT_EQ(content(), std::string("12345\0\0\0x", 9));
}

TEST_F(asio_files, cancel_ends_all_and_each_says_what_became_of_it) {
  asio::io_context c;
  random_access_file f(c, path, both_ways);
  std::string const part(1 << 16, 'x');
  std::size_t written = 0;
  int canceled = 0, done = 0;
  for (std::size_t i = 0; i < 100; ++i)
    f.async_write_some_at(i * part.size(), asio::buffer(part), [&](failure e, std::size_t n) {
      if (e) {
        EXPECT_EQ(e, aborted);
        EXPECT_EQ(n, 0u);
        ++canceled;
      }
      written += n;
      ++done;
    });
  f.cancel();
  c.run();
  EXPECT_EQ(done, 100);
  EXPECT_GE(canceled, 99);
  EXPECT_EQ(f.size(), written);
  f.async_write_some_at(0, asio::buffer("y", 1), [&](failure e, std::size_t) { EXPECT_FALSE(e); });
  c.restart();
  c.run();
  EXPECT_EQ(content()[0], 'y');
}

TEST_F(asio_files, a_slot_cancels_its_operation_alone) {
  asio::io_context c;
  stream_file f(c, path, both_ways);
  std::string const part(1 << 16, 'x');
  asio::cancellation_signal stop;
  std::string order;
  f.async_write_some(asio::buffer(part), [&](failure e, std::size_t) { order += e ? 'E' : 'a'; });
  f.async_write_some(
      asio::buffer(part),
      asio::bind_cancellation_slot(stop.slot(), [&](failure e, std::size_t) { EXPECT_EQ(e, aborted); }));
  f.async_write_some(asio::buffer(part), [&](failure e, std::size_t) { order += e ? 'E' : 'b'; });
  stop.emit(asio::cancellation_type::total);
  c.run();
  EXPECT_EQ(order, "ab");
  EXPECT_EQ(f.size(), 2 * part.size());
}

// A number that comes again must not be written to by what was started on the file before.
TEST_F(asio_files, close_ends_what_is_under_way_and_leaves_the_next_file_alone) {
  std::string const other = path + ".other";
  for (int i = 0; i < 50; ++i) {
    asio::io_context c;
    std::string const part(4096, 'x');
    random_access_file f(c, path, both_ways);
    int done = 0;
    for (std::size_t k = 0; k < 20; ++k)
      f.async_write_some_at(k * part.size(), asio::buffer(part), [&](failure e, std::size_t n) {
        EXPECT_TRUE(e ? e == aborted && n == 0 : n == part.size());
        ++done;
      });
    if (i % 2 != 0) c.poll_one();
    f.close();
    EXPECT_FALSE(f.is_open());
    random_access_file next(c, other, both_ways | random_access_file::truncate);
    c.run();
    EXPECT_EQ(done, 20);
    EXPECT_EQ(next.size(), 0u);
  }
  ::unlink(other.c_str());
}

TEST_F(asio_files, close_by_another_thread_waits_for_no_handler) {
  fill(pattern(1 << 16));
  asio::io_context c;
  auto const work = asio::make_work_guard(c);
  std::thread runner([&] { c.run(); });
  for (int i = 0; i < 100; ++i) {
    auto const into = std::make_shared<std::array<char, 4096>>();
    std::atomic<int> done{0};
    random_access_file f(c, path, random_access_file::read_only);
    for (std::size_t k = 0; k < 16; ++k)
      f.async_read_some_at(k * 4096, asio::buffer(*into), [&, into](failure e, std::size_t n) {
        EXPECT_TRUE(e ? e == aborted : n == 4096);
        ++done;
      });
    f.close();
    auto const until = clock::now() + 10s;
    while (done != 16 && clock::now() < until) std::this_thread::yield();
    ASSERT_EQ(done, 16);
  }
  c.stop();
  runner.join();
}

TEST_F(asio_files, release_leaves_the_descriptor_alone_and_assign_takes_it) {
  std::string const text = pattern(100'000);
  fill(text);
  asio::io_context c;
  std::array<char, 1000> into{};
  random_access_file f(c, path, random_access_file::read_only);
  int done = 0;
  for (int i = 0; i < 10; ++i)
    f.async_read_some_at(0, asio::buffer(into), [&](failure, std::size_t) { ++done; });
#if defined(BOOST_ASIO_VERSION) || ASIO_VERSION >= 102200
  int const fd = f.release();
#endif
  EXPECT_FALSE(f.is_open());
  c.run();
  EXPECT_EQ(done, 10);
  stream_file s(c, fd);
  EXPECT_EQ(s.native_handle(), fd);
  std::string back(text.size(), '\0');
  asio::async_read(s, asio::buffer(back), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  c.restart();
  c.run();
  EXPECT_EQ(back, text);
  failure e;
  stream_file bad(c);
  EXPECT_TRUE(bad.assign(1 << 20, e));
  EXPECT_FALSE(bad.is_open());
}

TEST_F(asio_files, a_file_may_move_while_it_is_read) {
  fill(pattern(5000));
  asio::io_context c;
  stream_file f(c, path, stream_file::read_only);
  std::array<char, 5000> into{};
  std::size_t got = 0;
  f.async_read_some(asio::buffer(into), [&](failure, std::size_t n) { got = n; });
  stream_file g(std::move(f));
  EXPECT_FALSE(f.is_open());
  c.run();
  EXPECT_EQ(got, 5000u);
  asio::io_context d;
  stream_file elsewhere(d);
  elsewhere = stream_file(d, path, stream_file::read_only);
  got = 0;
  elsewhere.async_read_some(asio::buffer(into), [&](failure, std::size_t n) { got = n; });
  d.run();
  EXPECT_EQ(got, 5000u);
}

TEST_F(asio_files, handlers_end_with_their_context) {
  fill(pattern(1 << 20));
  auto const alive = std::make_shared<int>(1);
  for (int i = 0; i < 20; ++i) {
    auto const into = std::make_unique<std::array<char, 1 << 20>>();
    std::optional<asio::io_context> c(std::in_place);
    // One is a handler's, and ends when that is destroyed.
    auto owned = std::make_unique<stream_file>(*c, path, both_ways);
    auto* const s = owned.get();
    std::optional<random_access_file> f(std::in_place, *c, path, both_ways);
    for (std::size_t k = 0; k < 8; ++k) {
      f->async_read_some_at(0, asio::buffer(*into), [alive](failure, std::size_t) {});
      f->async_write_some_at(k, asio::buffer("x", 1), [alive](failure, std::size_t) {});
    }
    s->async_read_some(asio::buffer(*into), [alive, o = std::move(owned)](failure, std::size_t) {});
    if (i % 3 == 0) c->poll_one();
    if (i % 2 == 0) f->close();
    f.reset(); // with something under way
    c.reset();
    EXPECT_EQ(alive.use_count(), 1);
  }
}

TEST_F(asio_files, four_threads_run_it) {
  std::string const text = pattern(64 * 1024);
  fill(text);
  asio::io_context c;
  struct reader {
    reader(asio::io_context& in, std::string const& name, std::string const& is)
        : file(in, name, random_access_file::read_only), expected(is) {}
    void read() {
      if (left-- == 0) return;
      at = at * 31 % 60'000 + 7;
      file.async_read_some_at(at, asio::buffer(into), [this](failure e, std::size_t n) {
        if (e || expected.compare(at, n, into.data(), n) != 0) ++wrong;
        read();
      });
    }
    random_access_file file;
    std::string const& expected;
    std::array<char, 777> into{};
    std::uint64_t at = 1;
    int left = 300, wrong = 0;
  };
  std::vector<std::unique_ptr<reader>> readers;
  for (int i = 0; i < 16; ++i) {
    readers.push_back(std::make_unique<reader>(c, path, text));
    readers.back()->at = static_cast<std::uint64_t>(i) + 1;
    readers.back()->read();
  }
  c.poll_one(); // some are under way with one thread
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) threads.emplace_back([&] { c.run(); });
  for (std::thread& t : threads) t.join();
  for (auto const& r : readers) {
    EXPECT_EQ(r->wrong, 0);
    EXPECT_EQ(r->left, -1);
  }
}

TEST_F(asio_files, what_a_thread_started_is_there_for_the_next) {
  fill(pattern(1 << 20));
  for (int i = 0; i < 20; ++i) {
    asio::io_context c;
    random_access_file f(c, path, random_access_file::read_only);
    std::vector<std::array<char, 4096>> into(32);
    int done = 0;
    std::thread([&] {
      for (std::size_t k = 0; k < into.size(); ++k)
        f.async_read_some_at(k * 4096, asio::buffer(into[k]), [&](failure e, std::size_t n) {
          EXPECT_FALSE(e);
          done += n == 4096;
        });
      if (i % 2 != 0) c.poll_one();
    }).join();
    c.run();
    EXPECT_EQ(done, 32);
  }
}

TEST_F(asio_files, files_sockets_and_timers_share_a_wait) {
  fill(pattern(1 << 18));
  asio::io_context c;
  connection k(c);
  stream_file f(c, path, stream_file::read_only);
  std::array<char, 1 << 14> part{}, there{};
  std::size_t sent = 0, received = 0;
  std::function<void()> const send = [&] {
    f.async_read_some(asio::buffer(part), [&](failure e, std::size_t n) {
      if (e) return k.here.close();
      asio::async_write(k.here, asio::buffer(part, n), [&](failure w, std::size_t m) {
        sent += m;
        if (!w) send();
      });
    });
  };
  std::function<void()> const receive = [&] {
    k.there.async_read_some(asio::buffer(there), [&](failure e, std::size_t n) {
      received += n;
      if (!e) receive();
    });
  };
  bool fired = false;
  asio::steady_timer t(c, 1ms);
  t.async_wait([&](failure) { fired = true; });
  send();
  receive();
  c.run();
  EXPECT_EQ(sent, std::size_t{1} << 18);
  EXPECT_EQ(received, sent);
  EXPECT_TRUE(fired);
}

TEST_F(asio_files, what_is_no_file_is_waited_for) {
  int fds[2];
  ASSERT_EQ(::pipe2(fds, O_CLOEXEC), 0);
  asio::io_context c;
  stream_file in(c, fds[0]);
  stream_file out(c, fds[1]);
  std::array<char, 8> into{};
  std::string got;
  in.async_read_some(asio::buffer(into), [&](failure e, std::size_t n) {
    EXPECT_FALSE(e);
    got.assign(into.data(), n);
  });
  EXPECT_EQ(c.poll(), 0u);
  out.async_write_some(asio::buffer("pipe", 4), [](failure e, std::size_t) { EXPECT_FALSE(e); });
  c.run_for(10s);
  EXPECT_EQ(got, "pipe");
  asio::cancellation_signal stop;
  int canceled = 0;
  in.async_read_some(
      asio::buffer(into),
      asio::bind_cancellation_slot(stop.slot(), [&](failure e, std::size_t) { canceled += e == aborted; }));
  c.restart();
  c.poll();
  stop.emit(asio::cancellation_type::total);
  c.run_for(10s);
  EXPECT_EQ(canceled, 1);
  in.async_read_some(asio::buffer(into), [&](failure e, std::size_t) { canceled += e == aborted; });
  in.close();
  c.restart();
  c.run_for(10s);
  EXPECT_EQ(canceled, 2);
}

TEST_F(asio_files, buffers_may_be_registered) {
  std::string const text = pattern(2000);
  fill(text);
  asio::io_context c;
  std::vector<char> memory(2000);
  auto registered = asio::register_buffers(c, asio::buffer(memory));
  random_access_file f(c, path, random_access_file::read_only);
  std::size_t got = 0;
  f.async_read_some_at(0, registered[0], [&](failure, std::size_t n) { got = n; });
  c.run();
  EXPECT_EQ(std::string(memory.data(), got), text);
}

TEST_F(asio_files, goes_on_in_both_processes_after_a_fork) {
  std::string const text = pattern(64 * 4096);
  fill(text);
  asio::io_context c;
  random_access_file f(c, path, random_access_file::read_only);
  std::string back(text.size(), '\0');
  int done = 0;
  for (std::size_t i = 0; i < 64; ++i)
    f.async_read_some_at(i * 4096, asio::buffer(&back[i * 4096], 4096),
                         [&](failure e, std::size_t n) { done += !e && n == 4096; });
  c.poll_one();
  c.notify_fork(asio::io_context::fork_prepare);
  pid_t const child = ::fork();
  if (child == 0) {
    c.notify_fork(asio::io_context::fork_child);
    c.run();
    ::_exit(done == 64 && back == text ? 0 : 1);
  }
  c.notify_fork(asio::io_context::fork_parent);
  c.run();
  EXPECT_EQ(done, 64);
  EXPECT_EQ(back, text);
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}

} // namespace
