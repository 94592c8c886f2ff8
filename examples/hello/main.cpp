// Shows     the smallest program: open a file, read from it, use the result.
// Run       build/release/examples/example_hello [FILE]
// Read next ../four_ways/main.cpp

#include <unio/unio.hpp>

#include <array>
#include <cstdio>

int main(int argc, char** argv) {
  auto file = unio::file({}, argc > 1 ? argv[1] : "/proc/version").value();
  std::array<char, 4096> room;
  auto const got = file.read(room).value();
  std::fwrite(got.front().data(), 1, got.bytes(), stdout);
}
