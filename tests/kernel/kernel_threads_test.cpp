// The threads that the kernel makes for what a ring cannot do at once: that each ring may have some, and that
// many rings do not have as many times more. Known from liburing#420, #1466: thousands of them.

#include "support/isolated.hpp"
#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/receivers.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/extend/raw_ring.hpp>

#include <dirent.h>
#include <linux/io_uring.h>

namespace {

using namespace test;

class kernel_threads : public isolated {};
UNIO_ON_EACH_DRIVER(kernel_threads);

// The names of those of this process. Each is named after the thread that it works for, by a number that is
// not gettid()'s in a namespace of processes.
std::multiset<std::string> names() {
  std::multiset<std::string> found;
  DIR* const tasks = ::opendir("/proc/self/task");
  while (dirent const* const entry = ::readdir(tasks)) {
    std::string const path = std::string("/proc/self/task/") + entry->d_name + "/comm";
    char name[32] = {};
    raw const file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (file.fd() >= 0 && ::read(file.fd(), name, sizeof name - 1) > 0 &&
        std::strncmp(name, "iou-wrk-", 8) == 0)
      found.emplace(name);
  }
  ::closedir(tasks);
  return found;
}

// Those that work for the calling thread, if it makes its first ring after this.
class mine {
 public:
  int count() const {
    auto const all = names();
    return static_cast<int>(
        std::ranges::count_if(all, [this](auto const& n) { return !before_.contains(n); }));
  }

 private:
  std::multiset<std::string> const before_ = names();
};

// Opens a named pipe that nobody writes: a thread of the kernel sleeps in that.
struct opens_in_vain {
  char const* path = nullptr;
  void operator()(io_uring_sqe& e) const {
    e.opcode = IORING_OP_OPENAT;
    e.flags = IOSQE_ASYNC; // it is first tried as if with O_NONBLOCK, which opens a pipe
    e.fd = AT_FDCWD;
    e.addr = reinterpret_cast<std::uintptr_t>(path);
    e.open_flags = O_RDONLY | O_CLOEXEC;
  }
};

// The most that there were for the calling thread's ring, which has more to do than they can.
int most_for(unio::io_multiplexer& m, mine const& threads, std::string const& fifo, int expected) {
  std::deque<started<unio::async_raw_ring<opens_in_vain>>> many;
  int const jobs = 4 * static_cast<int>(std::thread::hardware_concurrency()) + 8;
  for (int i = 0; i != jobs; ++i) many.emplace_back(unio::async_raw_ring(opens_in_vain{fifo.c_str()}), &m);
  int most = 0;
  auto const looks = [&](int times) {
    for (int i = 0; i != times; ++i) {
      (void)m.try_run_for(5ms);
      most = std::max(most, threads.count());
    }
  };
  for (int i = 0; i != 2000 && most < expected; ++i) looks(1);
  looks(10); // whether one more comes
  for (auto& one : many) one.cancel();
  EXPECT_TRUE(drive(m, [&] { return all_ended(many); }));
  for (auto const& one : many) EXPECT_EQ(one.error, unio::condition::canceled) << one.error.message();
  return most;
}

// The first ring that a process makes has one entry, to see whether it may be entered; and the first ring of
// a thread decides how many threads the kernel makes for all that this thread submits, unless it is told.
ISOLATED_TEST(kernel_threads, are_several_for_the_first_ring) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  temporary_directory const folder;
  std::string const fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  mine const threads;
  auto const m = made_multiplexer();
  int const all = 4 * static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_EQ(most_for(*m, threads, fifo, all), all);
}

ISOLATED_TEST(kernel_threads, are_shared_by_rings) {
  if (!is_ring()) GTEST_SKIP() << "there is no ring";
  temporary_directory const folder;
  std::string const fifo = folder.path() + "/fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  int const all = 4 * static_cast<int>(std::thread::hardware_concurrency());
  std::vector<std::unique_ptr<unio::io_multiplexer>> rings; // each of a thread that has ended
  for (int n = 1; n != 7; ++n) {
    SCOPED_TRACE(n);
    std::thread([&] {
      mine const threads;
      rings.push_back(made_multiplexer());
      int const share = std::max(all / n, 2);
      EXPECT_EQ(most_for(*rings.back(), threads, fifo, share), share);
    }).join();
  }
  rings.clear(); // and with each that ends there is more for others
  std::thread([&] {
    mine const threads;
    auto const m = made_multiplexer();
    EXPECT_EQ(most_for(*m, threads, fifo, all), all);
  }).join();
}

} // namespace
