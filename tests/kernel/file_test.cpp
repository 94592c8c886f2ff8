// Files and what else readiness means nothing for: cases 39, 61, 62, 63, 65.

#include "support/calls.hpp"
#include "support/direct_io.hpp"
#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/timerfd.h>

namespace {

using namespace test;

class kernel_file : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_file);

std::string read_all(unio::io_handle& h, bool seeks) {
  std::string all;
  std::array<char, 1000> memory{};
  for (;;) {
    auto const r = h.read({unio::mutable_buffer(memory), seeks ? all.size() : unio::no_offset}, 20s);
    EXPECT_TRUE(r.has_value()) << r.error().message();
    if (!r.has_value() || r.bytes_transferred() == 0) return all;
    all.append(memory.data(), r.bytes_transferred());
  }
}

// Case 39: RWF_NOWAIT, epoll and the ring's own waiting mean something else for each kind of file.
DRIVER_TEST(kernel_file, that_the_kernel_makes_up_is_read_like_any_other) {
  for (bool const with_own : {true, false}) {
    for (char const* const name :
         {"/proc/self/stat", "/proc/self/maps", "/proc/version", "/sys/kernel/mm/hugepages"}) {
      auto opened = unio::file_handle::file({}, name);
      if (!opened.has_value()) continue;
      if (with_own) opened->set_multiplexer(&m);
      if (std::string_view(name) == "/sys/kernel/mm/hugepages") {
        std::array<char, 8> memory{};
        EXPECT_EQ(opened->read({unio::mutable_buffer(memory), 0}).error().value(), EISDIR);
      } else {
        EXPECT_GT(read_all(*opened, true).size(), 20u) << name;
      }
    }
  }
}

DRIVER_TEST(kernel_file, that_is_a_device_is_adopted_and_used) {
  for (bool const with_own : {true, false}) {
    auto open = [&](char const* name) {
      auto h = unio::io_handle::adopt(::open(name, O_RDWR | O_CLOEXEC)).value();
      if (with_own) h.set_multiplexer(&m);
      return h;
    };
    std::array<char, 64> memory{};
    auto null = open("/dev/null");
    auto zero = open("/dev/zero");
    EXPECT_EQ(null.read(unio::mutable_buffer(memory), 20s).bytes_transferred(), 0u);
    EXPECT_EQ(null.write(unio::const_buffer(memory), 20s).bytes_transferred(), 64u);
    EXPECT_EQ(zero.read(unio::mutable_buffer(memory), 20s).bytes_transferred(), 64u);
    EXPECT_EQ(zero.write(unio::const_buffer(memory), 20s).bytes_transferred(), 64u);
    auto full = open("/dev/full");
    EXPECT_EQ(full.write(unio::const_buffer(memory), 20s).error().value(), ENOSPC);
    // Waiting for readiness of what is always ready, or cannot say (EPERM of epoll).
    EXPECT_TRUE(null.poll(unio::readiness::readable, 20s).has_value());
    EXPECT_TRUE(null.poll(unio::readiness::writable, 20s).has_value());
  }
}

DRIVER_TEST(kernel_file, of_the_disk_is_always_ready) {
  temporary_directory const directory;
  directory.write("file", "text");
  for (bool const with_own : {true, false}) {
    auto f = unio::file_handle::file(directory.handle(), "file", mode::write).value();
    if (with_own) f.set_multiplexer(&m);
    EXPECT_TRUE(f.poll(unio::readiness::readable, 20s).has_value());
    EXPECT_TRUE(f.poll(unio::readiness::writable, 20s).has_value());
  }
}

