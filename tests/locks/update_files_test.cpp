// unio/locks/update_files.hpp: several files replaced as one, wherever a process dies, whatever fails.
//
// Built with UNIO_LOCKS_HOOKS it also has a process killed at each step of an update, and who recovers it at
// each step of that.

#include "locks/hooks.hpp"
#include "support/calls.hpp"
#include "support/child.hpp"
#include "support/file_size.hpp"
#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/locks/atomic_append.hpp>
#include <unio/locks/update_files.hpp>

#include <grp.h>
#include <sys/xattr.h>

#include <random>

namespace {

using namespace test;
using namespace unio::fs;

std::span<std::byte const> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

class update_files_ : public ::testing::Test {
 protected:
  update_files_() {
    ::mkdir((directory / "tree").c_str(), 0755);
    ::mkdir((directory / "tree/sub").c_str(), 0755);
    tree = unio::path_handle::path(directory / "tree").value();
    directory.write("tree/a", "old a");
    directory.write("tree/sub/b", "old b");
  }

  atomic_append mutex() { return atomic_append::open(directory / "lock").value(); }
  std::string text(std::string const& name) const { return directory.read("tree/" + name); }
  // How many files the tree has, of ours and of others.
  std::ptrdiff_t count() const {
    using walk = std::filesystem::recursive_directory_iterator;
    return std::count_if(walk(directory / "tree"), walk(), [](auto const& e) {
      return !e.is_directory() && e.path().filename() != ".unio-update.lock";
    });
  }
  unio::result<update_files> begin(atomic_append& m, deadline d = {}) {
    return update_files::begin(m, tree, names, d);
  }
  // Replaces both. The error, if any.
  std::error_code replace_both(std::string_view a = "new a", std::string_view b = "new b") {
    atomic_append m = mutex();
    auto u = begin(m);
    if (!u) return u.error();
    if (auto const r = u->replace(0, bytes_of(a)); !r) return r.error();
    if (auto const r = u->replace(1, bytes_of(b)); !r) return r.error();
    if (auto const r = u->commit(); !r) return r.error();
    return {};
  }
  // 'o' all old, 'n' all new, 'm' something else; as read under the locks.
  char seen() {
    atomic_append m = mutex();
    auto u = update_files::begin_shared(m, tree, names);
    if (!u) return 'e';
    std::string both;
    for (std::size_t i = 0; i != 2; ++i) {
      auto const c = u->contents(i);
      if (!c) return 'e';
      both.append(reinterpret_cast<char const*>(c->data()), c->size()).append("|");
    }
    return both == "old a|old b|" ? 'o' : both == "new a|new b|" ? 'n' : 'm';
  }
  // What a dead process has left goes when the files are next updated.
  void expect_nothing_left() {
    {
      atomic_append m = mutex();
      EXPECT_TRUE(begin(m).has_value());
    }
    std::filesystem::remove(directory / "tree/.unio-update.new"); // goes when a decision is next made
    EXPECT_EQ(count(), 2);
  }
  void start_again() {
    directory.write("tree/a", "old a");
    directory.write("tree/sub/b", "old b");
  }

  test::temporary_directory directory;
  unio::path_handle tree;
  std::array<path_view, 2> const names{"a", "sub/b"};
};

// ── happy ──────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(update_files_, replaces_all_when_it_is_committed_and_nothing_before) {
  atomic_append m = mutex();
  {
    update_files u = begin(m).value();
    EXPECT_EQ(u.size(), 2u);
    EXPECT_FALSE(u.has_recovered());
    ASSERT_TRUE(u.replace(0, bytes_of("new a")).has_value());
    ASSERT_TRUE(u.replace(1, bytes_of("new b")).has_value());
    EXPECT_EQ(text("a"), "old a");
    auto const c = u.contents(0).value();
    EXPECT_EQ(std::string_view(reinterpret_cast<char const*>(c.data()), c.size()), "old a");
    ASSERT_TRUE(u.commit().has_value());
    EXPECT_EQ(text("a"), "new a");
    EXPECT_EQ(text("sub/b"), "new b");
    EXPECT_FALSE(u.is_decided());
    auto const d = u.contents(1).value();
    EXPECT_EQ(std::string_view(reinterpret_cast<char const*>(d.data()), d.size()), "new b");
  }
  EXPECT_EQ(count(), 2);
}

