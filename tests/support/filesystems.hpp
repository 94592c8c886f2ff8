// Tests that run on each filesystem which this machine has or can mount: that of the temporary directory,
// tmpfs, and, as root, an overlay and, with mkfs and loop devices, ext4, xfs and btrfs.

#pragma once

#include "support/drivers.hpp"
#include "support/posix.hpp"
#include "support/temporary_directory.hpp"
#include "support/test.hpp"

#include <sys/mount.h>
#include <sys/statfs.h>

namespace test {

/// A directory on a filesystem of the kind that is asked for, unmounted at the end; or why there is none.
class on_filesystem {
 public:
  explicit on_filesystem(std::string const& kind) {
    if (kind == "tmpfs") {
      mount_at_ = "/dev/shm";
      struct statfs s{};
      if (::statfs(mount_at_.c_str(), &s) != 0 || s.f_type != 0x01021994) missing_ = "/dev/shm is no tmpfs";
    } else if (kind != "default") {
      mount(kind);
    }
    if (!missing_.empty()) return;
    if (!mount_at_.empty()) temporary_.emplace("TMPDIR", mount_at_.c_str());
    directory_.emplace();
  }
  on_filesystem(on_filesystem const&) = delete;
  on_filesystem& operator=(on_filesystem const&) = delete;
  ~on_filesystem() {
    directory_.reset();
    temporary_.reset();
    if (is_mounted_) ::umount2(mount_at_.c_str(), MNT_DETACH);
  }

  /// Why there is none; empty if there is.
  [[nodiscard]] std::string const& missing() const { return missing_; }
  [[nodiscard]] temporary_directory const& directory() const { return *directory_; }

 private:
  static bool run(std::string const& command) {
    int const status = std::system((command + " >/dev/null 2>&1").c_str()); // NOLINT: fixed text
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  void mount(std::string const& kind) {
    if (::geteuid() != 0) {
      missing_ = "only root can mount " + kind;
      return;
    }
    if (kind == "overlay") return mount_overlay();
    if (!run("command -v mkfs." + kind)) {
      missing_ = "there is no mkfs." + kind;
      return;
    }
    where_.emplace();
    std::string const image = *where_ / "image";
    std::ofstream(image).close();
    std::filesystem::resize_file(image, std::uintmax_t{kind == "xfs" ? 320U : 128U} << 20);
    mount_at_ = *where_ / "mounted";
    std::filesystem::create_directory(mount_at_);
    std::string const quiet = kind == "ext4" ? " -q -F " : " -q ";
    if (!run("mkfs." + kind + quiet + image) || !run("mount -o loop " + image + " " + mount_at_)) {
      missing_ = kind + " cannot be mounted here";
      return;
    }
    is_mounted_ = true;
  }

  void mount_overlay() {
    where_.emplace();
    for (char const* const name : {"lower", "upper", "work", "mounted"})
      std::filesystem::create_directory(*where_ / name);
    mount_at_ = *where_ / "mounted";
    std::string const layers = "lowerdir=" + (*where_ / "lower") + ",upperdir=" + (*where_ / "upper") +
                               ",workdir=" + (*where_ / "work");
    is_mounted_ = ::mount("overlay", mount_at_.c_str(), "overlay", 0, layers.c_str()) == 0;
    if (!is_mounted_) missing_ = "an overlay cannot be mounted here";
  }

  std::string missing_;
  std::optional<temporary_directory> where_; // outlives the mount
  std::string mount_at_;
  bool is_mounted_ = false;
  std::optional<environment_variable> temporary_;
  std::optional<temporary_directory> directory_;
};

class on_each_filesystem : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!there_.missing().empty()) GTEST_SKIP() << there_.missing();
  }
  [[nodiscard]] temporary_directory const& directory() const { return there_.directory(); }

 private:
  on_filesystem there_{GetParam()};
};

} // namespace test

#define UNIO_ON_EACH_FILESYSTEM(suite)                                                               \
  INSTANTIATE_TEST_SUITE_P(filesystem, suite,                                                        \
                           ::testing::Values("default", "tmpfs", "ext4", "xfs", "btrfs", "overlay"), \
                           [](auto const& of) { return of.param; })
