#include "walk.hpp"

#include "complain.hpp"
#include "numbers.hpp"
#include "tools/support/output.hpp"

#include <unio/fs/walk.hpp>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <memory>
#include <string_view>

namespace walk {
namespace {

constexpr std::size_t most_buffered = std::size_t{64} << 10;
constexpr int most_threads = 64;
constexpr std::int64_t deepest = 1 << 30;

std::string joined(std::string const& root, std::string_view below) {
  if (below.empty()) return root;
  return fmt::format("{}{}{}", root, root.ends_with('/') ? "" : "/", below);
}

void complain_about(std::string const& root, unio::fs::tree_failure const& f) noexcept {
  say(1, joined(root, f.path), f.why.message());
}

char letter(unio::entry_kind k) noexcept {
  switch (k) {
    case unio::entry_kind::file:
      return 'f';
    case unio::entry_kind::directory:
      return 'd';
    case unio::entry_kind::symlink:
      return 'l';
    case unio::entry_kind::pipe:
      return 'p';
    case unio::entry_kind::socket:
      return 's';
    case unio::entry_kind::block_device:
      return 'b';
    case unio::entry_kind::character_device:
      return 'c';
    default:
      return '?';
  }
}

// Lines are collected for each thread and written many at once. A line is never torn: stdout has a lock.
class printer final : public unio::fs::walk_visitor {
 public:
  printer(options const& o, std::string const& root)
      : options_(o), root_(root), for_people_(!o.null && ::isatty(STDOUT_FILENO) == 1) {}

  unio::fs::walk_step entry(unio::fs::walk_entry const& e) noexcept override {
    if (!options_.type.empty() && options_.type.find(letter(e.kind())) == std::string::npos)
      return unio::fs::walk_step::go_on;
    buffer& b = buffers_[static_cast<std::size_t>(e.thread())];
    std::string_view const below = e.path();
    std::size_t const size = root_.size() + below.size() + 2;
    if (b.size + size > most_buffered) flush(b);
    if (size > most_buffered || for_people_) {
      std::string const path = joined(root_, below);
      std::string const line = (for_people_ ? escaped(path) : path) + end();
      is_broken_ = is_broken_ || std::fwrite(line.data(), 1, line.size(), stdout) != line.size();
    } else {
      if (b.text == nullptr) b.text = std::make_unique<char[]>(most_buffered);
      char* to = std::copy(root_.begin(), root_.end(), b.text.get() + b.size);
      if (!below.empty()) {
        if (!root_.ends_with('/')) *to++ = '/';
        to = std::copy(below.begin(), below.end(), to);
      }
      *to++ = end();
      b.size = static_cast<std::size_t>(to - b.text.get());
    }
    return is_broken_ ? unio::fs::walk_step::stop : unio::fs::walk_step::go_on;
  }
  void failed(unio::fs::tree_failure const& f) noexcept override { complain_about(root_, f); }

  void finish() noexcept {
    for (buffer& b : buffers_) flush(b);
  }

 private:
  struct alignas(64) buffer {
    std::unique_ptr<char[]> text;
    std::size_t size = 0;
  };
  [[nodiscard]] char end() const noexcept { return options_.null ? '\0' : '\n'; }
  void flush(buffer& b) noexcept {
    if (b.size != 0 && std::fwrite(b.text.get(), 1, b.size, stdout) != b.size) is_broken_ = true;
    b.size = 0;
  }

  options const& options_;
  std::string const& root_;
  bool const for_people_; // on a terminal
  std::array<buffer, most_threads> buffers_;
  std::atomic<bool> is_broken_ = false;
};

unio::fs::walk_options with(options const& o) {
  unio::fs::walk_options w;
  w.threads = o.threads;
  w.cross_mounts = o.cross_mounts;
  w.follow_links = o.follow;
  w.ordered = o.sort;
  if (o.depth >= 0) w.max_depth = static_cast<std::uint32_t>(o.depth);
  return w;
}

bool list(options const& o, std::string const& root) {
  printer p(o, root);
  auto const r = unio::fs::walk({}, root, p, with(o));
  p.finish();
  if (!r) say(1, root, r.error().code().message());
  if (r && r->ended) say(1, root, r->ended.message());
  return r && r->failures.empty() && !r->ended;
}

bool summarize(options const& o, std::string const& root) {
  auto const r = unio::fs::summarize({}, root, with(o));
  if (!r) {
    say(1, root, r.error().code().message());
    return false;
  }
  for (std::size_t i = 0; i != r->failures.kept(); ++i) complain_about(root, r->failures[i]);
  if (r->failures.count() > r->failures.kept())
    say(1, root, fmt::format("and {} more", r->failures.count() - r->failures.kept()));
  if (r->ended) say(1, root, r->ended.message());
  tools::print(
      "{}: {} files, {} directories, {} links, {} others; {} bytes, {} allocated; {} further names; "
      "deepest {}\n",
      escaped(root), r->files, r->directories, r->symlinks, r->others, r->size, r->allocated,
      r->further_names, r->deepest);
  return r->failures.empty() && !r->ended;
}

std::string known_types(std::string const& types) {
  return types.find_first_not_of("fdlpsbc") == std::string::npos && !types.empty()
             ? ""
             : "the kinds are f, d, l, p, s, b and c, not \"" + types + '"';
}

} // namespace

void describe(CLI::App& app, options& o) {
  app.footer(
      "Never goes through a link or across a mount unless told. Without --sort the order is any.\n\n"
      "Exit status: 0; 1 if something could not be read or printed; 2 for wrong usage.");
  app.add_option("path", o.paths, "Where to begin; by default here")->type_name("PATH");
  app.add_flag("--summary", o.summary, "Count instead of listing; hard links count once in the sizes");
  app.add_option("--type", o.type, "Only these kinds: some of f d l p s b c, in one word")
      ->type_name("KINDS")
      ->check(known_types);
  app.add_option("--depth", o.depth, "How deep to go; 0: only PATH itself")
      ->type_name("N")
      ->check(whole_number(0, deepest));
  app.add_option("--threads", o.threads, "How many threads; by default one for each processor, at most 8")
      ->type_name("N")
      ->check(whole_number(1, most_threads));
  app.add_flag("--sort", o.sort, "Names in order, directory after directory, on one thread");
  app.add_flag("-0,--null", o.null, "End each path with a zero byte");
  app.add_flag("--follow", o.follow, "Go into directories that links lead to, each once");
  app.add_flag("--cross-mounts", o.cross_mounts, "Go into what is mounted below");
}

int run(options const& o) {
  std::vector<std::string> const here{"."};
  bool ok = true;
  for (std::string const& root : o.paths.empty() ? here : o.paths)
    ok = (o.summary ? summarize(o, root) : list(o, root)) && ok;
  int const status = tools::finish_output("unio");
  return ok ? status : 1;
}

} // namespace walk