TEST_F(update_files_, leaves_alone_what_was_not_replaced_and_all_if_not_committed) {
  atomic_append m = mutex();
  {
    update_files u = begin(m).value();
    ASSERT_TRUE(u.replace(1, bytes_of("new b")).has_value());
  }
  EXPECT_EQ(text("sub/b"), "old b");
  EXPECT_EQ(count(), 2);
  update_files u = begin(m).value();
  ASSERT_TRUE(u.commit().has_value()) << "nothing to do";
  ASSERT_TRUE(u.replace(1, bytes_of("first")).has_value());
  ASSERT_TRUE(u.replace(1, bytes_of("second")).has_value());
  ASSERT_TRUE(u.commit().has_value());
  EXPECT_EQ(text("a"), "old a");
  EXPECT_EQ(text("sub/b"), "second");
  ASSERT_TRUE(u.replace(0, {}).has_value());
  ASSERT_TRUE(u.commit().has_value()) << "the locks are still held";
  EXPECT_EQ(text("a"), "");
  EXPECT_EQ(count(), 2);
}

TEST_F(update_files_, keeps_permissions_and_makes_what_is_not_there) {
  ASSERT_EQ(::chmod((directory / "tree/a").c_str(), 04751), 0);
  atomic_append m = mutex();
  std::array<path_view, 2> const with_new{"a", "sub/c"};
  update_files u = update_files::begin(m, tree, with_new).value();
  EXPECT_EQ(u.contents(1).error().value(), ENOENT);
  EXPECT_EQ(u.contents(1).error().message(), "update_files::contents sub/c: No such file or directory");
  ASSERT_TRUE(u.replace(0, bytes_of("new a")).has_value());
  ASSERT_TRUE(u.replace(1, bytes_of("new c")).has_value());
  ASSERT_TRUE(u.commit().has_value());
  struct stat s;
  ASSERT_EQ(::stat((directory / "tree/a").c_str(), &s), 0);
  EXPECT_EQ(s.st_mode & 07777, 04751u);
  EXPECT_EQ(text("sub/c"), "new c");
  EXPECT_EQ(count(), 3);
}

TEST_F(update_files_, inherits_no_acl_that_the_old_file_does_not_have) {
  // linux/posix_acl_xattr.h: all rights for one more user.
  struct {
    std::uint32_t version = 2;
    struct {
      std::uint16_t tag, rights;
      std::uint32_t id;
    } entries[5] = {{1, 7, ~0U}, {2, 7, 12345}, {4, 7, ~0U}, {16, 7, ~0U}, {32, 0, ~0U}};
  } const acl;
  ASSERT_EQ(::chmod((directory / "tree/a").c_str(), 0640), 0);
  if (::setxattr((directory / "tree").c_str(), "system.posix_acl_default", &acl, sizeof acl, 0) != 0)
    GTEST_SKIP() << "no ACLs here: " << std::strerror(errno);
  ASSERT_FALSE(replace_both());
  EXPECT_LT(::getxattr((directory / "tree/a").c_str(), "system.posix_acl_access", nullptr, 0), 0);
  EXPECT_EQ(seen(), 'n');
}

TEST_F(update_files_, keeps_the_acl_of_the_old_file) {
  struct {
    std::uint32_t version = 2;
    struct {
      std::uint16_t tag, rights;
      std::uint32_t id;
    } entries[5] = {{1, 6, ~0U}, {2, 6, 12345}, {4, 0, ~0U}, {16, 6, ~0U}, {32, 0, ~0U}};
  } const acl;
  std::string const a = directory / "tree/a";
  if (::setxattr(a.c_str(), "system.posix_acl_access", &acl, sizeof acl, 0) != 0)
    GTEST_SKIP() << "no ACLs here: " << std::strerror(errno);
  ASSERT_FALSE(replace_both());
  char now[sizeof acl];
  ASSERT_EQ(::getxattr(a.c_str(), "system.posix_acl_access", now, sizeof now), ssize_t{sizeof acl});
  EXPECT_EQ(std::memcmp(now, &acl, sizeof acl), 0);
  struct stat s{};
  EXPECT_TRUE(::stat(a.c_str(), &s) == 0 && (s.st_mode & 07777) == 0660);
}

TEST_F(update_files_, is_alone_with_its_files_or_shares_them) {
  atomic_append m = mutex();
  atomic_append other = mutex();
  {
    update_files const u = begin(m).value();
    EXPECT_EQ(begin(other, deadline::zero()).error(), condition::would_block);
    EXPECT_EQ(update_files::begin_shared(other, tree, names, 1ms).error(), condition::timed_out);
    std::array<path_view, 1> const third{"sub/c"};
    EXPECT_TRUE(update_files::begin(other, tree, third, deadline::zero()).has_value());
  }
  update_files one = update_files::begin_shared(m, tree, names).value();
  EXPECT_TRUE(update_files::begin_shared(other, tree, names, deadline::zero()).has_value());
  EXPECT_EQ(begin(other, deadline::zero()).error(), condition::would_block);
  EXPECT_EQ(one.replace(0, {}).error().value(), EBADF);
  EXPECT_EQ(one.commit().error().value(), EBADF);
}

