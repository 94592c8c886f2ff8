// An executor of Asio's that counts what is given to it, and calls it here and now.

#pragma once

#include <utility>

namespace test {

struct counting_executor {
  int* calls;
  template <class F> void execute(F&& f) const {
    ++*calls;
    std::forward<F>(f)();
  }
  bool operator==(counting_executor const&) const noexcept = default;
};

} // namespace test
