#include "programs.hpp"

#include "libraries/shared_object.hpp"

#include <aio.h>
#include <dirent.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <pwd.h>
#include <semaphore.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <sys/xattr.h>
#include <threads.h>
#include <unistd.h>
#include <wordexp.h>

#include <chrono>
#include <climits>
#include <condition_variable>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iostream>
#include <limits>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace programs {
namespace {

using clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    ssize_t const n = ::write(fd, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    must(n > 0, "write");
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::string read_all(int fd, std::size_t bytes) {
  std::string all;
  while (all.size() < bytes) {
    char some[64];
    ssize_t const n = ::read(fd, some, std::min(sizeof some, bytes - all.size()));
    if (n < 0 && errno == EINTR) continue;
    must(n >= 0, "read");
    if (n == 0) break;
    all.append(some, static_cast<std::size_t>(n));
  }
  return all;
}

} // namespace

// An hour passes in no time, to the nanosecond.
int timers() {
  auto const begin = clock::now();
  int const fd = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
  itimerspec const each{.it_interval = {.tv_sec = 60, .tv_nsec = 0},
                        .it_value = {.tv_sec = 30, .tv_nsec = 0}};
  must(fd >= 0 && ::timerfd_settime(fd, 0, &each, nullptr) == 0, "timerfd_settime");
  for (int i = 0; i != 5; ++i) {
    pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
    must(::poll(&p, 1, 1'000'000) == 1, "the timer is ready before the timeout");
    std::uint64_t n = 0;
    must(::read(fd, &n, sizeof n) == sizeof n && n == 1, "it expires once each time");
  }
  auto const passed = clock::now() - begin;
  must(passed >= 270s && passed < 270s + 1ms, "four and a half minutes");
  std::this_thread::sleep_for(150s);
  std::uint64_t n = 0;
  must(::read(fd, &n, sizeof n) == sizeof n && n == 2, "two expirations are counted");
  itimerspec left{};
  must(::timerfd_gettime(fd, &left) == 0 && left.it_value.tv_sec >= 29 && left.it_value.tv_sec <= 30,
       "what is left");
  itimerspec const never{};
  must(::timerfd_settime(fd, 0, &never, nullptr) == 0, "it is disarmed");
  pollfd p{.fd = fd, .events = POLLIN, .revents = 0};
  must(::poll(&p, 1, 1'000'000) == 0, "nothing more");
  std::time_t const before = ::time(nullptr);
  must(::sleep(3600) == 0 && ::time(nullptr) - before == 3600, "an hour");
  timeval t{};
  must(::gettimeofday(&t, nullptr) == 0 && t.tv_sec - before == 3600, "one clock");
  must(clock::now() - begin < 2h, "and no more");
  ::close(fd);
  return 0;
}

// A server with a thread for each connection, which blocks.
int threads() {
  int const l = listener(7002, 0);
  std::mutex m;
  std::condition_variable all_done;
  int served = 0;
  constexpr int clients = 3;
  std::vector<std::thread> everyone;
  std::thread server([&] {
    for (int i = 0; i != clients; ++i) {
      int one = -1;
      do {
        one = ::accept(l, nullptr, nullptr);
      } while (one < 0 && errno == EINTR);
      must(one >= 0, "accept");
      everyone.emplace_back([&, one] {
        send_all(one, read_all(one, 10));
        ::close(one);
        std::lock_guard const lock(m);
        ++served;
        all_done.notify_one();
      });
    }
  });
  std::vector<std::thread> asking;
  for (int i = 0; i != clients; ++i)
    asking.emplace_back([] {
      int const fd = connected(7002, 0);
      send_all(fd, "0123456789");
      must(read_all(fd, 10) == "0123456789", "it comes back");
      must(read_all(fd, 1).empty(), "and then the end");
      ::close(fd);
    });
  {
    std::unique_lock lock(m);
    all_done.wait(lock, [&] { return served == clients; });
  }
  server.join();
  for (auto& t : asking) t.join();
  for (auto& t : everyone) t.join();
  ::close(l);
  return 0;
}

// Planted: the flag is set without the lock, between the look and the wait.
int lost_wakeup() {
  std::mutex m;
  std::condition_variable changed;
  bool is_set = false;
  std::thread other([&] {
    int const fd = ::eventfd(0, 0); // a point
    ::close(fd);
    is_set = true;
    changed.notify_one();
  });
  {
    std::unique_lock lock(m);
    while (!is_set) {
      int const fd = ::eventfd(0, 0);
      ::close(fd);
      changed.wait(lock);
    }
  }
  other.join();
  return 0;
}

// Planted: a message is taken for whole that arrives in parts for some seeds only.
int short_read() {
  int const l = listener(7003, 0);
  int const client = connected(7003, 0);
  int const server = ::accept(l, nullptr, nullptr);
  char message[100];
  std::memset(message, 'x', sizeof message);
  send_all(client, {message, sizeof message});
  char got[sizeof message];
  ssize_t const n = ::read(server, got, sizeof got);
  must(n == sizeof got, "the message is whole");
  return 0;
}

// Planted: the last of many messages is taken for whole.
int late_short_read() {
  int fds[2];
  must(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
  char message[100] = {};
  for (int i = 0; i != 60'000; ++i) {
    send_all(fds[0], {message, sizeof message});
    must(read_all(fds[1], sizeof message).size() == sizeof message, "all of it");
  }
  send_all(fds[0], {message, sizeof message});
  must(::recv(fds[1], message, sizeof message, 0) == sizeof message, "the last one is whole");
  return 0;
}

// What is not simulated decides.
int fails_once(char const* file) {
  return ::open(file, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600) >= 0 ? 1 : 0;
}

// Planted: fails where a call was interrupted.
int unhandled_eintr() {
  int fds[2];
  must(::pipe2(fds, O_CLOEXEC) == 0, "pipe2");
  must(::write(fds[1], "x", 1) == 1, "write");
  char c = 0;
  must(::read(fds[0], &c, 1) == 1 && c == 'x', "read");
  return 0;
}

// A question is repeated until it is answered.
int datagrams() {
  int const server = ::socket(AF_INET, SOCK_DGRAM, 0), client = ::socket(AF_INET, SOCK_DGRAM, 0);
  sockaddr_in const at = local(7004);
  must(::bind(server, reinterpret_cast<sockaddr const*>(&at), sizeof at) == 0, "bind");
  must(::connect(client, reinterpret_cast<sockaddr const*>(&at), sizeof at) == 0, "connect");
  for (int attempt = 0; attempt != 1000; ++attempt) {
    while (::send(client, "question", 8, 0) != 8) must(errno == EINTR, "send");
    pollfd p[2] = {{.fd = server, .events = POLLIN, .revents = 0},
                   {.fd = client, .events = POLLIN, .revents = 0}};
    while (::poll(p, 2, 1000) > 0) {
      char bytes[100];
      sockaddr_in from{};
      socklen_t size = sizeof from;
      if (p[0].revents != 0) {
        ssize_t const peeked = ::recv(server, bytes, sizeof bytes, MSG_PEEK | MSG_DONTWAIT);
        must(peeked == 8 || errno == EAGAIN || errno == EINTR, "MSG_PEEK");
        ssize_t const n =
            ::recvfrom(server, bytes, sizeof bytes, MSG_DONTWAIT, reinterpret_cast<sockaddr*>(&from), &size);
        if (n == 8) (void)::sendto(server, "answer", 6, 0, reinterpret_cast<sockaddr*>(&from), size);
      }
      if (p[1].revents != 0) {
        ssize_t const n = ::recv(client, bytes, sizeof bytes, MSG_DONTWAIT);
        if (n == 6 && std::memcmp(bytes, "answer", 6) == 0) return 0;
      }
    }
  }
  must(false, "an answer");
  return 1;
}

int files(char const* directory) {
  std::string const base = directory;
  std::ifstream known(base + "/known");
  std::string word;
  must(static_cast<bool>(known >> word) && word == "contents", "what was there is there");
  {
    std::ofstream made(base + "/made");
    made << "some " << 42 << "\n";
    must(static_cast<bool>(made.flush()), "a stream writes");
  }
  int const fd = ::open((base + "/made").c_str(), O_RDWR | O_CLOEXEC);
  must(fd >= 0, "open");
  struct stat s{};
  must(::fstat(fd, &s) == 0 && s.st_size == 8 && S_ISREG(s.st_mode), "fstat");
  struct statx x{};
  must(::statx(AT_FDCWD, (base + "/made").c_str(), 0, STATX_SIZE, &x) == 0 && x.stx_size == 8, "statx");
  must(::preadv(fd, nullptr, -1, 0) == -1 && errno == EINVAL && ::pwritev(fd, nullptr, -1, 0) == -1,
       "preadv");
  must(::posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
  must(::lseek(fd, 5, SEEK_SET) == 5 && read_all(fd, 2) == "42", "lseek");
  must(::rename((base + "/made").c_str(), (base + "/renamed").c_str()) == 0, "rename");
  must(::access((base + "/made").c_str(), F_OK) != 0 && ::access((base + "/renamed").c_str(), R_OK) == 0,
       "access");
  must(::mkdir((base + "/folder").c_str(), 0755) == 0 && ::rmdir((base + "/folder").c_str()) == 0, "mkdir");
  must(::lseek(fd, 100, SEEK_SET) == 100 && ::write(fd, "", 0) == 0 && ::fstat(fd, &s) == 0 && s.st_size == 8,
       "no byte behind the end");
  must(::open((base + "/renamed/").c_str(), O_RDONLY | O_CLOEXEC) == -1 && errno == ENOTDIR,
       "a file, and a slash");
  must(::open((base + "/none/").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600) == -1 && errno == EISDIR,
       "a file to be made, and a slash");
  {
    std::FILE* const more = std::fopen((base + "/more").c_str(), "we");
    must(more != nullptr && std::fputs("1234", more) >= 0 && std::fclose(more) == 0, "fopen for writing");
    std::FILE* const end = std::fopen((base + "/more").c_str(), "ae");
    must(end != nullptr && std::ftell(end) == 4 && std::fclose(end) == 0, "fopen at the end");
    int const read_only = ::open((base + "/more").c_str(), O_RDONLY | O_TRUNC | O_CLOEXEC);
    must(read_only >= 0 && ::fstat(read_only, &s) == 0 && s.st_size == 0, "O_TRUNC of what is read");
    ::close(read_only);
    must(::unlink((base + "/more").c_str()) == 0, "unlink");
  }
  must(::fchmod(fd, 0640) == 0 && ::fstat(fd, &s) == 0 && (s.st_mode & 0777) == 0640, "fchmod");
  char whole[PATH_MAX];
  must(::realpath((base + "/./renamed").c_str(), whole) != nullptr && base + "/renamed" == whole, "realpath");
  std::FILE* const f = std::fopen((base + "/renamed").c_str(), "re");
  char line[20];
  must(f != nullptr && std::fgets(line, sizeof line, f) != nullptr && std::string_view(line) == "some 42\n",
       "fgets");
  std::fclose(f);
  ::close(fd);
  std::string const renamed = base + "/renamed";
  long r = SYS_unlinkat; // without the C library, as unio itself does it
  __asm__ volatile("syscall"
                   : "+a"(r)
                   : "D"(AT_FDCWD), "S"(renamed.c_str()), "d"(0)
                   : "rcx", "r11", "memory");
  must(r == 0 && ::access(renamed.c_str(), F_OK) != 0, "unlinkat");
  must(::access("/proc/self/maps", R_OK) == 0, "others are the system's");
  return 0;
}

// What threads wait for that is no lock of the C++ library.
int meetings() {
  timespec used{};
  must(std::clock() >= 0 && ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used) == 0, "processor time");
  long barriers = SYS_membarrier; // without the C library, as pools of unio's make it
  __asm__ volatile("syscall" : "+a"(barriers) : "D"(0), "S"(0) : "rcx", "r11", "memory");
  timespec const wrong{.tv_sec = 0, .tv_nsec = -1};
  must(::nanosleep(&wrong, nullptr) == -1 && errno == EINVAL, "nanosleep");
  must(::clock_nanosleep(CLOCK_MONOTONIC, 0, &wrong, nullptr) == EINVAL, "clock_nanosleep");
  timespec const late{.tv_sec = 1, .tv_nsec = 1'000'000'000};
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t c = PTHREAD_COND_INITIALIZER;
  pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
  sem_t s;
  must(::pthread_mutex_timedlock(&m, &late) == 0 && ::pthread_mutex_timedlock(&m, &late) == EINVAL,
       "a mutex");
  must(::pthread_cond_timedwait(&c, &m, &late) == EINVAL, "a condition");
  must(::pthread_rwlock_timedwrlock(&l, &late) == EINVAL, "a lock");
  must(::sem_init(&s, 0, 0) == 0 && ::sem_timedwait(&s, &late) == -1 && errno == EINVAL, "a semaphore");
  static pthread_barrier_t both;
  static pthread_spinlock_t lock;
  static int value = 0, last = 0;
  must(::pthread_barrier_init(&both, nullptr, 2) == 0 && ::pthread_spin_init(&lock, 0) == 0, "init");
  auto const body = [](void*) -> void* {
    for (int round = 0; round != 3; ++round) {
      ::pthread_spin_lock(&lock);
      int const before = value;
      ::usleep(10);
      value = before + 1;
      ::pthread_spin_unlock(&lock);
      bool const is_last = ::pthread_barrier_wait(&both) == PTHREAD_BARRIER_SERIAL_THREAD;
      must(value >= 2 * (round + 1), "all have come");
      last += is_last ? 1 : 0;
      ::pthread_barrier_wait(&both);
    }
    ::usleep(50'000);
    return &value;
  };
  pthread_t other{};
  must(::pthread_create(&other, nullptr, body, nullptr) == 0, "pthread_create");
  (void)body(nullptr);
  must(last == 3 && ::pthread_barrier_destroy(&both) == 0, "pthread_barrier_destroy");
  pthread_t sleeper{};
  must(::pthread_create(
           &sleeper, nullptr, [](void*) -> void* { return ::sleep(1), &last; }, nullptr) == 0,
       "pthread_create");
  void* result = nullptr;
  must(::pthread_tryjoin_np(sleeper, &result) == EBUSY, "pthread_tryjoin_np");
  timespec until{};
  (void)::clock_gettime(CLOCK_MONOTONIC, &until);
  must(::pthread_clockjoin_np(sleeper, &result, CLOCK_MONOTONIC, &until) == ETIMEDOUT, "it sleeps");
  until.tv_sec += 3600;
  must(::pthread_clockjoin_np(sleeper, &result, CLOCK_MONOTONIC, &until) == 0 && result == &last, "joined");
  return ::pthread_join(other, nullptr);
}

// What POSIX has pthreads say of a lock that cannot be had, and waits that have no end but another thread.
int locks() {
  static pthread_mutex_t robust;
  static sem_t is_held;
  pthread_mutexattr_t a;
  must(::pthread_mutexattr_init(&a) == 0 && ::pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST) == 0 &&
           ::pthread_mutex_init(&robust, &a) == 0 && ::sem_init(&is_held, 0, 0) == 0,
       "init");
  auto const ends_with_it = [](void*) -> void* {
    (void)::pthread_mutex_lock(&robust);
    (void)::sem_post(&is_held);
    ::usleep(1000);
    return nullptr;
  };
  pthread_t other{};
  must(::pthread_create(&other, nullptr, ends_with_it, nullptr) == 0 && ::sem_wait(&is_held) == 0, "begin");
  must(::pthread_mutex_lock(&robust) == EOWNERDEAD, "its owner has ended");
  must(::pthread_join(other, nullptr) == 0 && ::pthread_mutex_consistent(&robust) == 0 &&
           ::pthread_mutex_unlock(&robust) == 0,
       "mended");
  must(::pthread_create(&other, nullptr, ends_with_it, nullptr) == 0 && ::pthread_join(other, nullptr) == 0 &&
           ::pthread_mutex_lock(&robust) == EOWNERDEAD && ::pthread_mutex_unlock(&robust) == 0,
       "not mended");
  for (int time = 0; time != 3; ++time)
    must(::pthread_mutex_lock(&robust) == ENOTRECOVERABLE, "it can be had no more");

  pthread_rwlock_t l = PTHREAD_RWLOCK_INITIALIZER;
  must(::pthread_rwlock_wrlock(&l) == 0 && ::pthread_rwlock_wrlock(&l) == EDEADLK &&
           ::pthread_rwlock_rdlock(&l) == EDEADLK && ::pthread_rwlock_tryrdlock(&l) == EBUSY,
       "a lock that this thread has");

  static pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  static pthread_cond_t c = PTHREAD_COND_INITIALIZER;
  static bool has_come = false;
  must(::pthread_create(
           &other, nullptr,
           [](void*) -> void* {
             ::usleep(1000);
             (void)::pthread_mutex_lock(&m);
             has_come = true;
             (void)::pthread_cond_signal(&c);
             return ::pthread_mutex_unlock(&m), nullptr;
           },
           nullptr) == 0,
       "pthread_create");
  timespec const never{.tv_sec = std::numeric_limits<time_t>::max(), .tv_nsec = 0};
  (void)::pthread_mutex_lock(&m);
  while (!has_come) must(::pthread_cond_timedwait(&c, &m, &never) == 0, "a wait until the end of time");
  return ::pthread_join(other, nullptr);
}

// What C11 has for threads, each with a wait for another one.
int threads_of_c11() {
  static mtx_t m;
  static cnd_t c;
  static once_flag once = ONCE_FLAG_INIT;
  static int turn = 0, times = 0;
  must(::mtx_init(&m, mtx_timed) == thrd_success && ::cnd_init(&c) == thrd_success, "init");
  auto const play = [](void* number) {
    int const mine = *static_cast<int*>(number);
    ::call_once(&once, [] {
      ::thrd_yield();
      ++times;
    });
    for (int round = 0; round != 5; ++round) {
      must(times == 1 && ::mtx_lock(&m) == thrd_success, "mtx_lock");
      while (turn != mine) must(::cnd_wait(&c, &m) == thrd_success, "cnd_wait");
      ::usleep(10); // others wait for the lock
      turn = (turn + 1) % 3;
      must(::cnd_broadcast(&c) == thrd_success && ::mtx_unlock(&m) == thrd_success, "mtx_unlock");
    }
    ::thrd_exit(mine + 10);
    return 0;
  };
  thrd_t all[3];
  int numbers[3] = {0, 1, 2};
  for (int i = 0; i != 3; ++i) must(::thrd_create(&all[i], play, &numbers[i]) == thrd_success, "thrd_create");
  for (int i = 0; i != 3; ++i) {
    int value = 0;
    must(::thrd_join(all[i], &value) == thrd_success && value == i + 10, "thrd_join");
  }
  timespec until{};
  (void)::timespec_get(&until, TIME_UTC);
  timespec const moment{.tv_sec = 0, .tv_nsec = 1};
  must(::mtx_lock(&m) == thrd_success && ::mtx_trylock(&m) == thrd_busy &&
           ::mtx_timedlock(&m, &until) == thrd_timedout && ::cnd_timedwait(&c, &m, &until) == thrd_timedout &&
           ::thrd_sleep(&moment, nullptr) == 0,
       "what cannot be had");
  return ::mtx_unlock(&m);
}

// Threads that lock a stream for more than one call, and one that does not.
int streams() {
  std::vector<std::thread> all;
  for (int i = 0; i != 3; ++i)
    all.emplace_back([i] {
      for (int k = 0; k != 10; ++k) {
        if (i != 0) ::flockfile(stdout);
        std::printf("thread %d at ", i);
        std::printf("%lld\n", static_cast<long long>(::time(nullptr)));
        if (i != 0) ::funlockfile(stdout);
      }
    });
  for (std::thread& t : all) t.join();
  return 0;
}

// The thread of main() ends, and the process with the last one.
int ends_early() {
  static pthread_t const first = ::pthread_self();
  std::thread([] {
    must(::pthread_join(first, nullptr) == 0, "pthread_join");
    std::puts("the last one");
  }).detach();
  ::pthread_exit(nullptr);
}

int names() {
  must(::alarm(0) == 0, "no alarm");
  must(::getpwuid(0) != nullptr, "getpwuid"); // the C library would ask a daemon
  timespec seconds{};
  must(::clock_gettime(CLOCK_TAI, &seconds) == 0 && seconds.tv_sec < 1'600'000'000,
       "each clock is simulated");
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  must(::getaddrinfo("127.0.0.1", "80", &hints, &found) == 0 && found->ai_family == AF_INET, "an address");
  ::freeaddrinfo(found);
  must(::getaddrinfo("localhost", "80", &hints, &found) == 0 && found->ai_next != nullptr, "localhost");
  char host[64];
  must(::getnameinfo(found->ai_addr, found->ai_addrlen, host, sizeof host, nullptr, 0, 0) == 0,
       "getnameinfo");
  ::freeaddrinfo(found);
  unsigned char random[2][16];
  must(::getrandom(random[0], 16, 0) == 16 && ::getentropy(random[1], 16) == 0, "getrandom");
  for (unsigned char const c : random[0]) std::printf("%02x", c);
  int const device = ::open("/dev/urandom", O_RDONLY | O_CLOEXEC);
  must(::read(device, random[0], 16) == 16 && ::pread(device, random[1], 16, 7) == 16, "read");
  ::close(device);
  for (unsigned char const c : random[0]) std::printf("%02x", c);
  std::ifstream("/dev/random", std::ios::binary).read(reinterpret_cast<char*>(random[0]), 16);
  for (unsigned char const c : random[0]) std::printf("%02x", c);
  std::printf(" %u\n", std::random_device()());
  return std::memcmp(random[0], random[1], 16) != 0 ? 0 : 1;
}

// One of two programs, each with objects of its own: static ones, and those of its threads.
namespace {

thread_local int of_this_thread = 7;
int of_all = 0;

// A descriptor that was made before main(), where a program may also end.
int early() {
  if (::getenv("UNIO_TEST_ENDS_EARLY") != nullptr) std::exit(0);
  return ::eventfd(1, 0);
}
int const of_constructor = early();

struct said_at_the_end {
  ~said_at_the_end() { std::cout << "end of " << of_all << std::endl; }
};

} // namespace

// Threads that share a stream of a file, which has a lock of its own.
int logs(char const* directory) {
  std::FILE* const f = std::fopen((std::string(directory) + "/log").c_str(), "w+");
  must(f != nullptr && std::setvbuf(f, nullptr, _IOLBF, 64) == 0, "fopen");
  std::vector<std::thread> all;
  for (int i = 0; i != 3; ++i)
    all.emplace_back([f, i] {
      for (int k = 0; k != 10; ++k) std::fprintf(f, "line %d of thread %d\n", k, i);
    });
  for (std::thread& t : all) t.join();
  std::rewind(f);
  char line[64];
  int n = 0;
  while (std::fgets(line, sizeof line, f) != nullptr) ++n;
  must(n == 30, "all lines");
  return std::fclose(f);
}

int serve() {
  int const l = listener(7005, 0);
  of_all = 100;
  of_library.value = 100;
  must(of_library.answer() == 42 && value_in_library() == 100, "a library has the program's object");
  for (;;) {
    int const one = ::accept(l, nullptr, nullptr);
    must(one >= 0, "accept");
    std::thread([one] {
      must(++of_this_thread == 8, "a thread has its own");
      send_all(one, read_all(one, 5));
      ::close(one);
    }).join();
    must(of_this_thread == 7 && ++of_all > 100, "and the first thread");
  }
}

int ask(char const* what) {
  static said_at_the_end const at_the_end;
  must(of_all == 0 && of_this_thread == 7, "objects are the program's own");
  must(of_library.answer() == 42 && of_library.value == 7 && value_in_library() == 7, "and its libraries'");
  epoll_event e{};
  int const epoll = ::epoll_create1(EPOLL_CLOEXEC);
  must(::epoll_ctl(epoll, EPOLL_CTL_ADD, of_constructor, &e) == 0 && ::close(epoll) == 0,
       "an early descriptor");
  of_this_thread = 8;
  int const fd = connected(7005, 0);
  send_all(fd, "hello");
  must(read_all(fd, 5) == "hello", "an answer");
  ::close(fd);
  of_all = 1;
  if (std::string_view(what) == "exit") std::exit(3);
  if (std::string_view(what) == "at once") ::_exit(0);
  return 0;
}

int waits_for_ever() {
  int fds[2];
  must(::pipe(fds) == 0, "pipe");
  char c = 0;
  return ::read(fds[0], &c, 1) == 1 ? 1 : 0;
}

int holds_back() {
  (void)::signal(SIGPROF, SIG_IGN);
  (void)::signal(SIGALRM, SIG_IGN);
  for (volatile unsigned i = 0;; i = i + 1) continue;
}

int prints_for_ever() {
  std::string const line(65536, 'x');
  for (;;) (void)!::write(STDOUT_FILENO, line.data(), line.size());
}

int refused(char const* what, char const* file) {
  std::string_view const which = what;
  if (which == "fork") return ::fork() >= 0 ? 0 : 1;
  if (which == "system") return ::system("true");
  if (which == "exec") return ::execl("/bin/true", "true", nullptr);
  if (which == "syscall") return static_cast<int>(::syscall(SYS_perf_event_open, nullptr, 0, -1, -1, 0));
  if (which == "inside") { // a socket that the C library opens for itself
    ifaddrs* all = nullptr;
    return ::getifaddrs(&all);
  }
  if (which == "direct") {
    long r = SYS_inotify_init1;
    __asm__ volatile("syscall" : "+a"(r) : "D"(0) : "rcx", "r11", "memory");
    return r >= 0 ? 0 : 1;
  }
  if (which == "truncate") return ::truncate(file, 0);
  if (which == "chmod") return ::chmod(file, 0);
  if (which == "flock") return ::flock(::open(file, O_RDWR | O_CLOEXEC), LOCK_EX);
  if (which == "a second flock") {
    int const first = ::open("/", O_RDONLY | O_CLOEXEC), second = ::open("/", O_RDONLY | O_CLOEXEC);
    must(::flock(first, LOCK_SH) == 0, "flock");
    return ::flock(second, LOCK_EX);
  }
  if (which == "aio_read") {
    aiocb a{};
    a.aio_fildes = ::open(file, O_RDONLY | O_CLOEXEC);
    return ::aio_read(&a);
  }
  if (which == "wordexp") {
    wordexp_t found{};
    return ::wordexp("$(echo a)", &found, 0);
  }
  if (which == "scandir") {
    dirent** all = nullptr;
    return ::scandir(file, &all, nullptr, nullptr);
  }
  if (which == "cancel") return ::pthread_cancel(::pthread_self());
  if (which == "pthread_kill") {
    std::thread other([] { ::sleep(1); });
    return ::pthread_kill(other.native_handle(), SIGUSR1);
  }
  if (which == "sigqueue") return ::sigqueue(::getpid(), SIGUSR1, {});
  if (which == "signalfd") { // by a program that has all signals for its own
    sigset_t all;
    (void)::sigfillset(&all);
    (void)::signal(SIGSYS, SIG_IGN);
    (void)::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    return ::signalfd(-1, &all, 0);
  }
  if (which == "stdout") {
    int fds[2];
    must(::pipe(fds) == 0, "pipe");
    return ::dup2(fds[1], STDOUT_FILENO);
  }
  if (which == "fifo") {
    must(::mkfifo(file, 0600) == 0, "mkfifo");
    return ::open(file, O_RDONLY | O_CLOEXEC);
  }
  if (which == "locks") {
    struct flock l{};
    l.l_type = F_WRLCK;
    return ::fcntl(::open(file, O_RDWR | O_CLOEXEC), F_SETLK, &l);
  }
  if (which == "chdir") {
    std::string const made = std::string(file) + "/made";
    must(::mkdir(made.c_str(), 0700) == 0, "mkdir");
    return ::chdir(made.c_str());
  }
  if (which == "setxattr") return ::setxattr(file, "user.name", "x", 1, 0);
  if (which == "zerocopy" || which == "discard") {
    int fds[2];
    must(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0, "socketpair");
    if (which == "zerocopy") return static_cast<int>(::send(fds[0], "x", 1, MSG_ZEROCOPY));
    return static_cast<int>(::recv(fds[1], nullptr, 1, MSG_TRUNC));
  }
  if (which == "splice") {
    int fds[2];
    must(::pipe(fds) == 0, "pipe");
    return static_cast<int>(::splice(fds[0], nullptr, fds[1], nullptr, 1, 0));
  }
  if (which == "unspec") {
    sockaddr const none{.sa_family = AF_UNSPEC, .sa_data = {}};
    return ::connect(::socket(AF_INET, SOCK_STREAM, 0), &none, sizeof none);
  }
  if (which == "name") {
    addrinfo* found = nullptr;
    return ::getaddrinfo("host.example", "80", nullptr, &found);
  }
  if (which == "option") {
    int const fd = ::socket(AF_INET, SOCK_STREAM, 0), value = 0;
    return ::setsockopt(fd, SOL_SOCKET, 12345, &value, sizeof value);
  }
  return 2;
}

} // namespace programs
