#include "append/source.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace append_bench {
namespace {

[[noreturn]] void fail(char const* what) { throw std::system_error(errno, std::generic_category(), what); }

} // namespace

source::source(way w, pace p, std::uint64_t records) : pace_(p), bytes_(records * record_bytes(p)) {
  std::array<int, 2> asked;
  if (::pipe2(asked.data(), O_CLOEXEC) != 0) fail("pipe2");
  asking_ = asked[1];
  int to = -1;
  if (w == way::pipe) {
    std::array<int, 2> ends;
    if (::pipe2(ends.data(), O_CLOEXEC) != 0) fail("pipe2");
    pipe_ = ends[0];
    to = ends[1];
  } else {
    file_ = std::filesystem::read_symlink("/proc/self/exe").parent_path() / "append_XXXXXX";
    to = ::mkostemp(file_.data(), O_CLOEXEC | O_APPEND);
    if (to < 0) fail("mkostemp");
  }
  writer_.emplace([this, to, from = asked[0], records] {
    ::close(asking_); // so that asking ends when the subject does
    write_all(to, from, records);
  });
  ::close(to);
  ::close(asked[0]);
}

source::~source() {
  if (pipe_ >= 0) ::close(pipe_);
  ::close(asking_);
  if (!file_.empty()) ::unlink(file_.c_str());
}

void source::ask() {
  char const one = 1;
  if (::write(asking_, &one, 1) != 1) fail("ask");
}

void source::write_all(int to, int asked, std::uint64_t records) const {
  std::array<unsigned char, 256 + 4096> block;
  for (std::size_t i = 0; i < block.size(); ++i) block[i] = static_cast<unsigned char>(i);
  std::size_t at = 0;
  char one = 0;
  for (std::uint64_t i = 0; i < records; ++i) {
    if ((i == 0 || pace_ == pace::one_by_one) && ::read(asked, &one, 1) != 1) return;
    for (std::size_t left = record_bytes(pace_); left != 0;) {
      ssize_t const n = ::write(to, block.data() + at % 256, left);
      if (n <= 0) return;
      left -= static_cast<std::size_t>(n);
      at += static_cast<std::size_t>(n);
    }
  }
  (void)::read(asked, &one, 1); // its end of a pipe stays open until all was read
}

bool source::took(unsigned char const* room, std::size_t n) {
  if (n == 0) throw std::runtime_error("it ends after " + std::to_string(got_) + " bytes");
  if (room[0] != static_cast<unsigned char>(got_) || room[n - 1] != static_cast<unsigned char>(got_ + n - 1))
    throw std::runtime_error("what was read is not what was written");
  got_ += n;
  bool const more = got_ < bytes_;
  if (more && pace_ == pace::one_by_one && got_ % record_bytes(pace_) == 0) ask();
  return more;
}

std::vector<benchmarks::benchmark_case> cases_of(
    std::string const& subject, way w, std::function<benchmarks::sample(std::uint64_t, source&)> const& run) {
  std::vector<benchmarks::benchmark_case> all;
  for (pace const p : {pace::in_a_row, pace::one_by_one})
    all.push_back({.subject = subject,
                   .parameters = {{"records", p == pace::in_a_row ? "in a row" : "one by one"}},
                   .run = [=](std::uint64_t records) {
                     source from(w, p, records);
                     return run(records, from);
                   }});
  return all;
}

} // namespace append_bench
