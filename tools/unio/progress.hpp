// Progress of `unio rm` and `unio cp`, and the signals that end them.
//
//   progress       failures and progress of an algorithm on trees, on stderr
//   interruption   the signals that end a program request a stop

#pragma once

#include <unio/fs/tree.hpp>
#include <unio/stop_token.hpp>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>

namespace CLI {
class App;
}

namespace progress {

/// How often progress is shown: never; as a line of a terminal that is drawn again, at most 10 times a
/// second; as a line of JSON, once a second and at the end.
enum class shown : std::uint8_t { never, bar, json };

/// What --progress says: "auto" (a bar where stderr is a terminal), "bar", "json", "none".
[[nodiscard]] shown how(std::string const& option);

/// Adds --threads and --progress, which set these.
void describe(CLI::App& app, int& threads, std::string& option);

/// Bytes, or entries, of each second by a window of the last five; what is left by that, once the window is
/// full and the rate has not changed by more than a third.
class rate {
 public:
  void add(std::chrono::steady_clock::time_point now, std::uint64_t done) noexcept;
  [[nodiscard]] double per_second() const noexcept;
  [[nodiscard]] bool is_stable() const noexcept;

 private:
  struct sample {
    std::chrono::steady_clock::time_point when;
    std::uint64_t done;
  };
  static constexpr std::size_t size = 20; // a quarter of a second each
  std::array<sample, size> samples_{};
  std::size_t count_ = 0;
  double before_ = 0;
};

class sink final : public unio::fs::tree_sink {
 public:
  /// `verb` is of JSON's first field; `root` is put before the paths of failures.
  sink(shown how, std::string verb, std::string root) noexcept;
  void failed(unio::fs::tree_failure const& f) noexcept override;
  void progress(unio::fs::tree_progress const& p) noexcept override;
  /// Clears the bar, or prints the last line of JSON.
  void finish() noexcept;

 private:
  [[nodiscard]] std::string bar(unio::fs::tree_progress const& p) const;
  [[nodiscard]] std::string json(unio::fs::tree_progress const& p) const;

  shown how_;
  std::string verb_;
  std::string root_;
  std::chrono::steady_clock::time_point shown_at_{};
  std::chrono::steady_clock::time_point sampled_at_{};
  rate rate_;
  unio::fs::tree_progress last_{};
  bool is_drawn_ = false;
};

/// "1.5 GiB"
[[nodiscard]] std::string bytes(std::uint64_t n);

/// While it lives a signal that would end the program requests a stop; one that comes later than 250 ms after
/// the first ends the program. From then on, until the end of the program, a write that fails is an error and
/// no signal (SIGPIPE, SIGXFSZ). There is one at a time.
class interruption {
 public:
  interruption() noexcept;
  interruption(interruption const&) = delete;
  interruption& operator=(interruption const&) = delete;
  ~interruption();

  [[nodiscard]] unio::stop_token token() noexcept { return source_.get_token(); }
  /// The signal, or 0.
  [[nodiscard]] int signal() const noexcept { return signal_.load(); }

 private:
  static void came(int signal) noexcept;

  unio::stop_source source_;
  std::atomic<int> signal_{0};
  std::chrono::steady_clock::time_point first_; // when that came
  sigset_t handled_{};
};

/// Ends the program by the signal, as if nothing had caught it, so that a shell that waits for it ends, too.
[[noreturn]] void die_by(int signal) noexcept;

} // namespace progress