// ── boundary ───────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(update_files_, takes_large_files_and_many) {
  std::string const large(3'000'000, 'x');
  EXPECT_EQ(replace_both(large, ""), std::error_code());
  EXPECT_EQ(text("a"), large);
  std::vector<std::string> many;
  for (int i = 0; i != 300; ++i) many.push_back((i % 2 != 0 ? "sub/" : "") + std::to_string(i));
  std::vector<path_view> const paths(many.begin(), many.end());
  atomic_append m = mutex();
  update_files u = update_files::begin(m, tree, paths).value();
  for (std::size_t i = 0; i != u.size(); ++i) ASSERT_TRUE(u.replace(i, bytes_of(many[i])).has_value());
  ASSERT_TRUE(u.commit().has_value());
  for (auto const& name : many) EXPECT_EQ(text(name), name);
}

TEST_F(update_files_, refuses_paths_that_lead_elsewhere_or_twice_to_one_file) {
  atomic_append m = mutex();
  ASSERT_EQ(::symlink("a", (directory / "tree/link").c_str()), 0);
  ASSERT_EQ(::symlink("sub", (directory / "tree/folder").c_str()), 0);
  ASSERT_EQ(::mkfifo((directory / "tree/fifo").c_str(), 0600), 0);
  auto const why = [&](std::vector<path_view> const& paths) {
    auto const u = update_files::begin(m, tree, paths, 1s);
    return u ? 0 : u.error().value();
  };
  EXPECT_EQ(why({}), EINVAL);
  for (char const* path : {"", "/a", "a/", "./a", "../a", "sub/../a", "sub//b", ".", "sub/.", ".unio-update",
                           ".unio-update.lock", ".unio-updates/a", ".a.unio-new", "a.unio-new"})
    EXPECT_EQ(why({path}), EINVAL) << path;
  EXPECT_EQ(why({"a", "sub/b", "a"}), EINVAL);
  EXPECT_EQ(why({"link"}), ELOOP);
  EXPECT_EQ(why({"folder/b"}), ENOTDIR);
  EXPECT_EQ(why({"sub"}), EISDIR);
  EXPECT_EQ(why({"fifo"}), ENXIO);
  EXPECT_EQ(why({"none/a"}), ENOENT);
  EXPECT_EQ(why({"a/b"}), ENOTDIR);
  EXPECT_EQ(why({std::string(246, 'x')}), ENAMETOOLONG);
  EXPECT_EQ(why({std::string(245, 'x')}), 0);
  EXPECT_EQ(why({"a"}), 0) << "the locks of what was refused are free";
}

