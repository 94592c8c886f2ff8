// Trees to walk, remove and copy.

#pragma once

#include "support/kernel.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

namespace test {

/// Deeper than paths and stacks.
inline constexpr int deep = under_sanitizer ? 20'000 : 100'000;
/// How many names are many: UNIO_TEST_NAMES, for a million on demand.
inline int many() {
  char const* const n = std::getenv("UNIO_TEST_NAMES");
  return n != nullptr ? std::atoi(n) : under_sanitizer ? 10'000 : 100'000;
}

/// Makes `levels` directories named "d" one in the other, below the path, by descriptors. `comb`: beside each
/// of them are the directories "a" and "z".
inline void make_deep(std::string const& path, int levels, bool comb = false) {
  int at = ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  ASSERT_GE(at, 0);
  for (int i = 0; i != levels; ++i) {
    ASSERT_EQ(::mkdirat(at, "d", 0755), 0);
    ASSERT_TRUE(!comb || (::mkdirat(at, "a", 0755) == 0 && ::mkdirat(at, "z", 0755) == 0));
    int const next = ::openat(at, "d", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    ASSERT_GE(next, 0);
    ::close(at);
    at = next;
  }
  ::close(at);
}

/// A directory in memory where there is such a place, for trees of many names; removed by rm(1), which takes
/// what std::filesystem cannot: paths that are too long.
class quick_directory {
 public:
  quick_directory() {
    std::string name =
        (::access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp") + std::string("/unio-test-XXXXXX");
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  quick_directory(quick_directory const&) = delete;
  quick_directory& operator=(quick_directory const&) = delete;
  ~quick_directory() {
    std::string const remove = "chmod -R u+rwx '" + path_ + "' 2>/dev/null; rm -rf '" + path_ + "'";
    if (::system(remove.c_str()) != 0) std::perror(path_.c_str());
  }
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

/// While it lives the process may have 64 descriptors.
class few_descriptors {
 public:
  few_descriptors() {
    EXPECT_EQ(::getrlimit(RLIMIT_NOFILE, &before_), 0);
    rlimit const few{64, before_.rlim_max};
    EXPECT_EQ(::setrlimit(RLIMIT_NOFILE, &few), 0);
  }
  few_descriptors(few_descriptors const&) = delete;
  few_descriptors& operator=(few_descriptors const&) = delete;
  ~few_descriptors() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

inline void make_file(std::string const& path, std::string_view text = "") {
  int const fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
  ASSERT_GE(fd, 0) << path;
  ASSERT_EQ(::write(fd, text.data(), text.size()), static_cast<ssize_t>(text.size()));
  ::close(fd);
}

/// `directories` in each other's parents, with `files` in each.
inline void make_bushy(std::string const& path, int directories, int files, int levels) {
  ::mkdir(path.c_str(), 0755);
  for (int f = 0; f != files; ++f) make_file(path + "/file" + std::to_string(f), "text");
  if (levels == 0) return;
  for (int d = 0; d != directories; ++d)
    make_bushy(path + "/dir" + std::to_string(d), directories, files, levels - 1);
}

/// Whether a claim holds in a process of a user whom the modes apply to.
template <class F> bool as_nobody(F claim) {
  pid_t const child = ::fork();
  if (child == 0) {
    if (::geteuid() == 0 && ::setuid(65534) != 0) ::_exit(2);
    ::_exit(claim() ? 0 : 1);
  }
  int status = 0;
  return ::waitpid(child, &status, 0) == child && status == 0;
}

inline bool exists(std::string const& path) {
  struct stat s{};
  return ::lstat(path.c_str(), &s) == 0;
}

} // namespace test
