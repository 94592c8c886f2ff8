// What src/locks's named points (locks/hooks.hpp) do in this program.

#pragma once

#include <atomic>

namespace crash {

/// Called at each point, by any thread of this process. Null: nothing.
using step_handler = void (*)(char const* name) noexcept;
void on_step(step_handler f) noexcept;

/// Plants a defect in this process and its children, until the end of the object: the harnesses must notice
/// it.
class planted {
 public:
  explicit planted(char const* id) noexcept;
  ~planted();
  planted(planted const&) = delete;
  planted& operator=(planted const&) = delete;
};

/// Did a process ask for the planted defect? Otherwise the algorithm has no place for it.
bool was_asked_for_defect() noexcept;

} // namespace crash