// ── errors ─────────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(update_files_, changes_nothing_when_there_is_no_room) {
  EXPECT_EQ(process([this](process::channel&) {
              CHILD_EXPECTS(test::limit_file_size(100'000)); // the lock file is smaller
              std::string const large(200'000, 'x');
              auto const e = replace_both("new a", large);
              return CHILD_MEETS(e.value() == EFBIG);
            }).wait(),
            0);
  EXPECT_EQ(seen(), 'o');
  expect_nothing_left();
}

TEST_F(update_files_, does_not_commit_after_a_replacement_that_failed) {
  atomic_append m = mutex();
  update_files u = begin(m).value();
  ASSERT_TRUE(u.replace(0, bytes_of("new a")).has_value());
  {
    test::replaced_calls calls;
    calls->pwritev2 = [](int, iovec const*, int, std::int64_t, int) noexcept -> std::int64_t {
      return -ENOSPC;
    };
    EXPECT_EQ(u.replace(1, bytes_of("new b")).error().value(), ENOSPC);
  }
  EXPECT_EQ(u.commit().error().value(), ENOSPC);
  EXPECT_EQ(text("a"), "old a");
  ASSERT_TRUE(u.replace(1, bytes_of("new b")).has_value());
  ASSERT_TRUE(u.commit().has_value());
  EXPECT_EQ(text("a") + text("sub/b"), "new anew b");
}

// A rename would fail when it is decided, and then all that is decided would stay so.
TEST_F(update_files_, decides_nothing_that_cannot_be_put_in_place) {
  static std::string_view name;
  static std::uint64_t attributes;
  struct {
    char const* name;
    std::uint64_t attributes;
    int error;
  } const cases[] = {{"b", STATX_ATTR_MOUNT_ROOT, EBUSY},
                     {"b", STATX_ATTR_IMMUTABLE, EPERM},
                     {"b", STATX_ATTR_APPEND, EPERM},
                     {"", STATX_ATTR_APPEND, EPERM}};
  for (auto const& c : cases) {
    name = c.name;
    attributes = c.attributes;
    atomic_append m = mutex();
    update_files u = begin(m).value();
    test::replaced_calls calls;
    calls->statx = [](int d, char const* p, int flags, unsigned mask, struct statx* s) noexcept {
      auto const r = unio::sys::kernel.statx(d, p, flags, mask, s);
      if (p == name) s->stx_attributes |= attributes;
      return r;
    };
    EXPECT_EQ(u.replace(1, bytes_of("new b")).error().value(), c.error);
    (void)u.replace(0, bytes_of("new a"));
    EXPECT_EQ(u.commit().error().value(), c.error);
    EXPECT_FALSE(u.is_decided());
  }
  EXPECT_EQ(seen(), 'o');
  expect_nothing_left();
}

TEST_F(update_files_, reports_what_others_have_removed_before_it_decides) {
  atomic_append m = mutex();
  {
    update_files u = begin(m).value();
    ASSERT_TRUE(u.replace(0, bytes_of("new a")).has_value());
    ASSERT_TRUE(u.replace(1, bytes_of("new b")).has_value());
    ASSERT_TRUE(std::filesystem::remove(directory / "tree/sub/.b.unio-new"));
    EXPECT_EQ(u.commit().error().value(), ENOENT);
    EXPECT_EQ(text("a") + text("sub/b"), "old aold b");
    ASSERT_TRUE(u.replace(1, bytes_of("new b")).has_value());
    ASSERT_TRUE(u.commit().has_value());
  }
  EXPECT_EQ(seen(), 'n');
  expect_nothing_left();
}

TEST_F(update_files_, takes_turns_by_the_file_that_has_the_name) {
  static std::string turn;
  static int removed;
  turn = directory / "tree/.unio-update.lock";
  removed = 0;
  {
    test::replaced_calls calls;
    calls->fcntl = [](int fd, int command, long argument) noexcept {
      auto const r = unio::sys::kernel.fcntl(fd, command, argument);
      struct stat mine{};
      struct stat named{};
      bool const is_it = command == F_OFD_SETLK && ::fstat(fd, &mine) == 0 &&
                         ::stat(turn.c_str(), &named) == 0 && mine.st_ino == named.st_ino;
      if (is_it && removed++ == 0) ::unlink(turn.c_str());
      return r;
    };
    EXPECT_FALSE(replace_both());
  }
  EXPECT_GT(removed, 1);
  EXPECT_TRUE(std::filesystem::exists(turn));
  EXPECT_EQ(seen(), 'n');
}

TEST_F(update_files_, waits_for_a_file_of_which_another_process_has_a_lease) {
  test::replaced_calls calls; // open(2) with O_NONBLOCK: EWOULDBLOCK
  calls->openat = [](int d, char const* p, int f, unsigned m) noexcept -> std::int64_t {
    bool const is_refused = (f & O_NONBLOCK) != 0 && (f & O_PATH) == 0;
    return is_refused ? -EAGAIN : unio::sys::kernel.openat(d, p, f, m);
  };
  EXPECT_EQ(seen(), 'o');
}

// The n-th call of one kind fails, for every n.
struct failing {
  static inline int left = 0;
  static bool now() { return left != 0 && --left == 0; }
};

TEST_F(update_files_, leaves_everything_as_it_was_or_decided_whichever_call_fails) {
  struct kind {
    char const* name;
    void (*plant)(unio::sys::table&);
  };
#define FAILING(call, parameters, arguments, code)                          \
  kind {                                                                    \
    #call, [](unio::sys::table& t) {                                        \
      t.call = [] parameters noexcept -> std::int64_t {                     \
        return failing::now() ? -(code) : unio::sys::kernel.call arguments; \
      };                                                                    \
    }                                                                       \
  }
  kind const kinds[] = {
      FAILING(openat, (int d, char const* p, int f, unsigned m), (d, p, f, m), EMFILE),
      FAILING(pwritev2, (int fd, iovec const* v, int n, std::int64_t at, int f), (fd, v, n, at, f), ENOSPC),
      FAILING(fsync, (int fd), (fd), EIO),
      FAILING(renameat, (int a, char const* b, int c, char const* d, unsigned f), (a, b, c, d, f), EIO),
      FAILING(unlinkat, (int d, char const* p, int f), (d, p, f), EACCES),
      FAILING(fstatat, (int d, char const* p, struct stat* s, int f), (d, p, s, f), EIO),
      FAILING(fstat, (int fd, struct stat* s), (fd, s), EIO),
      FAILING(fchmod, (int fd, unsigned m), (fd, m), EPERM),
      FAILING(fcntl, (int fd, int c, long a), (fd, c, a), ENOLCK),
  };
#undef FAILING
  for (kind const& k : kinds) {
    int failures = 0;
    for (int n = 1; n != 200; ++n) {
      start_again();
      SCOPED_TRACE(std::string(k.name) + " " + std::to_string(n));
      bool decided = false;
      std::error_code why;
      {
        atomic_append m = mutex();
        test::replaced_calls calls;
        k.plant(*calls.operator->());
        failing::left = n;
        auto u = begin(m);
        if (!u) {
          why = u.error();
        } else {
          for (std::size_t i = 0; i != 2 && !why; ++i)
            if (auto const r = u->replace(i, bytes_of(i == 0 ? "new a" : "new b")); !r) why = r.error();
          if (!why)
            if (auto const r = u->commit(); !r) why = r.error();
          decided = u->is_decided();
        }
      }
      bool const all_done = failing::left > 0;
      failing::left = 0;
      bool const is_new = !why || decided;
      EXPECT_EQ(seen(), is_new ? 'n' : 'o') << why.message();
      expect_nothing_left();
      if (all_done) break;
      failures += why ? 1 : 0;
    }
    EXPECT_GT(failures, 0) << k.name;
  }
}

// What is left of an update that was decided as far as this machine knows: its process ends before the disk
// does.
void leave_decided(unio::path_handle const& tree, std::span<path_view const> names, atomic_append m) {
  test::replaced_calls calls;
  calls->renameat = [](int a, char const* from, int b, char const* to, unsigned flags) noexcept {
    auto const r = unio::sys::kernel.renameat(a, from, b, to, flags);
    if (std::string_view(to) == ".unio-update") ::_exit(0);
    return r;
  };
  update_files u = update_files::begin(m, tree, names).value();
  for (std::size_t i = 0; i != names.size(); ++i) u.replace(i, bytes_of(i == 0 ? "new a" : "new b")).value();
  (void)u.commit();
}

TEST_F(update_files_, completes_no_decision_before_the_disk_has_it) {
  process([this](process::channel&) { return leave_decided(tree, names, mutex()), 1; }).wait();
  {
    atomic_append m = mutex();
    test::replaced_calls calls;
    calls->fsync = [](int) noexcept -> std::int64_t { return -EIO; };
    EXPECT_EQ(begin(m).error().value(), EIO);
    EXPECT_EQ(text("a") + text("sub/b"), "old aold b");
  }
  EXPECT_EQ(seen(), 'n');
  expect_nothing_left();
}

// Two errors at once: the decision can be neither synced nor removed.
TEST_F(update_files_, is_decided_if_it_cannot_be_undone) {
  static bool is_decided;
  is_decided = false;
  int const status =
      process([this](process::channel&) {
        atomic_append m = mutex();
        update_files u = begin(m).value();
        u.replace(0, bytes_of("new a")).value();
        u.replace(1, bytes_of("new b")).value();
        test::replaced_calls calls;
        calls->renameat = [](int a, char const* from, int b, char const* to, unsigned flags) noexcept {
          is_decided = is_decided || std::string_view(to) == ".unio-update";
          return unio::sys::kernel.renameat(a, from, b, to, flags);
        };
        calls->fsync = [](int fd) noexcept -> std::int64_t {
          return is_decided ? -EIO : unio::sys::kernel.fsync(fd);
        };
        calls->unlinkat = [](int dir, char const* name, int flags) noexcept -> std::int64_t {
          if (std::string_view(name) == ".unio-update") return -EIO;
          return unio::sys::kernel.unlinkat(dir, name, flags);
        };
        CHILD_EXPECTS(u.commit().error().value() == EIO);
        calls->pwritev2 = [](int, iovec const*, int, std::int64_t, int) noexcept -> std::int64_t {
          return -ENOSPC;
        };
        CHILD_EXPECTS(u.is_decided() && u.replace(0, bytes_of("newer")).error().value() == EIO);
        ::_exit(0);
        return 0;
      }).wait();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(seen(), 'n');
  expect_nothing_left();
}

// ── several users ──────────────────────────────────────────────────────────────────────────────────────────

class update_files_of_users : public update_files_ {
 protected:
  // Who may do what with the mutex and the tree, in all of which one group is.
  void share(unsigned mode, uid_t owner) {
    ASSERT_EQ(::chmod(directory.path().c_str(), 0755), 0);
    directory.write("lock", "");
    for (auto const* path : {"tree", "tree/sub", "tree/a", "tree/sub/b"})
      ASSERT_EQ(::chown((directory / path).c_str(), owner, group), 0);
    for (auto const* path : {"tree", "tree/sub"}) ASSERT_EQ(::chmod((directory / path).c_str(), mode), 0);
    ASSERT_EQ(::chown((directory / "lock").c_str(), 0, group), 0);
    ASSERT_EQ(::chmod((directory / "lock").c_str(), 0660), 0);
  }
  template <class F> int as(uid_t user, F f) {
    return process([&](process::channel&) {
             CHILD_EXPECTS(::setgroups(1, &group) == 0 && ::setgid(user) == 0 && ::setuid(user) == 0);
             return f();
           })
        .wait();
  }
  std::error_code replace_one(path_view name, std::string_view contents) {
    atomic_append m = mutex();
    std::array<path_view, 1> const one{name};
    auto u = update_files::begin(m, tree, one);
    if (!u) return u.error();
    if (auto const r = u->replace(0, bytes_of(contents)); !r) return r.error();
    auto const r = u->commit();
    return r ? std::error_code() : r.error();
  }

  static constexpr gid_t group = 34567;
};

TEST_F(update_files_of_users, are_root_and_the_owner_of_the_tree) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  share(0700, 12345);
  EXPECT_FALSE(replace_both());
  EXPECT_EQ(as(12345, [&] { return CHILD_MEETS(!replace_both("newer a", "newer b")); }), 0);
  EXPECT_EQ(text("a") + text("sub/b"), "newer anewer b");
  EXPECT_FALSE(replace_both("old a", "old b"));
  process([this](process::channel&) { return leave_decided(tree, names, mutex()), 1; }).wait();
  EXPECT_EQ(as(12345, [&] { return CHILD_MEETS(seen() == 'n'); }), 0);
  start_again();
  ASSERT_EQ(::unlink((directory / "tree/.unio-update.lock").c_str()), 0);
  EXPECT_EQ(as(12345, [&] { return CHILD_MEETS(!replace_both()); }), 0);
  EXPECT_FALSE(replace_both("newest", "newest"));
}