// Descriptors that carry a counter take and give eight bytes, and know nothing of positions or flags.
DRIVER_TEST(kernel_file, that_is_a_counter_is_adopted_read_and_written) {
  for (bool const with_own : {true, false}) {
    SCOPED_TRACE(with_own);
    auto counter = unio::io_handle::adopt(::eventfd(0, EFD_CLOEXEC)).value();
    if (with_own) counter.set_multiplexer(&m);
    std::uint64_t value = 5;
    auto const written = counter.write(unio::const_buffer(&value, sizeof value), 20s);
    EXPECT_TRUE(written.has_value()) << written.error().message();
    EXPECT_EQ(written.bytes_transferred(), 8u);
    value = 0;
    EXPECT_EQ(counter.read(unio::mutable_buffer(&value, sizeof value), 20s).bytes_transferred(), 8u);
    EXPECT_EQ(value, 5u);
    EXPECT_EQ(counter.read(unio::mutable_buffer(&value, sizeof value), 5ms).error(),
              unio::condition::timed_out);

    auto timer = unio::io_handle::adopt(::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC)).value();
    if (with_own) timer.set_multiplexer(&m);
    itimerspec const soon{.it_interval = {}, .it_value = {0, 2'000'000}};
    ASSERT_EQ(::timerfd_settime(timer.native_handle(), 0, &soon, nullptr), 0);
    EXPECT_EQ(timer.read(unio::mutable_buffer(&value, sizeof value), 20s).bytes_transferred(), 8u);
    EXPECT_EQ(value, 1u);
  }
}

// Where a test may put files: the disk's filesystem and memory's.
std::vector<std::string> filesystems() {
  std::vector<std::string> all = {std::filesystem::temp_directory_path().string()};
  if (::access("/dev/shm", W_OK) == 0) all.emplace_back("/dev/shm");
  return all;
}

struct file_there {
  explicit file_there(std::string const& directory, caching k = caching::all) {
    auto const anchor = unio::path_handle::path(directory).value();
    file = unio::file_handle::uniquely_named_file(anchor, "unio-test-").value();
    path = file.current_path().value();
    if (k != caching::all) {
      auto again = unio::file_handle::file({}, path, mode::write, creation::open_existing, k);
      why = again.error();
      if (again.has_value()) file = std::move(*again);
    }
  }
  ~file_there() { ::unlink(path.c_str()); }
  file_there(file_there const&) = delete;
  file_there& operator=(file_there const&) = delete;
  unio::file_handle file;
  std::string path;
  std::error_code why; // it cannot be had with that caching
};

// Case 61: what cannot be done directly is an error, never done through the cache in silence.
void want_alignment(unio::io_multiplexer& m, std::string const& where) {
  file_there f(where, caching::only_metadata);
  if (std::string const why = no_direct_io(where); !why.empty()) {
    EXPECT_TRUE(f.why.value() == EINVAL || f.why.value() == EOPNOTSUPP) << f.why.message();
    GTEST_SKIP() << why;
  }
  ASSERT_FALSE(f.why) << f.why.message();
  struct free_memory {
    void operator()(char* p) const { std::free(p); }
  };
  std::unique_ptr<char, free_memory> const memory(static_cast<char*>(std::aligned_alloc(4096, 8192)));
  std::fill_n(memory.get(), 8192, 'x');
  for (bool const with_own : {true, false}) {
    f.file.set_multiplexer(with_own ? &m : nullptr);
    auto const whole = f.file.write({unio::const_buffer(memory.get(), 4096), 0});
    EXPECT_TRUE(whole.has_value()) << whole.error().message();
    EXPECT_EQ(f.file.read({unio::mutable_buffer(memory.get(), 4096), 0}).bytes_transferred(), 4096u);
    // tmpfs, which has no device, takes what is not aligned.
    int const kernels_word = refuses_unaligned(f.file.native_handle()) ? EINVAL : 0;
    EXPECT_EQ(f.file.read({unio::mutable_buffer(memory.get() + 1, 511), 1}).error().value(), kernels_word);
    EXPECT_EQ(f.file.write({unio::const_buffer(memory.get() + 1, 511), 1}).error().value(), kernels_word);
  }
  f.file.set_multiplexer(nullptr);
}
DRIVER_TEST(kernel_file, without_cache_wants_alignment_and_says_so) {
  want_alignment(m, std::filesystem::temp_directory_path().string());
}
DRIVER_TEST(kernel_file, without_cache_in_memory_is_as_the_kernel_says) {
  if (::access("/dev/shm", W_OK) != 0) GTEST_SKIP() << "/dev/shm cannot be written to";
  want_alignment(m, "/dev/shm");
}

