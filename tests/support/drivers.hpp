// The drivers that this system offers, each made on purpose, and tests that run on each.

#pragma once

#include "support/test.hpp"

namespace test {

/// Sets or unsets (null) a variable of the environment for the length of a scope.
class environment_variable {
 public:
  environment_variable(char const* name, char const* value) : name_(name) {
    if (char const* const before = std::getenv(name); before != nullptr) {
      was_set_ = true;
      before_ = before;
    }
    set(value);
  }
  environment_variable(environment_variable const&) = delete;
  environment_variable& operator=(environment_variable const&) = delete;
  ~environment_variable() { set(was_set_ ? before_.c_str() : nullptr); }

 private:
  void set(char const* value) const {
    if (value != nullptr) {
      ::setenv(name_, value, 1);
    } else {
      ::unsetenv(name_);
    }
  }
  char const* name_;
  std::string before_;
  bool was_set_ = false;
};

/// A multiplexer on the driver that UNIO_DRIVER calls `name`, or why there is none.
inline unio::result<std::unique_ptr<unio::io_multiplexer>> make_multiplexer(char const* name,
                                                                            int threads = 1) {
  environment_variable const driver("UNIO_DRIVER", name);
  return unio::io_multiplexer::best_available(threads);
}

/// A pipe whose ends use `m`.
inline unio::anonymous_pipe pipe_on(unio::io_multiplexer* m) {
  unio::anonymous_pipe p = unio::pipe_handle::anonymous().value();
  p.reader.set_multiplexer(m);
  p.writer.set_multiplexer(m);
  return p;
}

/// The names of all drivers that can be had here. `*missing`, if given, is set to the others and why.
inline std::vector<std::string> available_drivers(std::string* missing = nullptr) {
  std::vector<std::string> names;
  for (char const* const name : {"uring", "epoll"}) {
    if (auto const made = make_multiplexer(name); made.has_value()) {
      names.emplace_back(name);
    } else if (missing != nullptr) {
      missing->append(name).append(": ").append(made.error().message()).append(" ");
    }
  }
  return names;
}

/// Tests that run on each driver which this system offers, with a multiplexer of it.
class on_each_driver : public ::testing::TestWithParam<std::string> {
 protected:
  /// `threads`: how many may run it.
  explicit on_each_driver(int threads = 1) : threads_(threads) {}
  // Not sooner: which driver can be had is found out once for each process, and tests of that begin with a
  // fresh one.
  void SetUp() override {
    // Engines of more threads are made with the driver that the environment names then.
    if (threads_ > 1) driver_.emplace("UNIO_DRIVER", GetParam().c_str());
    auto made = make_multiplexer(GetParam().c_str(), threads_);
    if (!made.has_value()) GTEST_SKIP() << GetParam() << ": " << made.error().message();
    m_ = std::move(*made);
  }
  /// A pipe whose ends use it.
  [[nodiscard]] unio::anonymous_pipe make_pipe() const { return pipe_on(m_.get()); }

  int const threads_;
  std::optional<environment_variable> driver_;
  std::unique_ptr<unio::io_multiplexer> m_;
};

/// In the end nothing of it is pending.
class nothing_pending_on_each_driver : public on_each_driver {
 protected:
  void TearDown() override {
    if (m_ == nullptr) return;
    while (m_->try_run().value_or(0) > 0) continue;
    EXPECT_EQ(m_->counters().started, m_->counters().finished) << "something is left";
  }
  template <class Reached> void drive(Reached reached) {
    auto const give_up = std::chrono::steady_clock::now() + 20s;
    while (!reached()) {
      ASSERT_TRUE(m_->try_run_for(50ms).has_value());
      ASSERT_LT(std::chrono::steady_clock::now(), give_up) << "stuck";
    }
  }
};

} // namespace test

#define UNIO_ON_BOTH_DRIVERS(suite)                                            \
  INSTANTIATE_TEST_SUITE_P(driver, suite, ::testing::Values("uring", "epoll"), \
                           [](auto const& of) { return of.param; })