TEST_F(update_files_of_users, are_the_members_of_the_group_that_may_write_the_tree) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  share(0770, 0);
  ASSERT_EQ(::chown((directory / "tree/a").c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chown((directory / "tree/sub/b").c_str(), 23456, 23456), 0);
  EXPECT_EQ(as(12345, [&] { return CHILD_MEETS(!replace_one("a", "new a")); }), 0);
  EXPECT_EQ(as(23456, [&] { return CHILD_MEETS(!replace_one("sub/b", "new b")); }), 0);
  EXPECT_EQ(as(23456, [&] { return CHILD_MEETS(replace_one("a", "their a").value() == EPERM); }), 0);
  std::array<path_view, 1> const first{"a"};
  as(12345, [&] { return leave_decided(tree, first, mutex()), 1; });
  EXPECT_EQ(as(23456, [&] { return CHILD_MEETS(!replace_one("sub/c", "new c")); }), 0);
  EXPECT_EQ(text("a") + text("sub/b") + text("sub/c"), "new anew bnew c");
  EXPECT_NE(::access((directory / "tree/.unio-update").c_str(), F_OK), 0);
}

// Who may not write a folder cannot decide there either.
TEST_F(update_files_of_users, are_not_believed_what_others_have_prepared) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  share(0770, 0);
  ASSERT_EQ(::chown((directory / "tree/a").c_str(), 23456, 23456), 0);
  as(23456, [&] { return leave_decided(tree, std::span(names).first(1), mutex()), 1; });
  ASSERT_EQ(::unlink((directory / "tree/.a.unio-new").c_str()), 0);
  directory.write("tree/.a.unio-new", "not decided"); // root's
  EXPECT_EQ(replace_one("sub/b", "new b").value(), EPERM);
  EXPECT_EQ(text("a"), "old a");
}

