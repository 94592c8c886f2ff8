// The locks on a filesystem of a server: what they say when it fails, on two machines with caches of their
// own, and that a lock is a lock there. memory_map changes over by itself on it.

#include "fs/fuse/filesystem.hpp"
#include "locks/lock_file_fixture.hpp"
#include "locks/map_layout.hpp"
#include "support/failing_calls.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/test.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/lock_files.hpp>
#include <unio/locks/memory_map.hpp>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <tuple>

namespace {

using namespace std::chrono_literals;
using test::process;
using unio::condition;
using unio::deadline;
using unio::lock_kind;
using unio::fs::entities_guard;
using unio::fs::entity;
using unio::fs::shared_fs_mutex;
namespace layout = unio::fs::map_layout;

constexpr entity a(7);
constexpr entity b(8);

std::error_code system_error(int code) { return {code, std::system_category()}; }

struct algorithm {
  char const* name;
  unio::result<std::unique_ptr<shared_fs_mutex>> (*open)(std::string const& path);
};

void PrintTo(algorithm const& which, std::ostream* out) { *out << which.name; }

// Each at the path "lock"; lock_files in a directory of that name.
constexpr algorithm algorithms[] = {{"byte_ranges", test::opened<unio::fs::byte_ranges>},
                                    {"lock_files", test::opened<unio::fs::lock_files>},
                                    {"memory_map", test::opened<unio::fs::memory_map<>>}};
constexpr algorithm refused = {"atomic_append", test::opened<unio::fs::atomic_append>};

bool is(algorithm const& which, char const* name) { return std::strcmp(which.name, name) == 0; }

void make_place(algorithm const& which, std::string const& root) {
  if (is(which, "lock_files")) ::mkdir((root + "/lock").c_str(), 0700);
}

// Does it in another process, which is ended after a while if it does not end. What it returns, or -1.
template <class Body> int elsewhere(Body body) {
  return process([&](process::channel&) {
           ::alarm(20);
           return body();
         })
      .wait();
}

// The error of what was done elsewhere; 0: none.
int code_of(std::error_code const& e) {
  if (!e) return 0;
  return e.category() == std::system_category() ? e.value() : 250;
}

std::string contents(std::string const& file) {
  std::ostringstream out;
  out << std::ifstream(file, std::ios::binary).rdbuf();
  return out.str();
}

bool mounts_contain(std::string const& what) {
  return contents("/proc/self/mountinfo").find(what) != std::string::npos;
}

#define SKIP_UNLESS_MOUNTED(fs) \
  if (!(fs).is_mounted()) GTEST_SKIP() << (fs).why_not()

// ── the filesystem itself ──────────────────────────────────────────────────────────────────────────────────

TEST(fuse, leaves_no_mount_behind) {
  std::string path;
  int busy = -1;
  {
    test::fuse::filesystem const fs({.machines = 2});
    SKIP_UNLESS_MOUNTED(fs);
    path = std::filesystem::path(fs.path()).parent_path();
    EXPECT_TRUE(mounts_contain(path));
    std::ofstream(fs.path(0) + "/file") << "seen by both";
    EXPECT_EQ(contents(fs.path(1) + "/file"), "seen by both");
    busy = ::open((fs.path(0) + "/file").c_str(), O_RDONLY | O_CLOEXEC);
    EXPECT_GE(busy, 0);
  }
  ::close(busy);
  EXPECT_FALSE(mounts_contain(path));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST(fuse, believes_its_cache_where_it_is_told_to) {
  test::fuse::filesystem const fs({.machines = 2, .cached_for = 60});
  SKIP_UNLESS_MOUNTED(fs);
  std::string const ours = fs.path(0) + "/file";
  std::string const theirs = fs.path(1) + "/file";
  std::ofstream(ours) << "one";
  EXPECT_EQ(contents(theirs), "one");
  int const fd = ::open(ours.c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(::pwrite(fd, "two", 3, 0), 3);
  EXPECT_EQ(contents(ours), "two");
  EXPECT_EQ(contents(theirs), "one"); // so the tests below have something to be led astray by
  ::close(fd);
  std::filesystem::remove(ours);
  EXPECT_TRUE(std::filesystem::exists(theirs));
}

// ── a lock is a lock ───────────────────────────────────────────────────────────────────────────────────────

struct mode {
  char const* name;
  test::fuse::options how;
};

void PrintTo(mode const& m, std::ostream* out) { *out << m.name; }

constexpr mode modes[] = {
    {"two_machines", {.machines = 2}},
    {"locks_of_the_kernel", {.machines = 1, .locks_here = true}},
    {"two_machines_with_caches", {.machines = 2, .cached_for = 60}},
    {"two_machines_without_maps", {.machines = 2, .direct = true}},
};

class fuse_lock : public ::testing::TestWithParam<std::tuple<mode, algorithm>> {
 protected:
  [[nodiscard]] test::fuse::options how() const { return std::get<0>(GetParam()).how; }
  [[nodiscard]] algorithm const& which() const { return std::get<1>(GetParam()); }
  [[nodiscard]] std::unique_ptr<shared_fs_mutex> open(int machine = 0) const {
    unio::result<std::unique_ptr<shared_fs_mutex>> m =
        which().open(fs.path(machine % how().machines) + "/lock");
    if (m) return std::move(*m);
    ADD_FAILURE() << m.error().message();
    ::_exit(99);
  }
  // A process on a machine that holds `e` until it hears something.
  [[nodiscard]] process holder(int machine, entity e) const {
    return process([this, machine, e](process::channel& with) {
      auto const m = open(machine);
      auto const held = m->lock(e);
      with.say(held ? 'h' : '!');
      with.hear();
      return 0;
    });
  }
  void SetUp() override {
    SKIP_UNLESS_MOUNTED(fs);
    make_place(which(), fs.path());
  }

  test::fuse::filesystem fs{how()};
};

INSTANTIATE_TEST_SUITE_P(of, fuse_lock,
                         ::testing::Combine(::testing::ValuesIn(modes), ::testing::ValuesIn(algorithms)),
                         [](auto const& p) {
                           return std::string(std::get<1>(p.param).name) + "_on_" + std::get<0>(p.param).name;
                         });

TEST(fuse_atomic_append, says_that_it_has_no_place_here_and_makes_nothing) {
  for (mode const& how : modes) {
    test::fuse::filesystem const fs(how.how);
    SKIP_UNLESS_MOUNTED(fs);
    EXPECT_EQ(refused.open(fs.path() + "/lock").error(), system_error(EOPNOTSUPP));
    EXPECT_TRUE(std::filesystem::is_empty(fs.path()));
    std::ofstream(fs.path() + "/lock") << "somebody's work";
    EXPECT_EQ(refused.open(fs.path() + "/lock").error(), system_error(EOPNOTSUPP));
    EXPECT_EQ(contents(fs.path() + "/lock"), "somebody's work");
  }
}

TEST_P(fuse_lock, excludes_another_machine_until_it_is_let_go) {
  auto const m = open();
  process other = holder(1, a);
  ASSERT_EQ(other.hear(), 'h');
  EXPECT_EQ(m->try_lock(a).error(), condition::would_block);
  EXPECT_EQ(m->try_lock(a.shared()).error(), condition::would_block);
  EXPECT_EQ(m->lock(std::array{a, b}, 30ms).error(), condition::timed_out);
  EXPECT_EQ(m->lock(a, 30ms, true).error(), condition::timed_out);
  EXPECT_TRUE(m->try_lock(b).has_value());
  other.say('.');
  auto const held = m->lock(a, 20s);
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_FALSE(held->owner_died());
}

TEST_P(fuse_lock, is_shared_between_machines) {
  auto const m = open();
  process other = holder(1, a.shared());
  ASSERT_EQ(other.hear(), 'h');
  auto held = m->try_lock(a.shared());
  EXPECT_TRUE(held.has_value());
  held = m->try_lock(b);
  EXPECT_EQ(m->try_lock(a).error(), condition::would_block);
}

TEST_P(fuse_lock, is_free_when_its_holder_was_killed) {
  auto const m = open();
  process other = holder(1, a);
  ASSERT_EQ(other.hear(), 'h');
  EXPECT_EQ(m->try_lock(a).error(), condition::would_block);
  other.kill();
  auto const held = m->lock(a, 20s);
  ASSERT_TRUE(held.has_value()) << held.error().message();
  EXPECT_EQ(held->owner_died(), is(which(), "lock_files")); // where the server has the note
}

TEST_P(fuse_lock, is_not_kept_by_who_was_killed_while_it_waited) {
  auto const m = open();
  auto held = m->lock(a).value();
  process waits([this](process::channel& with) {
    auto const own = open(1);
    with.say('w');
    return own->lock(a).has_value() ? 1 : 2;
  });
  ASSERT_EQ(waits.hear(), 'w');
  ::usleep(20'000);
  waits.kill();
  held.unlock();
  EXPECT_TRUE(m->lock(a, 20s).has_value());
}

struct checked {
  std::atomic<int> inside{0}; // each owner: 1000; each sharer: 1
  std::atomic<int> violations{0};
  std::atomic<int> exclusive_turns{0};
  int counter = 0; // written without care: lost updates show
};

// Four processes ask at random. What is wrong; empty: nothing. With `carelessly` none waits for the lock.
std::string ask_at_random(std::function<std::unique_ptr<shared_fs_mutex>(int)> const& open, bool carelessly) {
  void* const at =
      ::mmap(nullptr, sizeof(checked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  checked& c = *new (at) checked;
  std::vector<process> all;
  for (int i = 0; i != 4; ++i)
    all.emplace_back([&, i](process::channel&) {
      auto const m = open(i);
      for (unsigned k = 0; k != 120; ++k) {
        bool const alone = (k + static_cast<unsigned>(i)) % 3 != 0;
        int const mine = alone ? 1000 : 1;
        deadline const d = carelessly ? deadline::zero() : k % 5 == 0 ? deadline(2ms) : deadline();
        auto const held = m->lock(std::array{entity(a.value, alone), entity(20 + k % 3)}, d);
        if (!held && held.error() != condition::timed_out && held.error() != condition::would_block) {
          std::fprintf(stderr, "%s\n", held.error().message().c_str());
          return 1;
        }
        if (!held && !carelessly) continue;
        int const before = c.inside.fetch_add(mine);
        if (before >= 1000 || (alone && before != 0)) ++c.violations;
        int volatile& counter = c.counter;
        int const seen = counter;
        if (k % 4 == 0) ::usleep(alone ? 100 : 3000);
        if (alone) {
          counter = seen + 1;
          ++c.exclusive_turns;
        }
        c.inside.fetch_sub(mine);
      }
      return 0;
    });
  std::ostringstream wrong;
  for (process& p : all)
    if (p.wait() != 0) wrong << "one failed; ";
  if (c.violations != 0) wrong << c.violations << " were not alone; ";
  if (c.counter != c.exclusive_turns) wrong << c.exclusive_turns - c.counter << " updates were lost; ";
  if (c.exclusive_turns == 0) wrong << "nobody had a turn";
  ::munmap(at, sizeof(checked));
  return wrong.str();
}

TEST_P(fuse_lock, excludes_processes_on_all_machines) {
  EXPECT_EQ(ask_at_random([this](int i) { return open(i); }, false), "");
}

TEST_P(fuse_lock, excludes_nobody_who_does_not_wait_for_it) { // so the test above can fail
  EXPECT_NE(ask_at_random([this](int i) { return open(i); }, true), "");
}

// ── faults ─────────────────────────────────────────────────────────────────────────────────────────────────

struct fault {
  char const* name;
  std::atomic<int> test::fuse::switches::* where;
  int code;
};

void PrintTo(fault const& f, std::ostream* out) { *out << f.name; }

constexpr fault faults[] = {
    {"no_fault", nullptr, 0}, // all of the table below succeeds
    {"lock_enolck", &test::fuse::switches::lock_error, ENOLCK},
    {"lock_estale", &test::fuse::switches::lock_error, ESTALE},
    {"lock_eio", &test::fuse::switches::lock_error, EIO},
    {"lookup_estale", &test::fuse::switches::lookup_error, ESTALE},
    {"open_estale", &test::fuse::switches::open_error, ESTALE},
    {"attributes_estale", &test::fuse::switches::attributes_error, ESTALE},
    {"attributes_eio", &test::fuse::switches::attributes_error, EIO},
    {"read_eio", &test::fuse::switches::read_error, EIO},
    {"write_eio", &test::fuse::switches::write_error, EIO},
    {"fallocate_eio", &test::fuse::switches::fallocate_error, EIO},
    {"fallocate_enosys", &test::fuse::switches::fallocate_error, ENOSYS},
    {"fallocate_eopnotsupp", &test::fuse::switches::fallocate_error, EOPNOTSUPP},
};

// What each of them needs of the server to open a file that is new, one that is there, and to lock.
enum class moment { making, opening, locking, waiting };
bool is_needed(algorithm const& which, fault const& f, moment when) {
  using s = test::fuse::switches;
  bool const has_content = !is(which, "lock_files");
  if (f.where == nullptr) return false;
  if (f.where == &s::lock_error || f.where == &s::open_error) return true;
  if (f.where == &s::attributes_error) return true; // may it be opened?
  if (f.where == &s::lookup_error)
    return when == moment::making || when == moment::opening || is(which, "lock_files");
  if (f.where == &s::read_error)
    return (when == moment::opening && has_content) || (when == moment::locking && is(which, "memory_map"));
  if (f.where == &s::write_error)
    return has_content && (when == moment::making || (when == moment::opening && is(which, "memory_map")));
  return f.code == EIO && when == moment::making && is(which, "memory_map");
}

class fuse_fault : public ::testing::TestWithParam<std::tuple<fault, algorithm>> {
 protected:
  [[nodiscard]] fault const& what() const { return std::get<0>(GetParam()); }
  [[nodiscard]] algorithm const& which() const { return std::get<1>(GetParam()); }
  [[nodiscard]] std::string lock() const { return fs.path() + "/lock"; }
  void begin() {
    if (what().where != nullptr) (*fs.operator->()).*(what().where) = what().code;
  }
  void end() {
    if (what().where != nullptr) (*fs.operator->()).*(what().where) = 0;
  }
  // What is done to the lock file says what is wrong, at once; does not go on asking; and nothing is wrong
  // afterwards.
  template <class Body> void expect_told(moment when, Body body) {
    long const before = fs->requests;
    begin();
    int const code = elsewhere(body);
    end();
    EXPECT_LT(fs->requests - before, 1000) << "it asks and asks";
    std::error_code none;
    if (when == moment::making && code != 0 && std::filesystem::is_regular_file(lock(), none)) {
      EXPECT_EQ(std::filesystem::file_size(lock()), 0U) << "it is half made";
    }
    if (is_needed(which(), what(), when)) {
      EXPECT_EQ(code, what().code) << (code == -1 ? "it does not end" : std::strerror(code));
    } else {
      EXPECT_TRUE(code == 0) << (code == -1 ? "it does not end" : std::strerror(code));
    }
    EXPECT_EQ(elsewhere(body), 0) << "and afterwards, too";
  }
  void SetUp() override {
    SKIP_UNLESS_MOUNTED(fs);
    make_place(which(), fs.path());
  }

  test::fuse::filesystem fs;
};

INSTANTIATE_TEST_SUITE_P(of, fuse_fault,
                         ::testing::Combine(::testing::ValuesIn(faults), ::testing::ValuesIn(algorithms)),
                         [](auto const& p) {
                           return std::string(std::get<0>(p.param).name) + "_" + std::get<1>(p.param).name;
                         });

TEST_P(fuse_fault, is_told_when_a_file_is_made) {
  expect_told(moment::making, [&] {
    auto const m = which().open(lock());
    return code_of(m ? std::error_code() : m.error());
  });
}

TEST_P(fuse_fault, is_told_when_a_file_is_opened_and_the_file_stays_as_it_was) {
  (void)which().open(lock()).value();
  std::string const before = is(which(), "lock_files") ? "" : contents(lock());
  expect_told(moment::opening, [&] {
    auto const m = which().open(lock());
    return code_of(m ? std::error_code() : m.error());
  });
  if (!is(which(), "lock_files")) {
    EXPECT_TRUE(contents(lock()) == before);
  } else {
    EXPECT_TRUE(std::filesystem::is_empty(lock()));
  }
}

TEST_P(fuse_fault, is_told_by_each_way_of_locking_and_nothing_is_held) {
  for (deadline const d : {deadline(), deadline(60s), deadline::zero()}) {
    auto const m = which().open(lock()).value();
    long const before = fs->requests;
    int const code = elsewhere([&] {
      auto const own = which().open(lock());
      if (!own) return 249;
      begin();
      auto const held = (*own)->lock(std::array{a, b}, d);
      end();
      return held ? 0 : code_of(held.error());
    });
    end();
    EXPECT_LT(fs->requests - before, 1000) << "it asks and asks";
    EXPECT_EQ(code, is_needed(which(), what(), moment::locking) ? what().code : 0)
        << (code == -1 ? "it does not end" : std::strerror(code));
    auto const held = m->try_lock(std::array{a, b});
    ASSERT_TRUE(held.has_value()) << held.error().message();
    EXPECT_FALSE(held->owner_died());
  }
}

// What a user gets that waits for another.
TEST_P(fuse_fault, does_not_pass_for_contention_nor_contention_for_it) {
  auto const m = which().open(lock()).value();
  auto const held = m->lock(a).value();
  for (deadline const d : {deadline(200ms), deadline::zero()}) {
    int const code = elsewhere([&] {
      auto const own = which().open(lock());
      if (!own) return 249;
      begin();
      auto const other = (*own)->lock(a, d);
      end();
      if (other) return 252;
      if (other.error() == condition::would_block) return 101;
      if (other.error() == condition::timed_out) return 102;
      return code_of(other.error());
    });
    end();
    int const contention = d.is_zero() ? 101 : 102;
    EXPECT_EQ(code, is_needed(which(), what(), moment::waiting) ? what().code : contention);
  }
}

// A full filesystem, of which the last write takes only a part.
TEST(fuse_full, is_told_and_leaves_no_half_of_a_file) {
  for (algorithm const& which : algorithms) {
    for (long const room : {0L, 1L, 20L, 40L, 60L, 100L, 191L}) {
      test::fuse::filesystem const fs;
      SKIP_UNLESS_MOUNTED(fs);
      SCOPED_TRACE(std::string(which.name) + ", room for " + std::to_string(room));
      make_place(which, fs.path());
      std::string const path = fs.path() + "/lock";
      fs->room = room;
      auto const m = which.open(path);
      if (!is(which, "lock_files")) {
        EXPECT_EQ(m.error(), system_error(ENOSPC));
        EXPECT_EQ(std::filesystem::file_size(path), 0U);
      } else {
        EXPECT_TRUE(m.has_value());
      }
      fs->room = -1;
      auto const again = which.open(path);
      ASSERT_TRUE(again.has_value()) << again.error().message();
      EXPECT_TRUE((*again)->lock(a).has_value());
    }
  }
}

TEST(fuse_server, that_ends_no_lock_with_its_file_is_told_when_a_mutex_is_closed) {
  for (algorithm const& which : algorithms) {
    SCOPED_TRACE(which.name);
    test::fuse::filesystem const fs({.keeps_locks = true});
    SKIP_UNLESS_MOUNTED(fs);
    make_place(which, fs.path());
    std::string const path = fs.path() + "/lock";
    for (int i = 0; i != 3; ++i) {
      fs->read_error = i % 2 == 0 ? 0 : EIO; // opening fails in the middle
      EXPECT_NE(elsewhere([&] {
                  auto const m = which.open(path);
                  if (!m) return code_of(m.error());
                  auto const held = (*m)->lock(a);
                  return held ? code_of((*m)->try_lock(a).error()) : 240;
                }),
                -1);
    }
    for (int i = 0; i != 1000 && fs->locks_held != 0; ++i) // the server counts after it has answered
      std::this_thread::sleep_for(10ms);
    EXPECT_EQ(fs->locks_held, 0);
  }
}

TEST(fuse_server, that_dies_is_noticed_by_who_waits_and_who_asks) {
  for (algorithm const& which : algorithms) {
    SCOPED_TRACE(which.name);
    test::fuse::filesystem fs;
    SKIP_UNLESS_MOUNTED(fs);
    make_place(which, fs.path());
    std::string const path = fs.path() + "/lock";
    auto const m = which.open(path).value();
    auto held = m->lock(a).value();
    process waits([&](process::channel& with) {
      ::alarm(20);
      auto const own = which.open(path).value();
      with.say('w');
      return code_of(own->lock(a).error());
    });
    ASSERT_EQ(waits.hear(), 'w');
    ::usleep(20'000);
    fs.kill_server();
    int const code = waits.wait();
    EXPECT_TRUE(code == ENOTCONN || code == ECONNABORTED) << code;
    EXPECT_EQ(m->lock(b).error(), system_error(ENOTCONN));
    EXPECT_EQ(m->lock(b, 60s).error(), system_error(ENOTCONN));
  }
}

// ── memory_map changes over ────────────────────────────────────────────────────────────────────────────────

using map = unio::fs::memory_map<>;

TEST(fuse_memory_map, changes_over_by_itself_and_maps_nothing) {
  for (mode const& how : modes) {
    SCOPED_TRACE(how.name);
    test::fuse::filesystem const fs(how.how);
    SKIP_UNLESS_MOUNTED(fs);
    std::string const path = fs.path() + "/lock";
    map m = map::open(path).value();
    EXPECT_TRUE(m.is_degraded());
    EXPECT_EQ(contents("/proc/self/maps").find(path), std::string::npos);
    auto const held = m.lock(a).value();
    EXPECT_EQ(map::open(fs.path(how.how.machines - 1) + "/lock").value().try_lock(a).error(),
              condition::would_block);
  }
}

// One on another machine that sees the map, and has locked in it before: as its word and the lock on its byte
// say.
TEST(fuse_memory_map, sees_what_is_locked_in_the_map_whatever_is_cached) {
  test::fuse::filesystem const fs({.machines = 2, .cached_for = 60});
  SKIP_UNLESS_MOUNTED(fs);
  map m = map::open(fs.path(0) + "/lock").value();
  (void)contents(fs.path(0) + "/.lock.map"); // all of it is in the cache
  int const near = ::open((fs.path(1) + "/lock").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(near, 0);
  int const map_of_near = ::open((fs.path(1) + "/.lock.map").c_str(), O_RDWR | O_CLOEXEC);
  ASSERT_GE(map_of_near, 0);
  constexpr std::uint64_t number = 3;
  struct flock lives = {};
  lives.l_type = F_WRLCK;
  lives.l_start = static_cast<off_t>(layout::user_bytes + number);
  lives.l_len = 1;
  ASSERT_EQ(::fcntl(near, F_OFD_SETLK, &lives), 0);
  std::size_t const slot = unio::fs::fibonacci_hash::of(a.value) % 4096;
  auto const says = [&](std::uint64_t owner) {
    std::uint64_t const words[] = {owner, owner != 0 ? layout::note_of(a.value) : 0}; // and what it has
    EXPECT_EQ(::pwrite(map_of_near, words, sizeof words,
                       static_cast<off_t>(layout::slots_at + slot * sizeof(layout::map_slot))),
              16);
  };
  says(number);
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
  EXPECT_EQ(m.lock(a.shared(), 20ms).error(), condition::timed_out);
  EXPECT_TRUE(m.try_lock(b).has_value());
  says(0);
  EXPECT_FALSE(m.lock(a, 20s).value().owner_died());
  says(number);
  ::close(near); // it has died
  EXPECT_FALSE(m.lock(b, 20s).value().owner_died());
  EXPECT_TRUE(m.lock(a, 20s).value().owner_died());
  ::close(map_of_near);
}

// The names and attributes of what is removed are believed on another machine, which waits for it. With
// `answers_cross`, a third has asked for them before, and is answered when the second asks.
void expect_no_removed_file_is_taken(test::fuse::options const& how, bool answers_cross = false) {
  test::fuse::filesystem const fs(how);
  SKIP_UNLESS_MOUNTED(fs);
  ::mkdir((fs.path(1) + "/lock").c_str(), 0700);
  auto const theirs = unio::fs::lock_files::open(fs.path(1) + "/lock");
  ASSERT_TRUE(theirs.has_value()) << theirs.error().message();
  auto first = const_cast<unio::fs::lock_files&>(*theirs).lock(a).value();
  process waits([&](process::channel& with) {
    auto own = unio::fs::lock_files::open(fs.path(0) + "/lock").value();
    with.say('w');
    auto const held = own.lock(a);
    with.say(!held ? '!' : held->owner_died() ? 'd' : 'h');
    with.hear();
    return 0;
  });
  ASSERT_EQ(waits.hear(), 'w');
  ::usleep(50'000); // it has the first file open
  std::optional<process> asks;
  if (answers_cross) {
    fs->answers_to_keep = 1;
    asks.emplace([&](process::channel&) {
      struct statx s;
      std::string const name = fs.path(0) + "/lock/0000000000000007";
      return ::statx(AT_FDCWD, name.c_str(), AT_STATX_FORCE_SYNC, STATX_BASIC_STATS, &s) == 0 ? 0 : 1;
    });
    for (int i = 0; i != 1000 && fs->answers_kept == 0; ++i) std::this_thread::sleep_for(10ms);
    EXPECT_EQ(fs->answers_kept, 1);
  }
  first.unlock(); // and removes it
  ASSERT_EQ(waits.hear(), 'h');
  EXPECT_EQ(const_cast<unio::fs::lock_files&>(*theirs).try_lock(a).error(), condition::would_block);
}

TEST(fuse_lock_files, takes_no_removed_file_for_the_one_that_is_there_whatever_is_cached) {
  expect_no_removed_file_is_taken({.machines = 2, .cached_for = 60});
}
TEST(fuse_lock_files, takes_no_removed_file_for_the_one_that_is_there_when_answers_cross) {
  expect_no_removed_file_is_taken({.machines = 2, .cached_for = 60}, true);
}
TEST(fuse_lock_files, takes_no_removed_file_that_was_renamed_for_the_one_that_is_there) {
  expect_no_removed_file_is_taken({.machines = 2, .cached_for = 2, .renames_removed = true});
}

TEST(fuse_lock_files, leaves_alone_what_took_the_place_of_its_file_when_that_was_renamed) {
  test::fuse::filesystem const fs({.renames_removed = true});
  SKIP_UNLESS_MOUNTED(fs);
  auto m = unio::fs::lock_files::open(fs.path()).value();
  auto held = m.lock(a).value();
  std::string const name = [&] {
    for (auto const& f : std::filesystem::directory_iterator(fs.path()))
      if (f.path().filename().string()[0] != '.') return f.path().string();
    return std::string();
  }();
  std::filesystem::remove(name);
  auto other = unio::fs::lock_files::open(fs.path()).value();
  auto const again = other.lock(a).value();
  held.unlock();
  EXPECT_TRUE(std::filesystem::exists(name));
  EXPECT_EQ(m.try_lock(a).error(), condition::would_block);
}

// Seeing past the caches costs calls.
TEST(fuse_calls, are_as_many_for_an_entity_as_the_headers_say) {
  test::fuse::filesystem const fs;
  SKIP_UNLESS_MOUNTED(fs);
  ::mkdir((fs.path() + "/files").c_str(), 0700);
  auto files = unio::fs::lock_files::open(fs.path() + "/files").value();
  auto far = unio::fs::memory_map<>::open(fs.path() + "/map").value();
  (void)far.lock(a).value(); // has its description from here on
  test::failing_calls calls;
  (void)files.lock(a).value();
  EXPECT_EQ(calls.count_all(), 17);
  test::failing_calls again;
  (void)far.lock(a).value();
  EXPECT_EQ(again.count_all(), 6 + 1);
}

// ── locks on files and ranges ──────────────────────────────────────────────────────────────────────────────

class fuse_file_lock : public ::testing::TestWithParam<mode> {
 protected:
  [[nodiscard]] unio::file_handle open(int machine = 0) const {
    return unio::file_handle::file({}, fs.path(machine % GetParam().how.machines) + "/file",
                                   unio::handle::mode::write, unio::handle::creation::if_needed)
        .value();
  }
  void SetUp() override { SKIP_UNLESS_MOUNTED(fs); }
  test::fuse::filesystem fs{GetParam().how};
};

INSTANTIATE_TEST_SUITE_P(on, fuse_file_lock, ::testing::ValuesIn(modes),
                         [](auto const& p) { return std::string(p.param.name); });

TEST_P(fuse_file_lock, excludes_another_machine) {
  unio::file_handle ours = open();
  unio::file_handle theirs = open(1);
  {
    auto const held = ours.lock_range(10, 5, lock_kind::exclusive).value();
    EXPECT_EQ(theirs.try_lock_range(14, 1, lock_kind::shared).error(), condition::would_block);
    EXPECT_EQ(theirs.lock_file(lock_kind::exclusive, 20ms).error(), condition::timed_out);
    EXPECT_TRUE(theirs.try_lock_range(15, 1, lock_kind::exclusive).has_value());
  }
  EXPECT_TRUE(theirs.try_lock_file(lock_kind::exclusive).has_value());
  {
    auto const held = ours.lock_file(lock_kind::shared).value();
    EXPECT_TRUE(theirs.try_lock_file(lock_kind::shared).has_value());
    EXPECT_EQ(theirs.try_lock_file(lock_kind::exclusive).error(), condition::would_block);
  }
  auto const held = ours.lock_file(lock_kind::exclusive).value();
  (void)ours.close();
  EXPECT_TRUE(theirs.lock_file(lock_kind::exclusive, 20s).has_value());
}

TEST_P(fuse_file_lock, says_what_the_server_says) {
  unio::file_handle ours = open();
  if (GetParam().how.locks_here) { // it is not asked
    fs->lock_error = ENOLCK;
    EXPECT_TRUE(ours.try_lock_file(lock_kind::exclusive).has_value());
    EXPECT_EQ(fs->lock_requests, 0);
    return;
  }
  for (int const code : {ENOLCK, ESTALE, EIO}) {
    long const before = fs->lock_requests;
    fs->lock_error = code;
    EXPECT_EQ(ours.lock_file(lock_kind::exclusive).error(), system_error(code));
    EXPECT_EQ(ours.lock_range(0, 1, lock_kind::shared, 60s).error(), system_error(code));
    EXPECT_EQ(ours.try_lock_file(lock_kind::shared).error(), system_error(code));
    EXPECT_EQ(fs->lock_requests - before, 3) << "told at once";
    fs->lock_error = 0;
    EXPECT_TRUE(open(1).try_lock_file(lock_kind::exclusive).has_value()) << "it holds nothing";
  }
}

// ── the command ────────────────────────────────────────────────────────────────────────────────────────────

#if defined(UNIO_COMMAND)
// What `unio lock` says, and its status.
std::string run_lock(std::string const& arguments) {
  std::string const line = "timeout 20 " UNIO_COMMAND " lock " + arguments + " 2>&1";
  FILE* const out = ::popen(line.c_str(), "re");
  std::string said;
  std::array<char, 512> some;
  while (std::size_t const n = std::fread(some.data(), 1, some.size(), out)) said.append(some.data(), n);
  int const status = ::pclose(out);
  return said + std::to_string(WEXITSTATUS(status));
}

TEST(fuse_command, says_that_atomic_append_has_no_place_here) {
  test::fuse::filesystem const fs;
  SKIP_UNLESS_MOUNTED(fs);
  EXPECT_EQ(run_lock("--algorithm atomic_append " + fs.path() + "/lock -- echo done"),
            "unio: " + fs.path() + "/lock: " + system_error(EOPNOTSUPP).message() + "\n125");
}

TEST(fuse_command, locks_on_it_and_tells_what_is_wrong) {
  for (algorithm const& which : algorithms) {
    SCOPED_TRACE(which.name);
    test::fuse::filesystem const fs({.machines = 2});
    SKIP_UNLESS_MOUNTED(fs);
    make_place(which, fs.path());
    std::string const path = fs.path() + "/lock";
    std::string const lock = std::string("--algorithm ") + which.name + " " + path;
    auto const wrong = [&](int code) {
      return "unio: " + path + ": " + system_error(code).message() + "\n125";
    };
    EXPECT_EQ(run_lock(lock + " -- echo done"), "done\n0");
    auto const m = which.open(fs.path(1) + "/lock").value();
    {
      auto const held = m->lock(unio::fs::entity_of("x")).value();
      EXPECT_EQ(run_lock(lock + " --entity x --timeout 0 -- echo done"),
                "unio: " + path + ": held by others\n124");
      EXPECT_EQ(run_lock(lock + " --entity x --timeout 50ms -- echo done"),
                "unio: " + path + ": still held by others after 50ms\n124");
      EXPECT_EQ(run_lock(lock + " --entity y --timeout 0 -- echo done"), "done\n0");
    }
    for (int const code : {ENOLCK, ESTALE, EIO}) {
      fs->lock_error = code;
      EXPECT_EQ(run_lock(lock + " -- echo done"), wrong(code));
      fs->lock_error = 0;
    }
    EXPECT_EQ(run_lock(lock + " -- echo done"), "done\n0");
  }
}
#endif

} // namespace