// Case 62.
DRIVER_TEST(kernel_file, reads_holes_as_zero_and_ends_at_its_end) {
  for (std::string const& where : filesystems()) {
    file_there f(where);
    for (bool const with_own : {true, false}) {
      f.file.set_multiplexer(with_own ? &m : nullptr);
      ASSERT_TRUE(f.file.truncate(0).has_value());
      ASSERT_TRUE(f.file.write({unio::const_buffer(std::string_view("end")), 100'000}).has_value());
      std::string memory(200'000, '.');
      auto const r = f.file.read({unio::mutable_buffer(memory), 0});
      ASSERT_TRUE(r.has_value());
      EXPECT_EQ(memory.substr(0, 100'000), std::string(100'000, '\0'));
      EXPECT_EQ(r.bytes_transferred(), 100'003u);
      for (unio::extent_type const at : {100'003ull, 100'004ull, 1ull << 40}) {
        auto const past = f.file.read({unio::mutable_buffer(memory), at});
        EXPECT_TRUE(past.has_value()) << past.error().message();
        EXPECT_EQ(past.bytes_transferred(), 0u);
      }
    }
    f.file.set_multiplexer(nullptr);
  }
}

DRIVER_TEST(kernel_file, that_is_truncated_while_it_is_read_gives_no_byte_that_never_was) {
  file_there f(std::filesystem::temp_directory_path().string());
  f.file.set_multiplexer(&m);
  std::string const text(50'000, 'x');
  std::atomic<bool> stop = false;
  std::thread other([&] {
    auto mine = unio::file_handle::file({}, f.path, mode::write).value();
    for (int i = 0; !stop; ++i) {
      EXPECT_TRUE(mine.truncate(static_cast<unio::extent_type>(i * 7919 % 50'000)).has_value());
      EXPECT_TRUE(mine.write({unio::const_buffer(text), 0}).has_value());
    }
  });
  std::string memory(50'000, '\0');
  for (int i = 0; i < 300; ++i) {
    auto const r = f.file.read({unio::mutable_buffer(memory), 0});
    ASSERT_TRUE(r.has_value()) << r.error().message();
    ASSERT_EQ(memory.substr(0, r.bytes_transferred()).find_first_not_of(std::string_view("x\0", 2)),
              std::string::npos);
  }
  stop = true;
  other.join();
  f.file.set_multiplexer(nullptr);
}

// Case 63; cpp-httplib#1930, reth#24411: what others may truncate is copied by the kernel, which raises no
// SIGBUS.
ISOLATED_TEST(kernel_file, that_is_mapped_and_truncated_by_another_is_copied_without_a_signal) {
  for (std::string const& where : filesystems()) {
    file_there f(where);
    std::string const text = pattern(3 * 4096);
    ASSERT_TRUE(f.file.write({unio::const_buffer(text), 0}).has_value());
    auto mapped = unio::mapped_file_handle::mapped_file({}, f.path).value();
    std::string memory(text.size(), '.');
    EXPECT_EQ(mapped.read_copy({unio::mutable_buffer(memory), 0}).bytes_transferred(), text.size());
    ASSERT_TRUE(f.file.truncate(100).has_value());
    auto const r = mapped.read_copy({unio::mutable_buffer(memory), 0});
    ASSERT_TRUE(r.has_value());
    EXPECT_EQ(r.bytes_transferred(), 100u);
    EXPECT_EQ(mapped.read_copy({unio::mutable_buffer(memory), 4096}).bytes_transferred(), 0u);
    EXPECT_EQ(mapped.update_map().value(), 100u);
    EXPECT_EQ(mapped.read({unio::mutable_buffer(memory), 4096}).bytes_transferred(), 0u);
  }
}

// Case 65: lengths that no int can say. The memory is address space alone: writing it out is cut by the
// kernel.
ISOLATED_TEST(kernel_file, takes_lengths_above_two_gibibytes) {
  if (under_sanitizer) GTEST_SKIP() << "a sanitizer looks at all of the memory";
  auto const m = made_multiplexer();
  constexpr std::size_t much = std::size_t{5} << 30;
  void* const memory =
      ::mmap(nullptr, much, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  file_there f(std::filesystem::temp_directory_path().string());
  ASSERT_TRUE(f.file.write({unio::const_buffer(std::string_view("abc")), 0}).has_value());
  for (bool const with_own : {true, false}) {
    f.file.set_multiplexer(with_own ? m.get() : nullptr);
    auto const r = f.file.read({unio::mutable_buffer(memory, much), 0});
    ASSERT_TRUE(r.has_value()) << r.error().message();
    EXPECT_EQ(r.bytes_transferred(), 3u);
    connection c = local_connection(with_own ? m.get() : nullptr);
    auto const sent = c.socket.write(unio::const_buffer(memory, much), 20s);
    ASSERT_TRUE(sent.has_value()) << sent.error().message();
    EXPECT_GT(sent.bytes_transferred(), 0u);
    c.peer.write("abc");
    EXPECT_EQ(c.socket.read(unio::mutable_buffer(memory, much), 20s).bytes_transferred(), 3u);
    // To nowhere goes all that one call can move: an int that would have become negative is seen here.
    auto null = unio::io_handle::adopt(::open("/dev/null", O_WRONLY | O_CLOEXEC)).value();
    if (with_own) null.set_multiplexer(m.get());
    auto const all = null.write(unio::const_buffer(memory, much), 20s);
    ASSERT_TRUE(all.has_value()) << all.error().message();
    EXPECT_EQ(all.bytes_transferred(), 0x7ffff000u);
    EXPECT_EQ(all->bytes(), 0x7ffff000u);
  }
  f.file.set_multiplexer(nullptr);
  ::munmap(memory, much);
  expect_nothing_in_flight(*m);
}

DRIVER_TEST(kernel_file, takes_more_buffers_than_the_kernel_does) {
  file_there f(std::filesystem::temp_directory_path().string());
  for (bool const with_own : {true, false}) {
    SCOPED_TRACE(with_own);
    f.file.set_multiplexer(with_own ? &m : nullptr);
    std::string const bytes = pattern(1025);
    std::vector<unio::const_buffer> pieces;
    for (char const& byte : bytes) pieces.emplace_back(&byte, 1);
    auto const written = f.file.write({unio::const_buffers(pieces), 0});
    ASSERT_TRUE(written.has_value()) << written.error().message();
    EXPECT_EQ(written.bytes_transferred(), unio::io_handle::max_buffers());
    std::string back(1025, '.');
    std::vector<unio::mutable_buffer> into;
    for (char& byte : back) into.emplace_back(&byte, 1);
    auto const read = f.file.read({unio::mutable_buffers(into), 0});
    ASSERT_TRUE(read.has_value()) << read.error().message();
    EXPECT_EQ(read.bytes_transferred(), 1024u);
    EXPECT_EQ(back.substr(0, 1024), bytes.substr(0, 1024));

    connection c = local_connection(with_own ? &m : nullptr);
    auto const sent = c.socket.write(unio::const_buffers(pieces), 20s);
    ASSERT_TRUE(sent.has_value()) << sent.error().message();
    EXPECT_EQ(sent.bytes_transferred(), 1024u);
    EXPECT_EQ(c.peer.read_some(), bytes.substr(0, 1024));
    c.peer.write(bytes);
    auto const received = c.socket.read(unio::mutable_buffers(into), 20s);
    ASSERT_TRUE(received.has_value()) << received.error().message();
    EXPECT_EQ(received.bytes_transferred(), 1024u);
    auto pipe = unio::pipe_handle::anonymous().value();
    if (with_own) pipe.writer.set_multiplexer(&m);
    EXPECT_EQ(pipe.writer.write(unio::const_buffers(pieces), 20s).bytes_transferred(), 1024u);
  }
  f.file.set_multiplexer(nullptr);
}

unio::task<unio::io_result<unio::const_buffers>> awaited_write(unio::io_handle& h, unio::const_buffers list) {
  co_return co_await h.co_write({list, 0}, 20s);
}
unio::task<unio::io_result<unio::mutable_buffers>> awaited_read(unio::io_handle& h,
                                                                unio::mutable_buffers list) {
  co_return co_await h.co_read({list, 0}, 20s);
}

// A transfer of no bytes would read as the end of the stream.
DRIVER_TEST(kernel_file, moves_bytes_though_the_list_begins_with_buffers_without_room) {
  file_there f(std::filesystem::temp_directory_path().string());
  std::string const text = "hello";
  std::array<char, 8> room{};
  std::vector<unio::mutable_buffer> into(1024); // as many as the kernel takes, and one more that has room
  into.emplace_back(room.data(), room.size());
  std::vector<unio::const_buffer> from(1024);
  from.emplace_back(text.data(), text.size());
  std::array<unio::mutable_buffer, 3> const few_into = {unio::mutable_buffer(), unio::mutable_buffer(), room};
  std::array<unio::const_buffer, 3> const few_from = {unio::const_buffer(), unio::const_buffer(), text};

  auto const exchange = [&](unio::io_handle& out, unio::io_handle& in, bool awaited) {
    auto const write = [&](unio::const_buffers b) {
      return awaited ? unio::run(m, awaited_write(out, b)) : out.write({b, 0}, 20s);
    };
    auto const read = [&](unio::mutable_buffers b) {
      return awaited ? unio::run(m, awaited_read(in, b)) : in.read({b, 0}, 20s);
    };
    for (auto const& list : {unio::const_buffers(from), unio::const_buffers(few_from)}) {
      for (auto const& all : {unio::mutable_buffers(into), unio::mutable_buffers(few_into)}) {
        for (std::size_t const n : {std::size_t{3}, std::size_t{5}}) { // 3: cut inside of the last buffer
          room.fill('.');
          auto const written = write(list.first(n));
          ASSERT_TRUE(written.has_value()) << written.error().message();
          ASSERT_EQ(written.bytes_transferred(), n);
          auto const r = read(all.first(n));
          ASSERT_TRUE(r.has_value()) << r.error().message();
          ASSERT_EQ(r.bytes_transferred(), n);
          ASSERT_EQ(r->bytes(), n);
          ASSERT_EQ(std::string_view(room.data(), 6), std::string(text, 0, n) + std::string(6 - n, '.'));
        }
      }
    }
  };
  for (bool const awaited : {false, true}) {
    SCOPED_TRACE(awaited);
    exchange(f.file, f.file, awaited);
    auto pipe = unio::pipe_handle::anonymous().value();
    exchange(pipe.writer, pipe.reader, awaited);
    auto sockets = unio::socket_handle::pair().value();
    exchange(sockets.first, sockets.second, awaited);
  }
  // What has to wait is given to the driver.
  for (auto const& all : {unio::mutable_buffers(into).first(3), unio::mutable_buffers(few_into).first(3)}) {
    connection c = local_connection(&m);
    started read{unio::async_read(c.socket, all)};
    submit_all(m);
    EXPECT_FALSE(read.ended());
    c.peer.write(text);
    ASSERT_TRUE(drive(m, [&] { return read.ended(); }));
    EXPECT_EQ(read.bytes, 3u);
  }
}

// FIFOs and terminals under a name that was opened as a file: ready when there are bytes, without end before
// that.
DRIVER_TEST(kernel_file, that_is_a_named_pipe_or_a_terminal_is_waited_for) {
  temporary_directory const directory;
  ASSERT_EQ(::mkfifo((directory / "fifo").c_str(), 0600), 0);
  raw const terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_TRUE(::grantpt(terminal.fd()) == 0 && ::unlockpt(terminal.fd()) == 0);
  raw const keep(::open((directory / "fifo").c_str(), O_RDWR | O_CLOEXEC));
  struct {
    std::string path;
    int other_end;
  } const cases[] = {{directory / "fifo", keep.fd()}, {::ptsname(terminal.fd()), terminal.fd()}};
  for (auto const& [path, other_end] : cases) {
    SCOPED_TRACE(path);
    auto f = unio::file_handle::file({}, path, mode::read).value();
    for (bool const with_own : {false, true}) {
      f.set_multiplexer(with_own ? &m : nullptr);
      std::array<char, 8> memory{};
      EXPECT_EQ(f.read(unio::mutable_buffer(memory), 10ms).error(), unio::condition::timed_out);
      double const used = cpu_seconds();
      std::thread later([&, fd = other_end] {
        std::this_thread::sleep_for(100ms);
        EXPECT_EQ(::write(fd, "abc\n", 4), 4);
      });
      auto const r = f.read(unio::mutable_buffer(memory), 20s);
      later.join();
      EXPECT_EQ(r.bytes_transferred(), 4u) << r.error().message();
      EXPECT_LT(cpu_seconds() - used, 0.08) << "it does not spin";
      std::thread again([&, fd = other_end] {
        std::this_thread::sleep_for(20ms);
        EXPECT_EQ(::write(fd, "abc\n", 4), 4);
      });
      EXPECT_EQ(unio::run(m, awaited_read(f, memory)).bytes_transferred(), 4u);
      again.join();
    }
    f.set_multiplexer(nullptr);
  }
}

// The file is always ready; the pipe is what is waited for, and poll() has to look whether it has room.
DRIVER_TEST(kernel_file, is_spliced_to_a_full_pipe_though_only_poll_asks_for_it) {
  file_there f(std::filesystem::temp_directory_path().string());
  ASSERT_TRUE(f.file.write({unio::const_buffer(pattern(4096)), 0}).has_value());
  auto pipe = unio::pipe_handle::anonymous().value();
  std::string const much = pattern(1 << 16);
  while (pipe.writer.try_write(unio::const_buffer(much)).has_value()) continue;
  f.file.set_multiplexer(&m);
  pipe.writer.set_multiplexer(&m);
  started splice{unio::async_splice(f.file, pipe.writer, {.bytes = 4096, .from_offset = 0})};
  auto const poll_for = [&](std::chrono::milliseconds at_most) {
    auto const end = std::chrono::steady_clock::now() + at_most;
    while (splice.poll() != unio::io_status::completed && std::chrono::steady_clock::now() < end)
      std::this_thread::sleep_for(100us);
  };
  poll_for(20ms);
  EXPECT_FALSE(splice.ended());
  std::string drained(1 << 20, '.');
  EXPECT_TRUE(pipe.reader.read(unio::mutable_buffer(drained)).has_value());
  poll_for(20s);
  EXPECT_TRUE(splice.ended_once());
  EXPECT_EQ(splice.bytes, 4096u);
  f.file.set_multiplexer(nullptr);
}

// Offset -1 is the file's position; those that the kernel cannot count to are its error.
DRIVER_TEST(kernel_file, has_a_position_and_refuses_impossible_offsets) {
  file_there f(std::filesystem::temp_directory_path().string());
  for (bool const with_own : {true, false}) {
    SCOPED_TRACE(with_own);
    f.file.set_multiplexer(with_own ? &m : nullptr);
    ASSERT_EQ(::lseek(f.file.native_handle(), 0, SEEK_SET), 0);
    ASSERT_TRUE(f.file.truncate(0).has_value());
    EXPECT_TRUE(f.file.write(unio::const_buffer(std::string_view("abc"))).has_value());
    EXPECT_TRUE(f.file.write({unio::const_buffer(std::string_view("def")), unio::no_offset}).has_value());
    EXPECT_EQ(::lseek(f.file.native_handle(), 0, SEEK_CUR), 6);
    ASSERT_EQ(::lseek(f.file.native_handle(), 2, SEEK_SET), 2);
    std::array<char, 8> memory{};
    auto const r = f.file.read(unio::mutable_buffer(memory));
    EXPECT_EQ(std::string(memory.data(), r.bytes_transferred()), "cdef");
    for (unio::extent_type const at : {unio::no_offset - 1, unio::extent_type{1} << 63}) {
      EXPECT_EQ(f.file.read({unio::mutable_buffer(memory), at}).error().value(), EINVAL);
      EXPECT_EQ(f.file.write({unio::const_buffer(memory), at}).error().value(), EINVAL);
    }
  }
  f.file.set_multiplexer(nullptr);
}

DRIVER_TEST(kernel_file, that_is_cached_in_part_is_read_and_written_to_the_end) {
  file_there f(std::filesystem::temp_directory_path().string());
  f.file.set_multiplexer(&m);
  std::string const bytes = pattern(10'000);
  attempts_stop_half_way const attempts;
  for (bool const at_position : {false, true}) {
    SCOPED_TRACE(at_position);
    unio::extent_type const at = at_position ? unio::no_offset : 0;
    ASSERT_EQ(::lseek(f.file.native_handle(), 0, SEEK_SET), 0);
    EXPECT_EQ(f.file.write({unio::const_buffer(bytes), at}, 20s).bytes_transferred(), bytes.size());
    ASSERT_EQ(::lseek(f.file.native_handle(), 0, SEEK_SET), 0);
    std::string memory(20'000, '.');
    auto const r = f.file.read({unio::mutable_buffer(memory.data(), 9000), at}, 20s);
    EXPECT_TRUE(memory.substr(0, r.bytes_transferred()) == bytes.substr(0, 9000)) << r.bytes_transferred();
    auto const rest = f.file.read({unio::mutable_buffer(memory), at_position ? at : 9000}, 20s);
    EXPECT_TRUE(memory.substr(0, rest.bytes_transferred()) == bytes.substr(9000)) << rest.bytes_transferred();
  }
  f.file.set_multiplexer(nullptr);
  std::array<char, 8> some{};
  EXPECT_EQ(f.file.try_read({unio::mutable_buffer(some), 0}).bytes_transferred(), 4u) << "what there is";
  EXPECT_GT(attempts.count, 0) << "the canary";
}

DRIVER_TEST(kernel_file, is_appended_to_once) {
  temporary_directory const directory;
  std::string const bytes = pattern(10'000);
  {
    attempts_stop_half_way const attempts;
    auto opened =
        unio::file_handle::file(directory.handle(), "log", mode::append, creation::if_needed).value();
    unio::file_handle copy = opened.clone().value();
    unio::file_handle taken = unio::file_handle::adopt(::dup(opened.native_handle())).value();
    for (unio::file_handle* const f : {&opened, &copy, &taken}) {
      f->set_multiplexer(&m);
      EXPECT_EQ(f->write({unio::const_buffer(bytes), 0}, 20s).bytes_transferred(), bytes.size());
      f->set_multiplexer(nullptr);
    }
  }
  EXPECT_TRUE(directory.read("log") == bytes + bytes + bytes) << directory.read("log").size();
}

} // namespace