TEST_F(update_files_of_users, may_read_while_others_decide) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  share(0750, 12345);
  directory.write("tree/c", "c");
  as(12345, [&] { return leave_decided(tree, names, mutex()), 1; });
  EXPECT_EQ(as(23456,
               [&] {
                 atomic_append m = mutex();
                 std::array<path_view, 1> const third{"c"};
                 return CHILD_MEETS(update_files::begin_shared(m, tree, third).has_value());
               }),
            0);
}

// Of a tree that is another user's.
TEST_F(update_files_, others_read_while_a_decision_is_about_other_files) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs another user";
  process([this](process::channel&) { return leave_decided(tree, names, mutex()), 1; }).wait();
  directory.write("tree/c", "c");
  for (auto const* path : {"", "tree"}) ::chmod((directory / path).c_str(), 0755);
  for (auto const* path : {"tree", "tree/.unio-update"})
    ASSERT_EQ(::chown((directory / path).c_str(), 12345, 12345), 0);
  ASSERT_EQ(::chown((directory / "lock").c_str(), 0, 65534), 0);
  ASSERT_EQ(::chmod((directory / "lock").c_str(), 0660), 0);
  EXPECT_EQ(process([this](process::channel&) {
              CHILD_EXPECTS(::setgid(65534) == 0 && ::setuid(65534) == 0);
              atomic_append m = mutex();
              std::array<path_view, 1> const third{"c"};
              auto u = update_files::begin_shared(m, tree, third);
              CHILD_EXPECTS(u.has_value());
              return CHILD_MEETS(u->contents(0).value().size() == 1);
            }).wait(),
            0);
  EXPECT_EQ(seen(), 'n');
}

