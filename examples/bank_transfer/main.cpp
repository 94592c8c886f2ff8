// Shows     two files changed as one: a transfer between two accounts, each a file, that nothing can tear
//           apart.
// Run       build/release/examples/example_bank_transfer [FOLDER [TRANSFERS]]
//           build/release/examples/example_bank_transfer --kill TIMES   a child transfers and is killed,
//                                                                       TIMES times; the total stays
// Read next include/unio/locks/update_files.hpp

#include "killing.hpp"

#include <unio/locks/byte_ranges.hpp>
#include <unio/locks/update_files.hpp>
#include <unio/unio.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

namespace {

using unio::fs::update_files;

std::array<unio::path_view, 2> const accounts{"alice", "bob"};
constexpr long total = 1000;

long balance(update_files& u, std::size_t i) {
  auto const text = u.contents(i).value();
  return std::strtol(std::string(reinterpret_cast<char const*>(text.data()), text.size()).c_str(), nullptr,
                     10);
}

void set_balance(update_files& u, std::size_t i, long amount) {
  std::string const text = std::to_string(amount) + "\n";
  u.replace(i, std::as_bytes(std::span(text))).value();
}

// Both account files exist, or neither does.
void open_accounts(unio::fs::shared_fs_mutex& mutex, unio::path_handle const& bank) {
  update_files u = update_files::begin(mutex, bank, accounts).value();
  if (u.contents(0).has_value()) return;
  set_balance(u, 0, total);
  set_balance(u, 1, 0);
  u.commit().value();
}

void transfer(unio::fs::shared_fs_mutex& mutex, unio::path_handle const& bank, long amount) {
  update_files u = update_files::begin(mutex, bank, accounts).value();
  set_balance(u, 0, balance(u, 0) - amount);
  set_balance(u, 1, balance(u, 1) + amount);
  u.commit().value();
}

// `transfers` < 0: until the process is killed.
void work(std::string const& folder, long transfers) {
  auto mutex = unio::fs::byte_ranges::open(folder + "/lock").value();
  auto const bank = unio::path_handle::path(folder).value();
  open_accounts(mutex, bank);
  for (long n = 0; n != transfers; ++n) transfer(mutex, bank, n % 7 - 3);
}

// The sum of both; counts an update that was interrupted after it was decided.
long sum(std::string const& folder, long& completed) {
  auto mutex = unio::fs::byte_ranges::open(folder + "/lock").value();
  auto const bank = unio::path_handle::path(folder).value();
  update_files u = update_files::begin_shared(mutex, bank, accounts).value();
  if (u.has_recovered()) ++completed;
  return balance(u, 0) + balance(u, 1);
}

} // namespace

int main(int argc, char** argv) {
  bool const kills = argc == 3 && std::string_view(argv[1]) == "--kill";
  temporary_folder const own; // removed at the end
  std::string const folder = argc > 1 && !kills ? argv[1] : own.path;
  long completed = 0;
  try {
    if (kills) {
      work(folder, 0);
      long const times = std::strtol(argv[2], nullptr, 10);
      for (long n = 0; n < times; ++n) {
        kill_at_random(static_cast<unsigned>(n), [&] { work(folder, -1); });
        if (long const now = sum(folder, completed); now != total) {
          std::fprintf(stderr, "after kill %ld: %ld, not %ld\n", n + 1, now, total);
          return 1;
        }
      }
      std::printf("killed %ld times, %ld of them between the decision and its end: the total is %ld\n", times,
                  completed, total);
    } else {
      work(folder, argc > 2 ? std::strtol(argv[2], nullptr, 10) : 20);
      std::printf("the total is %ld\n", sum(folder, completed));
    }
  } catch (std::system_error const& e) {
    std::fprintf(stderr, "%s: %s\n", folder.c_str(), e.what());
    return 1;
  }
}
