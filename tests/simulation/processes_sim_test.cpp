// Processes, signals and watches in a simulation: refused by name.

#include "simulation/support.hpp"
#include "support/test.hpp"

#include <unio/process_handle.hpp>
#include <unio/testing.hpp>

#include <csignal>

namespace {

using unio::testing::simulation;
using unio::testing::simulation_options;

TEST(simulated_program, is_refused_processes_signals_and_watches) {
  simulation s(simulation_options::orderly());
  ::testing::internal::CaptureStderr();
  unio::launch_step step{};
  EXPECT_EQ(unio::process_handle::launch("true", {}, {}, &step).error(), std::errc::function_not_supported);
  EXPECT_EQ(step, unio::launch_step::process);
  EXPECT_EQ(unio::process_handle::current().error(), std::errc::function_not_supported);
  for (auto const how : {unio::delivery::handler, unio::delivery::mask})
    EXPECT_EQ(unio::signal_handle::create({SIGUSR1}, how).error(), std::errc::function_not_supported);
  EXPECT_EQ(unio::watch_handle::create().error(), std::errc::function_not_supported);
  EXPECT_EQ(::testing::internal::GetCapturedStderr().empty(), false);
  EXPECT_EQ(
      s.refused(), // each once
      "pidfd_open(2) is not simulated\nsignalfd(2) is not simulated\ninotify_init(2) is not simulated\n");
}

} // namespace
