// The tests of suite.no_driver run once, and not on each driver, so none of them may ask for one. There
// UNIO_DRIVER and UNIO_RING_ENTRIES are "none", so that none can be made by its name either. A test that
// reads one of them fails, even if it needs no driver to succeed, and even if it is a child that reads it.

#include "support/test.hpp"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

using namespace test;

constinit std::atomic<bool>* was_asked = nullptr; // children share it

class listener : public ::testing::EmptyTestEventListener {
 public:
  listener() {
    void* const shared =
        ::mmap(nullptr, sizeof(*was_asked), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) std::abort();
    was_asked = new (shared) std::atomic<bool>(false);
  }
  void OnTestSuiteStart(::testing::TestSuite const&) override { *was_asked = false; }
  void OnTestEnd(::testing::TestInfo const&) override {
    EXPECT_FALSE(was_asked->exchange(false)) << "it asked for a driver: see scripts/checks.list, `suite`";
  }
};

// gtest's own objects are made when they are asked for.
[[maybe_unused]] bool const is_listening = [] {
  ::testing::UnitTest::GetInstance()->listeners().Append(new listener);
  return true;
}();

// check.no_driver.canary.
TEST(driver_of_the_run_canary, child_asks_and_goes_on_without_one) {
  pid_t const child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    (void)unio::io_multiplexer::best_available(1);
    ::_exit(0);
  }
  EXPECT_EQ(::waitpid(child, nullptr, 0), child);
}

} // namespace

// The program's, instead of the C library's, which it calls by its other name.
extern "C" char* getenv(char const* name) noexcept {
  char* const value = ::secure_getenv(name);
  std::string_view const asked = name;
  if (was_asked != nullptr && (asked == "UNIO_DRIVER" || asked == "UNIO_RING_ENTRIES")) {
    char const* const entries = ::secure_getenv("UNIO_RING_ENTRIES");
    if (entries != nullptr && std::string_view(entries) == "none") *was_asked = true;
  }
  return value;
}
