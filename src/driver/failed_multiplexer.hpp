// src/driver/failed_multiplexer.hpp: a multiplexer on which every operation ends at once with the same error.

#pragma once

#include "driver/choose.hpp"
#include "driver/ended.hpp"
#include "sys/give_way.hpp"

#include <unio/multiplexer.hpp>

namespace unio::inline v0_1::driver {

/// What stands where none could be made, or where one was.
class failed_multiplexer final : public io_multiplexer {
 public:
  std::error_code why;
  bool was_one = false;

  using io_multiplexer::post;
  void post(work& w) noexcept override { w(false); }
  void wake() noexcept override {}
  // Nothing is ever queued.
  bool withdraw(work&) noexcept override { return false; }
  // No thread runs what is left of one: what wants to continue there is told that it does not.
  [[nodiscard]] runner run_by() const noexcept override {
    return was_one ? runner::none_yet : runner::this_thread;
  }
  unio::capabilities capabilities() const override {
    return {.driver = "none", .why = was_one ? why.message() : why_none(why)};
  }
  unio::counters counters() const noexcept override { return {}; }
  void start(io_operation& op) noexcept override { end_at_once(op, detail::to_native(why)); }
  io_status poll(io_operation&) noexcept override { return io_status::completed; }
  void cancel(io_operation&) noexcept override {}
  void forget(int) noexcept override {}
  // All have ended, but another thread may be notifying the receiver of an atomic form.
  void finish(io_operation& op) noexcept override {
    sys::await_other([&] { return op.finished(); });
  }

 protected:
  result<int> do_complete_io(int, std::int64_t) noexcept override { return why; }
  result<int> do_timeout_io(int, std::int64_t) noexcept override { return why; }
  result<int> do_invoke_posted(int, std::int64_t) noexcept override { return why; }
  result<int> do_run(int, std::int64_t) noexcept override { return why; }
};

} // namespace unio::driver
