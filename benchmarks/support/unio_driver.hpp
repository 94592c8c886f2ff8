// For subjects that are unio's: a multiplexer on the driver that a row is about.
#pragma once

#include <unio/multiplexer.hpp>

#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>

namespace benchmarks {

/// The names of the drivers, as rows and capabilities() have them.
inline constexpr char const* both_drivers[] = {"io_uring", "epoll"};

/// For all multiplexers that are made from now on, a pool's included: falling back would be another row's
/// figure.
inline void choose_driver(std::string const& driver) {
  ::setenv("UNIO_DRIVER", driver == "io_uring" ? "uring" : driver.c_str(), 1);
}

/// A fresh one for the calling thread. Throws if it cannot be had.
inline std::unique_ptr<unio::io_multiplexer> multiplexer_on(std::string const& driver) {
  choose_driver(driver);
  auto made = unio::io_multiplexer::best_available();
  if (!made) throw std::runtime_error(driver + ": " + made.error().message());
  if (made->get()->capabilities().driver != driver) throw std::runtime_error("there is no " + driver);
  return std::move(*made);
}

} // namespace benchmarks
