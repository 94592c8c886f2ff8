// Running tasks and checking where they run; one next to another.

#pragma once

#include "support/test.hpp"

namespace test {

// What runs here runs where it should.
class here {
 public:
  here() = default;
  void check(unio::executor_ref e) const {
    EXPECT_EQ(std::this_thread::get_id(), thread_);
    EXPECT_EQ(e, unio::executor_ref(executor_));
  }

 private:
  std::thread::id thread_ = std::this_thread::get_id();
  unio::multiplexer_executor executor_ = unio::this_thread::multiplexer().executor();
};

template <class T> task<T> checked(task<T> t) {
  here const place;
  T r = co_await std::move(t);
  auto const executor = co_await unio::this_coro::executor;
  place.check(executor);
  co_return r;
}

template <class T> T run_here(task<T> t) { return unio::run(checked(std::move(t))); }

// Runs next to what run_here() runs.
template <class T> class beside {
 public:
  explicit beside(task<T> t, unio::run_options const& options = {}) {
    unio::async_run(
        unio::this_thread::multiplexer(), checked(std::move(t)),
        [this](unio::task_outcome<T> o) { outcome_.emplace(std::move(o)); }, options);
  }
  beside(beside const&) = delete;
  beside& operator=(beside const&) = delete;
  ~beside() { (void)get(); }
  [[nodiscard]] bool done() const { return outcome_.has_value(); }
  // Runs it until it waits for what will not come.
  void until_it_waits() const {
    for (int i = 0; i != 50 && !done(); ++i) (void)unio::this_thread::multiplexer().try_run();
  }
  T& get() {
    while (!done()) (void)unio::this_thread::multiplexer().run();
    return outcome_->value();
  }

 private:
  std::optional<unio::task_outcome<T>> outcome_;
};

} // namespace test
