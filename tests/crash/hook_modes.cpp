// The test program's half of locks/hooks.hpp.

#include "crash/hook_modes.hpp"

#include "crash/oracle.hpp"
#include "locks/hooks.hpp"
#include "support/test.hpp"

namespace crash {

namespace {

std::atomic<step_handler> handler{nullptr};
char const* defect_id = nullptr;

std::atomic<bool>& asked() {
  static shared<std::atomic<bool>> const one;
  return *one;
}

} // namespace

void on_step(step_handler f) noexcept { handler.store(f); }

planted::planted(char const* id) noexcept {
  asked() = false;
  defect_id = id;
}
planted::~planted() { defect_id = nullptr; }

bool was_asked_for_defect() noexcept { return asked(); }

} // namespace crash

namespace unio::inline v0_1::fs::hooks {

void step(char const* name) noexcept {
  if (auto const f = crash::handler.load(std::memory_order_relaxed)) f(name);
}

bool defect(char const* id) noexcept {
  if (crash::defect_id == nullptr || std::strcmp(crash::defect_id, id) != 0) return false;
  crash::asked() = true;
  return true;
}

} // namespace unio::fs::hooks
