// A task in a variable, run without std::move.
// any: 1 error: this is awaited once, so it must be moved: write std::move(task)

#include <unio/run.hpp>

unio::task<int> one() { co_return 1; }

int main() {
  unio::task<int> t = one();
  return unio::run(t);
}
