// Shows     the results of tasks as std::future, for code that blocks: the tasks run on a pool of threads,
//           and main() waits for what they come to.
// Run       build/release/examples/example_future
// Read next <unio/future.hpp>, ../thread_pool/main.cpp

#include <unio/future.hpp>
#include <unio/unio.hpp>

#include <chrono>
#include <cstdio>
#include <future>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

unio::task<std::string> answer(int number) {
  (void)co_await unio::co_sleep(std::chrono::milliseconds(10 * number));
  co_return "answer " + std::to_string(number);
}

} // namespace

int main() {
  unio::thread_pool pool(2);
  std::vector<std::future<std::string>> answers;
  answers.reserve(3);
  for (int i = 1; i != 4; ++i) answers.push_back(unio::future_of(pool.executor(), answer(i)));
  std::puts("asked");
  for (auto& a : answers) std::puts(a.get().c_str());
}