TEST_F(update_files_, believes_no_decision_that_is_damaged_or_not_ours) {
  atomic_append m = mutex();
  auto const why = [&] {
    auto const u = begin(m, 1s);
    return u ? std::error_code() : u.error();
  };
  // A decision as an attacker would make it.
  auto const made = [](std::vector<std::string> const& paths, std::uint32_t version) {
    std::string body;
    for (auto const& p : paths) {
      auto const n = static_cast<std::uint32_t>(p.size());
      body.append(reinterpret_cast<char const*>(&n), sizeof n).append(p);
    }
    struct {
      char magic[16] = "unio update";
      std::uint32_t version, files;
      std::uint64_t size, checksum = 0;
    } h;
    h.version = version;
    h.files = static_cast<std::uint32_t>(paths.size());
    h.size = sizeof h + body.size();
    std::string all = std::string(reinterpret_cast<char const*>(&h), sizeof h) + body;
    h.checksum = entity_of(all).value;
    std::memcpy(all.data(), &h, sizeof h);
    return all;
  };
  std::string const good = made({"a", "other"}, 1);
  directory.write("outside", "outside");
  directory.write("tree/.a.unio-new", "planted");
  for (std::size_t n = 0; n < good.size(); ++n) {
    directory.write("tree/.unio-update", good.substr(0, n));
    EXPECT_TRUE(why()) << "cut at " << n;
    std::string changed = good;
    changed[n] = static_cast<char>(changed[n] ^ 0x20);
    directory.write("tree/.unio-update", changed);
    EXPECT_TRUE(why()) << "changed at " << n;
  }
  directory.write("tree/.unio-update", made({"a", "other"}, 2));
  EXPECT_EQ(why(), unio::make_error_code(unio::error::newer_lock_file));
  for (std::string const path : {"../outside", "/outside", "sub/../../outside", "", ".unio-update"}) {
    directory.write("tree/.unio-update", made({"a", path}, 1));
    EXPECT_EQ(why(), unio::make_error_code(unio::error::damaged_lock_file)) << path;
  }
  directory.write("tree/.unio-update", good);
  ASSERT_EQ(::chmod((directory / "tree/.unio-update").c_str(), 0666), 0);
  EXPECT_EQ(why(), unio::make_error_code(unio::error::writable_by_all));
  ASSERT_EQ(::chmod((directory / "tree/.unio-update").c_str(), 0600), 0);
  EXPECT_EQ(text("a"), "old a");
  EXPECT_EQ(directory.read("outside"), "outside");
  EXPECT_EQ(why(), std::error_code());
  EXPECT_EQ(text("a"), "planted") << "what is right is believed";
  ASSERT_EQ(::mkfifo((directory / "tree/.unio-update").c_str(), 0600), 0);
  EXPECT_EQ(why(), unio::make_error_code(unio::error::not_a_lock_file));
  ASSERT_EQ(::unlink((directory / "tree/.unio-update").c_str()), 0);
  ASSERT_EQ(::symlink("a", (directory / "tree/.unio-update").c_str()), 0);
  EXPECT_EQ(why().value(), ELOOP);
}

// ── lifetime ───────────────────────────────────────────────────────────────────────────────────────────────

TEST_F(update_files_, does_nothing_in_a_child_of_fork) {
  atomic_append m = mutex();
  update_files u = begin(m).value();
  ASSERT_TRUE(u.replace(0, bytes_of("new a")).has_value());
  int const status = process([&u](process::channel&) {
                       auto const inherited = unio::make_error_code(unio::error::inherited_by_fork);
                       bool const all = u.commit().error() == inherited &&
                                        u.contents(0).error() == inherited &&
                                        u.replace(1, {}).error() == inherited;
                       update_files const gone = std::move(u);
                       return CHILD_MEETS(all);
                     }).wait();
  EXPECT_EQ(status, 0);
  EXPECT_EQ(begin(m, deadline::zero()).error(), condition::would_block);
  ASSERT_TRUE(u.commit().has_value());
  EXPECT_EQ(text("a"), "new a");
}

