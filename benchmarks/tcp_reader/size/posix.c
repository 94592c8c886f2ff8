/* The whole program, with what one of the forms of state_machine.c needs: `READER` names it. */

#include "../state_machine.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>

int main(int argc, char** argv) {
  static unsigned char room[4096];
  struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (argc != 3) return 2;
  to.sin_port = htons((unsigned short)atoi(argv[1]));
  const int s = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCKET_FLAGS, 0);
  if (s < 0) return 1;
  (void)connect(s, (struct sockaddr const*)&to,
                sizeof to); /* of one that does not block: goes on meanwhile */
  const uint64_t wanted = strtoull(argv[2], NULL, 10);
  return READER(s, room, sizeof room, wanted) == (int64_t)wanted ? 0 : 1;
}
