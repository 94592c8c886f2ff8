// The drivers that this system offers, each made on purpose.

#pragma once

#include <unio/multiplexer.hpp>

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>
#include <vector>

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

} // namespace test