// Transfers between random pairs of eight files, from four processes that are killed in between: the sum
// stays.
TEST_F(update_files_, conserves_a_sum_whoever_is_killed) {
  std::vector<std::string> accounts;
  for (int i = 0; i != 8; ++i) {
    accounts.push_back("account " + std::to_string(i));
    directory.write("tree/" + accounts.back(), "1000");
  }
  auto const transfers = [&](unsigned seed) {
    std::minstd_rand random(seed);
    atomic_append m = mutex();
    for (;;) {
      unsigned const from = static_cast<unsigned>(random() % 8);
      unsigned const to = (from + 1 + static_cast<unsigned>(random() % 7)) % 8;
      std::array<path_view, 2> const pair{accounts[from], accounts[to]};
      auto u = update_files::begin(m, tree, pair);
      CHILD_EXPECTS(u);
      std::array<long, 2> have{};
      for (std::size_t i = 0; i != 2; ++i) {
        auto const c = u->contents(i);
        CHILD_EXPECTS(c);
        have[i] = std::stol(std::string(reinterpret_cast<char const*>(c->data()), c->size()));
      }
      long const moved = static_cast<long>(random() % 100);
      CHILD_EXPECTS(u->replace(0, bytes_of(std::to_string(have[0] - moved))));
      CHILD_EXPECTS(u->replace(1, bytes_of(std::to_string(have[1] + moved))));
      CHILD_EXPECTS(u->commit());
    }
  };
  std::mt19937 random(20);
  for (unsigned round = 0; round != 40; ++round) {
    std::vector<process> all;
    for (unsigned i = 0; i != 4; ++i)
      all.emplace_back([&, seed = round * 4 + i + 1](process::channel&) { return transfers(seed); });
    ::usleep(1'000 + static_cast<unsigned>(random() % 30'000));
    for (process& p : all) p.kill();
    all.clear();
    atomic_append m = mutex();
    std::vector<path_view> const paths(accounts.begin(), accounts.end());
    update_files u = update_files::begin_shared(m, tree, paths, 10s).value();
    long sum = 0;
    for (std::size_t i = 0; i != u.size(); ++i) {
      auto const c = u.contents(i).value();
      sum += std::stol(std::string(reinterpret_cast<char const*>(c.data()), c.size()));
    }
    ASSERT_EQ(sum, 8000) << "round " << round;
  }
}

#if defined(UNIO_LOCKS_HOOKS)

// ── killed at each step ────────────────────────────────────────────────────────────────────────────────────

int kill_at = 0; // the how manieth step of an update
bool is_undecided = false;

} // namespace

namespace unio::inline v0_1::fs::hooks {
void step(char const* name) noexcept {
  if (kill_at != 0 && std::strncmp(name, "update.", 7) == 0 && --kill_at == 0) ::raise(SIGKILL);
}
bool defect(char const* id) noexcept { return is_undecided && std::strcmp(id, "update.undecided") == 0; }
} // namespace unio::fs::hooks

namespace {

TEST_F(update_files_, is_all_or_none_wherever_its_owner_is_killed_and_who_recovers_it) {
  int kills = 0;
  int recoveries_killed = 0;
  std::string outcomes;
  for (int first = 1; first != 100; ++first) {
    bool ended = false;
    for (int second = 0; second != 100; ++second) {
      start_again();
      ended = process([&](process::channel&) {
                kill_at = first;
                return replace_both() ? 1 : 0;
              }).wait() == 0;
      if (ended) break;
      ++kills;
      bool recovered = true;
      if (second != 0) {
        recovered = process([&](process::channel&) {
                      kill_at = second;
                      atomic_append m = mutex();
                      return CHILD_MEETS(begin(m));
                    }).wait() != -1;
        recoveries_killed += recovered ? 0 : 1;
      }
      char const now = seen();
      EXPECT_TRUE(now == 'o' || now == 'n') << now << " after step " << first << ", recovery step " << second;
      if (second == 0) outcomes += now;
      expect_nothing_left();
      if (second != 0 && recovered) break;
    }
    if (ended) break;
  }
  EXPECT_EQ(seen(), 'n');
  EXPECT_GT(kills, 40);
  EXPECT_GT(recoveries_killed, 20);
  EXPECT_TRUE(outcomes.find("on") != std::string::npos && outcomes.find("no") == std::string::npos)
      << outcomes;
}

TEST_F(update_files_, of_other_files_completes_what_was_decided) {
  for (int first = 1; first != 100; ++first) {
    start_again();
    bool const ended = process([&](process::channel&) {
                         kill_at = first;
                         return replace_both() ? 1 : 0;
                       }).wait() == 0;
    {
      atomic_append m = mutex();
      std::array<path_view, 1> const third{"c"};
      update_files u = update_files::begin(m, tree, third).value();
      EXPECT_FALSE(u.has_recovered());
      ASSERT_TRUE(u.replace(0, bytes_of("c")).has_value());
      ASSERT_TRUE(u.commit().has_value());
    }
    char const now = seen();
    EXPECT_TRUE(now == 'o' || now == 'n') << now << " after step " << first;
    std::filesystem::remove(directory / "tree/c");
    expect_nothing_left();
    if (ended) break;
  }
}

// Without the decision the tests above would have seen a mixture.
TEST_F(update_files_, is_caught_when_it_does_not_decide) {
  int mixed = 0;
  for (int first = 1; first != 100; ++first) {
    start_again();
    bool const ended = process([&](process::channel&) {
                         is_undecided = true;
                         kill_at = first;
                         return replace_both() ? 1 : 0;
                       }).wait() == 0;
    mixed += seen() == 'm' ? 1 : 0;
    if (ended) break;
  }
  EXPECT_GT(mixed, 0);
}

#endif

} // namespace
