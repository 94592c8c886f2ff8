#include "programs.hpp"

#include <unistd.h>

#include <cstring>
#include <string_view>

int main(int argc, char** argv) {
  if (argc > 1 && *argv[1] == '-') { // its port, of a server and a client
    bool serves = false;
    char const* port = "";
    for (int c; (c = ::getopt(argc, argv, "sp:")) != -1;) {
      if (c == 'p') port = optarg;
      serves = serves || c == 's';
    }
    programs::must(optind == argc - 1, argv[optind]);
    programs::must(std::strcmp(port, argv[optind]) == 0, "optarg");
    return serves ? programs::serve() : programs::ask("");
  }
  std::string_view const name = argc > 1 ? argv[1] : "";
  char const* const argument = argc > 2 ? argv[2] : "";
  if (name == "poll") return programs::echo_by_poll();
  if (name == "select") return programs::echo_by_select();
  if (name == "epoll") return programs::echo_by_epoll();
  if (name == "timers") return programs::timers();
  if (name == "threads") return programs::threads();
  if (name == "threads_of_c11") return programs::threads_of_c11();
  if (name == "streams") return programs::streams();
  if (name == "lost_wakeup") return programs::lost_wakeup();
  if (name == "short_read") return programs::short_read();
  if (name == "late_short_read") return programs::late_short_read();
  if (name == "fails_once") return programs::fails_once(argument);
  if (name == "eintr") return programs::unhandled_eintr();
  if (name == "datagrams") return programs::datagrams();
  if (name == "files") return programs::files(argument);
  if (name == "logs") return programs::logs(argument);
  if (name == "serve") return programs::serve();
  if (name == "ask") return programs::ask(argument);
  if (name == "waits") return programs::waits_for_ever();
  if (name == "holds_back") return programs::holds_back();
  if (name == "prints") return programs::prints_for_ever();
  if (name == "refused") return programs::refused(argument, argc > 3 ? argv[3] : "");
  if (name == "names") return programs::names();
  if (name == "meetings") return programs::meetings();
  if (name == "locks") return programs::locks();
  if (name == "ends_early") return programs::ends_early();
  std::fprintf(stderr, "no program \"%s\"\n", argc > 1 ? argv[1] : "");
  return 2;
}
