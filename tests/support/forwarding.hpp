// A multiplexer that has another one do everything, for tests that change how one thing is done.

#pragma once

#include <unio/multiplexer.hpp>

namespace test {

class forwarding_multiplexer : public unio::io_multiplexer {
 public:
  using io_multiplexer::post;
  void post(unio::work& w) noexcept override { real_.post(w); }
  void wake() noexcept override { real_.wake(); }
  [[nodiscard]] unio::capabilities capabilities() const override { return real_.capabilities(); }
  [[nodiscard]] unio::counters counters() const noexcept override { return real_.counters(); }
  void start(unio::io_operation& op) noexcept override { real_.start(op); }
  unio::io_status poll(unio::io_operation& op) noexcept override { return real_.poll(op); }
  void cancel(unio::io_operation& op) noexcept override { real_.cancel(op); }
  void forget(int fd) noexcept override { real_.forget(fd); }
  void finish(unio::io_operation& op) noexcept override { real_.finish(op); }

 protected:
  /// `several`: as io_multiplexer's constructor.
  explicit forwarding_multiplexer(unio::io_multiplexer& real, bool several = false) noexcept
      : io_multiplexer(several), real_(real) {}
  unio::result<int> do_complete_io(int, std::int64_t) noexcept override { return real_.complete_io(); }
  unio::result<int> do_timeout_io(int, std::int64_t) noexcept override { return real_.timeout_io(); }
  unio::result<int> do_invoke_posted(int, std::int64_t) noexcept override {
    return real_.invoke_posted_items();
  }
  unio::result<int> do_run(int, std::int64_t) noexcept override { return real_.run(); }

  unio::io_multiplexer& real_;
};

} // namespace test
