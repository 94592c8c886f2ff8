// A folder with a lock file in it, and what the tests of all algorithms do with one.

#pragma once

#include "support/posix.hpp"
#include "support/process.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <unio/locks/shared_fs_mutex.hpp>

namespace test {

inline std::error_code system_error(int code) { return {code, std::system_category()}; }

/// A mutex of one of the algorithms, as the base class.
template <class Mutex>
unio::result<std::unique_ptr<unio::fs::shared_fs_mutex>> opened(std::string const& path) {
  unio::result<Mutex> m = Mutex::open(path);
  if (!m) return m.error();
  return std::unique_ptr<unio::fs::shared_fs_mutex>(std::make_unique<Mutex>(std::move(*m)));
}

/// Locks them in a process that is killed then.
template <class Open> void die_with(Open open, std::vector<unio::fs::entity> const& entities) {
  process other([&](process::channel& with) {
    auto m = open();
    auto const held = m.lock(entities).value();
    with.say('h');
    with.hear();
    return 0;
  });
  EXPECT_EQ(other.hear(), 'h');
  other.kill();
}

template <class Mutex> class lock_file_fixture : public ::testing::Test {
 protected:
  [[nodiscard]] Mutex open() const { return Mutex::open(path).value(); }
  [[nodiscard]] std::error_code opening(std::string_view name) const {
    return Mutex::open(directory / name).error();
  }
  /// A good lock file, of which the test may change a copy.
  [[nodiscard]] std::string good() const {
    if (!std::filesystem::exists(path)) (void)open();
    return directory.read("lock");
  }
  /// Opening a file of this content fails, and changes nothing.
  void expect_refused(std::string const& content, unio::error why) const {
    directory.write("file", content);
    std::filesystem::permissions(directory / "file", std::filesystem::perms(0600));
    EXPECT_EQ(opening("file"), why);
    EXPECT_TRUE(directory.read("file") == content) << "it was changed";
  }
  /// An empty file beside the lock file, which another process may be about to fill, is replaced instead.
  void expect_not_filled(std::string_view name, unio::fs::entity e) const {
    directory.write(name, "");
    std::filesystem::permissions(directory / name, std::filesystem::perms(0600));
    int const another = ::open((directory / name).c_str(), O_RDWR | O_CLOEXEC);
    ASSERT_GE(another, 0);
    EXPECT_TRUE(open().lock(e).has_value());
    struct stat s;
    ASSERT_EQ(::fstat(another, &s), 0);
    EXPECT_EQ(s.st_size, 0);
    EXPECT_EQ(s.st_nlink, 0U);
    ::close(another);
  }
  void die_with(std::vector<unio::fs::entity> const& entities) const {
    test::die_with([this] { return open(); }, entities);
  }

  temporary_directory directory;
  std::string path = directory / "lock";
};

} // namespace test
