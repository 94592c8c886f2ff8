// A directory of a test's own, removed with all that is in it.

#pragma once

#include <unio/file_handle.hpp>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <string_view>

namespace test {

using mode = unio::handle::mode;
using creation = unio::handle::creation;
using caching = unio::handle::caching;

class temporary_directory {
 public:
  temporary_directory() {
    std::string name = (std::filesystem::temp_directory_path() / "unio-test-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = std::filesystem::canonical(name).string();
    handle_ = unio::path_handle::path(path_).value();
  }
  temporary_directory(temporary_directory const&) = delete;
  temporary_directory& operator=(temporary_directory const&) = delete;
  ~temporary_directory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  [[nodiscard]] unio::path_handle const& handle() const { return handle_; }
  [[nodiscard]] std::string const& path() const { return path_; }
  [[nodiscard]] std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

  /// How many names are in it.
  [[nodiscard]] std::ptrdiff_t count() const {
    return std::distance(std::filesystem::directory_iterator(path_), std::filesystem::directory_iterator());
  }
  void write(std::string_view name, std::string_view text) const {
    std::ofstream(*this / name, std::ios::binary) << text;
  }
  [[nodiscard]] std::string read(std::string_view name) const {
    std::ifstream file(*this / name, std::ios::binary);
    std::string text;
    std::string piece(std::size_t{1} << 16, '\0'); // one character after the other takes a sanitizer seconds
    while (file.read(piece.data(), static_cast<std::streamsize>(piece.size())), file.gcount() > 0)
      text.append(piece, 0, static_cast<std::size_t>(file.gcount()));
    return text;
  }

 private:
  std::string path_;
  unio::path_handle handle_;
};

} // namespace test

/// A test with a `directory` of its own.
#define DIRECTORY_TEST(suite, name)                                              \
  static void suite##_##name##_in(::test::temporary_directory const& directory); \
  TEST(suite, name) { suite##_##name##_in(::test::temporary_directory()); }      \
  static void suite##_##name##_in([[maybe_unused]] ::test::temporary_directory const& directory)
