// The tour alone, with which a first ./run begins: it needs half of the library, and a third of the command.

#include "complain.hpp"
#include "tools/support/output.hpp"
#include "tour.hpp"
#include "variables.hpp"

#include <fmt/format.h>

#include <exception>
#include <string>

int main() {
  tools::open_what_is_standard();
  try {
    if (std::string const wrong = wrong_variable(false); !wrong.empty()) {
      complain(fmt::format("unio: {}\n", wrong));
      return 1;
    }
    int const status = tour::run({});
    return status != 0 ? status : tools::finish_output("unio");
  } catch (std::exception const& e) {
    complain(fmt::format("unio: {}\n", e.what()));
    return 1;
  }
}
