// Shows     a look-up with a deadline: the addresses of a host, or why there are none, in at most two seconds
//           whatever the name servers do.
// Run       build/release/examples/example_dns_lookup [NAME...], without arguments for localhost
// Read next ../tls_client/main.cpp, <unio/resolver.hpp>, <unio/connect_to.hpp>

#include <unio/resolver.hpp>
#include <unio/unio.hpp>

#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

unio::task<bool> show(unio::resolver& names, std::string host) {
  std::string why;
  auto const found = co_await names.co_resolve(host, 0, 2s, {.why = &why});
  if (!found) {
    std::fprintf(stderr, "%s\n", why.c_str());
    co_return false;
  }
  for (unio::endpoint const& e : *found) {
    std::string address = unio::to_string(e);
    address.resize(address.rfind(':')); // without the port
    std::printf("%s  %s\n", host.c_str(), address.c_str());
  }
  co_return true;
}

// All names at once: together they take no longer than the slowest.
unio::task<bool> show_all(std::vector<std::string> hosts) {
  unio::resolver names;
  std::printf("%s\n", names.capabilities().why.c_str());
  std::vector<unio::task<bool>> look_ups;
  for (std::string const& host : hosts) look_ups.push_back(show(names, host));
  bool all = true;
  auto outcomes = co_await unio::when_all(look_ups);
  for (bool const found : outcomes) all = all && found;
  co_return all;
}

} // namespace

int main(int argc, char** argv) {
  std::vector<std::string> hosts(argv + 1, argv + argc);
  if (hosts.empty()) hosts = {"localhost"};
  return unio::run(show_all(hosts)) ? 0 : 1;
}
